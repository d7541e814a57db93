package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The sizes of DELTA_BINARY_PACKED as everybody writes them.
const (
	deltaBlock = 128
	deltaMinis = 4
	deltaMini  = deltaBlock / deltaMinis
)

// appendDelta appends values as differences: per block of 128 the smallest one, and in 4 groups what the
// others are above it, each group at its own width. Differences wrap, so that any values can be written.
func appendDelta[T int32 | int64](dst []byte, v []T) []byte {
	dst = append(binary.AppendUvarint(dst, deltaBlock), deltaMinis)
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	if len(v) == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(v[0]))
	var deltas [deltaBlock]T
	for prev, rest := v[0], v[1:]; len(rest) > 0; {
		n := min(len(rest), deltaBlock)
		least := rest[0] - prev
		for i, x := range rest[:n] {
			d := x - prev
			prev = x
			deltas[i] = d
			least = min(least, d)
		}
		rest = rest[n:]
		dst = binary.AppendVarint(dst, int64(least))
		widths := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		for m := 0; m*deltaMini < n; m++ {
			mini := deltas[m*deltaMini : min(n, (m+1)*deltaMini)]
			w := miniWidth(mini, least)
			dst[widths+m] = byte(w)
			dst = appendMini(dst, mini, least, w)
		}
	}
	return dst
}

func miniWidth[T int32 | int64](mini []T, least T) int {
	var all uint64
	for _, d := range mini {
		all |= uint64(d - least)
	}
	return bits.Len64(all & mask[T]())
}

// mask has the bits of the type: a difference is an unsigned number of the type's own width.
func mask[T int32 | int64]() uint64 {
	if one := T(1); one<<31<<1 == 0 {
		return math.MaxUint32
	}
	return math.MaxUint64
}

// appendMini appends 32 numbers of a width; those that are missing are 0.
func appendMini[T int32 | int64](dst []byte, mini []T, least T, width int) []byte {
	end := len(dst) + deltaMini*width/8
	var acc uint64
	n, own := 0, mask[T]()
	for _, d := range mini {
		x := uint64(d-least) & own
		acc |= x << n
		if n+width < 64 {
			n += width
			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, acc)
		acc = 0
		if n > 0 {
			acc = x >> (64 - n)
		}
		n += width - 64
	}
	for ; len(dst) < end; acc >>= 8 {
		dst = append(dst, byte(acc))
	}
	return dst
}
