package parquet

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// dict numbers the different values of a column in the order of their appearance. Its values are kept as the
// dictionary page has them.
type dict struct {
	seed  maphash.Seed
	slots []slot // open addressing, at most half full
	page  []byte
	n     int
	last  uint32 // the number given last: equal values often follow each other
	at    int    // and where its value is in page
}

type slot struct {
	hash  uint32
	at    uint32 // of the value in page
	index uint32 // number + 1; 0 is free
}

// Limits of a dictionary: beyond either a chunk goes on without one.
const (
	maxDictValues = 1 << 15
	maxDictBytes  = 1 << 20
)

func (d *dict) reset() {
	if d.n > 0 || d.slots == nil {
		if d.slots == nil {
			d.seed = maphash.MakeSeed()
			d.slots = make([]slot, 256)
		}
		clear(d.slots)
	}
	d.page, d.n = d.page[:0], 0
}

func (d *dict) full() bool { return d.n > maxDictValues || len(d.page) > maxDictBytes }

// bytes gives the number of a byte string, and whether it is new.
func (d *dict) bytes(v []byte) (uint32, bool) {
	if d.n > 0 && d.holds(d.at, v) {
		return d.last, false
	}
	h := uint32(maphash.Bytes(d.seed, v))
	i := int(h) & (len(d.slots) - 1)
	for {
		s := &d.slots[i]
		if s.index == 0 {
			break
		}
		if s.hash == h && d.holds(int(s.at), v) {
			d.last, d.at = s.index-1, int(s.at)
			return d.last, false
		}
		i = (i + 1) & (len(d.slots) - 1)
	}
	at := len(d.page)
	d.page = append(binary.LittleEndian.AppendUint32(d.page, uint32(len(v))), v...)
	return d.insert(i, h, at), true
}

// holds says whether the value at a place of the page is v.
func (d *dict) holds(at int, v []byte) bool {
	size := int(binary.LittleEndian.Uint32(d.page[at:]))
	return size == len(v) && string(d.page[at+4:at+4+size]) == string(v)
}

// number gives the number of an integer of 4 or 8 bytes, and whether it is new.
func (d *dict) number(v uint64, width int) (uint32, bool) {
	if d.n > 0 && d.numberAt(d.at, width) == v {
		return d.last, false
	}
	h := uint32(maphash.Comparable(d.seed, v))
	i := int(h) & (len(d.slots) - 1)
	for {
		s := &d.slots[i]
		if s.index == 0 {
			break
		}
		if s.hash == h && d.numberAt(int(s.at), width) == v {
			d.last, d.at = s.index-1, int(s.at)
			return d.last, false
		}
		i = (i + 1) & (len(d.slots) - 1)
	}
	at := len(d.page)
	if width == 4 {
		d.page = binary.LittleEndian.AppendUint32(d.page, uint32(v))
	} else {
		d.page = binary.LittleEndian.AppendUint64(d.page, v)
	}
	return d.insert(i, h, at), true
}

func (d *dict) numberAt(at, width int) uint64 {
	if width == 4 {
		return uint64(binary.LittleEndian.Uint32(d.page[at:]))
	}
	return binary.LittleEndian.Uint64(d.page[at:])
}

func (d *dict) insert(i int, h uint32, at int) uint32 {
	d.n++
	d.slots[i] = slot{hash: h, at: uint32(at), index: uint32(d.n)}
	d.last, d.at = uint32(d.n-1), at
	if 2*d.n > len(d.slots) {
		d.grow()
	}
	return d.last
}

func (d *dict) grow() {
	old := d.slots
	d.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.index == 0 {
			continue
		}
		i := int(s.hash) & (len(d.slots) - 1)
		for d.slots[i].index != 0 {
			i = (i + 1) & (len(d.slots) - 1)
		}
		d.slots[i] = s
	}
}

// width is the number of bits of a number, as data pages have them.
func (d *dict) width() int {
	if d.n <= 1 {
		return 0
	}
	return bits.Len32(uint32(d.n - 1))
}
