package decode

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// everyType is a schema with a column of each type, nested ones twice over.
func everyType() *arrow.Schema {
	inner := arrow.StructOf(field("a", arrow.PrimitiveTypes.Int64), field("b", arrow.BinaryTypes.String),
		field("deep", arrow.StructOf(field("when", utc), field("flags", arrow.ListOf(arrow.FixedWidthTypes.Boolean)))))
	return arrow.NewSchema([]arrow.Field{
		field("i8", arrow.PrimitiveTypes.Int8), field("i16", arrow.PrimitiveTypes.Int16), field("i32", arrow.PrimitiveTypes.Int32),
		field("i64", arrow.PrimitiveTypes.Int64), field("f32", arrow.PrimitiveTypes.Float32), field("f64", arrow.PrimitiveTypes.Float64),
		field("ok", arrow.FixedWidthTypes.Boolean), field("text", arrow.BinaryTypes.String), field("blob", arrow.BinaryTypes.Binary),
		field("day", arrow.FixedWidthTypes.Date32), field("at", utc), field("wall", local),
		field("price", &arrow.Decimal128Type{Precision: 12, Scale: 4}), field("big", &arrow.Decimal128Type{Precision: 38, Scale: 10}),
		field("obj", inner), field("ints", arrow.ListOf(arrow.PrimitiveTypes.Int32)), field("objs", arrow.ListOf(inner)),
		field("names", arrow.ListOf(arrow.ListOf(arrow.BinaryTypes.String))),
		field("props", arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String)),
		field("byid", arrow.MapOf(arrow.BinaryTypes.String, arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64))),
		{Name: "need", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
}

// author writes random JSON.
type author struct{ *rand.Rand }

func (a author) space(b []byte) []byte {
	for a.IntN(6) == 0 {
		b = append(b, " \t\r\n"[a.IntN(4)])
	}
	return b
}

func (a author) text(b []byte) []byte {
	pieces := []string{"a", "Z", " ", `\"`, `\\`, `\/`, `\n`, `\u0041`, `\u00e9`, `\u20ac`, `\ud83d\ude00`, "\u00fc", "\u20ac", "\U0001f600", "0123456789abcdef", "\x7f", "{", "]"}
	b = append(b, '"')
	for range a.IntN(8) {
		b = append(b, pieces[a.IntN(len(pieces))]...)
	}
	return append(b, '"')
}

func (a author) number(b []byte) []byte {
	switch a.IntN(6) {
	case 0:
		return strconv.AppendInt(b, int64(a.Uint64()), 10)
	case 1:
		return strconv.AppendFloat(b, (a.Float64()-0.5)*1e3, 'f', a.IntN(20), 64)
	case 2:
		return strconv.AppendFloat(b, (a.Float64()-0.5)*1e20, 'e', a.IntN(20), 64)
	case 3:
		return fmt.Appendf(b, "%d.%de%d", a.IntN(10), a.IntN(1000), a.IntN(30)-15)
	}
	return strconv.AppendInt(b, int64(a.IntN(400)-200), 10)
}

func (a author) any(b []byte, depth int) []byte {
	switch n := a.IntN(8); {
	case n == 0 && depth < 4:
		b = append(b, '{')
		for i := range a.IntN(3) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(a.text(a.space(b)), ':')
			b = a.any(a.space(b), depth+1)
		}
		return append(a.space(b), '}')
	case n == 1 && depth < 4:
		b = append(b, '[')
		for i := range a.IntN(3) {
			if i > 0 {
				b = append(b, ',')
			}
			b = a.any(a.space(b), depth+1)
		}
		return append(a.space(b), ']')
	case n == 2:
		return append(b, "null"...)
	case n == 3:
		return append(b, "true"...)
	case n < 6:
		return a.number(b)
	}
	return a.text(b)
}

// of writes a value that fits the type most of the time.
func (a author) of(b []byte, t arrow.DataType) []byte {
	if n := a.IntN(200); n < 12 {
		return append(b, "null"...)
	} else if n == 12 {
		return a.any(b, 0)
	}
	at := time.Unix(a.Int64N(4e9)-1e9, a.Int64N(1e9)).UTC()
	switch t := t.(type) {
	case *arrow.Int8Type:
		return strconv.AppendInt(b, int64(a.IntN(258)-129), 10)
	case *arrow.Int16Type, *arrow.Int32Type:
		return strconv.AppendInt(b, int64(a.IntN(60000)-30000), 10)
	case *arrow.Int64Type:
		return strconv.AppendInt(b, int64(a.Uint64()>>a.IntN(64)), 10)
	case *arrow.Float32Type, *arrow.Float64Type:
		return a.number(b)
	case *arrow.BooleanType:
		return strconv.AppendBool(b, a.IntN(2) == 0)
	case *arrow.BinaryType:
		raw := make([]byte, a.IntN(12))
		for i := range raw {
			raw[i] = byte(a.Uint32())
		}
		return strconv.AppendQuote(b, base64.StdEncoding.EncodeToString(raw))
	case *arrow.Date32Type:
		return strconv.AppendQuote(b, at.Format(time.DateOnly))
	case *arrow.TimestampType:
		layouts := []string{time.RFC3339, time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05.000", "2006-01-02 15:04:05.000000Z07:00"}
		if t.TimeZone != "" && a.IntN(3) == 0 {
			at = at.In(time.FixedZone("", (a.IntN(47)-23)*1800))
		}
		return strconv.AppendQuote(b, at.Format(layouts[a.IntN(len(layouts))]))
	case *arrow.Decimal128Type:
		return strconv.AppendFloat(b, float64(a.IntN(1e6)-5e5)/100, 'f', a.IntN(4), 64)
	case *arrow.StructType:
		return a.object(b, t.Fields())
	case *arrow.MapType:
		b = append(b, '{')
		for i := range a.IntN(14) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, fmt.Sprintf(`"k%d":`, a.IntN(20))...)
			b = a.of(a.space(b), t.ItemType())
		}
		return append(a.space(b), '}')
	case *arrow.ListType:
		b = append(b, '[')
		for i := range a.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = a.of(a.space(b), t.Elem())
		}
		return append(a.space(b), ']')
	}
	return a.text(b)
}

