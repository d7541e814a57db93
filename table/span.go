package table

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// span is the smallest and the largest value of a leaf.
type span interface {
	addAll(a arrow.Array)                     // no row is null
	add(a arrow.Array, parents []arrow.Array) // rows that are valid in all parents
	appendMin(dst []byte) ([]byte, bool)      // as JSON; false when there is none to give
	appendMax(dst []byte) ([]byte, bool)
}

func newSpan(t arrow.DataType, prefix int) span {
	switch t := t.(type) {
	case *arrow.Int8Type:
		return &intSpan[int8]{values: func(a arrow.Array) []int8 { return a.(*array.Int8).Int8Values() }}
	case *arrow.Int16Type:
		return &intSpan[int16]{values: func(a arrow.Array) []int16 { return a.(*array.Int16).Int16Values() }}
	case *arrow.Int32Type:
		return &intSpan[int32]{values: func(a arrow.Array) []int32 { return a.(*array.Int32).Int32Values() }}
	case *arrow.Int64Type:
		return &intSpan[int64]{values: func(a arrow.Array) []int64 { return a.(*array.Int64).Int64Values() }}
	case *arrow.Date32Type:
		return &intSpan[arrow.Date32]{values: func(a arrow.Array) []arrow.Date32 { return a.(*array.Date32).Date32Values() }, format: appendDate}
	case *arrow.TimestampType:
		layout := "2006-01-02T15:04:05.000"
		if t.TimeZone != "" {
			layout += "Z"
		}
		return &intSpan[arrow.Timestamp]{values: func(a arrow.Array) []arrow.Timestamp { return a.(*array.Timestamp).TimestampValues() },
			format: func(dst []byte, v int64, up bool) ([]byte, bool) { return appendTimestamp(dst, v, up, layout) }}
	case *arrow.Float32Type:
		return &floatSpan[float32]{values: func(a arrow.Array) []float32 { return a.(*array.Float32).Float32Values() }}
	case *arrow.Float64Type:
		return &floatSpan[float64]{values: func(a arrow.Array) []float64 { return a.(*array.Float64).Float64Values() }}
	case *arrow.Decimal128Type:
		return &decimalSpan{scale: t.Scale}
	case *arrow.StringType:
		return &stringSpan{prefix: prefix}
	}
	return noSpan{} // booleans, binary, lists and maps: only nulls are counted
}

type noSpan struct{}

func (noSpan) addAll(arrow.Array)                  {}
func (noSpan) add(arrow.Array, []arrow.Array)      {}
func (noSpan) appendMin(dst []byte) ([]byte, bool) { return dst, false }
func (noSpan) appendMax(dst []byte) ([]byte, bool) { return dst, false }

// intSpan is for everything that is an integer in memory.
type intSpan[T ~int8 | ~int16 | ~int32 | ~int64] struct {
	values   func(arrow.Array) []T
	format   func(dst []byte, v int64, up bool) ([]byte, bool) // nil: a number
	any      bool
	min, max T
}

