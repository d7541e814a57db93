package raft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	hraft "github.com/hashicorp/raft"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// Node is a running member of a group.
type Node struct {
	cfg     Config
	port    *port
	lock    io.Closer
	log     *logStore
	raft    *hraft.Raft
	trans   *hraft.NetworkTransport
	replica *replica
	server  *grpc.Server
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	notify  chan bool
	staged  *semaphore.Weighted // bytes of staged requests that are being checked
	loads   *semaphore.Weighted // ... and published
	metrics *metrics
	broken  chan struct{} // closed when the node stops by itself
	failure error         // after broken: why
	once    sync.Once     // of failure
	down    chan struct{} // closed when the raft library has ended: see await
	downErr error         // after down: how it ended
	halted  sync.Once     // of down

	mu   sync.Mutex
	term *term // nil while another node leads
}

// Open starts a node. It takes part in its group until Close.
func Open(_ context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, replica: &replica{state: fsm.New()}, notify: make(chan bool, 16), staged: semaphore.NewWeighted(stagedBudget), loads: semaphore.NewWeighted(stagedBudget),
		metrics: newMetrics(), broken: make(chan struct{}), down: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.replica.onBad = func(err error) {
		cfg.Logger.Error("this node decides nothing from here on and cannot lead; it keeps the log and votes", "node", cfg.ID, "error", err)
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open committer %s: %w", cfg.ID, err), n.Close())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	if err := vfs.MakeDirs(vfs.OS(), filepath.ToSlash(n.cfg.Dir)); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	hlog := n.hclog()
	if err := n.lockDir(); err != nil {
		return err
	}
	if n.log, err = openLogStore(n.cfg.Dir, hlog, n.fail); err != nil {
		return err
	}
	snaps, err := hraft.NewFileSnapshotStoreWithLogger(n.cfg.Dir, 2, hlog)
	if err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	if err := syncDir(n.cfg.Dir); err != nil { // the library makes what is in the folders durable, and not their names
		return fmt.Errorf("make the names of log and snapshots durable: %w", err)
	}
	if n.port, err = openPort(n.cfg); err != nil {
		return err
	}
	n.cfg.Advertise = string(n.port.advertise)
	n.trans = hraft.NewNetworkTransportWithConfig(&hraft.NetworkTransportConfig{
		Stream: n.port.nodes, MaxPool: 4, Timeout: 10 * time.Second, Logger: hlog,
	})
	if err := n.bootstrap(snaps); err != nil {
		return err
	}
	var stable hraft.StableStore = n.log
	if n.cfg.stable != nil {
		stable = n.cfg.stable(stable)
	}
	if n.raft, err = hraft.NewRaft(n.raftConfig(hlog), n.replica, n.log, stable, snaps, n.trans); err != nil {
		return err
	}
	n.wg.Go(n.lead)
	n.wg.Go(n.pace)
	n.wg.Go(n.stopWhenBroken)
	if err := n.metrics.register(n.cfg.Registerer, n); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	n.server = rpc.NewServer(n)
	n.wg.Go(func() { _ = n.server.Serve(n.port.writers) })
	return nil
}

func (n *Node) raftConfig(hlog hclog.Logger) *hraft.Config {
	c := hraft.DefaultConfig()
	c.LocalID = hraft.ServerID(n.cfg.ID)
	c.HeartbeatTimeout, c.ElectionTimeout = n.cfg.Heartbeat, n.cfg.Heartbeat
	c.LeaderLeaseTimeout = n.cfg.Heartbeat * 2 / 3
	c.SnapshotInterval, c.SnapshotThreshold = n.cfg.SnapshotInterval, n.cfg.SnapshotThreshold
	c.TrailingLogs = n.cfg.SnapshotThreshold
	c.NotifyCh = n.notify
	c.ShutdownOnRemove = false
	c.Logger = hlog
	c.NoLegacyTelemetry = true
	return c
}

// bootstrap writes the first list of members, when the directory is new.
func (n *Node) bootstrap(snaps hraft.SnapshotStore) error {
	if len(n.cfg.Members) == 0 {
		return nil
	}
	old, err := hraft.HasExistingState(n.log, n.log, snaps)
	if err != nil || old {
		return err
	}
	var servers []hraft.Server
	for _, m := range n.cfg.Members {
		if m.ID == n.cfg.ID {
			m.Addr = n.cfg.Advertise
		}
		servers = append(servers, hraft.Server{ID: hraft.ServerID(m.ID), Address: hraft.ServerAddress(m.Addr)})
	}
	return hraft.BootstrapCluster(n.raftConfig(n.hclog()), n.log, n.log, snaps, n.trans, hraft.Configuration{Servers: servers})
}

// fail stops the node for good: what its log on disk holds is not certain any more, as when the disk is full. The
// others go on without it; it takes part again after a new start, which reads what is there.
func (n *Node) fail(err error) {
	n.once.Do(func() {
		n.failure = fmt.Errorf("committer %s stops, the others go on: %w; mend its disk and start it again", n.cfg.ID, err)
		close(n.broken)
	})
}

func (n *Node) stopWhenBroken() {
	select {
	case <-n.ctx.Done():
	case <-n.broken:
		n.cfg.Logger.Error("stopped", "error", n.failure)
		_ = n.halt()
		select {
		case n.notify <- false: // ends a term that the library no longer tells us of
		case <-n.ctx.Done():
		}
	}
}

// Broken is closed when the node stops by itself; Err then says why. It is still to be closed.
func (n *Node) Broken() <-chan struct{} { return n.broken }

// Err says why the node stopped by itself, nil while it has not.
func (n *Node) Err() error {
	select {
	case <-n.broken:
		return n.failure
	default:
		return nil
	}
}

// Addr is where the node is reached.
func (n *Node) Addr() string { return n.cfg.Advertise }

// Close leaves the group without a word, as a crash does, but waits for what is under way here.
func (n *Node) Close() error {
	n.cancel()
	var err error
	if n.server != nil {
		n.server.Stop()
	}
	if n.raft != nil {
		err = n.halt()
	}
	if n.port != nil {
		err = errors.Join(err, n.port.close())
	}
	n.wg.Wait()
	if n.trans != nil {
		err = errors.Join(err, n.trans.Close())
	}
	if n.log != nil {
		err = errors.Join(err, n.log.Close())
	}
	if n.lock != nil {
		err = errors.Join(err, n.lock.Close())
	}
	return err
}

// halt ends the raft library and waits until nothing of it runs any more.
func (n *Node) halt() error {
	n.halted.Do(func() {
		n.downErr = n.raft.Shutdown().Error()
		close(n.down)
	})
	return n.downErr
}

// await waits for what the raft library was asked for. The library forgets entries that were committed and not yet applied
// when it is shut down (raft 1.8.0: what lies in fsmMutateCh), so that nobody ever answers them: once it has ended, no
// answer is one. The goroutine that waits for it then stays; a node is shut down once in its life.
func (n *Node) await(f hraft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-n.down:
		return hraft.ErrRaftShutdown // it may have been decided: the log knows
	}
}

