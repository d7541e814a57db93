package table

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
)

// appendBound writes the smallest value of a leaf as JSON, or with up the largest; false when there is none to
// give. Of booleans and bytes only nulls are counted.
func appendBound(dst []byte, t arrow.DataType, b *parquet.Bounds, up bool, prefix int) ([]byte, bool) {
	v, f := b.MinInt, b.MinFloat
	if up {
		v, f = b.MaxInt, b.MaxFloat
	}
	switch t := t.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return strconv.AppendInt(dst, v, 10), true
	case *arrow.Date32Type:
		return appendTime(dst, time.Unix(v*86400, 0).UTC(), "2006-01-02")
	case *arrow.TimestampType:
		layout := "2006-01-02T15:04:05.000"
		if t.TimeZone != "" {
			layout += "Z"
		}
		return appendTimestamp(dst, v, up, layout)
	case *arrow.Float32Type, *arrow.Float64Type:
		// The exact double, also of a float: the shortest form of a float can lie beyond the value. Nothing once
		// there is a NaN: engines do not agree on where it sorts.
		if b.NaN || !finite(f) {
			return dst, false
		}
		return strconv.AppendFloat(dst, f, 'g', -1, 64), true
	case *arrow.Decimal128Type:
		if up {
			return append(dst, b.MaxDecimal.ToString(t.Scale)...), true
		}
		return append(dst, b.MinDecimal.ToString(t.Scale)...), true
	case *arrow.StringType:
		if up {
			return appendMaxString(dst, b.MaxBytes, prefix)
		}
		cut, _, ok := cutString(b.MinBytes, prefix)
		if !ok {
			return dst, false
		}
		return appendQuoted(dst, string(cut)), true
	}
	return dst, false
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

// decidingBytes is how many bytes of a string its bounds depend on: twice the prefix and the character after it.
func decidingBytes(prefix int) int { return utf8.UTFMax * (2*prefix + 1) }

// appendMaxString gives the beginning with a character after it that no string in the file has there or beyond.
func appendMaxString(dst, most []byte, prefix int) ([]byte, bool) {
	for n := prefix; n <= 2*prefix; n++ {
		cut, next, ok := cutString(most, n)
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
