package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Random values exist twice: in an Arrow array, which goes into a file, and in a plain form that what an engine
// prints is brought into too, so that the two compare: numbers as text, times as microseconds, lists, maps by text
// keys, and structs as lists. A type decides what the plain form of JSON is.

// leafTypes are all types of Delta without structure, but for decimals, void and variants.
var leafTypes = []deltalog.Primitive{deltalog.String, deltalog.Long, deltalog.Integer, deltalog.Short, deltalog.Byte, deltalog.Float,
	deltalog.Double, deltalog.Boolean, deltalog.Binary, deltalog.Date, deltalog.Timestamp, deltalog.TimestampNTZ}

func randomType(rng *rand.Rand, depth int) deltalog.DataType {
	if depth > 0 && rng.IntN(3) == 0 {
		switch rng.IntN(3) {
		case 0:
			s := &deltalog.StructType{}
			for i := range 1 + rng.IntN(3) {
				s.Fields = append(s.Fields, deltalog.StructField{Name: fmt.Sprintf("%c%d", 'a'+rune(i), i), Type: randomType(rng, depth-1), Nullable: true})
			}
			return s
		case 1:
			return &deltalog.ArrayType{Element: randomType(rng, depth-1), ContainsNull: rng.IntN(4) > 0}
		}
		key := []deltalog.Primitive{deltalog.String, deltalog.Long, deltalog.Integer}[rng.IntN(3)]
		return &deltalog.MapType{Key: key, Value: randomType(rng, depth-1), ValueContainsNull: rng.IntN(4) > 0}
	}
	if rng.IntN(6) == 0 {
		return randomDecimal(rng)
	}
	return leafTypes[rng.IntN(len(leafTypes))]
}

func randomDecimal(rng *rand.Rand) deltalog.Decimal {
	p := 1 + rng.Int32N(38)
	return deltalog.Decimal{Precision: p, Scale: rng.Int32N(p + 1)}
}

// randomText is text of the kind that breaks escaping.
func randomText(rng *rand.Rand) string {
	parts := []string{"", "a", "Z", "0", " ", "%", "%20", "/", "=", "'", "\"", "\\", "\n", "\t", "\u00e9", "\u65e5", "\U0001f600", "{", "+", "&", "?", "#", ":",
		"\u007f", "\uffff", "null", strings.Repeat("x", 40), strings.Repeat("\U0001f600", 33)}
	var s strings.Builder
	for range rng.IntN(6) {
		s.WriteString(parts[rng.IntN(len(parts))])
	}
	return s.String()
}

func randomInt(rng *rand.Rand, bits int) int64 {
	switch limit := int64(1)<<(bits-1) - 1; rng.IntN(8) {
	case 0:
		return limit
	case 1:
		return -limit - 1
	case 2:
		return 0
	default:
		return rng.Int64() >> (64 - bits + rng.IntN(bits)) * int64(1-2*rng.IntN(2))
	}
}

func randomFloat(rng *rand.Rand) float64 {
	special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-7, 0.1}
	if rng.IntN(3) == 0 {
		return special[rng.IntN(len(special))]
	}
	return rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)-4))
}

// randomMicros is a time of the years 1 to 9999, often one of today's.
func randomMicros(rng *rand.Rand) int64 {
	const first, last = -62135596800, 253402300799
	switch rng.IntN(8) {
	case 0:
		return first*1e6 + rng.Int64N((last-first)*1e6)
	case 1:
		return last*1e6 + 999_999
	}
	return 1_600_000_000_000_000 + rng.Int64N(2e14)
}

func randomUnscaled(rng *rand.Rand, d deltalog.Decimal) *big.Int {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Precision)), nil)
	v := new(big.Int).Sub(limit, big.NewInt(1)) // the largest
	if rng.IntN(6) > 0 {
		v.SetUint64(rng.Uint64())
		v.Lsh(v, uint(rng.IntN(64))).Mod(v, limit)
	}
	if rng.IntN(2) == 0 {
		v.Neg(v)
	}
	return v
}

func decimalText(v *big.Int, d deltalog.Decimal) string {
	r := new(big.Rat).SetFrac(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Scale)), nil))
	return r.FloatString(int(d.Scale))
}

