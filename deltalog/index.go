package deltalog

import (
	"hash/maphash"
	"strings"
)

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

func cloneText(s string) string { return strings.Clone(s) }

// keyIndex finds rows by the hash of their key: open addressing, five bytes a slot, no pointers. The caller
// compares keys, and gives the hash of a row again when the index grows.
type keyIndex struct {
	rows []uint32 // row+1; 0 is free
	tags []uint8  // of the hash, so that few keys of other rows are looked at
	used int
}

func tagOf(hash uint32) uint8 { return uint8(hash >> 24) }

func (x *keyIndex) find(hash uint32, same func(row int) bool) int {
	if len(x.rows) == 0 {
		return -1
	}
	mask, tag := uint32(len(x.rows)-1), tagOf(hash)
	for at := hash & mask; ; at = (at + 1) & mask {
		r := x.rows[at]
		if r == 0 {
			return -1
		}
		if x.tags[at] == tag && same(int(r)-1) {
			return int(r) - 1
		}
	}
}

// put points the key at a row, in place of an older row of the same key.
func (x *keyIndex) put(hash uint32, row int, same func(row int) bool, hashOf func(row int) uint32) {
	if 4*(x.used+1) > 3*len(x.rows) {
		x.grow(hashOf)
	}
	mask, tag := uint32(len(x.rows)-1), tagOf(hash)
	for at := hash & mask; ; at = (at + 1) & mask {
		r := x.rows[at]
		if r == 0 {
			x.used++
		} else if x.tags[at] != tag || !same(int(r)-1) {
			continue
		}
		x.rows[at], x.tags[at] = uint32(row+1), tag
		return
	}
}

func (x *keyIndex) grow(hashOf func(row int) uint32) {
	old := x.rows
	n := max(2*len(old), 16)
	x.rows, x.tags = make([]uint32, n), make([]uint8, n)
	for _, r := range old {
		if r == 0 {
			continue
		}
		hash := hashOf(int(r) - 1)
		at := hash & uint32(n-1)
		for x.rows[at] != 0 {
			at = (at + 1) & uint32(n-1)
		}
		x.rows[at], x.tags[at] = r, tagOf(hash)
	}
}
