package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestEvolve: new fields become columns before the first record that has them is a row; each record stays one row (I3).
func TestEvolve(t *testing.T) {
	r := newRig(t, 2)
	r.cfg.Evolve = true
	r.cfg.Transform = transform.Spec{Set: []transform.Field{{Property: "day", Source: "kafka.timestamp", Type: "date"}}}
	r.fill(3, 2)
	r.log.append(t, 0, record.None, []byte(`{"n":1,"o":{"x":1}}`), []byte(`{"n":2,"o":{"x":2,"y":"late"},"N":5,"none":null}`), []byte(`{"o":{"z":[{"q":1}]}}`))
	r.log.append(t, 0, record.Snappy, []byte(`{"o":{"z":[{"q":1,"r":1.5}]}}`), []byte(`{"n":"not a number","more":1}`), []byte(`{"more":"text"}`))
	if s := r.mustRun(); s.Rows != 11 || s.DeadLetters != 1 {
		t.Errorf("stats %+v", s)
	}
	r.check(place{0, 7})
	got := scanned(t, r.store, "_partition", "_offset", "n", "o", "more")
	want := `0|3|1|{"x":1,"y":null,"z":null}|(null) 0|4|2|{"x":2,"y":"late","z":null}|(null) 0|5|(null)|{"x":null,"y":null,"z":[{"q":1,"r":null}]}|(null) ` +
		`0|6|(null)|{"x":null,"y":null,"z":[{"q":1,"r":1.5}]}|(null) 0|8|(null)|(null)|text`
	if s := strings.Join(got[3:8], " "); s != want {
		t.Errorf("rows are\n%s\nwant\n%s", s, want)
	}
	_, snap := rows(t, r.store)
	if s := snap.Schema().String(); !strings.Contains(s, "day:date") || strings.Contains(s, "N:") || strings.Contains(s, "none") {
		t.Errorf("columns are %s", s)
	}
}

// TestEvolveSurprise: I8, keys without an end do not make the table grow without an end.
func TestEvolveSurprise(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Evolve = true
	for i := range 30 {
		var batch [][]byte
		for j := range 100 {
			batch = append(batch, fmt.Appendf(nil, `{"n":%d,"key%d":1,"other%d":{"x":1}}`, i, i*100+j, j))
		}
		r.log.append(t, 0, record.None, batch...)
	}
	if s := r.mustRun(); s.Rows != 3000 || s.DeadLetters != 0 {
		t.Errorf("stats %+v", s)
	}
	r.check()
	if _, snap := rows(t, r.store); len(snap.Schema().Fields) > 1000 || len(snap.Schema().Fields) < 200 {
		t.Errorf("%d columns", len(snap.Schema().Fields))
	}
}

// TestEvolveFaults proves I3 over a schema change in a table with partition columns: whatever one call of the store fails
// or loses its answer, the table comes to the same rows and columns.
func TestEvolveFaults(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for k := int64(1); ; k++ {
			r := newRig(t, 1)
			r.partitioned([]string{"s"}, payload().Fields()...)
			r.cfg.Evolve = true
			r.cfg.MaxRows = 2
			r.log.append(t, 0, record.None, []byte(`{"n":1,"s":"x"}`), []byte(`{"n":2,"s":"y/z"}`))
			r.log.append(t, 0, record.None, []byte(`{"n":3,"s":"x","fresh":"a"}`), []byte(`{"n":4,"fresh":"b"}`))
			tr, done := r.open()
			first := r.store.Calls()
			hit := false
			r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				if c.N != first+k {
					return mem.Fault{}
				}
				hit = true
				if err := fmt.Errorf("injected at call %d: %s %s", c.N, c.Op, c.Key); lose {
					return mem.Fault{After: err}
				} else {
					return mem.Fault{Before: err}
				}
			})
			err := tr.Run(t.Context())
			done()
			r.store.SetHook(nil)
			got := strings.Join(scanned(t, r.store, "n", "s", "fresh"), " ")
			if err != nil || got != "1|x|(null) 2|y/z|(null) 3|x|a 4|(null)|b" {
				t.Fatalf("call %d, lose %v: %v, rows %s", k, lose, err, got)
			}
			r.check()
			if !hit {
				if k < 10 {
					t.Errorf("only %d calls", k)
				}
				break
			}
		}
	}
}

// TestEvolveStops: a stop between the change of the schema and the rows leaves a column that no row fills yet, and the
// next run goes on from there (I3).
func TestEvolveStops(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Evolve = true
	r.cfg.StopTimeout = time.Nanosecond // a crash, not a stop
	r.log.append(t, 0, record.None, []byte(`{"n":3,"fresh":"a"}`))
	ctx, kill := context.WithCancel(t.Context())
	tr, done := r.open()
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpCreate { // of the first data file, behind the change
			kill()
			return mem.Fault{Before: errors.New("killed")}
		}
		return mem.Fault{}
	})
	_ = tr.Run(ctx) // an error, or nil: it was killed
	r.store.SetHook(nil)
	kill()
	done()
	if got := scanned(t, r.store, "n", "fresh"); len(got) != 0 {
		t.Errorf("rows %q before the next run", got)
	}
	r.cfg.StopTimeout = 0
	r.mustRun()
	r.check()
	if got := strings.Join(scanned(t, r.store, "n", "fresh"), " "); got != "3|a" {
		t.Errorf("rows %s", got)
	}
}
