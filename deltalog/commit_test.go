package deltalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func TestInvalidCommits(t *testing.T) {
	store := mem.New()
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), PartitionColumns: []string{"name"}, Configuration: map[string]string{"delta.appendOnly": "true"}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := "x"
	good := Add{Path: "p", PartitionValues: map[string]*string{"name": &v}, DataChange: true}
	for name, c := range map[string]Commit{
		"no partition value":    {Adds: []Add{{Path: "p"}}},
		"other partition":       {Adds: []Add{{Path: "p", PartitionValues: map[string]*string{"id": &v}}}},
		"no path":               {Adds: []Add{{PartitionValues: good.PartitionValues}}},
		"bad path":              {Adds: []Add{{Path: "%", PartitionValues: good.PartitionValues}}},
		"twice":                 {Adds: []Add{good, good}},
		"negative size":         {Adds: []Add{{Path: "p", Size: -1, PartitionValues: good.PartitionValues}}},
		"delete of append-only": {Removes: []Remove{RemoveOf(&good, 1, true)}},
		"txn twice":             {Txns: []Txn{{AppID: "a"}, {AppID: "a"}}},
		"from the future":       {ReadVersion: 7, Adds: []Add{good}},
		"metadata without id":   {Metadata: &Metadata{SchemaString: testSchema().JSON()}},
	} {
		if _, err := l.Commit(t.Context(), c); !errors.Is(err, ErrInvalidCommit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := mustSnapshot(t, l); s.Version() != 0 {
		t.Fatalf("an invalid commit is in the log: version %d", s.Version())
	}
	mustCommit(t, l, Commit{Adds: []Add{good}})
	mustCommit(t, l, Commit{ReadVersion: 1, Removes: []Remove{RemoveOf(&good, 1, false)}}) // a rewrite is no data change
	for name, o := range map[string]CreateOptions{
		"no schema":         {},
		"unknown partition": {Schema: testSchema(), PartitionColumns: []string{"x"}},
		"all partitions":    {Schema: testSchema(), PartitionColumns: []string{"id", "name"}},
		"case twins":        {Schema: &StructType{Fields: []StructField{{Name: "a", Type: Long}, {Name: "A", Type: Long}}}},
		"bad name":          {Schema: &StructType{Fields: []StructField{{Name: "a b", Type: Long}}}},
	} {
		if _, err := Create(t.Context(), mem.New(), o, Config{}); !errors.Is(err, ErrInvalidCommit) {
			t.Errorf("create, %s: %v", name, err)
		}
	}
}

// TestNoLostNoDoubledCommit has writers of several Logs append through a store that loses answers, before and
// after the effect (I1, I5): every acknowledged commit is in the log once, and none twice.
func TestNoLostNoDoubledCommit(t *testing.T) {
	rng, lock := newRand(seedtest.New(t)), sync.Mutex{}
	store := mem.New()
	mustCreate(t, store, Config{})
	lost := errors.New("connection reset")
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op != mem.OpPutIfAbsent {
			return mem.Fault{}
		}
		lock.Lock()
		defer lock.Unlock()
		switch rng.IntN(4) {
		case 0:
			return mem.Fault{Before: fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, lost)}
		case 1:
			return mem.Fault{After: lost}
		}
		return mem.Fault{}
	})
	const writers, each = 8, 12
	var wg sync.WaitGroup
	versions := make([]map[Version]string, writers)
	for w := range writers {
		versions[w] = map[Version]string{}
		wg.Go(func() {
			l, err := Open(t.Context(), store, Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond, MaxAttempts: 1000, CheckpointInterval: 5})
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			for i := range each {
				path := fmt.Sprintf("w%d-%d", w, i)
				v, err := l.Commit(t.Context(), Commit{Adds: []Add{add(path)}, BlindAppend: true})
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				versions[w][v] = path
			}
		})
	}
	wg.Wait()
	store.SetHook(nil)
	s := loadAll(t, store)
	if s.Version() != writers*each || s.NumFiles() != writers*each {
		t.Fatalf("version %d with %d files, want %d", s.Version(), s.NumFiles(), writers*each)
	}
	for w := range writers {
		for v, path := range versions[w] {
			if !strings.Contains(string(get(t, store, commitName(v))), `"`+path+`"`) {
				t.Errorf("version %d does not hold %s, which was acknowledged as such", v, path)
			}
		}
	}
	sameContent(t, "JSON-only copy", loadAll(t, clone(t, store, func(k string) bool { return !strings.Contains(k, "checkpoint") })), s)
}

func TestGivesUpAndSaysSo(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{MaxAttempts: 3, RetryBase: time.Nanosecond, RetryMax: time.Nanosecond})
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			return mem.Fault{Before: objstore.ErrUnknownOutcome}
		}
		return mem.Fault{}
	})
	_, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}})
	if !errors.Is(err, ErrTooManyAttempts) || !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	// A caller that goes away at the wrong moment still learns that its commit is there.
	ctx, cancel := context.WithCancel(t.Context())
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			cancel()
			return mem.Fault{After: errors.New("cut off")}
		}
		return mem.Fault{}
	})
	if v, err := l.Commit(ctx, Commit{Adds: []Add{add("y")}}); err != nil || v != 1 {
		t.Fatal(v, err)
	}
}

