package table

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~float32 | ~float64
}

// widen gives a leaf in a type that holds all of its values. It is false where there is no such view.
func widen(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, bool) {
	from, to := a.DataType().ID(), t.ID()
	switch {
	case from == arrow.TIMESTAMP && to == arrow.TIMESTAMP:
		return toMicros(a.(*array.Timestamp), t.(*arrow.TimestampType)), true
	case from == to && to == arrow.DECIMAL128:
		h, w := a.DataType().(*arrow.Decimal128Type), t.(*arrow.Decimal128Type)
		if h.Scale == w.Scale && h.Precision <= w.Precision {
			return view(a, t), true
		}
		v := a.(*array.Decimal128).Values()
		return toDecimal(a, w, w.Scale-h.Scale, func(i int) decimal128.Num { return v[i] })
	case from == arrow.DATE32 && to == arrow.TIMESTAMP && t.(*arrow.TimestampType).TimeZone == "":
		days := a.(*array.Date32).Date32Values()
		out := make([]arrow.Timestamp, len(days))
		for i, d := range days {
			out[i] = saturate(arrow.Timestamp(d), 86400*1_000_000)
		}
		return fixed(a, t, arrow.GetBytes(out)), true
	case from == arrow.STRING && to == arrow.BINARY, from == arrow.BINARY && to == arrow.STRING:
		return view(a, t), true // not every writer marks strings
	case to == arrow.NULL:
		return array.MakeArrayOfNull(mem, t, a.Len()), true
	}
	switch a := a.(type) {
	case *array.Int8:
		return widenInt(a, a.Int8Values(), t)
	case *array.Int16:
		return widenInt(a, a.Int16Values(), t)
	case *array.Int32:
		return widenInt(a, a.Int32Values(), t)
	case *array.Int64:
		if w, ok := t.(*arrow.Decimal128Type); ok {
			return widenDecimal(a, a.Int64Values(), w)
		}
	case *array.Float32:
		if to == arrow.FLOAT64 {
			return convert[float32, float64](a, a.Float32Values(), t), true
		}
	}
	return nil, false
}

func widenInt[T ~int8 | ~int16 | ~int32](a arrow.Array, v []T, t arrow.DataType) (arrow.Array, bool) {
	if d, ok := t.(*arrow.Decimal128Type); ok {
		return widenDecimal(a, v, d)
	}
	w, ok := t.(arrow.FixedWidthDataType)
	if !ok {
		return nil, false
	}
	if t.ID() != arrow.FLOAT64 && w.BitWidth() <= a.DataType().(arrow.FixedWidthDataType).BitWidth() && a.DataType().ID() != arrow.INT32 {
		return nil, false
	}
	switch t.ID() {
	case arrow.INT8: // a file's int32 without its narrower annotation: Parquet has no smaller type
		return narrowInt[T, int8](a, v, t)
	case arrow.INT16:
		return narrowInt[T, int16](a, v, t)
	case arrow.INT32:
		return convert[T, int32](a, v, t), true
	case arrow.INT64:
		return convert[T, int64](a, v, t), true
	case arrow.FLOAT64:
		return convert[T, float64](a, v, t), true
	}
	return nil, false
}

func widenDecimal[T ~int8 | ~int16 | ~int32 | ~int64](a arrow.Array, v []T, t *arrow.Decimal128Type) (arrow.Array, bool) {
	return toDecimal(a, t, t.Scale, func(i int) decimal128.Num { return decimal128.FromI64(int64(v[i])) })
}

// toDecimal multiplies the values by 10^up. It is false when one does not fit, or when digits would be lost.
func toDecimal(a arrow.Array, t *arrow.Decimal128Type, up int32, value func(i int) decimal128.Num) (arrow.Array, bool) {
	if up < 0 || up > t.Precision {
		return nil, false
	}
	out := make([]decimal128.Num, a.Len())
	for i := range out {
		if a.IsNull(i) {
			continue
		}
		x := value(i)
		if !x.FitsInPrecision(t.Precision - up) {
			return nil, false
		}
		out[i] = x.IncreaseScaleBy(up)
	}
	return fixed(a, t, arrow.GetBytes(out)), true
}

func narrowInt[T ~int8 | ~int16 | ~int32, U ~int8 | ~int16](a arrow.Array, v []T, t arrow.DataType) (arrow.Array, bool) {
	for i, x := range v {
		if T(U(x)) != x && a.IsValid(i) {
			return nil, false
		}
	}
	return convert[T, U](a, v, t), true
}

// convert copies the values into another type of number, nulls kept.
func convert[T, U number](a arrow.Array, v []T, t arrow.DataType) arrow.Array {
	out := make([]U, len(v))
	for i, x := range v {
		out[i] = U(x)
	}
	return fixed(a, t, arrow.GetBytes(out))
}

func fixed(a arrow.Array, t arrow.DataType, raw []byte) arrow.Array {
	var bits *memory.Buffer
	if a.NullN() > 0 {
		bits = copyBits(a)
	}
	d := array.NewData(t, a.Len(), []*memory.Buffer{bits, memory.NewBufferBytes(raw)}, nil, a.NullN(), 0)
	defer d.Release()
	return array.MakeFromData(d)
}

func view(a arrow.Array, t arrow.DataType) arrow.Array {
	d := array.NewData(t, a.Len(), a.Data().Buffers(), nil, a.NullN(), a.Data().Offset())
	defer d.Release()
	return array.MakeFromData(d)
}

// toMicros brings timestamps of any unit to microseconds, rounded down. Delta's timestamps are UTC with a zone
// and wall-clock without one; old writers do not mark the difference, so the table's type decides.
func toMicros(a *array.Timestamp, t *arrow.TimestampType) arrow.Array {
	unit := a.DataType().(*arrow.TimestampType).Unit
	if unit == t.Unit {
		return view(a, t)
	}
	v := a.TimestampValues()
	out := make([]arrow.Timestamp, len(v))
	for i, x := range v {
		switch unit {
		case arrow.Second:
			out[i] = saturate(x, 1_000_000)
		case arrow.Millisecond:
			out[i] = saturate(x, 1000)
		case arrow.Nanosecond:
			q := x / 1000
			if x%1000 < 0 {
				q--
			}
			out[i] = q
		}
	}
	return fixed(a, t, arrow.GetBytes(out))
}

func saturate(x arrow.Timestamp, by arrow.Timestamp) arrow.Timestamp {
	switch {
	case x > math.MaxInt64/by:
		return math.MaxInt64
	case x < math.MinInt64/by:
		return math.MinInt64
	}
	return x * by
}
