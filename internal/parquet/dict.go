package parquet

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// dict numbers the different values of a column in the order of their appearance. Its values are kept as the
// dictionary page has them.
type dict struct {
	seed  uint64
	long  maphash.Seed // for what has more than 8 bytes
	slots []slot       // open addressing, at most half full
	page  []byte
	n     int
}

// slot has enough of a value to tell most others from it without a look at the page.
type slot struct {
	word  uint64 // the integer, or the first 8 bytes
	size  uint32 // bytes of a string
	at    uint32 // of the value in page
	index uint32 // number + 1; 0 is free
}

// Limits of a dictionary: beyond either a chunk goes on without one.
const (
	maxDictValues = 1 << 15
	maxDictBytes  = 1 << 20
)

func (d *dict) reset() {
	switch {
	case d.slots == nil:
		d.seed, d.long = rand.Uint64(), maphash.MakeSeed()
		d.slots = make([]slot, 128)
	case d.n > 0:
		clear(d.slots)
	}
	d.page, d.n = d.page[:0], 0
}

func (d *dict) full() bool { return d.n > maxDictValues || len(d.page) > maxDictBytes }

// place mixes a word and the length into the index of a slot. The seed keeps those who choose the values from
// choosing the slots as well.
func (d *dict) place(word, more uint64) int {
	hi, lo := bits.Mul64(word^d.seed, more^0x9e3779b97f4a7c15)
	return int(hi^lo) & (len(d.slots) - 1)
}

// bytes gives the number of a byte string, and whether it is new.
func (d *dict) bytes(v []byte) (uint32, bool) {
	word, size := firstWord(v), uint32(len(v))
	more := uint64(size)
	if size > 8 {
		more = maphash.Bytes(d.long, v)
	}
	i := d.place(word, more)
	for {
		s := &d.slots[i]
		if s.index == 0 {
			break
		}
		if s.word == word && s.size == size && (size <= 8 || string(d.page[s.at+12:s.at+4+size]) == string(v[8:])) {
			return s.index - 1, false
		}
		i = (i + 1) & (len(d.slots) - 1)
	}
	at := len(d.page)
	d.page = append(binary.LittleEndian.AppendUint32(d.page, size), v...)
	return d.insert(i, slot{word: word, size: size, at: uint32(at)}), true
}

// number gives the number of an integer of 4 or 8 bytes, and whether it is new.
func (d *dict) number(v uint64, width int) (uint32, bool) {
	i := d.place(v, 0)
	for {
		s := &d.slots[i]
		if s.index == 0 {
			break
		}
		if s.word == v {
			return s.index - 1, false
		}
		i = (i + 1) & (len(d.slots) - 1)
	}
	if width == 4 {
		d.page = binary.LittleEndian.AppendUint32(d.page, uint32(v))
	} else {
		d.page = binary.LittleEndian.AppendUint64(d.page, v)
	}
	return d.insert(i, slot{word: v}), true
}

func (d *dict) insert(i int, s slot) uint32 {
	d.n++
	s.index = uint32(d.n)
	d.slots[i] = s
	if 2*d.n > len(d.slots) {
		d.grow()
	}
	return s.index - 1
}

// grow makes the table larger. Where a value belongs is found from its bytes again.
func (d *dict) grow() {
	old := d.slots
	d.slots = make([]slot, 4*len(old))
	for _, s := range old {
		if s.index == 0 {
			continue
		}
		more := uint64(s.size)
		if s.size > 8 {
			more = maphash.Bytes(d.long, d.page[s.at+4:s.at+4+s.size])
		}
		i := d.place(s.word, more)
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
