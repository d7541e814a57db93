package deltalog

import (
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// statsReader turns the struct statistics of a checkpoint back into the JSON form that adds carry: tables may be
// set to keep only the former.
type statsReader struct {
	arr *array.Struct
	buf []byte
}

func newStatsReader(a arrow.Array) *statsReader {
	st, _ := a.(*array.Struct)
	return &statsReader{arr: st}
}

// json gives the statistics of a row, or "" when there are none.
func (s *statsReader) json(i int) string {
	if s.arr == nil || s.arr.IsNull(i) {
		return ""
	}
	buf, ok := appendStats(s.buf[:0], s.arr, i)
	s.buf = buf
	if !ok {
		return ""
	}
	return string(buf)
}

// appendStats writes a value; false when it is null or has no JSON form, and then nothing is written.
func appendStats(dst []byte, a arrow.Array, i int) ([]byte, bool) {
	if a.IsNull(i) {
		return dst, false
	}
	switch a := a.(type) {
	case *array.Struct:
		return appendStatsStruct(dst, a, i)
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10), true
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), true
	case *array.Int16:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), true
	case *array.Int8:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), true
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64)
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32)
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i)), true
	case *array.String:
		return appendString(dst, a.Value(i)), true
	case *array.Date32:
		return append(a.Value(i).ToTime().AppendFormat(append(dst, '"'), "2006-01-02"), '"'), true
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		layout := "2006-01-02T15:04:05.000000"
		if t.TimeZone != "" {
			layout += "Z"
		}
		return append(a.Value(i).ToTime(t.Unit).In(time.UTC).AppendFormat(append(dst, '"'), layout), '"'), true
	case *array.Decimal128:
		return append(dst, a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)...), true
	}
	return dst, false
}

func appendFloat(dst []byte, v float64, bits int) ([]byte, bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dst, false // no bound is better than one that readers order differently
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits), true
}

func appendStatsStruct(dst []byte, a *array.Struct, i int) ([]byte, bool) {
	dst = append(dst, '{')
	n := 0
	for c, f := range a.DataType().(*arrow.StructType).Fields() {
		mark := len(dst)
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, f.Name), ':')
		var ok bool
		if dst, ok = appendStats(dst, a.Field(c), i); !ok {
			dst = dst[:mark]
			continue
		}
		n++
	}
	return append(dst, '}'), true
}
