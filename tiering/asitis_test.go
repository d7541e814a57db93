package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// foreignTable makes a table as somebody else would: payload columns and nothing of ours.
func foreignTable(t *testing.T, store objstore.Store, payload *arrow.Schema, txns ...deltalog.Txn) {
	t.Helper()
	schema, err := deltalog.FromArrow(payload)
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, tableConfig().Log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "STREAMING UPDATE", BlindAppend: true, Txns: txns}); err != nil {
		t.Fatal(err)
	}
}

// payloads gives the values of column n of all rows, by s.
func payloads(t *testing.T, store objstore.Store) (map[string]int, *deltalog.Snapshot) {
	t.Helper()
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for add := range snap.Files() {
		for _, row := range fileRows(t, store, add.Path) {
			if len(row) > 2 {
				t.Fatalf("row %v has columns that the table does not have", row)
			}
			out[row["s"]]++
		}
	}
	return out, snap
}

// A table of somebody else, without our columns and with positions of its own, is filled from the offset after each
// position; each record is in it once, whatever fails on the way (I3). A record without a value leaves no row.
func TestTableAsItIs(t *testing.T) {
	r := newRig(t, 3)
	r.store = mem.New()
	foreignTable(t, r.store, payload(), deltalog.Txn{AppID: "old-0", Version: 99}, deltalog.Txn{AppID: "old-1", Version: 0})
	r.cfg.App = "old"
	r.fill(500, 37)
	r.log.append(t, 0, record.None, nil)
	r.log.append(t, 2, record.None, []byte(`{"n":"no number"}`))

	tab, err := table.Open(t.Context(), r.store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	refused := r.cfg
	refused.Table = tab
	if _, err := tiering.Open(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "--as-is") {
		t.Fatalf("without being told so: %v", err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	r.cfg.AsItIs = true
	r.cfg.MaxRows = 300
	s := r.mustRun()
	if s.Rows != 400+499+500 || s.DeadLetters != 1 {
		t.Errorf("stats = %+v", s)
	}
	got, snap := payloads(t, r.store)
	for p, first := range []int{100, 1, 0} {
		for i := range 500 {
			want := 1
			if i < first {
				want = 0
			}
			if n := got[fmt.Sprintf("p%d %d", p, i)]; n != want {
				t.Errorf("partition %d, record %d is there %d times, want %d", p, i, n, want)
			}
		}
	}
	if len(got) != 1399 {
		t.Errorf("%d different rows, want 1399", len(got))
	}
	for p, want := range []record.Offset{501, 500, 501} {
		if end, ok := table.LakeEnd(snap, "old", int32(p)); !ok || end != want {
			t.Errorf("partition %d is at %d, %v; want %d", p, end, ok, want)
		}
	}
	if again := r.mustRun(); again.Commits != 0 {
		t.Errorf("nothing new, and %d commits", again.Commits)
	}
	tab, err = table.Open(t.Context(), r.dead, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if !tab.Names.Ordered() {
		t.Error("the dead letters have no coordinates")
	}
}

// Whatever one call of the store fails or loses its answer, each record is in a table as it is once: what got in is
// found again by its position alone (I3).
func TestTableAsItIsFaults(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for n, hit := int64(1), true; hit; n++ {
			r := newRig(t, 2)
			r.store = mem.New()
			foreignTable(t, r.store, payload())
			r.cfg.AsItIs, r.cfg.MaxRows = true, 100
			r.fill(150, 50)
			tr, done := r.open()
			first, reached := r.store.Calls(), atomic.Bool{}
			r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				if c.N != first+n {
					return mem.Fault{}
				}
				reached.Store(true)
				if lose {
					return mem.Fault{After: objstore.ErrUnknownOutcome}
				}
				return mem.Fault{Before: errors.New("injected")}
			})
			err := tr.Run(t.Context())
			done()
			r.store.SetHook(nil)
			if err != nil {
				t.Fatalf("call %d, lose %v: %v", n, lose, err)
			}
			if got, _ := payloads(t, r.store); len(got) != 300 {
				t.Fatalf("call %d, lose %v: %d different rows, want 300", n, lose, len(got))
			} else if twice := slices.Max(slices.Collect(maps.Values(got))); twice != 1 {
				t.Fatalf("call %d, lose %v: a row is there %d times", n, lose, twice)
			}
			hit = reached.Load()
			if !hit && n < 5 {
				t.Errorf("only %d calls", n-1)
			}
		}
	}
}
