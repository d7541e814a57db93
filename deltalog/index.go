package deltalog

import "hash/maphash"

// fileID identifies a logical file: its canonical path and its deletion vector.
type fileID struct {
	hash     uint32
	path, dv string
}

func idOf(path string, dv *DeletionVector) fileID {
	p := canonicalPath(path)
	return fileID{hash: hashText(p), path: p, dv: dv.UniqueID()}
}

// hashSeed makes collisions unforeseeable: paths come from others.
var hashSeed = maphash.MakeSeed()

func hashText(s string) uint32 { return uint32(maphash.String(hashSeed, s) >> 32) }

// keyIndex finds rows by the hash of their key: open addressing, eight bytes a slot, no pointers. Hashes are kept, so
// that growing looks at no key and few keys of other rows are compared.
type keyIndex struct {
	slots []slot
	used  int
	seen  uint32 // of no meaning: so that expect does what it is for
}

type slot struct {
	hash uint32
	row  uint32 // row+1; 0 is free
}

func (x *keyIndex) find(hash uint32, same func(row int) bool) int {
	if len(x.slots) == 0 {
		return -1
	}
	mask := uint32(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := x.slots[at]
		if s.row == 0 {
			return -1
		}
		if s.hash == hash && same(int(s.row)-1) {
			return int(s.row) - 1
		}
	}
}

// put points the key at a row, in place of an older row of the same key, which it gives: -1 when there was none.
func (x *keyIndex) put(hash uint32, row int, same func(row int) bool) (before int) {
	if 4*(x.used+1) > 3*len(x.slots) {
		x.grow()
	}
	mask := uint32(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := x.slots[at]
		if s.row == 0 {
			x.used++
		} else if s.hash != hash || !same(int(s.row)-1) {
			continue
		}
		x.slots[at] = slot{hash, uint32(row + 1)}
		return int(s.row) - 1
	}
}

// expect makes room for n more keys at once, and has the places of the given ones in the processor's cache: one after the
// other each would wait for memory, here they wait together.
func (x *keyIndex) expect(n int, hashes []uint32) {
	if n == 0 {
		return
	}
	size := max(len(x.slots), 16)
	for 4*(x.used+n) > 3*size {
		size *= 2
	}
	if size > len(x.slots) {
		x.resize(size)
	}
	mask, sum := uint32(len(x.slots)-1), uint32(0)
	for _, h := range hashes {
		sum += x.slots[h&mask].row
	}
	x.seen = sum
}

func (x *keyIndex) grow() { x.resize(max(2*len(x.slots), 16)) }

func (x *keyIndex) resize(size int) {
	old := x.slots
	x.slots = make([]slot, size)
	mask := uint32(len(x.slots) - 1)
	for _, s := range old {
		if s.row == 0 {
			continue
		}
		at := s.hash & mask
		for x.slots[at].row != 0 {
			at = (at + 1) & mask
		}
		x.slots[at] = s
	}
}
