package deltalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// coarse is a store whose clock stands still, as one with a coarse clock does for a while.
type coarse struct {
	*mem.Store
	now time.Time
}

func (s coarse) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range s.Store.List(ctx, opts) {
			info.ModTime = s.now
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestMadeAgain drops a table and makes it again with as many versions, under an open Log: the next look gives the
// new one (I5), also when the store's times and the sizes of the files are those of before.
func TestMadeAgain(t *testing.T) {
	for _, still := range []bool{false, true} {
		for _, own := range []bool{false, true} { // who made the commits: the Log that looks, or another one
			for _, checkpoint := range []bool{false, true} {
				t.Run(fmt.Sprintf("still=%v own=%v checkpoint=%v", still, own, checkpoint), func(t *testing.T) {
					madeAgain(t, still, own, checkpoint)
				})
			}
		}
	}
}

func madeAgain(t *testing.T, still, own, checkpoint bool) {
	raw := mem.New()
	var store objstore.Store = raw
	if still {
		store = coarse{raw, time.Now()}
	}
	cfg := Config{}
	if checkpoint {
		cfg.CheckpointInterval = 2
	}
	fill := func(l *Log) {
		for i := range 4 {
			mustCommit(t, l, Commit{Operation: "WRITE", ReadVersion: Version(i), BlindAppend: true,
				Adds: []Add{add(fmt.Sprintf("f%d.parquet", i))}, Txns: []Txn{{AppID: "a", Version: int64(i)}}})
		}
		l.work.Wait()
	}
	first := mustCreate(t, store, cfg)
	looker := first
	if !own {
		l, err := Open(t.Context(), store, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		looker = l
	}
	fill(first)
	old := mustSnapshot(t, looker)
	if !own {
		old = mustSnapshot(t, looker) // now it has seen the newest commit in a listing
	}
	for info, err := range raw.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		remove(t, raw, info.Key)
	}
	again := mustCreate(t, store, cfg)
	fill(again)
	want := mustSnapshot(t, again)
	got := mustSnapshot(t, looker)
	if want.Metadata().ID == old.Metadata().ID || got.Metadata().ID != want.Metadata().ID {
		t.Fatalf("the Log gives table %s, want %s (before: %s)", got.Metadata().ID, want.Metadata().ID, old.Metadata().ID)
	}
	_, err := looker.Commit(t.Context(), Commit{Operation: "WRITE", ReadVersion: old.Version(), Incarnation: old.Metadata().ID, BlindAppend: true,
		Adds: []Add{add("late.parquet")}})
	if !errors.Is(err, ErrMetadataChanged) {
		t.Errorf("a commit that was planned on the old table = %v", err)
	}
	// What was known of the old table's commits is not taken for the new one's.
	if s, err := looker.summary(t.Context(), 1); err != nil {
		t.Error(err)
	} else if w, err := again.summary(t.Context(), 1); err != nil || s.txnID != w.txnID {
		t.Errorf("version 1 is known as %s, want %s (%v)", s.txnID, w.txnID, err)
	}
}

// TestOldFilesAreTrusted proves that a quiet table costs one listing a look.
func TestOldFilesAreTrusted(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{Clock: func() time.Time { return time.Now().Add(time.Minute) }})
	mustSnapshot(t, l)
	before := store.Calls()
	mustSnapshot(t, l)
	if n := store.Calls() - before; n != 1 {
		t.Errorf("a look cost %d calls", n)
	}
}

// TestOutcomeUnknownAfterCleanup loses the answer of a commit, and then the commits where it could be are cleaned
// up: it must not be said that the commit is not in the table, for its files would be removed (I1).
func TestOutcomeUnknownAfterCleanup(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond})
	other, err := Open(t.Context(), store, Config{CheckpointInterval: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var lost, cleaned atomic.Bool
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		switch {
		case c.Op == mem.OpPutIfAbsent && lost.CompareAndSwap(false, true):
			return mem.Fault{After: errors.New("the answer is lost")}
		case c.Op == mem.OpList && lost.Load() && cleaned.CompareAndSwap(false, true):
			for range 2 {
				mustCommit(t, other, Commit{Operation: "WRITE", ReadVersion: 1, BlindAppend: true, Adds: []Add{add("theirs.parquet")}})
				other.work.Wait()
			}
			remove(t, store, commitName(1))
			remove(t, store, commitName(2))
		}
		return mem.Fault{}
	})
	_, err = l.Commit(t.Context(), Commit{Operation: "WRITE", ReadVersion: 0, BlindAppend: true, Adds: []Add{add("ours.parquet")},
		Txns: []Txn{{AppID: "a", Version: 1}}})
	store.SetHook(nil)
	if !errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("Commit = %v, want an unknown outcome", err)
	}
	if !strings.Contains(paths(loadAll(t, store)), "ours.parquet") {
		t.Error("the test has not shown the case: the commit is not in the table")
	}
}