// TestCrashAnywhere stops the store for ever at each operation of a commit with a checkpoint. The table must
// stay sound, hold what was acknowledged, and take further commits.
func TestCrashAnywhere(t *testing.T) { // I1
	for stop := int64(1); ; stop++ {
		store := mem.New()
		l := mustCreate(t, store, Config{CheckpointInterval: 2, MaxAttempts: 2, RetryBase: time.Nanosecond, RetryMax: time.Nanosecond})
		mustCommit(t, l, Commit{Adds: []Add{add("a")}})
		start := store.Calls()
		dead := errors.New("power is off")
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.N >= start+stop {
				return mem.Fault{Before: dead}
			}
			return mem.Fault{}
		})
		_, err := l.Commit(t.Context(), Commit{ReadVersion: 1, Adds: []Add{add("b")}})
		l.Close()
		finished := store.Calls() < start+stop
		store.SetHook(nil)
		again, oerr := Open(t.Context(), store, Config{})
		if oerr != nil {
			t.Fatalf("stopped at operation %d: %v", stop, oerr)
		}
		got := paths(mustSnapshot(t, again))
		if err == nil && got != "a b" || got != "a b" && got != "a" {
			t.Fatalf("stopped at operation %d: files %q, commit said %v", stop, got, err)
		}
		mustCommit(t, again, Commit{ReadVersion: mustSnapshot(t, again).Version(), Adds: []Add{add("c")}})
		again.Close()
		if finished {
			if _, err := store.Get(t.Context(), lastCheckpoint); err != nil {
				t.Fatal("the undisturbed run wrote no checkpoint")
			}
			t.Logf("%d operations", stop-1)
			return
		}
	}
}

func TestCreateRace(t *testing.T) {
	store := mem.New()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema()}, Config{})
			if errs[i] = err; err == nil {
				l.Close()
			}
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, ErrTableExists) {
			t.Fatal(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d creators won", won)
	}
	// A lost answer is no reason to say that the table exists already.
	other := mem.New()
	other.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			return mem.Fault{After: errors.New("reset")}
		}
		return mem.Fault{}
	})
	l, err := Create(t.Context(), other, CreateOptions{Schema: testSchema()}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestInCommitTimestamps(t *testing.T) {
	store := mem.New()
	now := time.UnixMilli(1_700_000_000_000)
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: map[string]string{"delta.enableInCommitTimestamps": "true"}},
		Config{Clock: func() time.Time { return now }, CheckpointInterval: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the clock stands still, the timestamps must not
		mustCommit(t, l, Commit{ReadVersion: Version(i), Adds: []Add{add(fmt.Sprint(i))}})
	}
	if got := mustSnapshot(t, l).Timestamp(); !got.Equal(now.Add(3 * time.Millisecond)) {
		t.Fatalf("timestamp %v", got)
	}
	l.Close()
	if got := loadAll(t, store).Timestamp(); !got.Equal(now.Add(3 * time.Millisecond)) {
		t.Fatalf("timestamp from the checkpoint %v", got)
	}
}

func TestClosed(t *testing.T) {
	l := mustCreate(t, mem.New(), Config{})
	l.Close()
	if _, err := l.Snapshot(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), mem.New(), Config{MaxAttempts: -1}); err == nil {
		t.Fatal("bad config accepted")
	}
}

// Partition columns change in no table that has files, and in none whose files the Log does not know.
func TestPartitionColumnsStay(t *testing.T) {
	for _, noFiles := range []bool{false, true} {
		store := mem.New()
		l := mustCreate(t, store, Config{NoFiles: noFiles})
		mustCommit(t, l, Commit{BlindAppend: true, Adds: []Add{add("x")}})
		snap := mustSnapshot(t, l)
		m := *snap.Metadata()
		m.PartitionColumns = []string{snap.Schema().Fields[0].Name}
		if _, err := l.Commit(t.Context(), Commit{ReadVersion: snap.version, Metadata: &m}); !errors.Is(err, ErrInvalidCommit) || !strings.Contains(err.Error(), "partition columns") {
			t.Errorf("NoFiles %v: %v", noFiles, err)
		}
	}
}

// TestNotFinal: our version is there, but a stopped Hadoop writer may still rename over it (I1, I5). Finding it is
// no reason to acknowledge it.
func TestNotFinal(t *testing.T) {
	root := t.TempDir()
	store, err := dir.Open(dir.Config{Root: root, FS: vfs.OS(), HadoopWait: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	schema := &StructType{Fields: []StructField{{Name: "a", Type: Primitive("string"), Nullable: true}}}
	stopped := func(v Version) {
		t.Helper()
		name := filepath.Join(root, logDir, "."+strings.TrimPrefix(commitName(v), logDir)+".6f0c7c1e-0000-4000-8000-000000000000.tmp")
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("{}\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Create(t.Context(), store, CreateOptions{Schema: schema}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stopped(1)
	if v, err := l.Commit(t.Context(), Commit{Txns: []Txn{{AppID: "a", Version: 7}}}); !errors.Is(err, objstore.ErrUnknownOutcome) || !errors.Is(err, objstore.ErrNotFinal) {
		t.Errorf("beside a writer that stays: version %d, %v", v, err)
	}
	// The caller goes away during the wait.
	stopped(2)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if v, err := l.Commit(ctx, Commit{ReadVersion: 1, Txns: []Txn{{AppID: "b", Version: 7}}}); err == nil {
		t.Errorf("cut off in the wait: version %d", v)
	}
	// The first version of a table.
	if err := os.RemoveAll(filepath.Join(root, logDir)); err != nil {
		t.Fatal(err)
	}
	stopped(0)
	if _, err := Create(t.Context(), store, CreateOptions{Schema: schema}, Config{}); !errors.Is(err, objstore.ErrNotFinal) {
		t.Errorf("a new table: %v", err)
	}
}
