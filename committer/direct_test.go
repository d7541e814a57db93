package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func newTable(t *testing.T, store *mem.Store) *deltalog.Log {
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

func request(p int32, from, to record.Offset) committer.Request {
	return committer.Request{App: "app", Ranges: []committer.Range{{Partition: p, From: from, To: to}}}
}

func TestRanges(t *testing.T) {
	log := newTable(t, mem.New())
	d := committer.NewDirect(log)
	commit := func(p int32, from, to record.Offset) error {
		_, err := d.Commit(t.Context(), request(p, from, to))
		return err
	}
	if err := commit(0, 5, 10); err != nil { // a new partition may begin anywhere
		t.Fatal(err)
	}
	if err := commit(0, 10, 12); err != nil {
		t.Fatal(err)
	}
	var re *committer.RangeError
	if err := commit(0, 13, 14); !errors.As(err, &re) || re.Want != 12 || re.Got != 13 {
		t.Errorf("a gap = %v", err)
	}
	if err := commit(0, 11, 14); !errors.As(err, &re) || re.Want != 12 || re.Got != 11 {
		t.Errorf("an overlap = %v", err)
	}
	var fe *committer.FencedError
	if err := commit(0, 10, 12); !errors.As(err, &fe) || fe.Committed != 12 {
		t.Errorf("a range that is there = %v", err)
	}
	snap, err := log.Snapshot(t.Context())
	if v, ok := snap.Txn("app-0"); err != nil || !ok || v != 11 {
		t.Errorf("position = %d, %v, %v; want 11", v, ok, err)
	}
}

func TestInvalidRequests(t *testing.T) {
	log := newTable(t, mem.New())
	d := committer.NewDirect(log)
	for name, req := range map[string]committer.Request{
		"no app":   {Ranges: []committer.Range{{To: 1}}},
		"no range": {App: "app"},
		"empty":    request(0, 5, 5),
		"negative": request(0, -1, 5),
		"twice":    {App: "app", Ranges: []committer.Range{{To: 1}, {To: 1}}},
	} {
		if _, err := d.Commit(t.Context(), req); !errors.Is(err, committer.ErrInvalidRequest) {
			t.Errorf("%s = %v", name, err)
		}
	}
	req := request(0, 0, 1)
	req.Incarnation = "other"
	if _, err := d.Commit(t.Context(), req); !errors.Is(err, committer.ErrIncarnation) {
		t.Errorf("another incarnation = %v", err)
	}
	req = request(0, 0, 1)
	req.Schema = "other"
	if _, err := d.Commit(t.Context(), req); !errors.Is(err, committer.ErrSchemaChanged) {
		t.Errorf("another schema = %v", err)
	}
}

// TestProperties sets properties in the version of the rows, and leaves the metadata alone when they stand.
func TestProperties(t *testing.T) {
	log := newTable(t, mem.New())
	d := committer.NewDirect(log)
	commit := func(from record.Offset, props map[string]string) *deltalog.Snapshot {
		req := request(0, from, from+1)
		req.Properties = props
		if _, err := d.Commit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		snap, err := log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	a := commit(0, map[string]string{"x": "1"})
	b := commit(1, map[string]string{"x": "1"})
	c := commit(2, map[string]string{"y": "2"})
	if a.Metadata().Configuration["x"] != "1" || a.Metadata() != b.Metadata() || c.Metadata() == b.Metadata() ||
		c.Metadata().Configuration["x"] != "1" || c.Metadata().Configuration["y"] != "2" || c.Metadata().ID != a.Metadata().ID {
		t.Errorf("metadata: %+v, %+v, %+v", a.Metadata(), b.Metadata(), c.Metadata())
	}
}

// TestRace proves I3 and I5: writers race for the same partition, and each range is committed by one.
func TestRace(t *testing.T) {
	store := mem.New()
	newTable(t, store)
	const writers, ranges = 4, 20
	won := make([]int, ranges)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			defer log.Close()
			d := committer.NewDirect(log)
			for i := range ranges {
				_, err := d.Commit(t.Context(), request(0, record.Offset(i*10), record.Offset(i*10+10)))
				var fe *committer.FencedError
				switch {
				case err == nil:
					mu.Lock()
					won[i]++
					mu.Unlock()
				case !errors.As(err, &fe):
					t.Errorf("range %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	for i, n := range won {
		if n != 1 {
			t.Errorf("range %d was committed %d times", i, n)
		}
	}
}

// TestLostAnswers loses or fails every store call in turn: a repeated request is committed once.
func TestLostAnswers(t *testing.T) {
	for k := int64(1); k < 40; k++ {
		for _, lose := range []bool{false, true} {
			store := mem.New()
			log := newTable(t, store)
			first := store.Calls()
			store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				err := fmt.Errorf("injected at call %d", c.N)
				switch {
				case c.N != first+k:
					return mem.Fault{}
				case lose:
					return mem.Fault{After: err}
				}
				return mem.Fault{Before: err}
			})
			d := committer.NewDirect(log)
			for i := range record.Offset(3) {
				for try := 0; ; try++ {
					_, err := d.Commit(t.Context(), request(0, i*10, i*10+10))
					var fe *committer.FencedError
					if err == nil || errors.As(err, &fe) {
						break
					}
					if try > 3 {
						t.Fatalf("call %d: %v", k, err)
					}
				}
			}
			snap, err := log.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v, _ := snap.Txn("app-0"); v != 29 || snap.Version() != 3 {
				t.Errorf("call %d, lose %v: position %d at version %d, want 29 at 3", k, lose, v, snap.Version())
			}
		}
	}
}
