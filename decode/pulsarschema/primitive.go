package pulsarschema

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
)

// primitive is the column of a type whose values have no fields, and their size; -1: any.
func (t Type) primitive() (column arrow.DataType, size int, ok bool) {
	switch t {
	case String:
		return arrow.BinaryTypes.String, -1, true
	case Bytes, None:
		return arrow.BinaryTypes.Binary, -1, true
	case Bool:
		return arrow.FixedWidthTypes.Boolean, 1, true
	case Int8:
		return arrow.PrimitiveTypes.Int32, 1, true
	case Int16:
		return arrow.PrimitiveTypes.Int32, 2, true
	case Int32:
		return arrow.PrimitiveTypes.Int32, 4, true
	case Int64, Time, LocalTime: // milliseconds and nanoseconds of a day, as they are: Delta has no time of day
		return arrow.PrimitiveTypes.Int64, 8, true
	case Float:
		return arrow.PrimitiveTypes.Float32, 4, true
	case Double:
		return arrow.PrimitiveTypes.Float64, 8, true
	case Date, Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, 8, true
	case Instant:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, 12, true
	case LocalDate:
		return arrow.FixedWidthTypes.Date32, 8, true
	case LocalDateTime:
		return &arrow.TimestampType{Unit: arrow.Microsecond}, 16, true
	}
	return nil, 0, false
}

const (
	secondsOfDay = 86_400
	nanosOfDay   = secondsOfDay * int64(time.Second)
	// Times beyond have no text of four digits for the year.
	firstSecond = -62_135_596_800 // 0001-01-01
	lastSecond  = 253_402_300_799 // 9999-12-31T23:59:59
)

// appendPrimitive appends a value as JSON. Numbers are big-endian.
func appendPrimitive(dst []byte, t Type, v []byte) ([]byte, *decode.Error) {
	_, size, _ := t.primitive()
	if size >= 0 && len(v) != size {
		return dst, &decode.Error{Reason: fmt.Sprintf("%d bytes are no %s", len(v), t), Pos: min(len(v), size)}
	}
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(v[at:])) }
	switch t {
	case String:
		if !utf8.Valid(v) {
			return dst, &decode.Error{Reason: "the text is not UTF-8"}
		}
		return decode.AppendString(dst, v), nil
	case Bool:
		return strconv.AppendBool(dst, v[0] != 0), nil
	case Int8:
		return strconv.AppendInt(dst, int64(int8(v[0])), 10), nil
	case Int16:
		return strconv.AppendInt(dst, int64(int16(binary.BigEndian.Uint16(v))), 10), nil
	case Int32:
		return strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(v))), 10), nil
	case Int64, Time, LocalTime:
		return strconv.AppendInt(dst, long(0), 10), nil
	case Float:
		return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32)
	case Double:
		return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(v)), 64)
	case Date, Timestamp:
		return appendTime(dst, floorDiv(long(0), 1000), (long(0)-1000*floorDiv(long(0), 1000))*int64(time.Millisecond), "Z")
	case Instant:
		return appendTime(dst, long(0), int64(int32(binary.BigEndian.Uint32(v[8:]))), "Z")
	case LocalDate:
		return appendDay(dst, long(0))
	case LocalDateTime:
		day, nano := long(0), long(8)
		if nano < 0 || nano >= nanosOfDay || day > lastSecond/secondsOfDay || day < firstSecond/secondsOfDay {
			return dst, &decode.Error{Reason: fmt.Sprintf("day %d, nanosecond %d is no time of the years 1 to 9999", day, nano)}
		}
		return appendTime(dst, day*secondsOfDay+nano/int64(time.Second), nano%int64(time.Second), "")
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v)
	return append(dst, '"'), nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func appendFloat(dst []byte, f float64, bits int) ([]byte, *decode.Error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, &decode.Error{Reason: fmt.Sprintf("%v is no number that a column of JSON takes", f)}
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits), nil
}

// appendTime appends a time; what is below the microsecond is dropped.
func appendTime(dst []byte, seconds, nanos int64, zone string) ([]byte, *decode.Error) {
	if seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos >= int64(time.Second) {
		return dst, &decode.Error{Reason: fmt.Sprintf("second %d, nanosecond %d is no time of the years 1 to 9999", seconds, nanos)}
	}
	dst = append(dst, '"')
	dst = time.Unix(seconds, nanos/1000*1000).UTC().AppendFormat(dst, "2006-01-02T15:04:05.999999")
	return append(append(dst, zone...), '"'), nil
}

func appendDay(dst []byte, day int64) ([]byte, *decode.Error) {
	if day < firstSecond/secondsOfDay || day > lastSecond/secondsOfDay {
		return dst, &decode.Error{Reason: fmt.Sprintf("day %d is not of the years 1 to 9999", day)}
	}
	dst = append(dst, '"')
	dst = time.Unix(day*secondsOfDay, 0).UTC().AppendFormat(dst, time.DateOnly)
	return append(dst, '"'), nil
}
