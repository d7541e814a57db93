package parquet

import (
	"encoding/binary"
	"math/bits"
)

// appendHybrid appends values of a width in bits as the format's mixture of runs and bit-packed groups of 8.
func appendHybrid[T uint8 | uint32](dst []byte, v []T, width int) []byte {
	if width == 0 { // all are 0: a run without value bytes
		return binary.AppendUvarint(dst, uint64(len(v))<<1)
	}
	start := 0 // of groups that are not written yet
	for i := 0; i < len(v); {
		n := runLength(v[i:])
		if n < 8 && n < len(v)-i {
			i = min(i+8, len(v))
			continue
		}
		dst = appendGroups(dst, v[start:i], width)
		dst = appendRun(dst, n, uint64(v[i]), width)
		i += n
		start = i
	}
	return appendGroups(dst, v[start:], width)
}

// appendRuns appends values as runs alone, with no bit-packed group.
func appendRuns(dst []byte, v []uint8, width int) []byte {
	for len(v) > 0 {
		n := runLength(v)
		dst = appendRun(dst, n, uint64(v[0]), width)
		v = v[n:]
	}
	return dst
}

// runsCost times the runs of a page's definition levels is how many bytes of values it has to have for differences to pay, of
// which half or more are saved then: most runs take two bytes.
const runsCost = 4

// runs is how many there are of equal values.
func runs(v []uint8) int {
	n := 0
	for i := range v {
		if i == 0 || v[i] != v[i-1] {
			n++
		}
	}
	return n
}

func runLength[T uint8 | uint32](v []T) int {
	n := 1
	for n < len(v) && v[n] == v[0] {
		n++
	}
	return n
}

// appendRun appends n times a value.
func appendRun(dst []byte, n int, v uint64, width int) []byte {
	dst = binary.AppendUvarint(dst, uint64(n)<<1)
	for ; width > 0; width -= 8 {
		dst = append(dst, byte(v))
		v >>= 8
	}
	return dst
}

// appendGroups appends values bit by bit. All groups are full ones, apart from the last of a page, which is
// filled up with zeros.
func appendGroups[T uint8 | uint32](dst []byte, v []T, width int) []byte {
	if len(v) == 0 {
		return dst
	}
	groups := (len(v) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	end := len(dst) + groups*width
	var acc uint64
	n := 0
	for _, x := range v {
		acc |= uint64(x) << n
		if n += width; n >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
			acc >>= 32
			n -= 32
		}
	}
	for ; len(dst) < end; acc >>= 8 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// widthOf is the number of bits that hold v.
func widthOf(v uint64) int { return bits.Len64(v) }
