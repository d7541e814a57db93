package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// footerBytes is how much of them the footer has; longer ones are cut there and marked as not exact.
const footerBytes = 64

// Bounds are what is known of the values of a leaf: of a whole file, or of a row group.
type Bounds struct {
	Nulls int64 // levels without a value: for a leaf outside of lists, the rows in which it is null
	Any   bool  // there is a value that is neither null nor NaN
	NaN   bool  // there is a NaN

	MinInt, MaxInt         int64          // integers, dates, timestamps; 0 and 1 of booleans
	MinFloat, MaxFloat     float64        // floating point numbers
	MinDecimal, MaxDecimal decimal128.Num // decimals
	// MinBytes and MaxBytes are the beginnings of strings and byte strings; with MinCut or MaxCut there is more.
	MinBytes, MaxBytes []byte
	MinCut, MaxCut     bool

	lists            int64  // rows in which the outermost list is null
	minWord, maxWord uint64 // the first 8 bytes of MinBytes and MaxBytes
}

func (b *Bounds) reset() { *b = Bounds{MinBytes: b.MinBytes[:0], MaxBytes: b.MaxBytes[:0]} }

func boundInts[T int32 | int64](b *Bounds, v []T) {
	if len(v) == 0 {
		return
	}
	lo, hi := v[0], v[0]
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
	}
	b.ints(int64(lo), int64(hi))
}

func (b *Bounds) ints(lo, hi int64) {
	if !b.Any {
		b.Any, b.MinInt, b.MaxInt = true, lo, hi
		return
	}
	b.MinInt, b.MaxInt = min(b.MinInt, lo), max(b.MaxInt, hi)
}

func boundFloats[T float32 | float64](b *Bounds, v []T) {
	lo, hi, any := T(0), T(0), false
	for _, x := range v {
		switch {
		case x != x:
			b.NaN = true
		case !any:
			lo, hi, any = x, x, true
		case x < lo:
			lo = x
		case x > hi:
			hi = x
		}
	}
	if any {
		b.floats(float64(lo), float64(hi))
	}
}

func (b *Bounds) floats(lo, hi float64) {
	if !b.Any {
		b.Any, b.MinFloat, b.MaxFloat = true, lo, hi
		return
	}
	b.MinFloat, b.MaxFloat = min(b.MinFloat, lo), max(b.MaxFloat, hi)
}

func (b *Bounds) decimal(v decimal128.Num) {
	switch {
	case !b.Any:
		b.Any, b.MinDecimal, b.MaxDecimal = true, v, v
	case v.Cmp(b.MinDecimal) < 0:
		b.MinDecimal = v
	case v.Cmp(b.MaxDecimal) > 0:
		b.MaxDecimal = v
	}
}

// bytes takes a byte string, of which at most keep bytes are kept. Most are settled by their first 8 bytes.
func (b *Bounds) bytes(v []byte, keep int) {
	w := firstWord(v)
	if b.Any && w > b.minWord && w < b.maxWord {
		return
	}
	cut := len(v) > keep
	if cut {
		v = v[:keep]
	}
	b.bytesCut(v, cut, w)
}

func (b *Bounds) bytesCut(v []byte, cut bool, w uint64) {
	first := !b.Any
	b.Any = true
	if c := bytes.Compare(v, b.MinBytes); first || c < 0 {
		b.MinBytes, b.MinCut, b.minWord = append(b.MinBytes[:0], v...), cut, w
	} else if c == 0 {
		b.MinCut = b.MinCut && cut // the shorter one is the smaller
	}
	if c := bytes.Compare(v, b.MaxBytes); first || c > 0 {
		b.MaxBytes, b.MaxCut, b.maxWord = append(b.MaxBytes[:0], v...), cut, w
	} else if c == 0 {
		b.MaxCut = b.MaxCut || cut
	}
}

