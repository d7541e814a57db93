// Package parquettest makes random tables for tests of files: all types of values, nested and with nulls, and
// spread in the ways that decide how a column is encoded. It guarantees nothing but variety; the same source of
// random numbers gives the same tables. Nothing here is for production code.
package parquettest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// LeafTypes are all types of values.
var LeafTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean,
	arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32,
	&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Microsecond},
	&arrow.Decimal128Type{Precision: 7, Scale: 2}, &arrow.Decimal128Type{Precision: 18, Scale: 0}, &arrow.Decimal128Type{Precision: 38, Scale: 9},
}

// randomType nests up to some levels.
func randomType(rng *rand.Rand, depth int) arrow.DataType {
	if depth == 0 || rng.IntN(3) == 0 {
		return LeafTypes[rng.IntN(len(LeafTypes))]
	}
	switch rng.IntN(3) {
	case 0:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: randomType(rng, depth-1), Nullable: rng.IntN(3) > 0})
	case 1:
		item := arrow.Field{Type: randomType(rng, depth-1), Nullable: rng.IntN(3) > 0}
		if item.Nullable {
			return arrow.MapOf(arrow.BinaryTypes.String, item.Type)
		}
		m := arrow.MapOf(arrow.BinaryTypes.String, item.Type)
		m.SetItemNullable(false)
		return m
	}
	fields := make([]arrow.Field, 1+rng.IntN(3))
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("f%d", i), Type: randomType(rng, depth-1), Nullable: rng.IntN(3) > 0}
	}
	return arrow.StructOf(fields...)
}

// Schema makes columns of random types, nested up to three levels deep.
func Schema(rng *rand.Rand) *arrow.Schema {
	fields := make([]arrow.Field, 1+rng.IntN(10))
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%02d", i), Type: randomType(rng, 3), Nullable: rng.IntN(4) > 0}
	}
	return arrow.NewSchema(fields, nil)
}

// habit is how the values of a leaf are spread: what the choice of encodings depends on.
type habit struct {
	nulls  int // one in so many; 0 none, 1 all
	kind   int
	growth int64
	size   int
}

func randomHabit(rng *rand.Rand) habit {
	return habit{nulls: []int{0, 0, 1, 2, 3, 10, 1000}[rng.IntN(7)], kind: rng.IntN(6), size: []int{3, 30, 300, 3000}[rng.IntN(4)]}
}

func (h *habit) integer(rng *rand.Rand) int64 {
	switch h.kind {
	case 0:
		return 7
	case 1:
		return rng.Int64N(12)
	case 2:
		h.growth += rng.Int64N(5)
		return h.growth
	case 3:
		return int64(rng.Uint64())
	case 4:
		return rng.Int64N(1e6) - 5e5
	}
	return []int64{math.MinInt64, math.MaxInt64, 0, -1, math.MinInt32, math.MaxInt32}[rng.IntN(6)]
}

func (h *habit) text(rng *rand.Rand) string {
	switch h.kind {
	case 0:
		return "the same"
	case 1:
		return fmt.Sprintf("kind-%d", rng.IntN(12))
	case 2:
		return ""
	case 3:
		return strings.Repeat("\u00e9", rng.IntN(h.size))
	case 4:
		b := make([]byte, rng.IntN(h.size))
		for i := range b {
			b[i] = byte(' ' + rng.IntN(95))
		}
		return string(b)
	}
	return fmt.Sprintf("https://example.org/%d", rng.IntN(h.size*10))
}

func (h *habit) float(rng *rand.Rand) float64 {
	switch h.kind {
	case 0:
		return math.Copysign(0, float64(rng.IntN(2))-0.5)
	case 1:
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.5}[rng.IntN(4)]
	case 2:
		return float64(rng.IntN(50_000)) / 100
	}
	return rng.NormFloat64() * 1e6
}

// Habits keep for each builder of a batch how its values are spread.
type Habits map[array.Builder]*habit

// Append adds a random row to a builder.
func (h Habits) Append(rng *rand.Rand, b array.Builder, nullable bool) {
	own := h[b]
	if own == nil {
		x := randomHabit(rng)
		own, h[b] = &x, &x
	}
	if nullable && own.nulls > 0 && rng.IntN(own.nulls) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(own.integer(rng)))
	case *array.Int16Builder:
		b.Append(int16(own.integer(rng)))
	case *array.Int32Builder:
		b.Append(int32(own.integer(rng)))
	case *array.Int64Builder:
		b.Append(own.integer(rng))
	case *array.Date32Builder:
		b.Append(arrow.Date32(own.integer(rng) % 40_000)) // other engines' dates have bounds
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(own.integer(rng) % 4e15))
	case *array.Float32Builder:
		b.Append(float32(own.float(rng)))
	case *array.Float64Builder:
		b.Append(own.float(rng))
	case *array.BooleanBuilder:
		b.Append(own.kind == 0 || own.kind > 1 && rng.IntN(2) == 0)
	case *array.StringBuilder:
		b.Append(own.text(rng))
	case *array.BinaryBuilder:
		b.Append(append([]byte(own.text(rng)), 0xff, 0x00)[:rng.IntN(3)])
	case *array.Decimal128Builder:
		n := decimal128.FromI64(own.integer(rng) % 9_999_999)
		if p := b.Type().(*arrow.Decimal128Type).Precision; p == 38 && own.kind > 2 {
			n = n.Mul(decimal128.FromI64(1e15)).Mul(decimal128.FromI64(1e15))
		}
		b.Append(n)
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			h.Append(rng, b.FieldBuilder(i), f.Nullable)
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range rng.IntN(4) { // keys of one map are different
			b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprintf("key-%d-%d", i, rng.IntN(3)))
			h.Append(rng, b.ItemBuilder(), b.Type().(*arrow.MapType).ItemField().Nullable)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range rng.IntN(5) {
			h.Append(rng, b.ValueBuilder(), b.Type().(*arrow.ListType).ElemField().Nullable)
		}
	default:
		panic(fmt.Sprintf("no random %T", b))
	}
}

// Batches gives one to four batches of at most so many rows, some of them slices of larger ones.
func Batches(rng *rand.Rand, schema *arrow.Schema, most int) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	b, h := array.NewRecordBuilder(memory.DefaultAllocator, schema), Habits{}
	for range 1 + rng.IntN(4) {
		rows := 1 + rng.IntN(most)
		for i, f := range schema.Fields() {
			for range rows {
				h.Append(rng, b.Field(i), f.Nullable)
			}
		}
		rb := b.NewRecordBatch()
		if rng.IntN(2) == 0 {
			from := rng.IntN(rows)
			rb = rb.NewSlice(int64(from), int64(from+1+rng.IntN(rows-from)))
		}
		out = append(out, rb)
	}
	return out
}
