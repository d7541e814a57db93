package protobuf

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	pr "google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ledgerlake/ledgerlake/decode/sink"
)

// value decodes the value at i into the column of one value of the field.
func (d *decoder) value(f *field, b []byte, i int) int {
	switch f.wire {
	case wireVarint:
		v, next := varint(b, i)
		if next < 0 {
			return d.fail(nil, min(i, len(b)), "a number ends early or has more than 10 bytes")
		}
		if f.enum != nil { // one that is not known leaves the field unset
			if n := f.enum.put(f.value, int32(v)); n > 1 && d.Filled(n-1) {
				return d.fail(nil, i, "the names of enum values are too much text")
			}
			return next
		}
		if !number(f, v) {
			return d.outOfRange(f, i)
		}
		return next
	case wireBytes:
		from, to := span(b, i)
		if from < 0 {
			return d.short(nil, b, i)
		}
		if f.form != formScalar {
			if d.nested(f, b[:to], from) < 0 {
				return -1
			}
			return to
		}
		if !f.value.PutBytes(b[from:to]) {
			return d.fail(nil, from, "the bytes are not UTF-8")
		}
		return to
	case wireFixed64:
		if len(b)-i < 8 {
			return d.short(nil, b, i)
		}
		if !fixed64(f, binary.LittleEndian.Uint64(b[i:])) {
			return d.outOfRange(f, i)
		}
		return i + 8
	}
	if len(b)-i < 4 {
		return d.short(nil, b, i)
	}
	if !fixed32(f, binary.LittleEndian.Uint32(b[i:])) {
		return d.outOfRange(f, i)
	}
	return i + 4
}

func (d *decoder) outOfRange(f *field, i int) int {
	return d.fail(nil, i, "the number is out of the range of "+f.value.TypeName())
}

// number appends a varint.
func number(f *field, v uint64) bool {
	s := f.value
	switch f.kind {
	case pr.BoolKind:
		s.Bl.Append(v != 0)
	case pr.EnumKind:
		return s.PutInt(int64(int32(v)))
	case pr.Int32Kind:
		return s.PutInt(int64(int32(v)))
	case pr.Sint32Kind:
		u := uint32(v)
		return s.PutInt(int64(int32(u>>1) ^ -int32(u&1)))
	case pr.Uint32Kind:
		return s.PutInt(int64(uint32(v)))
	case pr.Sint64Kind:
		return s.PutInt(int64(v>>1) ^ -int64(v&1))
	case pr.Uint64Kind:
		return s.PutUint(v)
	default:
		if s.Kind == sink.Int64 {
			s.I64.Append(int64(v))
			return true
		}
		return s.PutInt(int64(v))
	}
	return true
}

func fixed64(f *field, v uint64) bool {
	switch f.kind {
	case pr.DoubleKind:
		return f.value.PutFloat(math.Float64frombits(v))
	case pr.Fixed64Kind:
		return f.value.PutUint(v)
	}
	return f.value.PutInt(int64(v))
}

func fixed32(f *field, v uint32) bool {
	switch f.kind {
	case pr.FloatKind:
		return f.value.PutFloat(float64(math.Float32frombits(v)))
	case pr.Fixed32Kind:
		return f.value.PutInt(int64(v))
	}
	return f.value.PutInt(int64(int32(v)))
}

// nested decodes a message that is a value: b[i:].
func (d *decoder) nested(f *field, b []byte, i int) int {
	s := f.value
	switch f.form {
	case formMessage:
		if i = d.message(f.sub, b, i, s.St.Len()); i >= 0 {
			s.St.Append()
		}
		return i
	case formWrapper:
		return d.message(f.sub, b, i, s.Col.Len())
	}
	seconds, nanos, i := d.moment(b, i)
	if i < 0 {
		return i
	}
	if f.form == formTimestamp {
		hi, us := bits.Mul64(uint64(abs(seconds)), 1e6)
		if hi != 0 || us > math.MaxInt64-1e6 || nanos < 0 || nanos > 999999999 {
			return d.fail(nil, i, fmt.Sprintf("%d seconds and %d nanoseconds are no timestamp", seconds, nanos))
		}
		s.TS.Append(arrow.Timestamp(seconds*1e6 + int64(nanos)/1000))
		return i
	}
	// Of a duration both parts have the same sign.
	v := decimal128.FromI64(seconds).Mul(decimal128.FromI64(1e9)).Add(decimal128.FromI64(int64(nanos)))
	if nanos <= -1e9 || nanos >= 1e9 || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 || !s.PutDecimal(v, 9) {
		return d.fail(nil, i, fmt.Sprintf("%d seconds and %d nanoseconds do not fit %s", seconds, nanos, s.TypeName()))
	}
	return i
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// moment reads a google.protobuf.Timestamp or Duration: seconds as field 1, nanos as field 2.
func (d *decoder) moment(b []byte, i int) (seconds int64, nanos int32, next int) {
	for i < len(b) {
		tag, next := varint(b, i)
		if next < 0 {
			return 0, 0, d.fail(nil, i, "a field has no valid tag")
		}
		if tag != 1<<3 && tag != 2<<3 {
			if i = d.skip(b, next, tag>>3, tag&7, 0); i < 0 {
				return 0, 0, i
			}
			continue
		}
		v, after := varint(b, next)
		if after < 0 {
			return 0, 0, d.short(nil, b, next)
		}
		if i = after; tag == 1<<3 {
			seconds = int64(v)
		} else {
			nanos = int32(v)
		}
	}
	return seconds, nanos, i
}

// dropEntries writes a map once more, without the entries that a later one has the key of.
func (d *decoder) dropEntries(f *field, b []byte, i int, drop []bool) bool {
	drop = slices.Clone(drop)
	f.sink.Mp.Truncate(f.sink.Mp.Len())
	n := 0
	for i < len(b) {
		tag, next := varint(b, i)
		if next < 0 {
			return d.fail(nil, i, "a field has no valid tag") >= 0
		}
		if tag>>3 != f.num || tag&7 != wireBytes {
			if i = d.skip(b, next, tag>>3, tag&7, 0); i < 0 {
				return false
			}
			continue
		}
		_, to := span(b, next)
		if !drop[n] {
			if d.mapEntry(f, b, next) < 0 {
				return false
			}
		}
		n++
		i = to
	}
	return true
}
