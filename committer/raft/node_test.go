package raft_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const location = "mem://lake/events"

func newTable(t *testing.T, store objstore.Store) *deltalog.Log {
	t.Helper()
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// cluster is a group in this process.
type cluster struct {
	t       *testing.T
	dir     string
	store   objstore.Store
	members []raft.Member
	nodes   map[string]*raft.Node
	tune    func(*raft.Config)
}

func newCluster(t *testing.T, n int, store objstore.Store, tune func(*raft.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), store: store, nodes: map[string]*raft.Node{}, tune: tune}
	for i := range n {
		c.members = append(c.members, raft.Member{ID: fmt.Sprint("n", i), Addr: raft.FreeAddr(t)})
	}
	for _, m := range c.members {
		c.start(m, c.members)
	}
	t.Cleanup(func() {
		for _, x := range c.nodes {
			if err := x.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return c
}

func (c *cluster) start(m raft.Member, members []raft.Member) {
	c.t.Helper()
	cfg := raft.Config{ID: m.ID, Dir: filepath.Join(c.dir, m.ID), Listen: m.Addr, Members: members, Heartbeat: 300 * time.Millisecond,
		OpenStore: func(_ context.Context, loc string) (objstore.Store, error) {
			if loc != location {
				return nil, fmt.Errorf("no store %s", loc)
			}
			return c.store, nil
		}}
	if c.tune != nil {
		c.tune(&cfg)
	}
	n, err := raft.Open(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[m.ID] = n
}

func (c *cluster) stop(id string) {
	c.t.Helper()
	if err := c.nodes[id].Close(); err != nil {
		c.t.Fatal(err)
	}
	delete(c.nodes, id)
}

func (c *cluster) client(conf *tls.Config) *rpc.Client {
	c.t.Helper()
	var addrs []string
	for _, m := range c.members {
		addrs = append(addrs, m.Addr)
	}
	cl, err := rpc.NewClient(rpc.Config{Addrs: addrs, TLS: conf, Owner: "test"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// leader waits for one.
func (c *cluster) leader(cl *rpc.Client) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		replies, _ := cl.Status(ctx)
		for _, r := range replies {
			if r != nil && r.State == "leader" {
				return r.ID
			}
		}
		select {
		case <-ctx.Done():
			c.t.Fatal("no leader")
		case <-tick.C:
		}
	}
}

func request(p int32, from, to record.Offset) committer.Request {
	return committer.Request{App: "app", Ranges: []committer.Range{{Partition: p, From: from, To: to}},
		Adds: []deltalog.Add{{Path: fmt.Sprintf("p%d-%d-%d.parquet", p, from, to), Size: 1, DataChange: true}}}
}

// write sends n requests of one partition, one after the other.
func write(ctx context.Context, tab committer.Committer, p int32, n int) error {
	for i := range record.Offset(n) {
		_, err := tab.Commit(ctx, request(p, i*10, i*10+10))
		var fenced *committer.FencedError
		if err != nil && !(errors.As(err, &fenced) && ctx.Err() == nil) {
			return fmt.Errorf("partition %d, request %d: %w", p, i, err)
		}
	}
	return nil
}

// snapshot is the newest of the table.
func snapshot(t *testing.T, store objstore.Store) *deltalog.Snapshot {
	t.Helper()
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// check reads the table: every partition stands at n*10, every file is there once (I3).
func check(t *testing.T, store objstore.Store, partitions, n int) deltalog.Version {
	t.Helper()
	snap := snapshot(t, store)
	for p := range partitions {
		if v, _ := snap.Txn(fmt.Sprintf("app-%d", p)); v != int64(n)*10-1 {
			t.Errorf("partition %d stands at %d", p, v+1)
		}
	}
	if snap.NumFiles() != partitions*n {
		t.Errorf("%d files, want %d", snap.NumFiles(), partitions*n)
	}
	return snap.Version()
}

func writeAll(t *testing.T, tab func() committer.Committer, partitions, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for p := range partitions {
		wg.Go(func() {
			if err := write(ctx, tab(), int32(p), n); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Many writers share versions, and a repeated request gets its answer again.
func TestOneNode(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 1, store, nil)
	cl := c.client(nil)
	writeAll(t, func() committer.Committer { return cl.Table(location) }, 16, 20)
	if v := check(t, store, 16, 20); v >= 320 { // how many share one is for the clock; TestEarlyAnswers counts them
		t.Errorf("320 requests took %d versions", v)
	}
	tab := cl.Table(location)
	var re *committer.RangeError
	if _, err := tab.Commit(t.Context(), request(0, 300, 310)); !errors.As(err, &re) || re.Want != 200 || re.Got != 300 {
		t.Errorf("a gap = %v", err)
	}
	var fe *committer.FencedError
	if _, err := tab.Commit(t.Context(), request(0, 0, 10)); !errors.As(err, &fe) {
		t.Errorf("what is there = %v", err)
	}
	if _, err := tab.Commit(t.Context(), committer.Request{App: "app"}); !errors.Is(err, committer.ErrInvalidRequest) { // I8
		t.Errorf("nothing = %v", err)
	}
	bad := request(0, 200, 210)
	bad.Adds[0].Path = "%zz"
	if _, err := tab.Commit(t.Context(), bad); !errors.Is(err, committer.ErrInvalidRequest) {
		t.Errorf("a broken path = %v", err)
	}
	old := request(0, 200, 210)
	old.Schema = "other"
	if _, err := tab.Commit(t.Context(), old); !errors.Is(err, committer.ErrSchemaChanged) {
		t.Errorf("another schema = %v", err)
	}
	old.Schema, old.Incarnation = "", "other"
	if _, err := tab.Commit(t.Context(), old); !errors.Is(err, committer.ErrIncarnation) {
		t.Errorf("another incarnation = %v", err)
	}
}

// I5: an owner that lost its partition is told, and may take it back.
func TestOwners(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	cl := newCluster(t, 1, store, nil).client(nil)
	a, b := cl.Table(location), cl.Table(location)
	if _, err := a.Commit(t.Context(), request(0, 0, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(t.Context(), request(0, 10, 20)); err != nil {
		t.Fatal(err)
	}
	var ee *committer.EpochError
	if _, err := a.Commit(t.Context(), request(0, 20, 30)); !errors.As(err, &ee) || ee.Epoch >= ee.Newest {
		t.Errorf("the old owner = %v", err)
	}
	if _, err := a.Commit(t.Context(), request(0, 20, 30)); err != nil {
		t.Errorf("the old owner with a new lease = %v", err)
	}
}

// Table properties are set in the version that needs them, and requests that were checked before are checked again.
func TestProperties(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	cl := newCluster(t, 1, store, nil).client(nil)
	tab := cl.Table(location)
	for i := range record.Offset(4) {
		r := request(0, i*10, i*10+10)
		r.Properties = map[string]string{"k": fmt.Sprint(i / 2)}
		if _, err := tab.Commit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := log.Snapshot(t.Context())
	if err != nil || snap.Metadata().Configuration["k"] != "1" || snap.Version() != 4 {
		t.Errorf("version %v, properties %v, %v", snap.Version(), snap.Metadata().Configuration, err)
	}
}

// The place of a record that is no row goes through the group with the commit that passes over it, and the next one goes on
// from it; a request that the table does not take leaves none (I2, I3).
func TestNotedPlaces(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	tab := newCluster(t, 1, store, nil).client(nil).Table(location)
	send := func(from, to record.Offset, ledger int64) error {
		r := request(0, from, to)
		at := table.NotedPlace{Offset: to - 1, Origin: record.Origin{Ledger: ledger, Entry: int64(to), Batch: -1, FirstLedger: -1, FirstEntry: -1, Index: -1}}
		r.Properties = map[string]string{table.PlaceProperty(r.App, 0): at.String()}
		_, err := tab.Commit(t.Context(), r)
		return err
	}
	want := func(offset record.Offset, ledger int64) {
		t.Helper()
		at, ok, err := table.PlaceOf(snapshot(t, store), request(0, 0, 1).App, 0)
		if err != nil || !ok || at.Offset != offset || at.Origin.Ledger != ledger || at.Origin.Entry != int64(offset)+1 {
			t.Errorf("noted is %+v, %t, %v; want offset %d of ledger %d", at, ok, err, offset, ledger)
		}
	}
	if err := send(0, 10, 5); err != nil {
		t.Fatal(err)
	}
	want(9, 5)
	if err := send(10, 25, 6); err != nil {
		t.Fatal(err)
	}
	want(24, 6)
	if err := send(10, 20, 7); err == nil { // somebody else was faster
		t.Error("a range that is behind the table is taken")
	}
	want(24, 6)
}

// A table that a job was swapped into is filled by that job alone, through the group too, also when the group heard of
// it just now (I3).
func TestFilledBy(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	tab := newCluster(t, 1, store, nil).client(nil).Table(location)
	r := request(0, 0, 10)
	r.Properties = map[string]string{committer.FilledByProperty: r.App}
	if _, err := tab.Commit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	other := request(0, 10, 20)
	other.App = "other"
	if _, err := tab.Commit(t.Context(), other); !errors.Is(err, committer.ErrInvalidRequest) || !strings.Contains(err.Error(), "is filled by") {
		t.Errorf("another application: %v", err)
	}
	split := request(1, 0, 10)
	split.App += "/3"
	for _, r := range []committer.Request{request(0, 10, 20), split} {
		if _, err := tab.Commit(t.Context(), r); err != nil {
			t.Errorf("the one that fills it, as %s: %v", r.App, err)
		}
	}
	if snap, err := log.Snapshot(t.Context()); err != nil || len(snap.Txns()) != 2 {
		t.Errorf("positions %v, %v", snap.Txns(), err)
	}
}

// A direct writer and a writer of other positions share the table with the group: nothing is lost or twice (I3).
func TestForeignWriters(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	cl := newCluster(t, 1, store, nil).client(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := write(t.Context(), committer.NewDirect(log), 8, 20); err != nil {
			t.Error(err)
		}
	})
	writeAll(t, func() committer.Committer { return cl.Table(location) }, 8, 20)
	wg.Wait()
	check(t, store, 9, 20)
	// Where the direct writer stopped, the group goes on: it asks the store before it calls this a gap.
	if _, err := cl.Table(location).Commit(t.Context(), request(8, 200, 210)); err != nil {
		t.Error(err)
	}
}

// The leader goes away under load, again and again: no request is lost or twice (I3, I5).
func TestLeaderGoesAway(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 3, store, nil)
	cl := c.client(nil)
	c.leader(cl)
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeAll(t, func() committer.Committer { return c.client(nil).Table(location) }, 8, 60)
	}()
	for range 3 {
		id := c.leader(cl)
		c.stop(id)
		c.leader(cl)
		for _, m := range c.members {
			if m.ID == id {
				c.start(m, c.members)
			}
		}
	}
	<-done
	check(t, store, 8, 60)
}

// Of five nodes three are enough, whichever.
func TestFiveNodes(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 5, store, nil)
	cl := c.client(nil)
	tab := cl.Table(location)
	for i := range record.Offset(3) {
		if i > 0 {
			c.stop(c.leader(cl))
		}
		if _, err := tab.Commit(t.Context(), request(0, i*10, i*10+10)); err != nil {
			t.Fatal(err)
		}
	}
	check(t, store, 1, 3)
}

// A node that was away for long gets a snapshot; a group that starts again goes on from log and snapshots.
func TestSnapshotsAndRestart(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 3, store, func(cfg *raft.Config) {
		cfg.SnapshotInterval, cfg.SnapshotThreshold = 50*time.Millisecond, 8
	})
	cl := c.client(nil)
	lead := c.leader(cl)
	var away raft.Member
	for _, m := range c.members {
		if m.ID != lead {
			away = m
		}
	}
	c.stop(away.ID)
	if err := write(t.Context(), cl.Table(location), 0, 60); err != nil {
		t.Fatal(err)
	}
	c.start(away, c.members)
	if err := cl.Member(t.Context(), rpc.MemberRequest{Op: "transfer", ID: away.ID}); err != nil {
		t.Logf("transfer: %v", err) // it may not have caught up yet
	}
	for _, m := range c.members {
		if c.nodes[m.ID] != nil {
			c.stop(m.ID)
		}
	}
	for _, m := range c.members {
		c.start(m, c.members)
	}
	tab := cl.Table(location)
	for i := range record.Offset(10) {
		if _, err := tab.Commit(t.Context(), request(0, 600+i*10, 610+i*10)); err != nil {
			t.Fatal(err)
		}
	}
	check(t, store, 1, 70)
}

// A group grows from one node to three, the second of them by way of a standby, and the first node leaves.
func TestMembers(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 1, store, nil)
	cl := c.client(nil)
	first := c.leader(cl)
	if err := write(t.Context(), cl.Table(location), 0, 5); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 3; i++ {
		m := raft.Member{ID: fmt.Sprint("n", i), Addr: raft.FreeAddr(t)}
		c.start(m, nil)
		c.members = append(c.members, m)
		ops := [][]string{{"standby", "promote"}, {"add"}}[i-1]
		for _, op := range ops {
			if err := cl.Member(t.Context(), rpc.MemberRequest{Op: op, ID: m.ID, Addr: m.Addr}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { // another node may lead by now, and the first one hear of it
				r, _ := cl.Status(t.Context())
				return r[0] != nil && len(r[0].Members) == i+1 && r[0].Members[i].Voter == (op != "standby")
			})
		}
	}
	cl = c.client(nil)
	transfer(t, cl, "n1")
	if err := cl.Member(t.Context(), rpc.MemberRequest{Op: "remove", ID: first}); err != nil {
		t.Fatal(err)
	}
	c.stop(first)
	if err := write(t.Context(), cl.Table(location), 1, 5); err != nil {
		t.Fatal(err)
	}
	check(t, store, 2, 5)
	if err := cl.Member(t.Context(), rpc.MemberRequest{Op: "add", ID: "x"}); err == nil {
		t.Error("a node without an address was added")
	}
	if err := cl.Member(t.Context(), rpc.MemberRequest{Op: "promote", ID: "x"}); err == nil {
		t.Error("a stranger was promoted")
	}
}

// What would take a voter's address away, or make a node lead that has no vote, is refused, and nothing changes.
func TestMembersStayAsTheyAre(t *testing.T) {
	c := newCluster(t, 3, mem.New(), nil)
	cl := c.client(nil)
	lead := c.leader(cl)
	var voter raft.Member
	for _, m := range c.members {
		if m.ID != lead {
			voter = m
		}
	}
	standby := raft.Member{ID: "n3", Addr: raft.FreeAddr(t)}
	c.start(standby, nil)
	do := func(op string, m raft.Member) error {
		return cl.Member(t.Context(), rpc.MemberRequest{Op: op, ID: m.ID, Addr: m.Addr})
	}
	if err := do("standby", standby); err != nil {
		t.Fatal(err)
	}
	members := func() string {
		for {
			replies, errs := cl.Status(t.Context())
			for _, r := range replies {
				if r != nil && r.State == "leader" {
					return fmt.Sprint(r.Members)
				}
			}
			if t.Context().Err() != nil {
				t.Fatal(errs)
			}
		}
	}
	before := members()
	for _, x := range []struct {
		op   string
		m    raft.Member
		want string
	}{
		{"standby", voter, "with a vote"},
		{"standby", raft.Member{ID: voter.ID, Addr: "127.0.0.1:1"}, "with a vote"},
		{"add", raft.Member{ID: voter.ID, Addr: "127.0.0.1:1"}, "with a vote"},
		{"transfer", raft.Member{ID: standby.ID}, "cannot lead"},
	} {
		if err := do(x.op, x.m); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %v = %v", x.op, x.m, err)
		}
	}
	if err := do("add", voter); err != nil { // it is what it should be
		t.Error(err)
	}
	if after := members(); after != before {
		t.Errorf("the members are %s, were %s", after, before)
	}
}

// The group lost everything: a new one begins from the table alone.
func TestGroupFromTheTableAlone(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	for i := range 2 {
		c := newCluster(t, 1, store, nil)
		tab := c.client(nil).Table(location)
		for j := range record.Offset(10) {
			at := record.Offset(i)*100 + j*10
			if _, err := tab.Commit(t.Context(), request(0, at, at+10)); err != nil {
				t.Fatal(err)
			}
		}
		c.stop("n0")
	}
	check(t, store, 1, 20)
}

// A second process on the same directory is refused at once.
func TestOneProcessADirectory(t *testing.T) {
	c := newCluster(t, 1, mem.New(), nil)
	_, err := raft.Open(t.Context(), raft.Config{ID: "n0", Dir: filepath.Join(c.dir, "n0"), Listen: "127.0.0.1:0",
		OpenStore: func(context.Context, string) (objstore.Store, error) { return c.store, nil }})
	if err == nil {
		t.Error("two nodes on one directory")
	}
	if _, err := raft.Open(t.Context(), raft.Config{ID: "x", Members: []raft.Member{{ID: "y", Addr: "z"}}}); err == nil { // I8
		t.Error("a config without directory was taken")
	}
}

// A table that is not there, and a location that no store has, are told apart from passing trouble.
func TestNoTable(t *testing.T) {
	store := mem.New()
	cl := newCluster(t, 1, store, nil).client(nil)
	tab := cl.Table(location)
	if _, err := tab.Commit(t.Context(), request(0, 0, 10)); !errors.Is(err, deltalog.ErrNotTable) {
		t.Errorf("no table = %v", err)
	}
	newTable(t, store)
	if _, err := tab.Commit(t.Context(), request(0, 0, 10)); err != nil {
		t.Errorf("once it is there = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := cl.Table("mem://else").Commit(ctx, request(0, 0, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a store that does not open = %v", err)
	}
}

// Who has no certificate of the group is not let in, neither as a writer nor as a node.
func TestTLS(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	server, client := certificates(t)
	c := newCluster(t, 3, store, func(cfg *raft.Config) { cfg.ServerTLS, cfg.ClientTLS = server, client })
	if err := write(t.Context(), c.client(client).Table(location), 0, 5); err != nil {
		t.Fatal(err)
	}
	check(t, store, 1, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for name, conf := range map[string]*tls.Config{"no TLS": nil, "no certificate": {RootCAs: client.RootCAs}} {
		if _, errs := c.client(conf).Status(ctx); errs[0] == nil {
			t.Errorf("%s: let in", name)
		}
	}
}

func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "group"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.ParseIP(raft.Loopback)}}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS13}
	return server, client
}
