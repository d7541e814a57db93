package reader

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func TestNDJSONTypes(t *testing.T) {
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int64},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64},
		{Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "b", Type: arrow.BinaryTypes.Binary},
		{Name: "t", Type: utc},
		{Name: "n", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
		{Name: "d", Type: arrow.FixedWidthTypes.Date32},
		{Name: "c", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
		{Name: "m", Type: arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)},
		{Name: "st", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.FixedWidthTypes.Boolean})},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	at := time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	b.Field(0).(*array.Int64Builder).Append(math.MinInt64)
	b.Field(1).(*array.Float64Builder).Append(math.Inf(-1))
	b.Field(2).(*array.StringBuilder).Append("a\"\\\n\x01\u20ac\xff")
	b.Field(3).(*array.BinaryBuilder).Append([]byte{0, 255})
	b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(at.UnixMicro()))
	b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(at.UnixMicro()))
	b.Field(6).(*array.Date32Builder).Append(-1)
	b.Field(7).(*array.Decimal128Builder).Append(decimal128.FromI64(-105))
	lb := b.Field(8).(*array.ListBuilder)
	lb.Append(true)
	lb.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{1, 2}, nil)
	mb := b.Field(9).(*array.MapBuilder)
	mb.Append(true)
	mb.KeyBuilder().(*array.Int32Builder).Append(7)
	mb.ItemBuilder().(*array.StringBuilder).AppendNull()
	sb := b.Field(10).(*array.StructBuilder)
	sb.Append(true)
	sb.FieldBuilder(0).(*array.BooleanBuilder).Append(true)
	for i := range schema.NumFields() {
		b.Field(i).AppendNull()
	}
	got, err := AppendNDJSON(nil, b.NewRecordBatch())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"i":-9223372036854775808,"f":"-Infinity","s":"a\"\\\n\u0001` + "\u20ac\ufffd" + `","b":"AP8=","t":"1969-12-31T23:59:59.999999Z","n":"1969-12-31T23:59:59.999999","d":"1969-12-31","c":-1.05,"l":[1,2],"m":{"7":null},"st":{"x":true}}
{"i":null,"f":null,"s":null,"b":null,"t":null,"n":null,"d":null,"c":null,"l":null,"m":null,"st":null}
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Random strings and floats come back equal through encoding/json.
func TestNDJSONRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	for range 5000 {
		raw := make([]byte, rng.IntN(20))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		s := string(raw)
		var back string
		if err := json.Unmarshal(readable.appendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if utf8.ValidString(s) && back != s {
			t.Fatalf("string %q came back as %q", s, back)
		}
		f := math.Float64frombits(rng.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		var g float64
		if err := json.Unmarshal(appendFloat(nil, f, 64), &g); err != nil || g != f {
			t.Fatalf("float %v came back as %v (%v)", f, g, err)
		}
	}
}

// The exact form tells apart what the readable one writes alike, and is JSON.
func TestNDJSONExact(t *testing.T) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues([]string{"a\xff", "a\xfe", "a\ufffd", `a\udcff`, "a\xed\xb3\xbf", "\u20ac"}, nil)
	rb := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil), []arrow.Array{b.NewArray()}, 6)
	got, err := AppendNDJSONExact(nil, rb)
	want := `{"s":"a\udcff"}
{"s":"a\udcfe"}
{"s":"a` + "\ufffd" + `"}
{"s":"a\\udcff"}
{"s":"a\udced\udcb3\udcbf"}
{"s":"` + "\u20ac" + `"}
`
	if err != nil || string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s%v", got, want, err)
	}
	for line := range bytes.Lines(got) {
		if !json.Valid(line) {
			t.Errorf("%s is no JSON", line)
		}
	}
}
