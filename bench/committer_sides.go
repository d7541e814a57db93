package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
)

// errNotInstalled passes a side over.
var errNotInstalled = errors.New("not installed")

// commitStore is where tables lie.
type commitStore struct {
	name string
	root string
	opts openstore.Options
	env  []string // for other programs
	lock bool     // versions are ordered by a lock table in DynamoDB
	// delayed is the same store with slow puts of versions; nil: there is none.
	delayed *commitStore
	py      string // with delta-rs
}

func (s *commitStore) url(table string) string { return s.root + "/" + table }

func (s *commitStore) open(ctx context.Context, url string) (objstore.Store, error) {
	return openstore.Open(ctx, url, s.opts)
}

// commitStores gives a folder, and an S3 server that it starts when one is installed.
func commitStores(ctx context.Context, r *Report, scratch string) ([]*commitStore, func(), error) {
	py, _ := pythonOf("venv")
	out := []*commitStore{{name: "folder", root: filepath.Join(scratch, "lake"), py: py}}
	node, stop, ok, err := startS3(ctx, scratch, false)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		r.missing("the S3 server versitygw, and so what writes to it,")
		return out, func() {}, nil
	}
	s3 := &commitStore{name: "versitygw", root: "s3://lake", py: py, opts: node.opts, env: node.env}
	locked, stopLock, err := withLockTable(r, s3, scratch)
	if err != nil {
		stop()
		return nil, nil, err
	}
	var stopDelay func()
	if s3.delayed, stopDelay, err = delayedStore(s3); err != nil {
		stopLock()
		stop()
		return nil, nil, err
	}
	if out = append(out, s3); locked != nil {
		out = append(out, locked)
	}
	return out, func() { stopDelay(); stopLock(); stop() }, nil
}

