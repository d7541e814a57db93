package table

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

var innerNames = Names{Partition: "from.at.partition", Offset: "from.at.offset"}

// innerTable makes a table n int, from struct<topic string, at struct<offset long, partition int>>, of a file for each text of rows,
// which are "n partition offset", or "n" alone where the struct is null. Each row group has two rows. In the file the structs
// and the offset are required, so that nothing but the struct around it tells a null from a zero.
func innerTable(t *testing.T, mode string, stats bool, files ...string) *mem.Store {
	t.Helper()
	physical := func(name string) string {
		if mode == "" {
			return name
		}
		return "col-" + name
	}
	field := func(name string, typ arrow.DataType, nullable bool) arrow.Field {
		f := arrow.Field{Name: physical(name), Type: typ, Nullable: nullable}
		if mode == "id" {
			f.Metadata = arrow.NewMetadata([]string{fieldID}, []string{fmt.Sprint(slices.Index([]string{"n", "from", "topic", "at", "offset", "partition"}, name) + 1)})
		}
		return f
	}
	p := arrow.PrimitiveTypes
	at := arrow.StructOf(field("offset", p.Int64, false), field("partition", p.Int32, false))
	schema := arrow.NewSchema([]arrow.Field{field("from", arrow.StructOf(field("topic", arrow.BinaryTypes.String, true), field("at", at, false)), true), field("n", p.Int32, true)}, nil)
	atJSON := mapped("at", "col-at", 4, structType(mapped("offset", "col-offset", 5, "long"), mapped("partition", "col-partition", 6, "integer")))
	delta := structType(mapped("n", "col-n", 1, "integer"), mapped("from", "col-from", 2, structType(mapped("topic", "col-topic", 3, "string"), atJSON)))
	log := fmt.Sprintf(`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}
{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{"delta.columnMapping.mode":%q}}}
`, delta, mode)
	store := mem.New()
	put := func(key string, data []byte) {
		if err := store.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range files {
		var rows []string
		low, high := [2]int{1 << 30, 1 << 30}, [2]int{-1, -1}
		for line := range strings.SplitSeq(text, ",") {
			var n, part, off int
			if got, _ := fmt.Sscan(line, &n, &part, &off); got == 1 {
				rows = append(rows, fmt.Sprintf(`{%q:%d,%q:null}`, physical("n"), n, physical("from")))
				continue
			}
			rows = append(rows, fmt.Sprintf(`{%q:%d,%q:{%q:"t",%q:{%q:%d,%q:%d}}}`, physical("n"), n, physical("from"), physical("topic"), physical("at"), physical("partition"), part, physical("offset"), off))
			for j, v := range []int{part, off} {
				low[j], high[j] = min(low[j], v), max(high[j], v)
			}
		}
		rb, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		w, err := pqarrow.NewFileWriter(schema, &file, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(2)), pqarrow.DefaultWriterProps())
		if err == nil {
			err = w.Write(rb)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		said := "{}"
		if stats {
			limits := func(l [2]int) string {
				return fmt.Sprintf(`{%q:{%q:{%q:%d,%q:%d}}}`, physical("from"), physical("at"), physical("partition"), l[0], physical("offset"), l[1])
			}
			said = fmt.Sprintf(`{"numRecords":%d,"minValues":%s,"maxValues":%s}`, len(rows), limits(low), limits(high))
		}
		log += fmt.Sprintf(`{"add":{"path":"f%d.parquet","partitionValues":{},"size":%d,"modificationTime":1,"dataChange":true,"stats":%q}}`+"\n", i, file.Len(), said)
		put(fmt.Sprintf("f%d.parquet", i), file.Bytes())
	}
	put("_delta_log/00000000000000000000.json", []byte(log))
	return store
}

// Places of records that are fields of structs are places like others: rows come in their order, once each, files, row groups
// and rows outside of the ranges are left out, and rows whose struct is null have no place (I4).
func TestInnerColumns(t *testing.T) {
	for _, mode := range []string{"", "name", "id"} {
		for _, stats := range []bool{true, false} {
			store := innerTable(t, mode, stats, "1 0 0,2 0 1,90,3 0 4,4 1 0,5 1 7", "6 0 3,7 0 2,8 1 2", "9 2 5")
			tb, err := Open(t.Context(), store, Config{Names: innerNames})
			if err != nil {
				t.Fatal(err)
			}
			if schema, err := tb.Schema(tb.current()); err != nil || !slices.Equal(fieldNamesOf(schema), []string{"n", "from", "from.at.partition", "from.at.offset"}) {
				t.Fatal(schema, err)
			}
			for _, c := range []struct {
				ranges []Range
				want   string
			}{
				{nil, "1 0 0, 2 0 1, 7 0 2, 6 0 3, 3 0 4, 4 1 0, 8 1 2, 5 1 7, 9 2 5, 90 (null) (null)"},
				{[]Range{{0, 1, 4}, {1, 3, 8}}, "2 0 1, 7 0 2, 6 0 3, 5 1 7"},
				{[]Range{{2, 0, 9}}, "9 2 5"},
				{[]Range{{0, 0, 1}}, "1 0 0"}, // and not the null
			} {
				var got []string
				for rb, err := range tb.Scan(t.Context(), tb.current(), ScanOptions{Ranges: c.ranges, Columns: []string{"n", "from.at.partition", "from.at.offset"}}) {
					if err != nil {
						t.Fatal(mode, err)
					}
					for i := range int(rb.NumRows()) {
						got = append(got, rb.Column(0).ValueStr(i)+" "+rb.Column(1).ValueStr(i)+" "+rb.Column(2).ValueStr(i))
					}
					rb.Release()
				}
				if text := strings.Join(got, ", "); text != c.want {
					t.Errorf("mode %q, statistics %v, ranges %v:\n%s, want\n%s", mode, stats, c.ranges, text, c.want)
				}
			}
			files := 1
			if !stats {
				files = 3
			}
			if p, err := tb.Plan(tb.current(), []Range{{2, 0, 9}}); err != nil || len(p.Files) != files {
				t.Errorf("mode %q, statistics %v: %d files, want %d, %v", mode, stats, len(p.Files), files, err)
			}
			for f := range tb.current().Files() {
				chosen, err := tb.Choose(t.Context(), tb.current(), f, ScanOptions{Ranges: []Range{{1, 7, 8}}})
				if want := 1; f.Path == "f0.parquet" && (err != nil || mode != "id" && chosen.Groups != want || chosen.OfGroups != 3) {
					t.Errorf("mode %q: %+v of the first file, want %d row groups, %v", mode, chosen, want, err)
				}
			}
			if w, err := tb.NewFileWriter(t.Context(), WriterOptions{}); err == nil {
				t.Errorf("a file of %v can be written", w.Schema())
			}
			if err := tb.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A table where the fields of a column are not what was said of them is not opened; a column that has a dotted name itself is meant
// before any field.
func TestInnerColumnsThatDoNotFit(t *testing.T) {
	store := innerTable(t, "", true, "1 0 0")
	for _, n := range []Names{
		{Partition: "from.at.offset", Offset: "from.at.partition"}, {Partition: "from.at.partition", Offset: "from.at"},
		{Partition: "from.partition", Offset: "from.at.offset"}, {Partition: "from.at.partition.x", Offset: "from.at.offset"},
		{Partition: "from.at.partition", Offset: "from.at."}, {Partition: ".", Offset: "from.at.offset"},
	} {
		if tb, err := Open(t.Context(), store, Config{Names: n}); err == nil {
			t.Errorf("%+v is taken for %+v", n, tb.Names)
		} else if !strings.Contains(err.Error(), "no column") {
			t.Error(err)
		}
	}
	p := arrow.PrimitiveTypes
	fields := []arrow.Field{{Name: "a", Type: arrow.StructOf(arrow.Field{Name: "b", Type: p.Int32}, arrow.Field{Name: "b.c", Type: p.Int8},
		arrow.Field{Name: "d", Type: arrow.StructOf(arrow.Field{Name: "b", Type: p.Int16})})}, {Name: "a.b", Type: p.Int64}}
	for name, want := range map[string][]int{"a.b": {1}, "a.b.c": {0, 1}, "a.d.b": {0, 2, 0}, "a.d": {0, 2}, "b": nil, "a.": nil, "": nil, "a.b.d": nil} {
		if got := wayTo(fields, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// What is around an inner column is made of it for rows of the log.
func TestAroundInnerColumns(t *testing.T) {
	tb, err := Open(t.Context(), innerTable(t, "", true, "1 0 0"), Config{Names: innerNames})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	schema, err := tb.Schema(tb.current())
	if err != nil {
		t.Fatal(err)
	}
	part, off := array.NewInt32Builder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	part.AppendValues([]int32{3, 4}, nil)
	off.AppendValues([]int64{30, 40}, nil)
	of := map[string]arrow.Array{"from.at.partition": part.NewArray(), "from.at.offset": off.NewArray()}
	if n, from := schema.Field(0), schema.Field(1); tb.HoldsInner(n) || !tb.HoldsInner(from) {
		t.Error("which columns hold others is not known")
	}
	a := tb.Around(schema.Field(1), 2, func(name string) arrow.Array { return of[name] })
	defer a.Release()
	if got := a.String(); !arrow.TypeEqual(a.DataType(), schema.Field(1).Type) || a.ValueStr(1) != `{"at":{"offset":40,"partition":4},"topic":null}` {
		t.Errorf("%s %s", got, a.ValueStr(1))
	}
}
