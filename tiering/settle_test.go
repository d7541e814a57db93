package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// other is a rig of the same log and tables whose writer judges by another format.
func (r *rig) other(format string) *rig {
	o := *r
	o.cfg.Format = format
	return &o
}

// once runs f at the n-th commit of a store, before the store takes it.
func once(store *mem.Store, n int64, f func()) {
	var seen atomic.Int64
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && seen.Add(1) == n {
			f()
		}
		return mem.Fault{}
	})
}

// TestTwoJudges lets another writer of the same partition, to whom other records are good, do all of its work at each moment of a
// commit: just before letters are there, and just before rows are. Whoever is first, each record is a row or a letter afterwards,
// never both and never neither (I3, I7).
func TestTwoJudges(t *testing.T) {
	formats := []string{tiering.FormatJSON, tiering.FormatRaw}
	for i, format := range formats {
		for _, tables := range []string{"letters", "rows"} {
			for n := int64(1); n <= 3; n++ {
				for _, dies := range []bool{false, true} {
					t.Run(fmt.Sprint(format, " stops before commit ", n, " of ", tables, ", the other dies ", dies), func(t *testing.T) {
						r := newRig(t, 1)
						r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte("bad"))
						r.mustRun() // there is a table of letters
						r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte("bad too"), []byte(`{"n":3}`))
						w, o := r.other(format), r.other(formats[1-i])
						store := r.store
						if tables == "letters" {
							store = r.dead
						}
						once(store, n, func() {
							if !dies {
								o.mustRun()
								return
							}
							o.killed()
						})
						w.mustRun()
						store.SetHook(nil)
						w.mustRun() // the next start of any of them
						r.either()
					})
				}
			}
		}
	}
}

// deadCommitter stands for a process that is killed before it commits rows.
type deadCommitter struct{ kill func() }

func (c deadCommitter) Commit(context.Context, committer.Request) (deltalog.Version, error) {
	c.kill()
	return -1, errors.New("killed")
}

// killed runs a tierer that is killed before it commits rows, while the hook of another one is at work.
func (r *rig) killed() {
	r.t.Helper()
	ctx, kill := context.WithCancel(r.t.Context())
	defer kill()
	cfg := r.cfg
	cfg.StopTimeout, cfg.Committer = time.Nanosecond, deadCommitter{kill}
	k := *r
	k.cfg = cfg
	tr, done := k.open()
	defer done()
	_ = tr.Run(ctx) // an error: the last commit was not made
}

// A letter that is left when a writer stops between the commit of rows and that of the letters is taken out by the next start,
// also when there is nothing to tier (I3).
func TestLettersAreTakenOutAtTheNextStart(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte("bad"))
	r.mustRun()
	r.log.append(t, 0, record.None, []byte("bad too"), []byte(`{"n":3}`))
	r.dieBeforeRows()
	wantDead(t, r, place{0, 1}, place{0, 2})
	r.cfg.Format = tiering.FormatRaw
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	r.cfg.StopTimeout = time.Nanosecond
	r.dead.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			kill()
			return mem.Fault{Before: errors.New("killed")}
		}
		return mem.Fault{}
	})
	_, err := r.run(ctx)
	if err == nil {
		t.Error("the letters were taken out before the rows were in")
	}
	r.dead.SetHook(nil)
	got, _ := rows(t, r.store)
	if got[place{0, 2}] == nil {
		t.Error("the rows are not in")
	}
	wantDead(t, r, place{0, 1}, place{0, 2})
	r.cfg.StopTimeout = 0
	r.mustRun()
	wantDead(t, r, place{0, 1})
	r.either()
}
