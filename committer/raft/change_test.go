package raft_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// Files are merged through the group while writers append through it and one appends beside it: no append has to try
// again, and what was appended is in the table once, in its own file or in a merged one (I3).
func TestRewritesBesideAppends(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	cl := newCluster(t, 3, store, nil).client(nil)
	if err := write(t.Context(), cl.Table(location), 9, 1); err != nil { // the group takes the table as it is now
		t.Fatal(err)
	}
	holds := map[string][]string{} // a merged file's appended ones
	done := make(chan struct{})
	var merger sync.WaitGroup
	merges, conflicts := 0, 0
	merger.Go(func() {
		tab := cl.Table(location)
		for ended := false; !ended || merges == 0; {
			select {
			case <-done:
				ended = true
			default:
			}
			snap, err := log.Snapshot(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			var old []*deltalog.Add
			for f := range snap.Files() {
				if old = append(old, f); len(old) == 5 {
					break
				}
			}
			if len(old) < 2 {
				continue
			}
			into := fmt.Sprintf("merged-%d.parquet", merges+conflicts)
			c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "OPTIMIZE", Metrics: map[string]string{"numAddedFiles": "1"},
				Adds: []deltalog.Add{{Path: into, Size: 1}}}
			for _, f := range old {
				c.Removes = append(c.Removes, deltalog.RemoveOf(f, 1, false))
				if parts := holds[f.Path]; parts != nil {
					holds[into] = append(holds[into], parts...)
				} else {
					holds[into] = append(holds[into], f.Path)
				}
			}
			switch _, err := tab.Change(t.Context(), c); {
			case err == nil:
				merges++
			case errors.Is(err, deltalog.ErrConcurrentDelete):
				t.Log(err)
				conflicts++
				delete(holds, into)
			default:
				t.Error(err)
				return
			}
		}
	})
	direct := make(chan error, 1)
	go func() { direct <- write(t.Context(), committer.NewDirect(log), 8, 20) }()
	writeAll(t, func() committer.Committer { return cl.Table(location) }, 8, 30)
	if err := <-direct; err != nil {
		t.Error(err)
	}
	close(done)
	merger.Wait()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for f := range snap.Files() {
		parts := holds[f.Path]
		if parts == nil {
			parts = []string{f.Path}
		}
		for _, p := range parts {
			seen[p]++
		}
	}
	for p, n := range seen {
		if n != 1 {
			t.Errorf("%s is %d times in the table", p, n)
		}
	}
	if len(seen) != 8*30+20+1 || conflicts > 0 {
		t.Errorf("%d appended files, want %d; %d conflicts, want none", len(seen), 8*30+20+1, conflicts)
	}
	t.Logf("%d merges beside %d appends", merges, len(seen))
}

