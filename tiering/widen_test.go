package tiering_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// narrowColumns are those of a table that values grow out of.
func narrowColumns() []arrow.Field {
	column := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	return []arrow.Field{
		column("b", arrow.PrimitiveTypes.Int8), column("i", arrow.PrimitiveTypes.Int32), column("l", arrow.PrimitiveTypes.Int64),
		column("f", arrow.PrimitiveTypes.Float32), column("d", arrow.FixedWidthTypes.Date32), column("c", &arrow.Decimal128Type{Precision: 5, Scale: 2}),
		column("o", arrow.StructOf(column("i", arrow.PrimitiveTypes.Int32))),
	}
}

// TestWiden: a value that its column has no room for makes the column wider, before the first row that has it, and rows
// that are there keep their values (I3, I7). What no wider type takes is a dead letter as before.
func TestWiden(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned(nil, narrowColumns()...)
	r.cfg.Widen = true
	old := []byte(`{"b":1,"i":2,"l":3,"f":0.5,"d":"2026-01-02","c":1.25,"o":{"i":4}}`)
	r.log.append(t, 0, record.None, old)
	r.mustRun()
	r.log.append(t, 0, record.None, old, []byte(`{"b":300,"i":3000000000,"f":1e300,"d":"2026-01-02T03:04:05.5","c":12345.678,"o":{"i":5000000000}}`),
		[]byte(`{"b":"70000"}`), []byte(`{"l":9300000000000000000}`), []byte(`{"l":1.5}`), []byte(`{"i":"words"}`), []byte(`{"c":1e40}`), []byte(`{"d":"2026-01-02T03:04:05Z"}`))
	if s := r.mustRun(); s.Rows != 4 || s.DeadLetters != 4 {
		t.Errorf("stats %+v", s)
	}
	got := scanned(t, r.store, "_offset", "b", "i", "l", "f", "d", "c", "o")
	for _, row := range got {
		t.Log(row)
	}
	_, snap := rows(t, r.store)
	if s := snap.Schema().String(); !strings.Contains(s, "b:integer") || !strings.Contains(s, "i:long") || !strings.Contains(s, "l:long") || !strings.Contains(s, "f:double") ||
		!strings.Contains(s, "d:timestamp_ntz") || !strings.Contains(s, "c:decimal(8,3)") {
		t.Errorf("columns are %s", s)
	}
	if s := strings.Join(got[:3], " "); s != `0|1|2|3|0.5|2026-01-02T00:00:00|1.25|{"i":4} 1|1|2|3|0.5|2026-01-02T00:00:00|1.25|{"i":4} `+
		`2|300|3000000000|(null)|1e+300|2026-01-02T03:04:05.5|12345.678|{"i":5000000000}` {
		t.Errorf("rows are\n%s", s)
	}
}

// A table whose schema is written in another way than ours, with blanks, is filled at the first try: what is recorded in it
// before the first row leaves that text as it is.
func TestSchemaOfOthersStays(t *testing.T) {
	r := newRig(t, 1)
	const first = "_delta_log/00000000000000000000.json"
	raw, err := r.store.Get(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), `\"nullable\":true`, `\"nullable\" : true`)
	if text == string(raw) {
		t.Fatalf("the table is made by %s", raw)
	}
	if err := r.store.Put(t.Context(), first, []byte(text)); err != nil {
		t.Fatal(err)
	}
	r.cfg.Properties = map[string]string{"ledgerlake.format.orders": "json"}
	r.fill(10, 5)
	if s := r.mustRun(); s.Restarts != 0 || s.Rows != 10 {
		t.Errorf("%+v", s)
	}
	if _, snap := rows(t, r.store); !strings.Contains(snap.Metadata().SchemaString, `"nullable" : true`) || snap.Metadata().Configuration["ledgerlake.format.orders"] != "json" {
		t.Errorf("the schema is %s", snap.Metadata().SchemaString)
	}
}

// Without the flag nothing is widened, and whole numbers and fractions of a column of int decide for a type that holds both.
func TestWidenByRequest(t *testing.T) {
	for _, widen := range []bool{false, true} {
		r := newRig(t, 1)
		r.partitioned(nil, narrowColumns()...)
		r.cfg.Widen = widen
		r.log.append(t, 0, record.None, []byte(`{"i":1}`), []byte(`{"i":1.5}`), []byte(`{"i":7}`))
		if s := r.mustRun(); widen && s.DeadLetters != 0 || !widen && s.DeadLetters != 1 {
			t.Errorf("widen %v: %d dead letters", widen, s.DeadLetters)
		}
		want := "1|1.5|7"
		if !widen {
			want = "1|7"
		}
		if got := strings.Join(scanned(t, r.store, "i"), "|"); got != want {
			t.Errorf("widen %v: %s, want %s", widen, got, want)
		}
		if _, snap := rows(t, r.store); widen != (len(snap.ReaderFeatures()) > 0) {
			t.Errorf("widen %v: features %v", widen, snap.ReaderFeatures())
		}
	}
}

