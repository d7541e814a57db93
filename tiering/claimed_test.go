package tiering_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	ouravro "github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/registry"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

const systemColumns = "struct<_partition:integer,_offset:long,_timestamp:timestamp,_key:binary,_headers:array<struct<key:string,value:binary>>,_value:binary,"

// TestValuesLeaveSystemColumnsAlone: fields with the names of the columns that the log fills change none of these, neither their
// types nor what is in them, whether a schema declares them or a value shows them; the table goes on (I3, I7).
func TestValuesLeaveSystemColumnsAlone(t *testing.T) {
	t.Run("declared", func(t *testing.T) {
		v := schemas{registry.Avro, []string{
			`{"type":"record","name":"R","fields":[{"name":"i","type":"int"}]}`,
			`{"type":"record","name":"R","fields":[{"name":"i","type":"long"},{"name":"_partition","type":"long"},{"name":"_Offset","type":"int"},{"name":"_timestamp","type":"string"},
				{"name":"_headers","type":{"type":"array","items":{"type":"record","name":"H","fields":[{"name":"zz","type":"string"}]}}}]}`}}
		r := newRig(t, 1)
		r.partitioned(nil, nullable("i", arrow.PrimitiveTypes.Int32))
		r.cfg.NewDecoder, r.cfg.Evolve, r.cfg.Widen = ouravro.Confluent(v, "").NewDecoder, true, true
		r.log.append(t, 0, record.None, v.avroValue(t, 1, map[string]any{"i": int32(1)}), v.avroValue(t, 2, map[string]any{
			"i": int64(2), "_partition": int64(9), "_Offset": int32(9), "_timestamp": "x", "_headers": []any{map[string]any{"zz": "x"}}}))
		r.leftAlone(systemColumns + "i:long>")
	})
	t.Run("shown", func(t *testing.T) {
		r := newRig(t, 1)
		r.partitioned(nil, nullable("i", arrow.PrimitiveTypes.Int32))
		r.cfg.Evolve, r.cfg.Widen = true, true
		r.log.append(t, 0, record.None, []byte(`{"i":1}`), []byte(`{"i":5000000000,"fresh":1,"_partition":5000000000,"_offset":"x","_topic":"x","_headers":[{"zz":"1"}]}`))
		r.leftAlone(systemColumns + "i:long,fresh:long>")
	})
}

// leftAlone runs to the end, and once more with another record of the second kind.
func (r *rig) leftAlone(schema string) {
	r.t.Helper()
	for n := 2; n <= 3; n++ {
		if s := r.mustRun(); s.DeadLetters != 0 {
			r.t.Errorf("stats %+v", s)
		}
		_, snap := rows(r.t, r.store)
		if got := snap.Schema().String(); got != schema {
			r.t.Errorf("columns are %s, want %s", got, schema)
		}
		r.check()
		b, err := record.ReadBatch(r.log.parts[0].batches[0])
		if err != nil {
			r.t.Fatal(err)
		}
		var it record.Iterator
		if err := it.Reset(b); err != nil {
			r.t.Fatal(err)
		}
		for it.Next() {
			if it.Record().Offset == 1 && n == 2 {
				r.log.append(r.t, 0, record.None, slices.Clone(it.Record().Value))
			}
		}
	}
}

// A system column whose type somebody changes while the table is open ends the run with an error that names it.
func TestChangedSystemColumn(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`))
	tr, done := r.open()
	defer done()
	tab, err := table.Open(t.Context(), r.store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schema := &deltalog.StructType{Fields: slices.Clone(snap.Schema().Fields)}
	schema.Fields[slices.IndexFunc(schema.Fields, func(f deltalog.StructField) bool { return f.Name == "_partition" })].Type = deltalog.Long
	c, err := snap.Alter(deltalog.Change{Schema: schema, Set: map[string]string{"delta.enableTypeWidening": "true"}})
	if err == nil {
		_, err = tab.Log.Commit(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	var unsupported *deltalog.UnsupportedError
	if err := tr.Run(t.Context()); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "column _partition of type int64") {
		t.Errorf("Run = %v", err)
	}
	again, err := table.Open(t.Context(), r.store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, asItIs := range []bool{false, true} {
		cfg := r.cfg
		cfg.Table, cfg.AsItIs = again, asItIs
		var spoilt *table.SpoiltError
		if _, err := tiering.Open(t.Context(), cfg); !errors.As(err, &spoilt) || !strings.Contains(err.Error(), "_partition is of type int64") {
			t.Errorf("Open of it afterwards, as it is %v: %v", asItIs, err)
		}
	}
}

// A table that has no system columns gets none by fields of such names: it would be taken for one whose rows have places (I8).
func TestEvolveMakesNoSystemColumns(t *testing.T) {
	r := newRig(t, 1)
	r.store = mem.New()
	foreignTable(t, r.store, payload())
	r.cfg.AsItIs, r.cfg.Evolve = true, true
	r.log.append(t, 0, record.None, []byte(`{"n":1,"fresh":true,"_partition":3,"_offset":70000000000,"_Key":"k","_headers":[],"_value":"v","_timestamp":"2026-01-01T00:00:00Z","in":{"_offset":1}}`))
	for range 2 {
		if s := r.mustRun(); s.DeadLetters != 0 {
			t.Errorf("stats %+v", s)
		}
	}
	tab, err := table.Open(t.Context(), r.store, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := snap.Schema().String(), "struct<n:long,s:string,fresh:boolean,in:struct<_offset:long>>"; got != want || tab.Names.Ordered() {
		t.Errorf("columns %s, want %s", got, want)
	}
}

// TestFollowAmbiguousPath: a field of a struct and a column whose name has a dot in it may have the same path; such a column
// keeps its type, and nothing begins again for ever.
func TestFollowAmbiguousPath(t *testing.T) {
	v := schemas{registry.Avro, []string{
		`{"type":"record","name":"R","fields":[{"name":"i","type":"long"},{"name":"a","type":{"type":"record","name":"A","fields":[{"name":"b","type":"long"}]}}]}`}}
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			columns := []arrow.Field{nullable("i", arrow.PrimitiveTypes.Int32), nullable("a.b", arrow.BinaryTypes.String), nullable("a", arrow.StructOf(nullable("b", arrow.PrimitiveTypes.Int32)))}
			if !first {
				columns[1], columns[2] = columns[2], columns[1]
			}
			r := newRig(t, 1)
			r.partitioned(nil, columns...)
			r.cfg.NewDecoder, r.cfg.Widen = ouravro.Confluent(v, "").NewDecoder, true
			r.log.append(t, 0, record.None, v.avroValue(t, 1, map[string]any{"i": int64(5_000_000_000), "a": map[string]any{"b": int64(2)}}))
			if s := r.mustRun(); s.Rows != 1 || s.DeadLetters != 0 {
				t.Errorf("stats %+v", s)
			}
			if got := strings.Join(scanned(t, r.store, "i", "a"), " "); got != `5000000000|{"b":2}` {
				t.Errorf("rows %s", got)
			}
		})
	}
}
