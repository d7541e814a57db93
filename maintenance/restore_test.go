package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

func restore(t testing.TB, tb *table.Table, opts RestoreOptions) RestoreReport {
	t.Helper()
	report, err := Restore(t.Context(), tb, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func to(v deltalog.Version) RestoreOptions { return RestoreOptions{Version: v, HasVersion: true} }

// I3: every version can be brought back with its rows and positions, through optimized versions and back again.
func TestRestore(t *testing.T) {
	r := newRig(t, table.Config{})
	type state struct {
		rows []string
		txns map[string]int64
	}
	var states []state
	keep := func() {
		snap := r.snap()
		for int(snap.Version()) > len(states) {
			states = append(states, states[len(states)-1]) // versions that only move rows
		}
		states = append(states, state{rows(t, r.table, snap), snap.Txns()})
	}
	keep()
	for i := range 8 {
		r.fill(1, 0, int32(i%3))
		keep()
	}
	for f := range r.snap().Files() {
		r.vector(f, 3, 4)
		break
	}
	keep()
	optimize(t, r.table, OptimizeOptions{})
	keep()
	newest := r.snap().Version()
	rnd := newRand(t)
	order := rnd.Perm(int(newest) + 1)
	for _, v := range append(order, int(newest)) {
		before := r.snap().Version()
		dry := restore(t, r.table, RestoreOptions{Version: deltalog.Version(v), HasVersion: true, DryRun: true})
		if r.snap().Version() != before {
			t.Fatal("a dry run made a version")
		}
		report := restore(t, r.table, to(deltalog.Version(v)))
		if report.Added != dry.Added || report.Removed != dry.Removed || report.Files.Files != r.snap().NumFiles() {
			t.Fatalf("version %d: %+v, dry %+v", v, report, dry)
		}
		want := states[v]
		txns := map[string]int64{}
		for id := range states[newest].txns { // a position that was not there yet is that before the first offset
			if txns[id] = -1; v > 0 {
				if x, ok := want.txns[id]; ok {
					txns[id] = x
				}
			}
		}
		if int(before) < 0 {
			txns = nil
		}
		r.same(fmt.Sprintf("version %d", v), want.rows, txns)
	}
	if again := restore(t, r.table, to(newest)); again.Version != r.snap().Version() || !strings.Contains(again.String(), "already") {
		t.Fatalf("%+v", again)
	}
	left, err := r.table.Leases(t.Context(), time.Now())
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
}

// What fills the table can keep its positions: the offsets between are marked, not forgotten. I3
func TestRestoreKeepsPositions(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(2, 0)
	old := r.snap()
	r.fill(2, 0, 1)
	end, _ := r.snap().Txn("app-0")
	report := restore(t, r.table, RestoreOptions{Version: old.Version(), HasVersion: true, KeepPositions: true})
	from, _ := old.Txn("app-0")
	snap := r.snap()
	lost, err := table.Lost(snap, "app", 0)
	if err != nil || len(lost) != 1 || lost[0] != (table.Range{Partition: 0, From: record.Offset(from + 1), To: record.Offset(end + 1)}) {
		t.Fatal(lost, err)
	}
	if now, _ := snap.Txn("app-0"); now != end || len(report.Lost) != 2 || len(report.Positions) != 0 {
		t.Fatalf("%d, %+v", now, report)
	}
}

// By time: the version that was the newest then.
func TestRestoreTime(t *testing.T) {
	r := newRig(t, table.Config{Properties: map[string]string{"delta.enableInCommitTimestamps": "true"}})
	var at []time.Time
	for range 4 {
		r.now = r.now.Add(time.Hour)
		r.fill(1, 0)
		at = append(at, r.now)
	}
	report := restore(t, r.table, RestoreOptions{Time: at[1].Add(time.Minute)})
	if report.To != 2 || r.snap().NumFiles() != 2 {
		t.Fatalf("%+v", report)
	}
	for _, o := range []RestoreOptions{{}, {Time: at[0], HasVersion: true}, {Time: at[0].Add(-100 * time.Hour)}, to(99), to(-1)} {
		if _, err := Restore(t.Context(), r.table, o); err == nil {
			t.Fatalf("%+v is accepted", o)
		}
	}
}

// Files that are gone are named, and nothing changes.
func TestRestoreMissingFiles(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(3, 0)
	old := r.snap()
	optimize(t, r.table, OptimizeOptions{})
	var gone []string
	for f := range old.Files() {
		gone = append(gone, f.Path)
	}
	slices.Sort(gone)
	gone = gone[:2]
	for _, p := range gone {
		if err := r.store.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	before := r.snap().Version()
	for _, dry := range []bool{true, false} {
		_, err := Restore(t.Context(), r.table, RestoreOptions{Version: old.Version(), HasVersion: true, DryRun: dry})
		var missing *MissingFilesError
		if !errors.As(err, &missing) || !slices.Equal(missing.Paths, gone) || !strings.Contains(err.Error(), gone[1]) {
			t.Fatal(err)
		}
	}
	if r.snap().Version() != before {
		t.Fatal("a version was made")
	}
}

// A writer that goes on is not undone behind its back: the restore is planned again on what it wrote.
func TestRestoreBesideWriter(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(3, 0)
	old := r.snap()
	want := rows(t, r.table, old)
	r.fill(2, 0)
	writer := &rig{t: t, store: r.store, table: r.reopen(), next: r.next}
	commits := 0
	var hook mem.Hook
	hook = func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && strings.HasSuffix(c.Key, ".json") && commits < 2 {
			commits++
			r.store.SetHook(nil)
			writer.commit(writer.file([]int32{0}, 4, nil))
			r.store.SetHook(hook)
		}
		return mem.Fault{}
	}
	r.store.SetHook(hook)
	restore(t, r.table, to(old.Version()))
	r.store.SetHook(nil)
	if commits != 2 {
		t.Fatalf("%d commits", commits)
	}
	r.same("beside a writer", want, old.Txns())
}

// Stopped anywhere the table has the content of before or of after, never a mixture. I3
func TestRestoreCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := int64(1); ; n++ {
			r := newRig(t, table.Config{})
			r.fill(2, 0)
			old := r.snap()
			want := rows(t, r.table, old)
			r.fill(2, 0)
			optimize(t, r.table, OptimizeOptions{})
			newest := r.snap()
			now := rows(t, r.table, newest)
			revive := r.dieAt(n, after)
			_, err := Restore(t.Context(), r.table, to(old.Version()))
			if !revive() {
				if err != nil {
					t.Fatal(err)
				}
				r.same("restored", want, old.Txns())
				break
			}
			what := fmt.Sprintf("died at operation %d, answer lost %v", n, after)
			if snap, err := r.reopen().Refresh(t.Context()); err != nil {
				t.Fatal(what, err)
			} else if snap.Version() == newest.Version() {
				r.same(what, now, newest.Txns())
			} else {
				r.same(what, want, old.Txns())
			}
			restore(t, r.reopen(), to(old.Version()))
			r.same(what+", and again", want, old.Txns())
		}
	}
}
