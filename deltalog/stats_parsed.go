package deltalog

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// statsReader turns the struct statistics of a checkpoint back into the JSON form that adds carry: tables may be
// set to keep only the former.
type statsReader struct {
	root statsNode
	buf  []byte
}

// statsNode is a field of the statistics: a leaf or a struct.
type statsNode struct {
	name     string
	leaf     *parquetLeaf
	children []*statsNode
}

func newStatsReader(leaves []*parquetLeaf) *statsReader {
	s := &statsReader{}
	for _, l := range leaves {
		n := &s.root
		for _, name := range l.desc.ColumnPath()[2:] {
			n = n.child(name)
		}
		n.leaf = l
	}
	return s
}

func (n *statsNode) child(name string) *statsNode {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	c := &statsNode{name: name}
	n.children = append(n.children, c)
	return c
}

// json gives the statistics of the current row, or "" when there are none.
func (s *statsReader) json() string {
	buf, ok := s.root.append(s.buf[:0])
	s.buf = buf
	if !ok {
		return ""
	}
	return string(buf)
}

// append writes the field's value; false when it is null or has no JSON form, and then nothing is written.
func (n *statsNode) append(dst []byte) ([]byte, bool) {
	if n.leaf != nil {
		return n.leaf.appendStats(dst)
	}
	start, count := len(dst), 0
	dst = append(dst, '{')
	for _, c := range n.children {
		mark := len(dst)
		if count > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, c.name), ':')
		var ok bool
		if dst, ok = c.append(dst); !ok {
			dst = dst[:mark]
			continue
		}
		count++
	}
	if count == 0 {
		return dst[:start], false
	}
	return append(dst, '}'), true
}

func (l *parquetLeaf) appendStats(dst []byte) ([]byte, bool) {
	if !l.ok() {
		return dst, false
	}
	switch t := l.desc.LogicalType().(type) {
	case schema.DecimalLogicalType:
		return l.appendDecimal(dst, t.Scale())
	case schema.DateLogicalType:
		days, _ := l.int()
		days = l.calendar.Day(days)
		return append(time.Unix(days*86400, 0).UTC().AppendFormat(append(dst, '"'), time.DateOnly), '"'), true
	case schema.TimestampLogicalType:
		v, _ := l.int()
		micros, ok := microsOf(v, t.TimeUnit())
		if !ok {
			return dst, false
		}
		return l.appendTime(dst, micros, t.IsAdjustedToUTC())
	}
	switch {
	case l.longs != nil, l.ints != nil:
		v, _ := l.int()
		return strconv.AppendInt(dst, v, 10), true
	case l.doubles != nil:
		return appendFloat(dst, l.doubles[l.at], 64)
	case l.floats != nil:
		return appendFloat(dst, float64(l.floats[l.at]), 32)
	case l.bools != nil:
		return strconv.AppendBool(dst, l.bools[l.at]), true
	case l.times != nil:
		micros, ok := int96Micros(l.times[l.at])
		if !ok {
			return dst, false
		}
		return l.appendTime(dst, micros, true)
	case l.desc.PhysicalType() == parquet.Types.ByteArray:
		return appendString(dst, l.text()), true
	}
	return dst, false
}

// microsOf gives a time in microseconds; false for one that they do not reach.
func microsOf(v int64, unit schema.TimeUnitType) (int64, bool) {
	switch unit {
	case schema.TimeUnitMillis:
		return v * 1000, v <= math.MaxInt64/1000 && v >= math.MinInt64/1000
	case schema.TimeUnitNanos:
		return floorDiv(v, 1000), true
	}
	return v, true
}

// int96Micros gives a time in Parquet's old form, nanoseconds of a Julian day, in microseconds: nanoseconds since 1970 reach from
// 1677 to 2262 only. False for one that no writer means.
func int96Micros(v parquet.Int96) (int64, bool) {
	nanos, day := int64(binary.LittleEndian.Uint64(v[:8])), int64(int32(binary.LittleEndian.Uint32(v[8:])))-2440588
	const perDay, mostDays = 24 * 60 * 60 * 1e6, 100_000_000
	return day*perDay + floorDiv(nanos, 1000), -mostDays < day && day < mostDays && nanos >= 0 && nanos < 1000*perDay
}

// appendTime writes a time of the file by today's calendar. One whose zone had other clocks then is left out: no bound is
// better than a wrong one.
func (l *parquetLeaf) appendTime(dst []byte, micros int64, utc bool) ([]byte, bool) {
	micros, err := l.calendar.Time(micros, 1e6, utc, l.times != nil)
	if err != nil {
		return dst, false
	}
	return appendMicros(dst, micros, utc), true
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// appendMicros writes a time with the usual milliseconds, or with all its digits when there are more: to round
// them one would have to know whether it is a lower or an upper bound.
func appendMicros(dst []byte, micros int64, utc bool) []byte {
	layout := "2006-01-02T15:04:05.000"
	if micros%1000 != 0 {
		layout = "2006-01-02T15:04:05.000000"
	}
	if utc {
		layout += "Z"
	}
	return append(time.UnixMicro(micros).UTC().AppendFormat(append(dst, '"'), layout), '"')
}

func (l *parquetLeaf) appendDecimal(dst []byte, scale int32) ([]byte, bool) {
	v := new(big.Int)
	switch {
	case l.longs != nil, l.ints != nil:
		n, _ := l.int()
		v.SetInt64(n)
	case l.fixed != nil:
		setTwosComplement(v, l.fixed[l.at])
	case l.desc.PhysicalType() == parquet.Types.ByteArray:
		setTwosComplement(v, bytesOf(l.text()))
	default:
		return dst, false
	}
	if scale < 0 || scale > 38 {
		return dst, false
	}
	digits := new(big.Int).Abs(v).String()
	if pad := int(scale) + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	if v.Sign() < 0 {
		dst = append(dst, '-')
	}
	dst = append(dst, digits[:len(digits)-int(scale)]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-int(scale):]...)
	}
	return dst, true
}

func setTwosComplement(v *big.Int, b []byte) {
	v.SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
}

func appendFloat(dst []byte, v float64, bits int) ([]byte, bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dst, false // no bound is better than one that readers order differently
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits), true
}
