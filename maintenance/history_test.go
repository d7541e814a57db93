package maintenance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// life is a table through weeks of appends, deletes and maintenance, with a process that dies now and then.
type life struct {
	*rig
	rnd    *rand.Rand
	step   int
	rows   []string // of the newest version
	txns   map[string]int64
	past   map[deltalog.Version][]string  // what each version held
	until  map[deltalog.Version]time.Time // when it was followed by the next one
	leases map[deltalog.Version]*table.Lease
}

const (
	keepFiles = 4 * day
	keepLog   = 6 * day
)

// Whatever is done to a table, in whatever order, and wherever it is cut off: the newest version has its rows, each
// once, and its positions; versions within the retention time and leased ones can be read. I3, I4, I6
func TestMaintenanceHistory(t *testing.T) {
	for round := range 2 {
		l := &life{rnd: newRand(t), past: map[deltalog.Version][]string{}, until: map[deltalog.Version]time.Time{}, leases: map[deltalog.Version]*table.Lease{}}
		l.rig = newRig(t, table.Config{Log: deltalog.Config{CheckpointInterval: 4}, Properties: map[string]string{
			"delta.deletedFileRetentionDuration": "interval 4 days", "delta.logRetentionDuration": "interval 6 days",
			"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "4"}})
		l.learn()
		for l.step = range 60 {
			if l.rnd.IntN(3) == 0 && l.now.Before(time.Now().Add(25*day)) {
				l.now = l.now.Add(time.Duration(l.rnd.IntN(30)) * time.Hour)
			}
			l.act()
			l.check(fmt.Sprintf("round %d, step %d", round, l.step))
		}
	}
}

// learn takes the newest version as what is right: after a change that is meant to change rows.
func (l *life) learn() {
	snap := l.snap()
	l.rows, l.txns = rows(l.t, l.table, snap), snap.Txns()
	l.note(snap.Version())
}

// note keeps what the versions made since the last time hold.
func (l *life) note(newest deltalog.Version) {
	for v := newest; v >= 0 && l.past[v] == nil; v-- {
		snap, err := l.table.Log.SnapshotAt(l.t.Context(), v)
		if err != nil {
			l.t.Fatal(err)
		}
		if l.past[v] = append([]string{}, rows(l.t, l.table, snap)...); v > 0 {
			l.until[v-1] = l.now
		}
	}
}

func (l *life) act() {
	switch op := l.rnd.IntN(12); op {
	case 0, 1, 2, 3:
		l.fill(1+l.rnd.IntN(3), 0, int32(l.rnd.IntN(3)))
		l.learn()
	case 4:
		for f := range l.snap().Files() {
			if n, _ := f.NumRecords(); f.DeletionVector == nil && n > 5 && l.rnd.IntN(2) == 0 {
				l.vector(f, 0, 3)
				break
			}
		}
		l.learn()
	case 5:
		l.dying(func(tb *table.Table) error {
			_, err := Optimize(l.t.Context(), tb, OptimizeOptions{TargetSize: 12 << 10, Gradual: l.rnd.IntN(2) == 0, Clock: l.clock})
			return err
		})
	case 6, 7:
		l.dying(func(tb *table.Table) error {
			_, err := Vacuum(l.t.Context(), tb, VacuumOptions{Lite: op == 6, Clock: l.clock})
			return err
		})
	case 8:
		l.dying(func(tb *table.Table) error {
			_, err := CleanLog(l.t.Context(), tb, CleanLogOptions{Clock: l.clock})
			return err
		})
	case 9:
		l.restore()
	case 10:
		l.outlast()
		lease, err := l.table.Lease(l.t.Context(), l.snap().Version(), "test", 20*day)
		if err != nil {
			l.t.Fatal(err)
		}
		l.leases[lease.Version] = lease
	case 11:
		for v, lease := range l.leases {
			if err := lease.Release(l.t.Context()); err != nil {
				l.t.Fatal(err)
			}
			delete(l.leases, v)
			break
		}
	}
}

func (l *life) clock() time.Time { return l.now }

// outlast removes the marks of vacuums that died: a new lease would wait minutes for them to run out.
func (l *life) outlast() {
	l.t.Helper()
	for info, err := range l.store.List(l.t.Context(), objstore.ListOptions{Prefix: "_ledgerlake/deleting/", Flat: true}) {
		if err == nil {
			err = l.store.Delete(l.t.Context(), info.Key)
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// dying runs a job; half of the time its process dies at one of the store's operations and another one goes on.
func (l *life) dying(job func(tb *table.Table) error) {
	l.t.Helper()
	if l.rnd.IntN(2) == 0 {
		revive := l.dieAt(1+l.rnd.Int64N(60), l.rnd.IntN(2) == 0)
		err := job(l.table)
		if died := revive(); err != nil && !died {
			l.t.Fatal(err)
		}
		l.table = l.reopen()
	} else if err := job(l.table); err != nil {
		l.t.Fatal(err)
	}
	l.note(l.snap().Version())
}

// restore goes to a version that can still be read, and may die: then the table has one content or the other.
func (l *life) restore() {
	var known []deltalog.Version
	for v := range l.past {
		if l.readable(v) {
			known = append(known, v)
		}
	}
	slices.Sort(known)
	v := known[l.rnd.IntN(len(known))]
	before := l.snap().Version()
	revive := l.dieAt(1+l.rnd.Int64N(80), l.rnd.IntN(2) == 0)
	_, err := Restore(l.t.Context(), l.table, RestoreOptions{Version: v, HasVersion: true, Clock: l.clock})
	if died := revive(); err != nil && !died {
		l.t.Fatal(err)
	}
	l.table = l.reopen()
	if snap := l.snap(); snap.Version() > before {
		if got := rows(l.t, l.table, snap); !slices.Equal(sorted(got), sorted(l.past[v])) {
			l.t.Fatalf("step %d: version %d is restored with %d rows, it had %d", l.step, v, len(got), len(l.past[v]))
		}
		for id, end := range snap.Txns() { // go on where the table stands now
			if _, p, ok := table.SplitAppID(id); ok {
				l.next[p] = end + 1
			}
		}
	}
	l.learn()
}

// readable says whether a version must be readable: it was the newest one lately, or is leased.
func (l *life) readable(v deltalog.Version) bool {
	end, followed := l.until[v]
	return !followed || l.leases[v] != nil || end.After(l.now.Add(-keepFiles).Add(time.Hour))
}

func (l *life) check(what string) {
	l.t.Helper()
	l.same(what, l.rows, l.txns)
	tb := l.reopen()
	for v, want := range l.past {
		if !l.readable(v) || l.rnd.IntN(3) > 0 {
			continue
		}
		snap, err := tb.Log.SnapshotAt(l.t.Context(), v)
		if err != nil {
			l.t.Fatalf("%s: version %d: %v", what, v, err)
		}
		if got, err := tryRows(l.t.Context(), tb, snap); err != nil || !slices.Equal(sorted(got), sorted(want)) {
			l.t.Fatalf("%s: version %d has %d rows, had %d: %v", what, v, len(got), len(want), err)
		}
	}
}