// firstWord orders byte strings by their first 8 bytes; equal ones may still differ.
func firstWord(v []byte) uint64 {
	if len(v) >= 8 {
		return binary.BigEndian.Uint64(v)
	}
	var w uint64
	for i, c := range v {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// merge adds what is known of more values of the same leaf.
func (b *Bounds) merge(o *Bounds) {
	b.Nulls += o.Nulls
	b.lists += o.lists
	b.NaN = b.NaN || o.NaN
	if !o.Any {
		return
	}
	if !b.Any {
		nulls, lists, nan := b.Nulls, b.lists, b.NaN
		lo, hi := append(b.MinBytes[:0], o.MinBytes...), append(b.MaxBytes[:0], o.MaxBytes...)
		*b = *o
		b.Nulls, b.lists, b.NaN, b.MinBytes, b.MaxBytes = nulls, lists, nan, lo, hi
		return
	}
	b.ints(o.MinInt, o.MaxInt)
	b.floats(o.MinFloat, o.MaxFloat)
	b.decimal(o.MinDecimal)
	b.decimal(o.MaxDecimal)
	b.bytesCut(o.MinBytes, o.MinCut, o.minWord)
	b.bytesCut(o.MaxBytes, o.MaxCut, o.maxWord)
}

// append writes the statistics of a chunk, in the format's order of each type.
func (b *Bounds) append(t *thrift, x *leaf) {
	t.begin(12)
	t.i64(3, b.Nulls)
	if lo, hi, loExact, hiExact, ok := b.plain(x); ok {
		t.bytes(5, hi)
		t.bytes(6, lo)
		t.bool(7, hiExact)
		t.bool(8, loExact)
	}
	t.end()
}

// plain gives the bounds as PLAIN values without length; false when there are none to give.
func (b *Bounds) plain(x *leaf) (lo, hi []byte, loExact, hiExact, ok bool) {
	le := binary.LittleEndian
	ok = b.Any
	loExact, hiExact = true, true
	switch x.kind {
	case kindBool:
		lo, hi = []byte{byte(b.MinInt)}, []byte{byte(b.MaxInt)}
	case kindInt32:
		lo, hi = le.AppendUint32(nil, uint32(b.MinInt)), le.AppendUint32(nil, uint32(b.MaxInt))
	case kindInt64:
		lo, hi = le.AppendUint64(nil, uint64(b.MinInt)), le.AppendUint64(nil, uint64(b.MaxInt))
	case kindFloat, kindDouble:
		// A NaN is in no order; of the two zeros either may be among the values.
		ok = ok && !b.NaN
		least, most := b.MinFloat, b.MaxFloat
		if least == 0 {
			least = math.Copysign(0, -1)
		}
		if most == 0 {
			most = 0
		}
		if x.kind == kindFloat {
			lo, hi = le.AppendUint32(nil, math.Float32bits(float32(least))), le.AppendUint32(nil, math.Float32bits(float32(most)))
		} else {
			lo, hi = le.AppendUint64(nil, math.Float64bits(least)), le.AppendUint64(nil, math.Float64bits(most))
		}
	case kindFixed:
		lo, hi = appendDecimal(nil, b.MinDecimal, x.width), appendDecimal(nil, b.MaxDecimal, x.width)
	case kindBytes:
		lo, hi, loExact, hiExact = b.MinBytes, b.MaxBytes, !b.MinCut, !b.MaxCut
		text := x.text()
		if len(lo) > footerBytes {
			lo, loExact = cutBytes(lo, footerBytes, text), false
		}
		if len(hi) > footerBytes || !hiExact {
			hi, hiExact = above(cutBytes(hi, footerBytes, text), text), false
			ok = ok && hi != nil
		}
	}
	return lo, hi, loExact, hiExact, ok
}

// cutBytes gives the first bytes, of text whole characters.
func cutBytes(v []byte, n int, text bool) []byte {
	if len(v) <= n {
		return v
	}
	for text && n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

// above gives something short that is larger than all that begins with v; nil when nothing is.
func above(v []byte, text bool) []byte {
	for len(v) > 0 {
		if !text {
			if last := v[len(v)-1]; last < 0xff {
				return append(v[:len(v)-1:len(v)-1], last+1)
			}
			v = v[:len(v)-1]
			continue
		}
		r, size := utf8.DecodeLastRune(v)
		if r == utf8.RuneError && size <= 1 {
			return nil // not UTF-8: leave it out
		}
		v = v[:len(v)-size]
		if r++; r == 0xd800 {
			r = 0xe000
		}
		if r <= utf8.MaxRune {
			return utf8.AppendRune(v[:len(v):len(v)], r)
		}
	}
	return nil
}
