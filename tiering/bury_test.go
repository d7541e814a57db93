package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// dieBeforeRows runs a tierer that commits its dead letters and is killed before it commits the rows.
func (r *rig) dieBeforeRows() {
	r.t.Helper()
	timeout := r.cfg.StopTimeout
	r.cfg.StopTimeout = time.Nanosecond
	ctx, kill := context.WithCancel(r.t.Context())
	tr, done := r.open()
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			kill()
			return mem.Fault{Before: errors.New("killed")}
		}
		return mem.Fault{}
	})
	if err := tr.Run(ctx); err == nil {
		r.t.Error("Run = nil, want an error: the last commit was not made")
	}
	r.store.SetHook(nil)
	done()
	r.cfg.StopTimeout = timeout
}

// addColumn changes the schema of the table.
func (r *rig) addColumn(name string, typ deltalog.DataType) {
	r.t.Helper()
	log, err := deltalog.Open(r.t.Context(), r.store, deltalog.Config{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	schema := *snap.Schema()
	schema.Fields = append(append([]deltalog.StructField{}, schema.Fields...), deltalog.StructField{Name: name, Type: typ, Nullable: true})
	meta := *snap.Metadata()
	meta.SchemaString = schema.JSON()
	if _, err := log.Commit(r.t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "ADD COLUMNS", Metadata: &meta}); err != nil {
		r.t.Fatal(err)
	}
}

// either checks that each offset of the log is a row or a dead letter, and not both (I3, I7).
func (r *rig) either() {
	r.t.Helper()
	got, _ := rows(r.t, r.store)
	dead := map[place]map[string]string{}
	if log, err := deltalog.Open(r.t.Context(), r.dead, deltalog.Config{}); err == nil {
		_ = log.Close()
		dead, _ = rows(r.t, r.dead)
	} else if !errors.Is(err, deltalog.ErrNotTable) {
		r.t.Fatal(err)
	}
	for at, value := range r.want() {
		row, letter := got[at], dead[at]
		if (row == nil) == (letter == nil) {
			r.t.Errorf("offset %+v: row %q, dead letter %q; want one of them", at, row, letter)
		} else if row["_value"]+letter["_value"] != value {
			r.t.Errorf("offset %+v is %q and %q, want the value %q", at, row, letter, value)
		}
	}
}

// TestLettersThatFitNow changes the format between the commit of dead letters and that of the rows: the records
// that are rows now have no letter any more, the others keep theirs.
func TestLettersThatFitNow(t *testing.T) {
	r := newRig(t, 2)
	r.log.append(t, 0, record.None, []byte("old and bad"), []byte(`{"n":1}`))
	r.log.append(t, 1, record.None, []byte("old and bad"))
	r.mustRun()
	wantDead(t, r, place{0, 0}, place{1, 0})
	r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte("bad"), []byte(`{"n":4}`))
	r.log.append(t, 1, record.None, []byte("bad"), []byte("bad"))
	r.dieBeforeRows()
	wantDead(t, r, place{0, 0}, place{1, 0}, place{0, 3}, place{1, 1}, place{1, 2})
	r.cfg.Format = tiering.FormatRaw
	r.mustRun()
	wantDead(t, r, place{0, 0}, place{1, 0})
	r.either()
	r.cfg.Format = tiering.FormatJSON
	r.log.append(t, 1, record.None, []byte("bad again"))
	r.mustRun()
	wantDead(t, r, place{0, 0}, place{1, 0}, place{1, 3})
	r.either()
}