// Of two changes that were planned on one version the second is refused, and so is one whose file a foreign writer
// removed; appends go on over both.
func TestChangesConflict(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	cl := newCluster(t, 1, store, nil).client(nil)
	tab := cl.Table(location)
	if err := write(t.Context(), tab, 0, 3); err != nil {
		t.Fatal(err)
	}
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alter := func(k string) deltalog.Commit {
		c, err := snap.Alter(deltalog.Change{Set: map[string]string{k: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		c.Incarnation = snap.Metadata().ID
		return c
	}
	if _, err := tab.Change(t.Context(), alter("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Change(t.Context(), alter("b")); !errors.Is(err, deltalog.ErrMetadataChanged) {
		t.Errorf("a change planned before another = %v", err)
	}
	if snap, err = log.Snapshot(t.Context()); err != nil || snap.Metadata().Configuration["a"] != "1" || snap.Metadata().Configuration["b"] != "" {
		t.Fatalf("%v, %v", snap.Metadata().Configuration, err)
	}
	var file *deltalog.Add
	for file = range snap.Files() {
		break
	}
	remove := func() deltalog.Commit {
		return deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "DELETE", Removes: []deltalog.Remove{deltalog.RemoveOf(file, 1, true)}}
	}
	if _, err := log.Commit(t.Context(), remove()); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Change(t.Context(), remove()); !errors.Is(err, deltalog.ErrConcurrentDelete) {
		t.Errorf("a file that a foreign writer removed = %v", err)
	}
	if _, err := tab.Commit(t.Context(), request(0, 30, 40)); err != nil {
		t.Error(err)
	}
	if _, err := tab.Change(t.Context(), deltalog.Commit{Operation: "WRITE", Txns: []deltalog.Txn{{AppID: "app-0"}}}); !errors.Is(err, committer.ErrInvalidRequest) {
		t.Errorf("a position by the way = %v", err)
	}
}

// gate is a store whose versions wait until it is open.
type gate struct {
	objstore.Store
	shut atomic.Bool
	puts atomic.Int64
}

func (g *gate) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if g.puts.Add(1); g.shut.Load() {
		return errors.New("503")
	}
	return g.Store.PutIfAbsent(ctx, key, data)
}

func large(n int) committer.Request {
	r := request(0, 0, 10)
	for i := range n {
		r.Adds = append(r.Adds, deltalog.Add{Path: fmt.Sprintf("%s-%d.parquet", strings.Repeat("x", 150), i), Size: 1, DataChange: true})
	}
	return r
}

func staged(t *testing.T, store objstore.Store) (keys []string) {
	t.Helper()
	for info, err := range store.List(t.Context(), objstore.ListOptions{Prefix: fsm.StagedFolder}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// A request that is too large for the log is decided by one leader and published by the next, out of the store (I5).
func TestLargeRequests(t *testing.T) {
	store := &gate{Store: mem.New()}
	log := newTable(t, store)
	c := newCluster(t, 3, store, nil)
	cl := c.client(nil)
	lead := c.leader(cl)
	const files = 10_000 // 2 MB of actions
	if _, err := cl.Table(location).Commit(t.Context(), large(files)); !errors.Is(err, committer.ErrInvalidRequest) {
		t.Errorf("without a store to stage it = %v", err)
	}
	store.shut.Store(true)
	out := make(chan error, 1)
	go func() {
		_, err := cl.Table(location).Staging(store).Commit(t.Context(), large(files))
		out <- err
	}()
	eventually(t, func() bool { return store.puts.Load() > 1 }) // the first made the table
	if keys := staged(t, store); len(keys) < 2 {
		t.Errorf("staged: %v", keys)
	}
	c.stop(lead)
	store.shut.Store(false)
	if err := <-out; err != nil {
		t.Fatal(err)
	}
	snap, err := log.Snapshot(t.Context())
	if err != nil || snap.NumFiles() != files+1 || snap.Version() != 1 {
		t.Fatalf("version %d, %d files, %v", snap.Version(), snap.NumFiles(), err)
	}
	t.Logf("left for the vacuum: %v", staged(t, store)) // a try that the writer had given up may have come last
	// A rewrite of all of them is large as well.
	change := deltalog.Commit{ReadVersion: 1, Incarnation: snap.Metadata().ID, Operation: "OPTIMIZE", Adds: []deltalog.Add{{Path: "all.parquet", Size: 1}}}
	for f := range snap.Files() {
		change.Removes = append(change.Removes, deltalog.RemoveOf(f, 1, false))
	}
	if _, err := cl.Table(location).Staging(store).Change(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if snap, err = log.Snapshot(t.Context()); err != nil || snap.NumFiles() != 1 {
		t.Errorf("%d files, %v", snap.NumFiles(), err)
	}
}

// An early answer comes before the version is in the store; it gets there (I3).
func TestEarlyAnswers(t *testing.T) {
	store := &gate{Store: mem.New()}
	log := newTable(t, store)
	cl := newCluster(t, 1, store, nil).client(nil)
	tab := cl.Table(location)
	store.shut.Store(true)
	for i := range record.Offset(5) {
		r := request(0, i*10, i*10+10)
		r.Early = true
		if v, err := tab.Commit(t.Context(), r); err != nil || v != min(deltalog.Version(i)+1, 2) {
			t.Fatalf("%d: version %d, %v", i, v, err)
		}
	}
	if snap, err := log.Snapshot(t.Context()); err != nil || snap.Version() != 0 {
		t.Fatalf("version %d, %v", snap.Version(), err)
	}
	store.shut.Store(false)
	eventually(t, func() bool {
		snap, err := log.Snapshot(t.Context())
		return err == nil && snap.NumFiles() == 5
	})
}

// What sets positions and stands on the whole table, as a restore and a swap do: it is refused when an append moved one of
// the positions since, and when files left the table; appends of others are no matter (I3).
func TestPositionsGoBackThroughTheGroup(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	cl := newCluster(t, 3, store, nil).client(nil)
	tab := cl.Table(location)
	if err := write(t.Context(), tab, 0, 3); err != nil {
		t.Fatal(err)
	}
	plan := func() deltalog.Commit {
		snap, err := log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, ReadAll: true, Operation: "RESTORE",
			Txns: []deltalog.Txn{{AppID: "app-0", Version: -1}}}
		for f := range snap.Files() {
			c.Removes = append(c.Removes, deltalog.RemoveOf(f, 1, true))
		}
		return c
	}
	c := plan()
	if err := write(t.Context(), tab, 1, 2); err != nil { // another partition
		t.Fatal(err)
	}
	if _, err := tab.Change(t.Context(), c); err != nil {
		t.Fatalf("beside an append: %v", err)
	}
	if _, err := tab.Change(t.Context(), c); !errors.Is(err, deltalog.ErrConcurrentDelete) {
		t.Errorf("once more = %v", err)
	}
	snap, err := log.Snapshot(t.Context())
	if at, _ := snap.Txn("app-0"); err != nil || at != -1 || snap.NumFiles() != 2 {
		t.Fatalf("position %d, %d files, %v", at, snap.NumFiles(), err)
	}
	c = plan()
	if err := write(t.Context(), tab, 0, 1); err != nil { // begins again at 0
		t.Fatal(err)
	}
	if _, err := tab.Change(t.Context(), c); !errors.Is(err, deltalog.ErrConcurrentDelete) {
		t.Errorf("beside an append to its partition = %v", err)
	}
}

// Actions that a crash left are taken away by a later leader, which keeps those that a pending version names; what the
// writer staged is for the vacuum.
func TestLitterOfACrash(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	c := newCluster(t, 3, store, nil)
	cl := c.client(nil)
	c.leader(cl)
	old := []string{fsm.StagedFolder + "a-b-0000000000000000" + fsm.ActionsSuffix, fsm.StagedFolder + "a-b" + fsm.ActionsSuffix,
		fsm.StagedFolder + "a-b-ffffffffffffffff" + fsm.ActionsSuffix, fsm.StagedFolder + "x.request"}
	for _, key := range old {
		if err := store.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.Table(location).Staging(store).Commit(t.Context(), large(10_000)); err != nil {
		t.Fatal(err)
	}
	c.stop(c.leader(cl))
	if err := write(t.Context(), cl.Table(location), 1, 1); err != nil { // the next leader opens the table
		t.Fatal(err)
	}
	eventually(t, func() bool { // one after the other
		left := staged(t, store)
		return !slices.Contains(left, old[0]) && len(left) <= 3
	})
	if left := staged(t, store); len(left) != 3 || !slices.Contains(left, old[1]) || !slices.Contains(left, old[2]) || !slices.Contains(left, old[3]) {
		t.Errorf("left are %v: young ones that tell no term, those of a term to come, and requests stay", left)
	}
	if snap, err := log.Snapshot(t.Context()); err != nil || snap.NumFiles() != 10_002 {
		t.Errorf("%d files, %v", snap.NumFiles(), err)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it never comes")
		case <-tick.C:
		}
	}
}

// transfer lets another node lead. One that is too busy to be elected in its time is asked again.
func transfer(t *testing.T, cl *rpc.Client, id string) {
	t.Helper()
	eventually(t, func() bool {
		err := cl.Member(t.Context(), rpc.MemberRequest{Op: "transfer", ID: id})
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

// Leaders change places under writers again and again, each time by the group's own word: no request is lost or twice.
func TestTransfers(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	c := newCluster(t, 3, store, nil)
	cl := c.client(nil)
	c.leader(cl)
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeAll(t, func() committer.Committer { return c.client(nil).Table(location) }, 8, 40)
	}()
	for range 4 {
		transfer(t, cl, "")
	}
	<-done
	check(t, store, 8, 40)
}

// A store that hangs holds its own tables up and no others.
func TestSlowStoreOfOneTable(t *testing.T) {
	stores := map[string]*gate{"mem://slow": {Store: mem.New()}, "mem://fast": {Store: mem.New()}}
	for _, s := range stores {
		newTable(t, s)
	}
	c := newCluster(t, 1, nil, func(cfg *raft.Config) {
		cfg.OpenStore = func(_ context.Context, loc string) (objstore.Store, error) { return stores[loc], nil }
	})
	cl := c.client(nil)
	stores["mem://slow"].shut.Store(true)
	slow := make(chan error, 1)
	go func() {
		_, err := cl.Table("mem://slow").Commit(t.Context(), request(0, 0, 10))
		slow <- err
	}()
	eventually(t, func() bool { return stores["mem://slow"].puts.Load() > 2 })
	if err := write(t.Context(), cl.Table("mem://fast"), 0, 20); err != nil {
		t.Error(err)
	}
	select {
	case err := <-slow:
		t.Errorf("the slow one = %v", err)
	default:
	}
	stores["mem://slow"].shut.Store(false)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	check(t, stores["mem://slow"], 1, 1)
	check(t, stores["mem://fast"], 1, 20)
}

// A merge that was planned on a table which was dropped and made again does not get into the new one, though it has the same
// versions (I3, I5).
func TestChangeOfADroppedTable(t *testing.T) {
	store := mem.New()
	log := newTable(t, store)
	tab := newCluster(t, 1, store, func(cfg *raft.Config) { cfg.Verify = time.Nanosecond }).client(nil).Table(location)
	if err := write(t.Context(), tab, 9, 8); err != nil {
		t.Fatal(err)
	}
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "OPTIMIZE",
		Adds: []deltalog.Add{{Path: "of-the-old-table.parquet", Size: 1}}}
	for f := range snap.Files() {
		c.Removes = append(c.Removes, deltalog.RemoveOf(f, 1, false))
	}
	for info, err := range store.List(t.Context(), objstore.ListOptions{}) {
		if err == nil {
			err = store.Delete(t.Context(), info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	again := newTable(t, store)
	if snap, err = again.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 { // until the new table has the version that the merge was planned on
		r := request(9, 0, 10)
		r.Incarnation = snap.Metadata().ID
		r.Ranges[0].Partition = int32(snap.Version())
		if _, err := tab.Commit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if snap, err = again.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tab.Change(t.Context(), c); !errors.Is(err, committer.ErrIncarnation) {
		t.Errorf("planned on the dropped table = %v", err)
	}
	// One whose version the table does not have, under whatever id, stands on nothing.
	c.Incarnation, c.ReadVersion = snap.Metadata().ID, snap.Version()+5
	if _, err := tab.Change(t.Context(), c); !errors.Is(err, deltalog.ErrConcurrentDelete) {
		t.Errorf("planned on a version to come = %v", err)
	}
	// A version that a foreign writer made just now is one, once the group has looked.
	v, err := again.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "WRITE", Adds: []deltalog.Add{{Path: "foreign", Size: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	c.ReadVersion, c.Removes = v, []deltalog.Remove{{Path: "foreign"}}
	if _, err := tab.Change(t.Context(), c); err != nil {
		t.Errorf("planned on a foreign version = %v", err)
	}
}

// counting is a store that notes how much of its staged objects is being read at a time.
type counting struct {
	objstore.Store
	mu               sync.Mutex
	now, most, reads int64
	wait             chan struct{}
}

func (c *counting) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if !strings.HasPrefix(key, fsm.StagedFolder) {
		return c.Store.GetRange(ctx, key, off, n)
	}
	c.mu.Lock()
	c.now, c.reads = c.now+n, c.reads+1
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	select {
	case <-c.wait:
	case <-ctx.Done():
	}
	defer func() {
		c.mu.Lock()
		c.now -= n
		c.mu.Unlock()
	}()
	return c.Store.GetRange(ctx, key, off, n)
}

// I8: small requests that name large staged objects make a node read a bounded amount at a time, and nothing for one that is refused
// whatever it holds.
func TestStagedMemory(t *testing.T) {
	store := &counting{Store: mem.New(), wait: make(chan struct{})}
	newTable(t, store)
	// The last of the twelve waits for the others, which a slow machine under the race detector needs a minute for.
	c := newCluster(t, 1, store, func(cfg *raft.Config) { cfg.StoreLimit = time.Hour })
	if err := write(t.Context(), c.client(nil).Table(location), 9, 1); err != nil {
		t.Fatal(err)
	}
	const size = 20 << 20 // three fit
	body := append([]byte("{}"), strings.Repeat(" ", size-2)...)
	s := fsm.Staged{Key: fsm.StagedFolder + "x.request", Hash: fsm.HashOf(body), Size: size}
	if err := store.Put(t.Context(), s.Key, body); err != nil {
		t.Fatal(err)
	}
	commit := func(i int, r fsm.Range) (fsm.Answer, string) {
		reply, err := c.nodes["n0"].Commit(t.Context(), &rpc.CommitRequest{ID: fmt.Sprint("q", i), Table: location, App: "app", Ranges: []fsm.Range{r}, Staged: s})
		if err != nil {
			t.Error(err)
			return fsm.Answer{}, ""
		}
		return reply.Answer, reply.Error
	}
	for i, x := range []struct {
		r    fsm.Range
		code fsm.Code
	}{
		{fsm.Range{Partition: 9, From: 0, To: 10, Epoch: 1}, fsm.Fenced},
		{fsm.Range{Partition: 9, From: 11, To: 12, Epoch: 1}, fsm.Misplaced},
		{fsm.Range{Partition: 9, From: 10, To: 12}, fsm.Stale},
	} {
		if a, text := commit(i, x.r); a.Code != x.code || text != "" {
			t.Errorf("%+v = %+v %s, want %v", x.r, a, text, x.code)
		}
	}
	if store.reads != 0 {
		t.Errorf("%d staged objects were read for requests that are refused by their ranges", store.reads)
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if a, text := commit(100+i, fsm.Range{Partition: int32(20 + i), From: 0, To: 1}); a.Code != fsm.Published {
				t.Errorf("request %d = %+v %s", i, a, text)
			}
		})
	}
	eventually(t, func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.reads >= 3
	})
	close(store.wait)
	wg.Wait()
	if store.most < 3*size || store.most > fsm.MaxStaged {
		t.Errorf("%d MB were read at a time, want up to %d", store.most>>20, fsm.MaxStaged>>20)
	}
}

// That somebody overwrote a version is said to the next request, which has its own answer when it is sent again (I5).
func TestReplacedVersionIsSaid(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	tab := newCluster(t, 1, store, func(cfg *raft.Config) { cfg.Verify = time.Nanosecond }).client(nil).Table(location)
	if err := write(t.Context(), tab, 0, 3); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), deltalog.CommitKey(3), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`)); err != nil {
		t.Fatal(err)
	}
	var replaced *deltalog.ReplacedError
	v, err := tab.Commit(t.Context(), request(1, 0, 10))
	if !errors.As(err, &replaced) || replaced.Version != 3 || replaced.By != "Careless/1.0" || !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Fatalf("version %d, %v", v, err)
	}
	for i := range record.Offset(2) {
		if v, err = tab.Commit(t.Context(), request(1, 10*i, 10*i+10)); err != nil || v != deltalog.Version(4+i) {
			t.Fatalf("version %d, %v", v, err)
		}
	}
}