func (s *intSpan[T]) take(v T) {
	if !s.any {
		s.any, s.min, s.max = true, v, v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
}

func (s *intSpan[T]) addAll(a arrow.Array) {
	for _, v := range s.values(a) {
		s.take(v)
	}
}

func (s *intSpan[T]) add(a arrow.Array, parents []arrow.Array) {
	for i, v := range s.values(a) {
		if valid(parents, i) {
			s.take(v)
		}
	}
}

func (s *intSpan[T]) appendMin(dst []byte) ([]byte, bool) { return s.append(dst, s.min, false) }
func (s *intSpan[T]) appendMax(dst []byte) ([]byte, bool) { return s.append(dst, s.max, true) }

func (s *intSpan[T]) append(dst []byte, v T, up bool) ([]byte, bool) {
	switch {
	case !s.any:
		return dst, false
	case s.format != nil:
		return s.format(dst, int64(v), up)
	}
	return strconv.AppendInt(dst, int64(v), 10), true
}

func appendDate(dst []byte, v int64, _ bool) ([]byte, bool) {
	return appendTime(dst, time.Unix(v*86400, 0).UTC(), "2006-01-02")
}

// appendTimestamp goes to milliseconds, away from the values in between: a reader may skip a file by this.
func appendTimestamp(dst []byte, v int64, up bool, layout string) ([]byte, bool) {
	ms := v / 1000
	if rest := v % 1000; rest < 0 && !up {
		ms--
	} else if rest > 0 && up {
		ms++
	}
	return appendTime(dst, time.UnixMilli(ms).UTC(), layout)
}

// appendTime leaves out years that do not have four digits: readers do not agree on them.
func appendTime(dst []byte, t time.Time, layout string) ([]byte, bool) {
	if t.Year() < 1 || t.Year() > 9999 {
		return dst, false
	}
	dst = append(dst, '"')
	dst = t.AppendFormat(dst, layout)
	return append(dst, '"'), true
}

// floatSpan gives nothing once it has seen a NaN: engines do not agree on where NaN sorts.
type floatSpan[T float32 | float64] struct {
	values   func(arrow.Array) []T
	any, nan bool
	min, max T
}

func (s *floatSpan[T]) take(v T) {
	if v != v {
		s.nan = true
		return
	}
	if !s.any {
		s.any, s.min, s.max = true, v, v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
}

func (s *floatSpan[T]) addAll(a arrow.Array) {
	for _, v := range s.values(a) {
		s.take(v)
	}
}

func (s *floatSpan[T]) add(a arrow.Array, parents []arrow.Array) {
	for i, v := range s.values(a) {
		if valid(parents, i) {
			s.take(v)
		}
	}
}

func (s *floatSpan[T]) appendMin(dst []byte) ([]byte, bool) { return s.append(dst, float64(s.min)) }
func (s *floatSpan[T]) appendMax(dst []byte) ([]byte, bool) { return s.append(dst, float64(s.max)) }

// append writes the exact double, also of a float: the shortest form of a float can lie beyond the value.
func (s *floatSpan[T]) append(dst []byte, v float64) ([]byte, bool) {
	if !s.any || s.nan || !finite(v) {
		return dst, false
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64), true
}

type decimalSpan struct {
	scale    int32
	any      bool
	min, max decimal128.Num
}

func (s *decimalSpan) take(v decimal128.Num) {
	if !s.any {
		s.any, s.min, s.max = true, v, v
	}
	if v.Cmp(s.min) < 0 {
		s.min = v
	}
	if v.Cmp(s.max) > 0 {
		s.max = v
	}
}

func (s *decimalSpan) addAll(a arrow.Array) {
	for _, v := range a.(*array.Decimal128).Values() {
		s.take(v)
	}
}

func (s *decimalSpan) add(a arrow.Array, parents []arrow.Array) {
	for i, v := range a.(*array.Decimal128).Values() {
		if valid(parents, i) {
			s.take(v)
		}
	}
}

func (s *decimalSpan) appendMin(dst []byte) ([]byte, bool) { return s.append(dst, s.min) }
func (s *decimalSpan) appendMax(dst []byte) ([]byte, bool) { return s.append(dst, s.max) }

func (s *decimalSpan) append(dst []byte, v decimal128.Num) ([]byte, bool) {
	if !s.any {
		return dst, false
	}
	return append(dst, v.ToString(s.scale)...), true
}

// stringSpan keeps the beginnings of the smallest and the largest string, as much as the result depends on.
type stringSpan struct {
	prefix   int
	any      bool
	min, max []byte
}

// limit is how many bytes decide: twice the prefix and the character after it.
func (s *stringSpan) limit() int { return utf8.UTFMax * (2*s.prefix + 1) }

func (s *stringSpan) take(v string) {
	if n := s.limit(); len(v) > n {
		v = v[:n]
	}
	if !s.any {
		s.any = true
		s.min, s.max = append(s.min[:0], v...), append(s.max[:0], v...)
		return
	}
	if v < string(s.min) {
		s.min = append(s.min[:0], v...)
	}
	if v > string(s.max) {
		s.max = append(s.max[:0], v...)
	}
}

func (s *stringSpan) addAll(a arrow.Array) {
	strs := a.(*array.String)
	for i := range strs.Len() {
		s.take(strs.Value(i))
	}
}

func (s *stringSpan) add(a arrow.Array, parents []arrow.Array) {
	strs := a.(*array.String)
	for i := range strs.Len() {
		if valid(parents, i) {
			s.take(strs.Value(i))
		}
	}
}

func (s *stringSpan) appendMin(dst []byte) ([]byte, bool) {
	cut, _, ok := cutString(s.min, s.prefix)
	if !s.any || !ok {
		return dst, false
	}
	return appendQuoted(dst, string(cut)), true
}

// appendMax gives the beginning with a character after it that no string in the file has there or beyond.
func (s *stringSpan) appendMax(dst []byte) ([]byte, bool) {
	if !s.any {
		return dst, false
	}
	for n := s.prefix; n <= 2*s.prefix; n++ {
		cut, next, ok := cutString(s.max, n)
		switch {
		case !ok:
			return dst, false
		case next < 0:
			return appendQuoted(dst, string(cut)), true
		case next < 0x7F:
			return appendQuoted(dst, string(cut)+"\u007F"), true
		case next < utf8.MaxRune:
			return appendQuoted(dst, string(cut)+string(utf8.MaxRune)), true
		}
	}
	return dst, false
}

// cutString gives the first n characters and the one after them, -1 at the end. It is false when they are not
// UTF-8: a replacement character would sort elsewhere.
func cutString(b []byte, n int) (cut []byte, next rune, ok bool) {
	at := 0
	for range n {
		if at == len(b) {
			return b, -1, true
		}
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			return nil, 0, false
		}
		at += size
	}
	if at == len(b) {
		return b, -1, true
	}
	r, size := utf8.DecodeRune(b[at:])
	if r == utf8.RuneError && size <= 1 {
		return nil, 0, false
	}
	return b[:at], r, true
}

func appendQuoted(dst []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // a string always encodes
		return append(dst, '"', '"')
	}
	return append(dst, q...)
}
