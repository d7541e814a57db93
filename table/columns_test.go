package table

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// mapped is a column of a table with column mapping, as the schema writes it.
func mapped(name, physical string, id int, typ string) string {
	if !strings.HasPrefix(typ, "{") {
		typ = `"` + typ + `"`
	}
	return fmt.Sprintf(`{"name":%q,"type":%s,"nullable":true,"metadata":{"delta.columnMapping.id":%d,"delta.columnMapping.physicalName":%q}}`, name, typ, id, physical)
}

func structType(fields ...string) string {
	return `{"type":"struct","fields":[` + strings.Join(fields, ",") + `]}`
}

func stored(name string, id int, t arrow.DataType) arrow.Field {
	f := arrow.Field{Name: name, Type: t, Nullable: true}
	if id > 0 {
		f.Metadata = arrow.NewMetadata([]string{fieldID}, []string{fmt.Sprint(id)})
	}
	return f
}

// mappedTable makes a table of one file. The schema's columns are
// _partition, _offset, nest struct<a long, b array<struct<x int, y string>>>, part string (partition column), gone int.
func mappedTable(t *testing.T, mode string, fields []arrow.Field, rows string) *Table {
	t.Helper()
	rb, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := pqarrow.NewFileWriter(rb.Schema(), &file, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Write(rb)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	inner := fmt.Sprintf(`{"type":"array","elementType":%s,"containsNull":true}`, structType(mapped("x", "col-x", 6, "integer"), mapped("y", "col-y", 7, "string")))
	schema := structType(mapped("_partition", "col-p", 1, "integer"), mapped("_offset", "col-o", 2, "long"),
		mapped("nest", "col-n", 3, structType(mapped("a", "col-a", 4, "long"), mapped("b", "col-b", 5, inner))),
		mapped("part", "col-part", 8, "string"), mapped("gone", "col-gone", 9, "integer"))
	stats := `{"numRecords":2,"minValues":{"col-p":0,"col-o":5},"maxValues":{"col-p":0,"col-o":6}}`
	log := fmt.Sprintf(`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}
{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":["part"],"configuration":{"delta.columnMapping.mode":%q}}}
{"add":{"path":"f.parquet","partitionValues":{"col-part":"here"},"size":%d,"modificationTime":1,"dataChange":true,"stats":%q}}
`, schema, mode, file.Len(), stats)
	store := mem.New()
	for key, data := range map[string][]byte{"f.parquet": file.Bytes(), "_delta_log/00000000000000000000.json": []byte(log)} {
		if err := store.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
	}
	tb, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tb.Close() })
	return tb
}

// inFile are the columns of a file, in another order than the table's and with a column of the table before a
// column was dropped and made again under the same name.
func inFile(ids bool, names ...string) []arrow.Field {
	id := func(n int) int {
		if ids {
			return n
		}
		return 0
	}
	p := arrow.PrimitiveTypes
	elem := arrow.StructOf(stored(names[5], id(7), arrow.BinaryTypes.String), stored(names[4], id(6), p.Int32))
	nest := arrow.StructOf(stored(names[3], id(5), arrow.ListOfField(stored("element", 0, elem))), stored(names[2], id(4), p.Int32))
	return []arrow.Field{stored("gone", id(99), p.Int32), stored(names[1], id(2), p.Int64), stored(names[6], id(3), nest), stored(names[0], id(1), p.Int32)}
}