// lockDir keeps a second process out, which would wait for the log's own lock without a word.
func (n *Node) lockDir() error {
	var err error
	if n.lock, err = vfs.OS().Lock(filepath.Join(n.cfg.Dir, "lock")); err != nil {
		return fmt.Errorf("lock %s (another committer may run there): %w", n.cfg.Dir, err)
	}
	return nil
}

// lead follows the leadership of this node.
func (n *Node) lead() {
	var stop func()
	end := func() {
		if stop != nil {
			stop()
			stop = nil
		}
	}
	defer end()
	for {
		select {
		case <-n.ctx.Done():
			return
		case leads := <-n.notify:
			end()
			if leads {
				stop = n.startTerm()
			}
		}
	}
}

// leading gives the term of this node, nil while another one leads.
func (n *Node) leading() *term {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.term
}

func (n *Node) setTerm(t *term) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.term = t
}

// hclog hands the raft library's log on.
func (n *Node) hclog() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: lines{n.cfg.Logger}, DisableTime: true})
}

type lines struct{ log *slog.Logger }

var _ io.Writer = lines{}

func (l lines) Write(b []byte) (int, error) {
	level := slog.LevelDebug // elections and peers that are away: of interest when something is wrong
	text := bytes.TrimSpace(b)
	for prefix, x := range map[string]slog.Level{"[ERROR]": slog.LevelWarn, "[WARN]": slog.LevelInfo, "[INFO]": slog.LevelDebug} {
		if rest, ok := bytes.CutPrefix(text, []byte(prefix)); ok {
			level, text = x, bytes.TrimSpace(rest)
			break
		}
	}
	l.log.Log(context.Background(), level, string(text))
	return len(b), nil
}
