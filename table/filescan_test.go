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

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// repeatedTypes are the kinds of columns that have more values than rows.
var repeatedTypes = []arrow.DataType{
	arrow.ListOf(arrow.BinaryTypes.String),
	arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64)),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
	arrow.StructOf(arrow.Field{Name: "in", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}),
}

// appendSome appends a value that depends on n alone; repeated values have 0 to 4 elements.
func appendSome(b array.Builder, n int64) {
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(n)
	case *array.StringBuilder:
		b.Append(fmt.Sprint("of ", n))
	case *array.BinaryBuilder:
		b.AppendString(fmt.Sprint("of ", n))
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendSome(b.FieldBuilder(i), n)
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range n % 5 {
			appendSome(b.KeyBuilder(), n*10+i)
			appendSome(b.ItemBuilder(), n)
		}
	case *array.ListBuilder:
		b.Append(true)
		for i := range n % 5 {
			appendSome(b.ValueBuilder(), n*10+i)
		}
	default:
		b.AppendEmptyValue()
	}
}

// rotated gives a batch of n rows of one partition whose offsets start in the middle: two sorted stretches.
func rotated(schema *arrow.Schema, n int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range n {
		offset := (i + n/3) % n
		for c, f := range schema.Fields() {
			if f.Name == "_offset" || arrow.IsNested(f.Type.ID()) {
				appendSome(b.Field(c), offset)
			} else {
				b.Field(c).AppendEmptyValue()
			}
		}
	}
	return b.NewRecordBatch()
}

func rowText(rb arrow.RecordBatch, i int) string {
	cells := make([]string, rb.NumCols())
	for c := range cells {
		cells[c] = rb.Column(c).ValueStr(i)
	}
	return strings.Join(cells, "|")
}

// A scan that starts in the middle of a row group gives the right lists and maps, also when their chunks have many
// pages, as in files that others compacted; with deletion vectors and for columns of the file's and of another
// schema. I4
func TestRepeatedColumnsFromTheMiddleOfAGroup(t *testing.T) {
	fields := []arrow.Field{{Name: "flat", Type: arrow.BinaryTypes.String, Nullable: true}}
	for i, typ := range repeatedTypes {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("r", i), Type: typ, Nullable: true})
	}
	tb, err := Create(t.Context(), mem.New(), arrow.NewSchema(fields, nil), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	schema, err := tb.Schema(tb.current())
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	rb := rotated(schema, n)
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		var file bytes.Buffer
		props := parquet.NewWriterProperties(parquet.WithDataPageSize(1000), parquet.WithBatchSize(50), parquet.WithDataPageVersion(version), parquet.WithMaxRowGroupLength(n-100))
		w, err := pqarrow.NewFileWriter(schema, &file, props, pqarrow.DefaultWriterProps())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(rb); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("v%d.parquet", version)
		if err := tb.Store.Put(t.Context(), name, file.Bytes()); err != nil {
			t.Fatal(err)
		}
		add := deltalog.Add{Path: name, Size: int64(file.Len()), PartitionValues: map[string]*string{}, DataChange: true}
		for _, deleted := range [][]int64{nil, {0, 1, 1500, 2000, 2001, 2950}} {
			add.DeletionVector = nil
			if deleted != nil {
				add.DeletionVector = putVector(t, tb, "i", deleted)
			}
			checkRotated(t, tb, &add, rb, deleted)
		}
	}
}

func checkRotated(t *testing.T, tb *Table, add *deltalog.Add, rb arrow.RecordBatch, deleted []int64) {
	t.Helper()
	n := int(rb.NumRows())
	var want []string
	for offset := range n {
		i := (offset + n - n/3) % n
		if !slices.Contains(deleted, int64(i)) {
			want = append(want, rowText(rb, i))
		}
	}
	for _, rows := range []int{64, 700, 16384} {
		at := 0
		for got, err := range tb.Scan(t.Context(), tb.current(), ScanOptions{Files: []*deltalog.Add{add}, BatchRows: rows}) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range int(got.NumRows()) {
				if s := rowText(got, i); at >= len(want) || s != want[at] {
					t.Fatalf("%s, batches of %d: row %d is\n%s, want\n%s", add.Path, rows, at, s, want[min(at, len(want)-1)])
				}
				at++
			}
			got.Release()
		}
		if at != len(want) {
			t.Fatalf("%s, batches of %d: %d rows, want %d", add.Path, rows, at, len(want))
		}
	}
}
