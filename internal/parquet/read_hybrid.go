package parquet

import (
	"encoding/binary"
	"math/bits"
)

// hybrid reads the format's mixture of runs and bit-packed groups of 8, as appendHybrid writes it.
type hybrid struct {
	b     []byte // behind the run that is being read
	width uint
	run   int    // times that value is still to give
	value uint32 // of the run
	left  int    // values of a bit-packed stretch still to give
	bits  []byte // that stretch
	bit   int    // of the next value in it
}

func newHybrid(b []byte, width int) hybrid { return hybrid{b: b, width: uint(width)} }

// next opens the next run or stretch, unless one is open.
func (h *hybrid) next() error {
	for h.run == 0 && h.left == 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 {
			return damaged("runs end %d bytes before their page does", len(h.b))
		}
		h.b = h.b[n:]
		count := head >> 1
		if head&1 == 0 {
			size := int(h.width+7) / 8
			if len(h.b) < size || count > 1<<31 {
				return damaged("a run of %d values with %d bytes behind it", count, len(h.b))
			}
			v := uint32(0)
			for i := range size {
				v |= uint32(h.b[i]) << (8 * i)
			}
			if bits.Len32(v) > int(h.width) {
				return damaged("a run of %d, which has more than %d bits", v, h.width)
			}
			h.b, h.run, h.value = h.b[size:], int(count), v
			continue
		}
		if count > 1<<28 {
			return damaged("%d bit-packed groups", count)
		}
		// Some writers leave out the bytes of the last group that are not needed.
		size := min(int(count)*int(h.width), len(h.b))
		h.bits, h.b, h.bit = h.b[:size], h.b[size:], 0
		if h.left = int(count) * 8; h.width > 0 {
			h.left = min(h.left, size*8/int(h.width))
		}
	}
	return nil
}

// constant gives how many times the next value follows itself for sure, at most n, and takes it so often; 0 when it
// is bit-packed.
func (h *hybrid) constant(n int) (v uint32, times int, err error) {
	if err := h.next(); err != nil {
		return 0, 0, err
	}
	times = min(h.run, n)
	h.run -= times
	return h.value, times, nil
}

// fill reads len(dst) values.
func fill[T uint8 | uint32](h *hybrid, dst []T) error {
	for len(dst) > 0 {
		v, n, err := h.constant(len(dst))
		if err != nil {
			return err
		}
		if n > 0 {
			for i := range dst[:n] {
				dst[i] = T(v)
			}
		} else {
			n = min(h.left, len(dst))
			unpack(dst[:n], h.bits, h.bit, h.width)
			h.left -= n
			h.bit += n * int(h.width)
		}
		dst = dst[n:]
	}
	return nil
}

// unpack reads len(dst) values of a width of at most 32 bits that begin at a bit of src, which holds them all.
func unpack[T uint8 | uint32](dst []T, src []byte, bit int, width uint) {
	mask := uint64(1)<<width - 1
	i := 0
	for ; i < len(dst) && bit>>3+8 <= len(src); i++ {
		dst[i] = T(binary.LittleEndian.Uint64(src[bit>>3:]) >> (bit & 7) & mask)
		bit += int(width)
	}
	if i == len(dst) {
		return
	}
	var tail [16]byte // at most 8 bytes are left, and values may begin behind them when they have no bits
	from := min(bit>>3, len(src))
	copy(tail[:], src[from:])
	bit -= from << 3
	for ; i < len(dst); i++ {
		dst[i] = T(binary.LittleEndian.Uint64(tail[min(bit>>3, 8):]) >> (bit & 7) & mask)
		bit += int(width)
	}
}