func TestColumnMapping(t *testing.T) {
	physical := []string{"col-p", "col-o", "col-a", "col-b", "col-x", "col-y", "col-n"}
	// In mode id the names in a file mean nothing, even when they are those of other columns.
	misleading := []string{"col-o", "col-p", "col-b", "col-a", "col-y", "col-x", "nest"}
	row := func(n []string, offset int, a, b string) string {
		return fmt.Sprintf(`{"gone":1,%q:%d,%q:{%q:%s,%q:%s},%q:0}`, n[1], offset, n[6], n[3], b, n[2], a, n[0])
	}
	rows := func(n []string) string {
		return "[" + row(n, 5, "7", fmt.Sprintf(`[{%q:1,%q:"one"},null]`, n[4], n[5])) + "," + row(n, 6, "null", "null") + "]"
	}
	for _, c := range []struct {
		mode  string
		names []string
		ids   bool
	}{{"name", physical, false}, {"name", physical, true}, {"id", physical, true}, {"id", misleading, true}} {
		tb := mappedTable(t, c.mode, inFile(c.ids, c.names...), rows(c.names))
		var got []string
		for rb, err := range tb.Scan(t.Context(), tb.current(), ScanOptions{}) {
			if err != nil {
				t.Fatal(c.mode, err)
			}
			if names := fieldNamesOf(rb.Schema()); !slices.Equal(names, []string{"_partition", "_offset", "nest", "part", "gone"}) {
				t.Fatal(names)
			}
			got = appendText(got, rb)
		}
		want := []string{`0 | 5 | {"a":7,"b":[{"x":1,"y":"one"},null]} | here | (null) | `, `0 | 6 | {"a":null,"b":null} | here | (null) | `}
		if !slices.Equal(got, want) {
			t.Fatalf("mode %s, names %v:\n%q\nwant\n%q", c.mode, c.names, got, want)
		}
		// Statistics prune under physical names too.
		if p, err := tb.Plan(tb.current(), []Range{{0, 7, 9}}); err != nil || len(p.Files) != 0 {
			t.Fatal("the file was not left out")
		}
		if p, err := tb.Plan(tb.current(), []Range{{0, 6, 7}}); err != nil || len(p.Files) != 1 {
			t.Fatal("the file was left out")
		}
		n := int64(0)
		for rb, err := range tb.Scan(t.Context(), tb.current(), ScanOptions{Columns: []string{"gone"}, Ranges: []Range{{0, 6, 7}}}) {
			if err != nil {
				t.Fatal(err)
			}
			n += rb.NumRows()
		}
		if n != 1 {
			t.Fatalf("%d rows of a range, want 1", n)
		}
		writeMapped(t, tb, c.mode)
	}
}

// writeMapped adds a file to the mapped table: its columns, ids, statistics and partition values go by the mapping.
func writeMapped(t *testing.T, tb *Table, mode string) {
	t.Helper()
	if _, err := tb.NewFileWriter(t.Context(), WriterOptions{PartitionValues: map[string]*string{"part": nil}}); err == nil || !strings.Contains(err.Error(), "col-part") {
		t.Fatal(err)
	}
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{PartitionValues: map[string]*string{"col-part": nil}})
	if err != nil {
		t.Fatal(err)
	}
	rb, _, err := array.RecordFromJSON(memory.DefaultAllocator, w.Schema(), strings.NewReader(
		`[{"_partition":0,"_offset":7,"nest":{"a":9,"b":[{"x":3,"y":"three"}]},"gone":4}]`))
	if err == nil {
		err = w.Write(rb)
	}
	if err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := `"minValues":{"col-p":0,"col-o":7,"col-n":{"col-a":9},"col-gone":4}`
	if !strings.Contains(add.Stats, want) {
		t.Fatalf("statistics %s, want %s", add.Stats, want)
	}
	if _, err := tb.Log.Commit(t.Context(), deltalog.Commit{Operation: "WRITE", Adds: []deltalog.Add{add}, BlindAppend: true}); err != nil {
		t.Fatal(err)
	}
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{Ranges: []Range{{0, 7, 8}}}) {
		if err != nil {
			t.Fatal(mode, err)
		}
		got = appendText(got, rb)
	}
	if want := `0 | 7 | {"a":9,"b":[{"x":3,"y":"three"}]} | (null) | 4 | `; len(got) != 1 || got[0] != want {
		t.Fatalf("mode %s: %q, want %q", mode, got, want)
	}
}

func TestColumnMappingRefused(t *testing.T) {
	physical := []string{"col-p", "col-o", "col-a", "col-b", "col-x", "col-y", "col-n"}
	scanErr := func(tb *Table) (err error) {
		for _, err = range tb.Scan(t.Context(), tb.current(), ScanOptions{}) {
		}
		return err
	}
	if err := scanErr(mappedTable(t, "id", inFile(false, physical...), `[{"col-p":0,"col-o":5},{"col-p":0,"col-o":6}]`)); err == nil || !strings.Contains(err.Error(), "field ids") {
		t.Fatal(err)
	}
	var u *deltalog.UnsupportedError
	if err := scanErr(mappedTable(t, "other", inFile(true, physical...), "[]")); !errors.As(err, &u) || !strings.Contains(err.Error(), `"other"`) {
		t.Fatal(err)
	}
	twice := append(inFile(true, physical...), stored("again", 2, arrow.PrimitiveTypes.Int64))
	if err := scanErr(mappedTable(t, "id", twice, `[{"col-p":0,"col-o":5},{"col-p":0,"col-o":6}]`)); err == nil || !strings.Contains(err.Error(), "field id 2") {
		t.Fatal(err)
	}
}

func fieldNamesOf(s *arrow.Schema) (names []string) {
	for _, f := range s.Fields() {
		names = append(names, f.Name)
	}
	return names
}
