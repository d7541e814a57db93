package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// allTypes are columns of every type that a table may have, by two levels deep.
func allTypes() []arrow.Field {
	inner := arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	types := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Microsecond},
		&arrow.Decimal128Type{Precision: 7, Scale: 2}, &arrow.Decimal128Type{Precision: 15, Scale: 3}, &arrow.Decimal128Type{Precision: 38, Scale: 9},
		inner, arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.ListOf(inner), arrow.ListOf(arrow.ListOf(arrow.BinaryTypes.String)),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64), arrow.MapOf(arrow.BinaryTypes.String, inner),
		arrow.StructOf(arrow.Field{Name: "l", Type: arrow.ListOf(inner), Nullable: true}, arrow.Field{Name: "s", Type: inner, Nullable: true}),
	}
	fields := make([]arrow.Field, len(types))
	for i, dt := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%02d", i), Type: dt, Nullable: true}
	}
	return fields
}

// appendRandom adds a random row.
func appendRandom(rng *rand.Rand, b array.Builder, nullable bool) {
	if nullable && rng.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	v := rng.Int64N(2000) - 1000
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Int16Builder:
		b.Append(int16(v))
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v * 1e15)
	case *array.Float32Builder:
		b.Append(float32(v) / 7)
	case *array.Float64Builder:
		b.Append([]float64{float64(v) / 7, math.Inf(1), 0}[rng.IntN(3)])
	case *array.BooleanBuilder:
		b.Append(v > 0)
	case *array.StringBuilder:
		b.Append("0123456789abcdefghijklmnopqrstuvwxyz\u00e9\u4e16"[:rng.IntN(37)])
	case *array.BinaryBuilder:
		b.Append([]byte("\x00\xff0123456789abcdef"[:rng.IntN(18)]))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v * 1_234_567_891))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(v))
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(rng, b.FieldBuilder(i), true)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range rng.IntN(4) {
			appendRandom(rng, b.KeyBuilder(), false)
			appendRandom(rng, b.ItemBuilder(), true)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range rng.IntN(4) {
			appendRandom(rng, b.ValueBuilder(), true)
		}
	default:
		panic(fmt.Sprintf("no random %T", b))
	}
}

func randomBatch(rng *rand.Rand, schema *arrow.Schema, rows int, first int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i, f := range schema.Fields() {
		for r := range rows {
			switch f.Name {
			case "_partition":
				b.Field(i).(*array.Int32Builder).Append(3)
			case "_offset":
				b.Field(i).(*array.Int64Builder).Append(first + int64(r))
			default:
				appendRandom(rng, b.Field(i), f.Nullable)
			}
		}
	}
	return b.NewRecordBatch()
}

// All types come back as they were, nulls and nesting too, also from slices of larger batches and over row groups.
func TestRoundTripAllTypes(t *testing.T) {
	rng := newRand(t)
	for round := range 8 {
		tb, err := Create(t.Context(), mem.New(), arrow.NewSchema(allTypes(), nil), Config{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := tb.NewFileWriter(t.Context(), WriterOptions{RowGroupRows: int64(1 + rng.IntN(300)), RowGroupBytes: int64(1 + rng.IntN(100_000))})
		if err != nil {
			t.Fatal(err)
		}
		var batches []arrow.RecordBatch
		next := int64(0)
		for range 1 + rng.IntN(4) {
			rows := 1 + rng.IntN(300)
			rb := randomBatch(rng, w.Schema(), rows, next)
			from := rng.IntN(rows)
			rb = rb.NewSlice(int64(from), int64(rows))
			if err := w.Write(rb); err != nil {
				t.Fatal(err)
			}
			batches, next = append(batches, rb), next+int64(rows)
		}
		add, err := w.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snap := commit(t, tb, add)
		var got []arrow.RecordBatch
		for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{BatchRows: 1 + rng.IntN(500)}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rb)
		}
		want := array.NewTableFromRecords(w.Schema(), batches)
		have := array.NewTableFromRecords(w.Schema(), got)
		if want.NumRows() != have.NumRows() {
			t.Fatalf("round %d: %d rows, want %d", round, have.NumRows(), want.NumRows())
		}
		for i := range int(want.NumCols()) {
			a, err1 := array.Concatenate(want.Column(i).Data().Chunks(), memory.DefaultAllocator)
			b, err2 := array.Concatenate(have.Column(i).Data().Chunks(), memory.DefaultAllocator)
			if err1 != nil || err2 != nil || !array.Equal(a, b) {
				t.Fatalf("round %d: column %v differs (%v, %v)\nwant %v\ngot  %v", round, want.Column(i).Field(), err1, err2, a, b)
			}
		}
	}
}
