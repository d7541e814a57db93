package tiering_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// withLetters is a rig whose topic has good records, and bad ones: "quoted" numbers that can be mended, and lost ones.
func withLetters(t *testing.T) (r *rig, mendable, lost int) {
	r = newRig(t, 3)
	for i := range 90 {
		value := fmt.Sprintf(`{"n":%d,"s":"x"}`, i)
		switch {
		case i%9 == 4:
			value, mendable = fmt.Sprintf(`{"n":"no. %d"}`, i), mendable+1
		case i%15 == 7:
			value, lost = "no JSON", lost+1
		}
		r.log.append(t, int32(i%3), record.None, []byte(value))
	}
	r.mustRun()
	return r, mendable, lost
}

// mend turns "no. 4" into 4.
func mend(_ context.Context, _ int32, rec *record.Record) (bool, error) {
	rec.Value = bytes.ReplaceAll(bytes.ReplaceAll(rec.Value, []byte(`"no. `), nil), []byte(`"}`), []byte("}"))
	return false, nil
}

// replay opens both tables, as a process of its own does, and replays.
func (r *rig) replay(ctx context.Context, cfg tiering.ReplayConfig) (tiering.ReplayReport, error) {
	r.t.Helper()
	var err error
	if cfg.Table, err = table.Open(ctx, r.store, tableConfig()); err != nil {
		return tiering.ReplayReport{}, err
	}
	defer func() { _ = cfg.Table.Close() }()
	if cfg.Letters, err = table.Open(ctx, r.dead, tableConfig()); err != nil {
		return tiering.ReplayReport{}, err
	}
	defer func() { _ = cfg.Letters.Close() }()
	cfg.Topic = "orders"
	return tiering.ReplayLetters(ctx, cfg)
}

// Letters that fit now become rows in their places, the others stay; a dry run changes nothing, and a second one
// finds nothing to do (I3, I7).
func TestReplayLetters(t *testing.T) {
	r, mendable, lost := withLetters(t)
	before, _ := rows(t, r.store)
	report, err := r.replay(t.Context(), tiering.ReplayConfig{Change: mend, DryRun: true})
	if err != nil || report.Replayed != int64(mendable) || report.Refused != int64(lost) {
		t.Fatalf("dry run: %+v, %v", report, err)
	}
	if same, _ := rows(t, r.store); len(same) != len(before) {
		t.Error("a dry run has written rows")
	}
	if report, err = r.replay(t.Context(), tiering.ReplayConfig{Change: mend}); err != nil || report.Replayed != int64(mendable) {
		t.Fatalf("%+v, %v", report, err)
	}
	after, _ := rows(t, r.store)
	letters, _ := rows(t, r.dead)
	if len(after) != len(before)+mendable || len(letters) != lost {
		t.Fatalf("%d rows and %d letters, want %d and %d", len(after), len(letters), len(before)+mendable, lost)
	}
	if row := after[place{1, 1}]; row["n"] != "4" || row["_value"] != `{"n":"no. 4"}` {
		t.Errorf("the mended row is %v", row)
	}
	r.either()
	if report, err = r.replay(t.Context(), tiering.ReplayConfig{Change: mend}); err != nil || report.Replayed+report.Already > 0 || len(report.Reasons) == 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
	drop := func(context.Context, int32, *record.Record) (bool, error) { return true, nil }
	if report, err = r.replay(t.Context(), tiering.ReplayConfig{Change: drop}); err != nil || report.Dropped != int64(lost) {
		t.Errorf("drop: %+v, %v", report, err)
	}
	if letters, _ = rows(t, r.dead); len(letters) != 0 {
		t.Errorf("%d letters are left", len(letters))
	}
}

// A damaged batch is filed at an offset that may be a row: its bytes stay letters all the same, until they are dropped (I7).
func TestReplayKeepsDamagedBatches(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"n":2}`))
	r.log.update(0, func(p *fakePartition) { // bytes behind the last record
		raw := append(bytes.Clone(p.batches[0]), 1, 2, 3)
		binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
		p.batches[0] = raw
	})
	if s := r.mustRun(); s.Rows != 2 || s.DeadLetters != 1 {
		t.Fatalf("%d rows, %d letters", s.Rows, s.DeadLetters)
	}
	for _, change := range []func(context.Context, int32, *record.Record) (bool, error){nil, mend} {
		report, err := r.replay(t.Context(), tiering.ReplayConfig{Change: change})
		if err != nil || report.Refused != 1 || report.Already+report.Replayed > 0 {
			t.Errorf("%+v, %v", report, err)
		}
		wantDead(t, r, place{0, 1})
	}
	drop := func(context.Context, int32, *record.Record) (bool, error) { return true, nil }
	if report, err := r.replay(t.Context(), tiering.ReplayConfig{Change: drop}); err != nil || report.Dropped != 1 {
		t.Errorf("drop: %+v, %v", report, err)
	}
	wantDead(t, r)
	if got, _ := rows(t, r.store); len(got) != 2 {
		t.Errorf("rows are %v", got)
	}
}

// A row made of a letter is what the record would have been: with the transforms that the table records (I4).
func TestReplayLettersWithTransforms(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Transform = transform.Spec{Set: []transform.Field{{Property: "s", Source: "join('', ['t', to_string(n)])"}}}
	r.log.append(t, 0, record.None, []byte(`{"n":3}`), []byte(`{"n":"no. 4"}`))
	r.mustRun()
	report, err := r.replay(t.Context(), tiering.ReplayConfig{Change: mend})
	if err != nil || report.Replayed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	got, _ := rows(t, r.store)
	if got[place{0, 0}]["s"] != "t3" || got[place{0, 1}]["s"] != "t4" || got[place{0, 1}]["_value"] != `{"n":"no. 4"}` {
		t.Errorf("rows are %v", got)
	}
}

// Whichever store call fails, before or after it took effect, a replay that is made again brings every letter into the
// table once, and none is lost (I3, I7).
func TestReplayLettersFaults(t *testing.T) {
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			if k > 200 {
				t.Fatal("the replay never came through clean")
			}
			r, mendable, lost := withLetters(t)
			var calls atomic.Int64 // a replay reads with several goroutines
			var hit atomic.Bool
			hook := func(context.Context, mem.Call) mem.Fault {
				if calls.Add(1) != int64(k) {
					return mem.Fault{}
				}
				hit.Store(true)
				if after {
					return mem.Fault{After: errors.New("injected")}
				}
				return mem.Fault{Before: errors.New("injected")}
			}
			r.store.SetHook(hook)
			r.dead.SetHook(hook)
			_, _ = r.replay(t.Context(), tiering.ReplayConfig{Change: mend}) // may fail: it is made again
			r.store.SetHook(nil)
			r.dead.SetHook(nil)
			if _, err := r.replay(t.Context(), tiering.ReplayConfig{Change: mend}); err != nil {
				t.Fatalf("fault %d: %v", k, err)
			}
			all, _ := rows(t, r.store) // fails when a row is there twice
			letters, _ := rows(t, r.dead)
			if len(all) != 90-lost || len(letters) != lost || mendable == 0 {
				t.Fatalf("fault %d: %d rows and %d letters, want %d and %d", k, len(all), len(letters), 90-lost, lost)
			}
			if !hit.Load() {
				break
			}
		}
	}
}
