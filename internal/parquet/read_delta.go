package parquet

import "encoding/binary"

// deltaReader reads DELTA_BINARY_PACKED, as appendDelta writes it. Sums wrap at 64 bits; who wants 32 of them cuts
// the sums, which gives the same as to wrap there.
type deltaReader struct {
	b      []byte // behind the group that is being read
	count  int    // values in all
	left   int    // of them still to come
	first  bool   // the next one is the first
	last   int64  // value given
	minis  int    // groups of a block
	size   int    // values of a group
	least  int64
	widths []byte // of the groups of the block still to come
	group  []int64
	at     int // in group
}

// mostBlock is the largest block that is read: writers use 128 or 256. It bounds what a few bytes can stand for.
const mostBlock = 1 << 13

// open begins with the differences at the start of b.
func (d *deltaReader) open(b []byte) error {
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<31 {
			return damaged("differences without a header")
		}
		head[i], b = v, b[n:]
	}
	first, n := binary.Varint(b)
	if n <= 0 && head[2] > 0 {
		return damaged("differences without a first value")
	}
	if head[2] == 0 { // arrow-go gives a page of nulls a header of zeros, and refuses it afterwards
		*d = deltaReader{b: b[max(n, 0):], group: d.group[:0]}
		return nil
	}
	block, minis := int(head[0]), int(head[1])
	if block > mostBlock {
		return unsupported("blocks of %d differences", block)
	}
	if minis == 0 || block%minis != 0 || block/minis%8 != 0 || block == 0 {
		return damaged("blocks of %d differences in %d groups", block, minis)
	}
	*d = deltaReader{b: b[max(n, 0):], count: int(head[2]), left: int(head[2]), first: true, last: first, minis: minis, size: block / minis, group: d.group[:0]}
	return nil
}

// next decodes the next group.
func (d *deltaReader) next() error {
	if len(d.widths) == 0 {
		if err := d.block(); err != nil {
			return err
		}
	}
	width := uint(d.widths[0])
	d.widths = d.widths[1:]
	size := d.size / 8 * int(width)
	if width > 64 || size > len(d.b) {
		return damaged("a group of differences of %d bits with %d bytes behind it", width, len(d.b))
	}
	if cap(d.group) < d.size {
		d.group = make([]int64, d.size)
	}
	d.group, d.at = d.group[:d.size], 0
	sum, least := d.last, d.least
	if width == 0 {
		for i := range d.group {
			sum += least
			d.group[i] = sum
		}
	} else {
		for i := range d.group {
			sum += least + int64(bitsAt(d.b[:size], i*int(width), width))
			d.group[i] = sum
		}
	}
	d.b = d.b[size:]
	return nil
}

func (d *deltaReader) block() error {
	least, n := binary.Varint(d.b)
	if n <= 0 || len(d.b)-n < d.minis {
		return damaged("differences end %d values early", d.left)
	}
	d.least, d.widths, d.b = least, d.b[n:n+d.minis], d.b[n+d.minis:]
	return nil
}

// bitsAt gives width bits, at most 64, that begin at a bit of b.
func bitsAt(b []byte, bit int, width uint) uint64 {
	i, shift := bit>>3, uint(bit&7)
	mask := uint64(1)<<width - 1 // 64: all ones
	if i+8 <= len(b) {
		v := binary.LittleEndian.Uint64(b[i:]) >> shift
		if shift+width > 64 {
			v |= uint64(b[i+8]) << (64 - shift)
		}
		return v & mask
	}
	var tail [9]byte
	copy(tail[:], b[i:])
	return (binary.LittleEndian.Uint64(tail[:])>>shift | uint64(tail[8])<<(64-shift)) & mask
}

// take gives up to n values, at least one, that are good until the next call; n must be positive.
func (d *deltaReader) take(n int) ([]int64, error) {
	if d.left == 0 {
		return nil, damaged("a page with fewer differences than values")
	}
	if d.first {
		d.first = false
		d.left--
		d.group = append(d.group[:0], d.last)
		d.at = 1
		return d.group, nil
	}
	if d.at == len(d.group) {
		if err := d.next(); err != nil {
			return nil, err
		}
	}
	n = min(n, len(d.group)-d.at, d.left)
	out := d.group[d.at : d.at+n]
	d.at += n
	d.left -= n
	d.last = out[n-1]
	return out, nil
}

// rest gives what stands behind the differences. The reader has not begun.
func (d *deltaReader) rest() ([]byte, error) {
	o := deltaReader{b: d.b, minis: d.minis, size: d.size}
	for o.left = d.count - 1; o.left > 0; {
		if err := o.block(); err != nil {
			return nil, err
		}
		for _, width := range o.widths {
			if o.left <= 0 { // groups without a value have no bytes
				break
			}
			size := o.size / 8 * int(width)
			if width > 64 || size > len(o.b) {
				return nil, damaged("a group of differences of %d bits with %d bytes behind it", width, len(o.b))
			}
			o.b = o.b[size:]
			o.left -= o.size
		}
	}
	return o.b, nil
}