func floatText(v float64, bits int) string {
	if v == 0 {
		return "0" // engines do not agree on the sign
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// randomValue appends a value to the builder and gives its plain form.
func randomValue(rng *rand.Rand, t deltalog.DataType, nullable bool, b array.Builder) any {
	if nullable && rng.IntN(5) == 0 {
		b.AppendNull()
		return nil
	}
	switch t := t.(type) {
	case *deltalog.StructType:
		sb := b.(*array.StructBuilder)
		sb.Append(true)
		out := make([]any, len(t.Fields))
		for i, f := range t.Fields {
			out[i] = randomValue(rng, f.Type, f.Nullable, sb.FieldBuilder(i))
		}
		return out
	case *deltalog.ArrayType:
		lb := b.(*array.ListBuilder)
		lb.Append(true)
		out := make([]any, rng.IntN(4))
		for i := range out {
			out[i] = randomValue(rng, t.Element, t.ContainsNull, lb.ValueBuilder())
		}
		return out
	case *deltalog.MapType:
		return randomMap(rng, t, b.(*array.MapBuilder))
	case deltalog.Decimal:
		v := randomUnscaled(rng, t)
		b.(*array.Decimal128Builder).Append(decimal128.FromBigInt(v))
		return decimalText(v, t)
	}
	return randomLeaf(rng, t.(deltalog.Primitive), b)
}

func randomMap(rng *rand.Rand, t *deltalog.MapType, b *array.MapBuilder) any {
	b.Append(true)
	out := map[string]any{}
	for i := range rng.IntN(4) {
		key := fmt.Sprint(int64(i)*7 - 1)
		switch kb := b.KeyBuilder().(type) {
		case *array.StringBuilder:
			key = fmt.Sprintf("%s%d", randomText(rng), i)
			kb.Append(key)
		case *array.Int64Builder:
			kb.Append(int64(i)*7 - 1)
		case *array.Int32Builder:
			kb.Append(int32(i)*7 - 1)
		}
		out[key] = randomValue(rng, t.Value, t.ValueContainsNull, b.ItemBuilder())
	}
	return out
}

func randomLeaf(rng *rand.Rand, t deltalog.Primitive, b array.Builder) any {
	v, plain := randomGo(rng, t)
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(v.(int8))
	case *array.Int16Builder:
		b.Append(v.(int16))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.Date32Builder:
		b.Append(arrow.Date32FromTime(v.(time.Time)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(time.Time).UnixMicro()))
	}
	return plain
}

// randomGo gives a value as deltalog.FormatPartitionValue takes it, and its plain form.
func randomGo(rng *rand.Rand, t deltalog.DataType) (value, plain any) {
	if d, ok := t.(deltalog.Decimal); ok {
		v := randomUnscaled(rng, d)
		return v, decimalText(v, d)
	}
	switch t.(deltalog.Primitive) {
	case deltalog.Byte:
		v := randomInt(rng, 8)
		return int8(v), fmt.Sprint(int8(v))
	case deltalog.Short:
		v := randomInt(rng, 16)
		return int16(v), fmt.Sprint(int16(v))
	case deltalog.Integer:
		v := randomInt(rng, 32)
		return int32(v), fmt.Sprint(int32(v))
	case deltalog.Long:
		v := randomInt(rng, 64)
		return v, fmt.Sprint(v)
	case deltalog.Float:
		v := float32(randomFloat(rng))
		return v, floatText(float64(v), 32)
	case deltalog.Double:
		v := randomFloat(rng)
		return v, floatText(v, 64)
	case deltalog.Boolean:
		v := rng.IntN(2) == 0
		return v, v
	case deltalog.String:
		v := randomText(rng)
		return v, v
	case deltalog.Binary:
		v := make([]byte, rng.IntN(40))
		for i := range v {
			v[i] = byte(rng.Uint32() >> (8 * rng.IntN(3)))
		}
		return v, base64.StdEncoding.EncodeToString(v)
	case deltalog.Date:
		v := time.UnixMicro(randomMicros(rng)).UTC().Truncate(24 * time.Hour)
		return v, v.Format(time.DateOnly)
	}
	v := time.UnixMicro(randomMicros(rng)).UTC()
	return v, fmt.Sprint(v.UnixMicro())
}

// plainOf brings a value that an engine printed into the plain form of its type.
func plainOf(t deltalog.DataType, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch t := t.(type) {
	case *deltalog.StructType:
		m, ok := v.(map[string]any)
		if !ok || len(m) > len(t.Fields) {
			return nil, fmt.Errorf("%v is no %s", v, t)
		}
		out := make([]any, len(t.Fields))
		for i, f := range t.Fields {
			var err error
			if out[i], err = plainOf(f.Type, m[f.Name]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *deltalog.ArrayType:
		l, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%v is no %s", v, t)
		}
		out := make([]any, len(l))
		for i := range l {
			var err error
			if out[i], err = plainOf(t.Element, l[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *deltalog.MapType:
		if l, ok := v.([]any); ok && len(l) == 0 { // as pyarrow has it
			return map[string]any{}, nil
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%v is no %s", v, t)
		}
		out := make(map[string]any, len(m))
		for k, x := range m {
			var err error
			if out[k], err = plainOf(t.Value, x); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return plainLeaf(t, v)
}

func plainLeaf(t deltalog.DataType, v any) (any, error) {
	text := fmt.Sprint(v)
	if d, ok := t.(deltalog.Decimal); ok {
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return nil, fmt.Errorf("%q is no %s", text, d)
		}
		return r.FloatString(int(d.Scale)), nil
	}
	switch t {
	case deltalog.Float:
		f, err := strconv.ParseFloat(text, 64)
		return floatText(float64(float32(f)), 32), err
	case deltalog.Double:
		f, err := strconv.ParseFloat(text, 64)
		return floatText(f, 64), err
	case deltalog.Timestamp, deltalog.TimestampNTZ:
		layout := "2006-01-02T15:04:05.999999"
		if t == deltalog.Timestamp {
			layout += "Z"
		}
		at, err := time.Parse(layout, text)
		return fmt.Sprint(at.UnixMicro()), err
	case deltalog.Boolean:
		return v, nil
	}
	return text, nil
}

// holds compares two plain values.
func holds(kind string, v any, op string, than any) bool {
	order := 0
	switch {
	case kind == "number", strings.HasPrefix(kind, "decimal"):
		a, _ := new(big.Rat).SetString(v.(string))
		b, _ := new(big.Rat).SetString(than.(string))
		order = a.Cmp(b)
	case kind == "boolean":
		if v != than {
			order = 1
		}
	default:
		order = strings.Compare(v.(string), than.(string))
	}
	return order == 0 || op == ">=" && order > 0 || op == "<=" && order < 0
}

func sortedIDs(rows map[int64]map[int]any) []int64 { return slices.Sorted(maps.Keys(rows)) }
