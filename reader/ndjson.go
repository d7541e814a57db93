package reader

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendNDJSON appends each row of rb as one JSON object and a newline. Names are those of the columns.
// Binary is base64 (RFC 4648, padded), a timestamp is RFC 3339 in UTC (without Z when the column has no zone),
// a date is YYYY-MM-DD, a decimal a number with all its digits, NaN and the infinities are strings.
func AppendNDJSON(dst []byte, rb arrow.RecordBatch) ([]byte, error) {
	dst, _, err := readable.appendRows(dst, rb, 0, math.MaxInt)
	return dst, err
}

// AppendNDJSONExact is AppendNDJSON for comparisons: rows with other values have other texts. In a string, a byte that is
// no UTF-8 is the escape of a lone surrogate, \udc80 to \udcff, and not U+FFFD.
func AppendNDJSONExact(dst []byte, rb arrow.RecordBatch) ([]byte, error) {
	dst, _, err := exact.appendRows(dst, rb, 0, math.MaxInt)
	return dst, err
}

// AppendNDJSONPiece is AppendNDJSON for rows from a given one on, until size bytes are appended or more: the last row is
// whole. next is the row behind them, and the number of rows of rb at its end.
func AppendNDJSONPiece(dst []byte, rb arrow.RecordBatch, row, size int) (out []byte, next int, err error) {
	return readable.appendRows(dst, rb, row, size)
}

// jsonForm says how values are written.
type jsonForm bool

const (
	readable jsonForm = false // bytes that are no UTF-8 become U+FFFD
	exact    jsonForm = true  // they become lone surrogates, which no text has
)

func (form jsonForm) appendRows(dst []byte, rb arrow.RecordBatch, row, size int) (out []byte, next int, err error) {
	names := make([][]byte, rb.NumCols())
	for i := range names {
		names[i] = append(form.appendString(nil, rb.ColumnName(i)), ':')
	}
	cols := rb.Columns()
	for start := len(dst); row < int(rb.NumRows()) && len(dst)-start < size; row++ {
		dst = append(dst, '{')
		for i, col := range cols {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, names[i]...)
			if dst, err = form.appendValue(dst, col, row); err != nil {
				return dst, row, fmt.Errorf("column %s: %w", rb.ColumnName(i), err)
			}
		}
		dst = append(dst, '}', '\n')
	}
	return dst, row, nil
}

func (form jsonForm) appendValue(dst []byte, a arrow.Array, i int) ([]byte, error) {
	if a.IsNull(i) {
		return append(dst, "null"...), nil
	}
	switch a := a.(type) {
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), nil
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10), nil
	case *array.Int16:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), nil
	case *array.Int8:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10), nil
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64), nil
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32), nil
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i)), nil
	case *array.String:
		return form.appendString(dst, a.Value(i)), nil
	case *array.LargeString:
		return form.appendString(dst, a.Value(i)), nil
	case *array.Binary:
		return appendBase64(dst, a.Value(i)), nil
	case *array.LargeBinary:
		return appendBase64(dst, a.Value(i)), nil
	case *array.FixedSizeBinary:
		return appendBase64(dst, a.Value(i)), nil
	case *array.Date32:
		return a.Value(i).ToTime().AppendFormat(dst, `"2006-01-02"`), nil
	case *array.Timestamp:
		return appendTimestamp(dst, a, i), nil
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return append(dst, a.Value(i).ToString(scale)...), nil
	case *array.Null:
		return append(dst, "null"...), nil
	}
	return form.appendNested(dst, a, i)
}

func (form jsonForm) appendNested(dst []byte, a arrow.Array, i int) ([]byte, error) {
	var err error
	switch a := a.(type) {
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		dst = append(dst, '{')
		for j, f := range fields {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(form.appendString(dst, f.Name), ':')
			if dst, err = form.appendValue(dst, a.Field(j), i); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case *array.Map: // before List: a Map is one underneath
		from, to := a.ValueOffsets(i)
		dst = append(dst, '{')
		for k := from; k < to; k++ {
			if k > from {
				dst = append(dst, ',')
			}
			if dst, err = form.appendKey(dst, a.Keys(), int(k)); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
			if dst, err = form.appendValue(dst, a.Items(), int(k)); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		for k := from; k < to; k++ {
			if k > from {
				dst = append(dst, ',')
			}
			if dst, err = form.appendValue(dst, a.ListValues(), int(k)); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	return dst, fmt.Errorf("type %s has no JSON form here", a.DataType())
}

// appendKey writes a map key as a JSON string, whatever its type.
func (form jsonForm) appendKey(dst []byte, a arrow.Array, i int) ([]byte, error) {
	start := len(dst)
	dst, err := form.appendValue(dst, a, i)
	if err != nil || dst[start] == '"' {
		return dst, err
	}
	raw := string(dst[start:])
	return form.appendString(dst[:start], raw), nil
}

func appendTimestamp(dst []byte, a *array.Timestamp, i int) []byte {
	typ := a.DataType().(*arrow.TimestampType)
	t := a.Value(i).ToTime(typ.Unit)
	if typ.TimeZone == "" {
		return t.AppendFormat(dst, `"2006-01-02T15:04:05.999999999"`)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string (RFC 8259).
func (form jsonForm) appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= 0x20 && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			if form == exact {
				dst = append(dst, '\\', 'u', 'd', 'c', hexDigits[b>>4], hexDigits[b&15])
			} else {
				dst = append(dst, "\ufffd"...)
			}
			start = i + 1
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