// TestLettersThatFitNoMore changes the schema: a record below the last letter that is bad now gets one too.
func TestLettersThatFitNoMore(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1,"b":"no boolean"}`), []byte("bad"), []byte(`{"n":3}`))
	r.dieBeforeRows()
	wantDead(t, r, place{0, 1})
	r.addColumn("b", deltalog.Boolean)
	r.mustRun()
	wantDead(t, r, place{0, 0}, place{0, 1})
	r.either()
}

// TestLettersOfLostRecords lets retention take records between the two commits: a letter that is there is the
// record's fate, and the record is not lost (I7).
func TestLettersOfLostRecords(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":0}`))
	r.mustRun()
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte("bad"), []byte(`{"n":3}`))
	r.log.append(t, 0, record.None, []byte(`{"n":4}`))
	r.dieBeforeRows()
	r.log.update(0, func(p *fakePartition) { p.bounds.Start = 4; p.batches = p.batches[2:] })
	r.cfg.OnGap = tiering.GapEarliest
	r.mustRun()
	wantDead(t, r, place{0, 2})
	_, snap := rows(t, r.store)
	lost, err := table.Lost(snap, "orders", 0)
	if want := []table.Range{{From: 1, To: 2}, {From: 3, To: 4}}; err != nil || fmt.Sprint(lost) != fmt.Sprint(want) {
		t.Errorf("lost %v, %v; want %v", lost, err, want)
	}
}

// TestDroppedLetters drops the dead letter table under a running tierer: it is made again when it is needed.
func TestDroppedLetters(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.UntilEnd, r.cfg.MaxAge = false, time.Millisecond
	tr, done := r.open()
	defer done()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	r.log.append(t, 0, record.None, []byte("bad"))
	eventually(t, func() bool { return tr.Stats().DeadLetters == 1 })
	for info, err := range r.dead.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := r.dead.Delete(t.Context(), info.Key); err != nil {
			t.Fatal(err)
		}
	}
	r.log.append(t, 0, record.None, []byte(`{"n":1}`))
	eventually(t, func() bool { return tr.Stats().Rows == 1 })
	r.log.append(t, 0, record.None, []byte("bad"))
	eventually(t, func() bool { return tr.Stats().DeadLetters == 2 })
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	wantDead(t, r, place{0, 2})
}

// TestLettersModel kills tierers at random calls of both stores while formats and schemas change between runs.
// Whatever happens, each record is in one of the tables (I3, I7).
func TestLettersModel(t *testing.T) {
	seed := seedtest.New(t)
	for i := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, i))
		r := newRig(t, 2)
		r.cfg.MaxRows, r.cfg.MemoryBudget, r.cfg.StopTimeout = 10, 1<<20, time.Nanosecond
		columns := 0
		for range 8 {
			r.fillMixed(rng)
			if rng.IntN(4) == 0 {
				columns++
				r.addColumn(fmt.Sprintf("c%d", columns), deltalog.Boolean)
			}
			r.cfg.Format = []string{tiering.FormatJSON, tiering.FormatRaw}[rng.IntN(2)]
			r.runKilled(rng)
		}
		r.cfg.StopTimeout = 0
		r.mustRun()
		r.either()
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}

// fillMixed appends values that are good, bad, or good until a column of that name comes.
func (r *rig) fillMixed(rng *rand.Rand) {
	for p := range r.log.parts {
		var values [][]byte
		for range 5 + rng.IntN(20) {
			switch rng.IntN(4) {
			case 0:
				values = append(values, []byte("bad"))
			case 1:
				values = append(values, fmt.Appendf(nil, `{"n":%d,"c%d":"no boolean"}`, rng.IntN(100), 1+rng.IntN(3)))
			default:
				values = append(values, fmt.Appendf(nil, `{"n":%d}`, rng.IntN(100)))
			}
		}
		r.log.append(r.t, int32(p), record.None, values...)
	}
}

// runKilled runs a tierer that dies at a random call, with that call's answer lost or the call not made.
func (r *rig) runKilled(rng *rand.Rand) {
	ctx, kill := context.WithCancel(r.t.Context())
	defer kill()
	tr, done := r.open()
	var mu sync.Mutex
	left := 1 + rng.IntN(40)
	lose := rng.IntN(2) == 0
	hook := func(context.Context, mem.Call) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		left--
		switch {
		case left > 0:
			return mem.Fault{}
		case left == 0 && lose:
			kill()
			return mem.Fault{After: errors.New("killed with the answer lost")}
		}
		kill()
		return mem.Fault{Before: errors.New("killed")}
	}
	r.store.SetHook(hook)
	r.dead.SetHook(hook)
	_ = tr.Run(ctx) // an error, or nil when it had ended before
	r.store.SetHook(nil)
	r.dead.SetHook(nil)
	done()
}