// TestWidenFaults proves I3 over the change of a type: whatever one call of the store fails or loses its answer, the table
// comes to the same rows.
func TestWidenFaults(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for k := int64(1); ; k++ {
			r := newRig(t, 1)
			r.partitioned(nil, narrowColumns()...)
			r.cfg.Widen, r.cfg.MaxRows = true, 2
			r.log.append(t, 0, record.None, []byte(`{"i":1}`), []byte(`{"i":2}`))
			r.log.append(t, 0, record.None, []byte(`{"i":3}`), []byte(`{"i":4000000000}`), []byte(`{"o":{"i":5000000000}}`))
			tr, done := r.open()
			first := r.store.Calls()
			hit := false
			r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				if c.N != first+k {
					return mem.Fault{}
				}
				hit = true
				err := fmt.Errorf("injected at call %d: %s %s", c.N, c.Op, c.Key)
				if lose {
					return mem.Fault{After: err}
				}
				return mem.Fault{Before: err}
			})
			err := tr.Run(t.Context())
			done()
			r.store.SetHook(nil)
			if err != nil {
				r.mustRun() // a fault of the last commit ends the run; the next one goes on
			}
			if got := strings.Join(scanned(t, r.store, "i"), " "); got != "1 2 3 4000000000 (null)" {
				t.Fatalf("call %d, lost %v: rows %s (%v)", k, lose, got, err)
			}
			if !hit {
				if k < 10 {
					t.Fatalf("only %d calls: nothing is proven", k)
				}
				break
			}
		}
	}
}

// A column that is a partition column, or filled by a transform, stays as it is.
func TestWidenLeavesOthersAlone(t *testing.T) {
	r := newRig(t, 1)
	r.partitioned([]string{"i"}, narrowColumns()...)
	r.cfg.Widen = true
	r.log.append(t, 0, record.None, []byte(`{"i":1}`), []byte(`{"i":4000000000}`))
	if s := r.mustRun(); s.DeadLetters != 1 {
		t.Errorf("stats %+v", s)
	}
	if _, snap := rows(t, r.store); !strings.Contains(snap.Schema().String(), "i:integer") {
		t.Errorf("columns %s", snap.Schema())
	}
	r = newRig(t, 1)
	r.partitioned(nil, narrowColumns()...)
	r.cfg.Widen, r.cfg.Transform = true, transform.Spec{Set: []transform.Field{{Property: "i", Source: "x"}}}
	r.log.append(t, 0, record.None, []byte(`{"i":1,"x":4000000000}`))
	if s := r.mustRun(); s.DeadLetters != 1 {
		t.Errorf("a transform's column: stats %+v", s)
	}
}

// TestWidenLeavesConstrainedAlone: I7, the type of a column decides whether a rule for rows can be evaluated, so a column
// that a rule looks at stays as it is, and the values that it has no room for are dead letters; other columns get wider.
func TestWidenLeavesConstrainedAlone(t *testing.T) {
	for _, c := range []struct{ rule, good, bad, other, keeps string }{
		{"n div 10 >= 0", `{"n":1}`, `{"n":1.5}`, `{"n":7,"m":3000000000}`, "n:integer"},
		{"N div 10 >= 0", `{"n":1}`, `{"n":3000000000}`, `{"n":7,"m":3000000000}`, "n:integer"},
		{"date_trunc('month', d) >= date_trunc('month', d)", `{"d":"2020-01-02"}`, `{"d":"2020-01-02T03:04:05"}`, `{"d":"2020-01-03","m":3000000000}`, "d:date"},
	} {
		r := newRig(t, 1)
		r.partitioned(nil, nullable("n", arrow.PrimitiveTypes.Int32), nullable("d", arrow.FixedWidthTypes.Date32), nullable("m", arrow.PrimitiveTypes.Int32))
		r.constrained(c.rule)
		r.cfg.Widen = true
		r.log.append(t, 0, record.None, []byte(c.good), []byte(c.bad), []byte(c.other))
		s, err := r.run(t.Context())
		if err != nil || s.Rows != 2 || s.DeadLetters != 1 {
			t.Errorf("%s: stats %+v, %v", c.rule, s, err)
		}
		r.log.append(t, 0, record.None, []byte(c.bad), []byte(c.good)) // after a restart too
		if s, err := r.run(t.Context()); err != nil || s.Rows != 1 || s.DeadLetters != 1 {
			t.Errorf("%s: stats after a restart %+v, %v", c.rule, s, err)
		}
		if _, snap := rows(t, r.store); !strings.Contains(snap.Schema().String(), c.keeps) || !strings.Contains(snap.Schema().String(), "m:long") {
			t.Errorf("%s: columns are %s", c.rule, snap.Schema())
		}
	}
}
