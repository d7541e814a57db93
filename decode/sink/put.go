package sink

import (
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Value is a kind of value that a format has.
type Value uint8

// The values. A column takes a value when nothing of it is lost, apart from rounding in float columns and from what
// is below the microsecond in timestamps.
const (
	ValueInt     Value = iota // any integer
	ValueFloat                // float or double
	ValueBool                 //
	ValueText                 // UTF-8
	ValueBytes                //
	ValueDecimal              //
	ValueDate                 // days; as an integer too, and as midnight on the wall, which a date column may have been widened to
	ValueInstant              // a point in time; as an integer of its own unit too
	ValueLocal                // the time on a wall; as an integer of its own unit too
)

// Takes says whether the column takes values of a kind at all. A single value may still not fit.
func (s *Sink) Takes(v Value) bool {
	switch s.Kind {
	case Int8, Int16, Int32, Int64:
		return v == ValueInt || v == ValueDate || v == ValueInstant || v == ValueLocal
	case Float32, Float64:
		return v == ValueInt || v == ValueFloat
	case Decimal:
		return v == ValueInt || v == ValueDecimal
	case Bool:
		return v == ValueBool
	case String, Binary:
		return v == ValueText || v == ValueBytes
	case Date:
		return v == ValueDate
	case Timestamp:
		return v == ValueInstant && s.Zoned || (v == ValueLocal || v == ValueDate) && !s.Zoned
	}
	return false
}

// PutInt appends an integer to a column that takes them; false when it is out of range.
func (s *Sink) PutInt(v int64) bool {
	switch s.Kind {
	case Int64:
		s.I64.Append(v)
	case Int32:
		if v != int64(int32(v)) {
			return false
		}
		s.I32.Append(int32(v))
	case Int16:
		if v != int64(int16(v)) {
			return false
		}
		s.I16.Append(int16(v))
	case Int8:
		if v != int64(int8(v)) {
			return false
		}
		s.I8.Append(int8(v))
	case Float64:
		s.F64.Append(float64(v))
	case Float32:
		s.F32.Append(float32(v))
	case Decimal:
		return s.PutDecimal(decimal128.FromI64(v), 0)
	case Date:
		if v != int64(int32(v)) {
			return false
		}
		s.Date.Append(arrow.Date32(v))
	case Timestamp:
		s.TS.Append(arrow.Timestamp(v))
	}
	return true
}

// PutUint appends an unsigned integer to a column that takes integers.
func (s *Sink) PutUint(v uint64) bool {
	switch {
	case s.Kind == Decimal:
		return s.PutDecimal(decimal128.FromU64(v), 0)
	case s.Kind == Float64:
		s.F64.Append(float64(v))
	case s.Kind == Float32:
		s.F32.Append(float32(v))
	case v > math.MaxInt64:
		return false
	default:
		return s.PutInt(int64(v))
	}
	return true
}

// PutFloat appends to a float or double column.
func (s *Sink) PutFloat(v float64) bool {
	if s.Kind == Float64 {
		s.F64.Append(v)
		return true
	}
	f := float32(v)
	if math.IsInf(float64(f), 0) && !math.IsInf(v, 0) {
		return false
	}
	s.F32.Append(f)
	return true
}

// PutBytes appends to a string or binary column; false when a string is not UTF-8.
func (s *Sink) PutBytes(v []byte) bool {
	if s.Kind == String && !utf8.Valid(v) {
		return false
	}
	s.Bin.Append(v)
	return true
}

// PutDecimal appends v / 10^scale; false when the column cannot hold it exactly.
func (s *Sink) PutDecimal(v decimal128.Num, scale int32) bool {
	switch up := s.Scale - scale; {
	case up > 0 && v != decimal128.Num{}:
		if up >= s.Prec || !v.FitsInPrecision(s.Prec-up) {
			return false
		}
		v = v.IncreaseScaleBy(up)
	case up < 0:
		w, err := v.Rescale(scale, s.Scale)
		if err != nil {
			return false
		}
		v = w
	}
	if !v.FitsInPrecision(s.Prec) {
		return false
	}
	s.Dec.Append(v)
	return true
}

// FloorDiv is a / b towards minus infinity, b > 0.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