// withLockTable gives the same store with a lock table before it, on a DynamoDB server that it starts; nil when there is
// none.
func withLockTable(r *Report, s3 *commitStore, scratch string) (*commitStore, func(), error) {
	if _, ok := installed("npm", "dynalite-*", "installed"); !ok {
		r.missing("the DynamoDB server dynalite, and so the lock table,")
		return nil, func() {}, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	script, dir := filepath.Join("test", "services", "npm.sh"), filepath.Join(scratch, "dynalite")
	if out, err := exec.Command(script, "start", "dynalite", dir, port).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("start dynalite: %w\n%s", err, bytes.TrimSpace(out))
	}
	l := *s3
	l.name, l.root, l.lock = "versitygw and dynalite", s3.root+"/locked", true
	l.py, _ = pythonOf("venv-dynamo")
	l.opts.LogStore, l.opts.DynamoEndpoint, l.opts.DynamoTable, l.opts.DynamoCreate = "dynamodb", "http://"+addr, "delta_log", true
	l.env = append(slices.Clone(s3.env), "AWS_S3_LOCKING_PROVIDER=dynamodb", "DELTA_DYNAMO_TABLE_NAME=delta_log", "AWS_ENDPOINT_URL_DYNAMODB=http://"+addr)
	return &l, func() { _ = exec.Command(script, "stop", "dynalite", dir).Run() }, nil
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// commitTable makes the table of a run.
func commitTable(ctx context.Context, store objstore.Store) error {
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}`)
	if err != nil {
		return err
	}
	log, err := deltalog.Create(ctx, store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		return err
	}
	return log.Close()
}

// runOurs lets the writers commit directly, each with a Delta log of its own as processes have, or through a group.
func runOurs(ctx context.Context, s *commitStore, side commitSide, url string) (_ *commitResult, err error) {
	store, err := s.open(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := commitTable(ctx, store); err != nil {
		return nil, err
	}
	var writers []committer.Committer
	var group *commitGroup
	if side.nodes > 0 {
		if group, err = startCommitGroup(ctx, s, side); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, group.close()) }()
	}
	for range side.writers {
		if group != nil {
			c, err := rpc.NewClient(rpc.Config{Addrs: group.addrs})
			if err != nil {
				return nil, err
			}
			defer c.Close()
			writers = append(writers, c.Table(url))
			continue
		}
		log, err := deltalog.Open(ctx, store, deltalog.Config{MaxAttempts: 1000})
		if err != nil {
			return nil, err
		}
		defer log.Close()
		writers = append(writers, committer.NewDirect(log))
	}
	res, err := drive(ctx, writers, side.early)
	if err != nil {
		return nil, err
	}
	if side.nodes > 1 { // its commit is behind all others: they are in the store then
		if res.failover, err = group.failover(ctx, writers[0], &res.counts[0]); err != nil {
			return nil, err
		}
	}
	return res, checkCommits(ctx, store, res)
}

// commitGroup is a group whose nodes are in this process, with logs on disk and TCP between them.
type commitGroup struct {
	dir   string
	addrs []string
	nodes []*raft.Node
}

func startCommitGroup(ctx context.Context, s *commitStore, side commitSide) (*commitGroup, error) {
	dir, err := os.MkdirTemp("", "ledgerlake-bench-group-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	g := &commitGroup{dir: dir}
	var members []raft.Member
	for i := range side.nodes {
		addr, err := freeAddr()
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g.addrs = append(g.addrs, addr)
		members = append(members, raft.Member{ID: fmt.Sprint("n", i), Addr: addr})
	}
	for i, m := range members {
		n, err := raft.Open(ctx, raft.Config{ID: m.ID, Dir: scratchNode(dir, i), Listen: m.Addr, Members: members,
			OpenStore: func(ctx context.Context, url string) (objstore.Store, error) { return s.open(ctx, url) }})
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g.nodes = append(g.nodes, n)
	}
	return g, nil
}

func (g *commitGroup) close() error {
	var err error
	for _, n := range g.nodes {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// failover takes the leader away and measures how long the next commit takes.
func (g *commitGroup) failover(ctx context.Context, w committer.Committer, n *int) (time.Duration, error) {
	for i, node := range g.nodes {
		st, err := node.Status(ctx, &rpc.StatusRequest{})
		if err != nil {
			return 0, err
		}
		if st.State != "leader" {
			continue
		}
		start := time.Now()
		g.nodes = append(g.nodes[:i:i], g.nodes[i+1:]...)
		if err := node.Close(); err != nil {
			return 0, err
		}
		if err := commitOne(ctx, w, 0, *n, false); err != nil {
			return 0, err
		}
		*n++
		return time.Since(start), nil
	}
	return 0, errors.New("the group has no leader")
}

// deltaRSWriters is what delta-rs does: one process a writer, one small commit after the other.
const deltaRSWriters = `
import json, multiprocessing, sys, time, traceback
from deltalake import CommitProperties, DeltaTable
try:
    from deltalake.transaction import AddAction
except ImportError:
    from deltalake.writer import AddAction  # up to 0.25

url, writers, window = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
props = CommitProperties(max_commit_retries=100000)

def work(i, gate, out):
    table = DeltaTable(url)
    def commit(n):
        table.update_incremental()
        add = AddAction("w%d-%d.parquet" % (i, n), 1024, {}, int(time.time() * 1000), True, '{"numRecords":10}')
        if hasattr(table, "create_write_transaction"):
            table.create_write_transaction([add], "append", table.schema(), commit_properties=props)
        else:  # up to 0.25
            table._table.create_write_transaction([add], "append", [], table.schema().to_pyarrow(), None, props, None)
    try:
        commit(0)
        gate.wait()
        start, times = time.time(), []
        while time.time() - start < window:
            t = time.time()
            commit(len(times) + 1)
            times.append(time.time() - t)
        out.put((i, times, time.time() - start))
    except Exception:
        gate.abort()
        out.put((i, None, traceback.format_exc()))

if __name__ == "__main__":
    gate, out = multiprocessing.Barrier(writers), multiprocessing.Queue()
    procs = [multiprocessing.Process(target=work, args=(i, gate, out)) for i in range(writers)]
    for p in procs: p.start()
    got = [out.get() for _ in procs]
    for p in procs: p.join()
    for _, t, s in got:
        if t is None: sys.exit(s)
    print(json.dumps({"times": [t for _, t, _ in sorted(got)], "seconds": max(s for _, _, s in got)}))
`

func runDeltaRS(ctx context.Context, s *commitStore, side commitSide, url string) (*commitResult, error) {
	if _, err := os.Stat(s.py); err != nil {
		return nil, fmt.Errorf("delta-rs: %w", errNotInstalled)
	}
	store, err := s.open(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := commitTable(ctx, store); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.py, "-c", deltaRSWriters, url, fmt.Sprint(side.writers), fmt.Sprint(commitWindow.Seconds()))
	cmd.Env = append(os.Environ(), s.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("delta-rs writers: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	var got struct {
		Times   [][]float64
		Seconds float64
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("delta-rs writers: %w", err)
	}
	res := &commitResult{seconds: got.Seconds}
	for _, t := range got.Times {
		res.latencies = append(res.latencies, t...)
		res.counts = append(res.counts, len(t)+1)
	}
	return res, checkCommits(ctx, store, res)
}
