package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
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

// TestChange: columns, properties and dead letters go to who puts changes in order, and nothing but rows past it (I3).
func TestChange(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Evolve = true
	r.cfg.Properties = map[string]string{"filled": "so"}
	made := map[string][]string{}
	r.cfg.Change = func(ctx context.Context, tab *table.Table, c deltalog.Commit) (deltalog.Version, error) {
		if c.Incarnation == "" { // the group refuses it
			t.Errorf("%s does not say which table it was planned on", c.Operation)
		}
		where := "rows"
		if tab.Store == r.dead {
			where = "letters"
		}
		made[where] = append(made[where], c.Operation)
		return tab.Log.Commit(ctx, c)
	}
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"n":2,"more":1}`), []byte("bad"))
	r.mustRun()
	r.check(place{0, 2})
	if len(made["rows"]) != 2 || len(made["letters"]) != 1 {
		t.Errorf("changes %v, want the property and the column, and one of letters", made)
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

// TestEvolveBadNames: I7, fields whose names no column can have, at any depth, cost neither the run nor a row, and the
// fields beside them get their columns.
func TestEvolveBadNames(t *testing.T) {
	for _, c := range []struct{ value, columns string }{
		{`{"a b":1,"good":1}`, "good:long"},
		{`{"a,b;c=d":1,"":2,"a\nb":3,"a\tb":{"x":1},"(a)":1,"{a}":[1]}`, ""},
		{`{"a\u0000b":1,"a\u007fb":1}`, ""},
		{`{"o":{"A":1,"a":2}}`, "o:struct<A:long>"},
		{`{"o":{"x y":1}}`, ""},
		{`{"o":{"":1,"p":{"q r":1},"l":[{"s t":1,"u":[[{"S":1,"s":2}]]}]}}`, "o:struct<l:array<struct<u:array<array<struct<S:long>>>>>>"},
		{`{"l":[{"A":1,"a":2}],"L":1}`, "l:array<struct<A:long>>"},
		{`{"\u0130":1,"i":1,"\u017f":1,"\u212a":1,"k":2}`, "\u0130:long,\u212a:long"}, // one name to some, two to others
		{`{"a.b":1,"a` + "`" + `b":1}`, "a.b:long,a`b:long"},
		{`{"_change_type":"x","_commit_version":1,"_commit_timestamp":2,"_rescued":"x","_offset":7}`, ""},
	} {
		r := newRig(t, 1)
		r.cfg.Evolve = true
		r.log.append(t, 0, record.None, []byte(c.value))
		r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte(c.value))
		if s := r.mustRun(); s.Rows != 3 || s.DeadLetters != 0 || s.Restarts > 2 {
			t.Errorf("%s: stats %+v", c.value, s)
		}
		_, snap := rows(t, r.store)
		_, got, _ := strings.Cut(snap.Schema().String(), "n:long,s:string")
		if got = strings.Trim(strings.TrimSuffix(got, ">"), ","); got != c.columns {
			t.Errorf("%s: new columns are %s, want %s", c.value, got, c.columns)
		}
	}
}

// TestEvolveBadNamesMapped: a table that maps columns takes all names but empty ones.
func TestEvolveBadNamesMapped(t *testing.T) {
	r := newRig(t, 1)
	r.store = mem.New()
	cfg := tableConfig()
	cfg.Properties = map[string]string{"delta.columnMapping.mode": "name"}
	tab, err := table.Create(t.Context(), r.store, payload(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tab.Close()
	r.cfg.Evolve = true
	r.log.append(t, 0, record.None, []byte(`{"a b":1,"":2,"o":{"x,y":3,"":1}}`))
	r.mustRun()
	if got := strings.Join(scanned(t, r.store, "a b", "o"), " "); got != `1|{"x,y":3}` {
		t.Errorf("rows %s", got)
	}
}

// TestEvolveAfterNoRow: I7, a field that a dead letter or a record that the filter leaves out has first becomes a column
// when a row has it.
func TestEvolveAfterNoRow(t *testing.T) {
	for _, first := range []string{
		`{"fresh":"a","n":"not a number"}`, `{"fresh":"a","n":1} x`, `{"o":{"fresh":1},"fresh":"a","n":0}`, `{"fresh":"a","n":3,"bad":"x"}`,
	} {
		r := newRig(t, 1)
		r.cfg.Evolve = true
		r.partitioned([]string{"s"}, append(payload().Fields(), nullable("t", arrow.PrimitiveTypes.Int64))...)
		r.cfg.Transform = transform.Spec{Where: "n != `0`", Set: []transform.Field{{Property: "t", Source: "bad"}}}
		r.log.append(t, 0, record.None, []byte(first))
		r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"n":2,"fresh":"b","o":{"fresh":1}}`))
		if s := r.mustRun(); s.Rows != 2 {
			t.Errorf("%s: stats %+v", first, s)
		}
		if _, snap := rows(t, r.store); !strings.Contains(snap.Schema().String(), "fresh:string,o:struct<fresh:long>") {
			t.Errorf("%s: columns are %s", first, snap.Schema())
			continue
		}
		if got := strings.Join(scanned(t, r.store, "n", "fresh"), " "); got != "1|(null) 2|b" {
			t.Errorf("%s: rows %s", first, got)
		}
	}
}

// TestEvolveNeedsTypes: a format whose new fields nobody would notice is refused, with the reason (I8). Avro tells of them.
func TestEvolveNeedsTypes(t *testing.T) {
	for name, o := range map[string]format.Options{
		"json": {}, "json+gzip": {}, "csv": {CSV: format.CSVOptions{Fields: []string{"n", "s"}}}, "avro-container": {},
		"json-registry": {Registry: registry.Config{URLs: []string{"http://127.0.0.1:1"}}},
	} {
		f, err := format.Parse(name, o)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, 1)
		r.cfg.Evolve, r.cfg.NewDecoder = true, f.NewDecoder
		if r.cfg.Table, err = table.Open(t.Context(), r.store, tableConfig()); err != nil {
			t.Fatal(err)
		}
		_, err = tiering.Open(t.Context(), r.cfg)
		if refused := err != nil && strings.Contains(err.Error(), "plain JSON"); refused != (name != "json" && name != "avro-container") {
			t.Errorf("%s: %v", name, err)
		}
		r.cfg.Table.Close()
		f.Close()
	}
}