func (a author) object(b []byte, fields []arrow.Field) []byte {
	b = append(b, '{')
	order := a.Perm(len(fields))
	if a.IntN(3) == 0 {
		for i := range order {
			order[i] = i
		}
	}
	first := true
	next := func(key string) {
		if !first {
			b = append(a.space(b), ',')
		}
		first = false
		b = append(a.space(b), '"')
		b = append(b, key...)
		b = append(a.space(append(b, '"')), ':')
		b = a.space(b)
	}
	for _, i := range order {
		if fields[i].Nullable && a.IntN(12) == 0 {
			continue
		}
		for next(fields[i].Name); a.IntN(40) == 0; next(fields[i].Name) {
			b = a.of(b, fields[i].Type)
		}
		b = a.of(b, fields[i].Type)
		if a.IntN(10) == 0 {
			next("extra" + strconv.Itoa(a.IntN(30)))
			b = a.any(b, 0)
		}
	}
	return append(a.space(b), '}')
}

// mutate damages a message, mostly a little.
func (a author) mutate(msg []byte) []byte {
	out := append([]byte(nil), msg...)
	for range 1 + a.IntN(2) {
		i := a.IntN(len(out) + 1)
		switch a.IntN(7) {
		case 0:
			out = out[:i]
		case 1:
			j := min(len(out), i+1+a.IntN(4))
			out = append(out[:i], out[j:]...)
		case 2:
			odd := []string{"\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", "e", ".", "\x00", "\xff", "\xc3", "\\u00e9", "\\ud800", "null", "true", " ", "1"}
			out = append(out[:i:i], append([]byte(odd[a.IntN(len(odd))]), out[i:]...)...)
		case 3:
			if i < len(out) {
				out[i] = byte(a.Uint32())
			}
		case 4:
			if i < len(out) {
				out[i] ^= 1 << a.IntN(8)
			}
		case 5:
			j := min(len(out), i+a.IntN(40))
			out = append(out[:j:j], out[i:]...)
		default:
			if i < len(out) {
				out[i] = `"{}[]:,0123456789-+.eEtfn\ `[a.IntN(27)]
			}
		}
	}
	return out
}

// I7, I8: over random and damaged messages the decoder takes exactly what encoding/json and the types
// allow, and the batch holds exactly the rows that were accepted.
func TestJSONAgainstOracle(t *testing.T) {
	seed := seedtest.New(t)
	a := author{rand.New(rand.NewPCG(seed, 7))}
	d, err := NewJSON(everyType(), JSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := 100_000
	if testing.Short() {
		count = 5_000
	}
	var want [][]any
	var fresh, valid, refused int
	for i := range count {
		msg := a.object(nil, d.Schema().Fields())
		if i%4 != 0 {
			msg = a.mutate(msg)
		}
		row, err := judge(d, msg)
		if err != nil {
			t.Fatalf("seed %d message %d: %v", seed, i, err)
		}
		switch {
		case row != nil:
			want = append(want, row)
			if i%4 == 0 {
				fresh++
			}
		case json.Valid(msg) && utf8.Valid(msg):
			valid++
		default:
			refused++
		}
		if i%500 == 499 {
			if err := compare(d, want); err != nil {
				t.Fatalf("seed %d at message %d: %v", seed, i, err)
			}
			want = want[:0]
			d.Reset()
		}
	}
	t.Logf("%d whole messages accepted, %d refused as not JSON, %d for their types", fresh, refused, valid)
	if fresh < count/20 || refused < count/10 || valid < count/100 {
		t.Errorf("the messages are too much alike: %d %d %d of %d", fresh, refused, valid, count)
	}
}

func FuzzJSON(f *testing.F) {
	a := author{rand.New(rand.NewPCG(1, 1))}
	for range 20 {
		f.Add(a.object(nil, everyType().Fields()))
	}
	f.Add([]byte(`{"need":1,"props":{"a":"b","a":"c"},"big":1e5,"obj":{"deep":{"flags":[true]}}}`))
	f.Add([]byte(`{"need":-0,"text":"\ud83d\ude00","price":0.00010}`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		d, err := NewJSON(everyType(), JSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if msg == nil {
			msg = []byte{}
		}
		var want [][]any
		for range 2 { // again with what was learned
			row, err := judge(d, msg)
			if err != nil {
				t.Fatal(err)
			}
			if row != nil {
				want = append(want, row)
			}
		}
		if err := compare(d, want); err != nil {
			t.Fatal(err)
		}
	})
}
