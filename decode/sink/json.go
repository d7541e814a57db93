package sink

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/ledgerlake/ledgerlake/decode"
)

// AppendJSON appends row i as a JSON object, null fields left out. Numbers and decimals keep their digits, dates and
// timestamps are ISO 8601, bytes base64, and what JSON has no number for ("NaN") is text.
func (r *Batch) AppendJSON(dst []byte, i int) []byte { return appendObject(dst, r.Fields, i) }

func appendObject(dst []byte, fields []*Sink, i int) []byte {
	dst = append(dst, '{')
	first := true
	for _, f := range fields {
		if f.Col.Null(i) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(decode.AppendString(dst, f.Name), ':')
		dst = f.appendJSON(dst, i)
	}
	return append(dst, '}')
}

func (s *Sink) appendJSON(dst []byte, i int) []byte {
	if s.Col.Null(i) {
		return append(dst, "null"...)
	}
	switch s.Kind {
	case Int8, Int16, Int32, Int64:
		return strconv.AppendInt(dst, s.number(i), 10)
	case Float32:
		return appendFloat(dst, float64(s.F32.Values()[i]), 32)
	case Float64:
		return appendFloat(dst, s.F64.Values()[i], 64)
	case Decimal:
		return append(dst, s.Dec.Values()[i].ToString(s.Scale)...)
	case Bool:
		return strconv.AppendBool(dst, s.Bl.Value(i))
	case String:
		return decode.AppendString(dst, s.Bin.Value(i))
	case Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, s.Bin.Value(i))
		return append(dst, '"')
	case Date:
		return append(time.Unix(int64(s.Date.Values()[i])*86400, 0).UTC().AppendFormat(append(dst, '"'), time.DateOnly), '"')
	case Timestamp:
		layout := "2006-01-02T15:04:05.999999"
		if s.Zoned {
			layout += "Z"
		}
		return append(time.UnixMicro(int64(s.TS.Values()[i])).UTC().AppendFormat(append(dst, '"'), layout), '"')
	case Struct:
		return appendObject(dst, s.Fields, i)
	case List:
		dst = append(dst, '[')
		for e := s.Li.Elements(i); e < s.Li.Elements(i+1); e++ {
			if e > s.Li.Elements(i) {
				dst = append(dst, ',')
			}
			dst = s.Elem.appendJSON(dst, e)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for e := s.Mp.Elements(i); e < s.Mp.Elements(i+1); e++ {
		if e > s.Mp.Elements(i) {
			dst = append(dst, ',')
		}
		if s.Key.Kind == String {
			dst = s.Key.appendJSON(dst, e)
		} else {
			dst = append(s.Key.appendJSON(append(dst, '"'), e), '"')
		}
		dst = s.Elem.appendJSON(append(dst, ':'), e)
	}
	return append(dst, '}')
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 0):
		if v < 0 {
			return append(dst, `"-Infinity"`...)
		}
		return append(dst, `"Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}
