package sink

import (
	"encoding/binary"
	"hash/maphash"
)

// entrySet finds equal keys among the entries of one map.
type entrySet struct {
	seed  maphash.Seed
	slots []int32 // entry + 1, or 0; open addressing, at most half full
	drop  []bool  // entries of which a later one has the key
	some  bool
}

func newEntrySet() *entrySet { return &entrySet{seed: maphash.MakeSeed()} }

// smallMap is the number of entries up to which comparing each with each beats the hash table.
const smallMap = 8

// Overridden marks the entries of the map that is being written, from entry first on, whose key a later one has; nil
// when there are none. The marks are valid until the next call.
func (s *Sink) Overridden(first int) []bool {
	count := s.Mp.Entries() - first
	if count < 2 {
		return nil
	}
	d := s.dups
	d.drop, d.some = d.drop[:0], false
	for range count {
		d.drop = append(d.drop, false)
	}
	if count <= smallMap {
		for i := range count {
			for j := i + 1; j < count && !d.drop[i]; j++ {
				d.mark(i, s.Key.same(first+i, first+j))
			}
		}
	} else {
		d.hash(s.Key, first, count)
	}
	if !d.some {
		return nil
	}
	return d.drop
}

func (d *entrySet) mark(i int, equal bool) {
	if equal {
		d.drop[i], d.some = true, true
	}
}

func (d *entrySet) hash(key *Sink, first, count int) {
	size := 16
	for size < 2*count {
		size *= 2
	}
	if cap(d.slots) < size {
		d.slots = make([]int32, size)
	}
	d.slots = d.slots[:size]
	clear(d.slots)
	for i := range count {
		at := int(key.hash(d.seed, first+i)) & (size - 1)
		for d.slots[at] != 0 {
			if j := int(d.slots[at] - 1); key.same(first+j, first+i) {
				d.mark(j, true)
				break
			}
			at = (at + 1) & (size - 1)
		}
		d.slots[at] = int32(i + 1)
	}
}

// number is row i of a key column that is not a string.
func (s *Sink) number(i int) int64 {
	switch s.Kind {
	case Int8:
		return int64(s.I8.Values()[i])
	case Int16:
		return int64(s.I16.Values()[i])
	case Int32:
		return int64(s.I32.Values()[i])
	case Int64:
		return s.I64.Values()[i]
	}
	if s.Bl.Value(i) {
		return 1
	}
	return 0
}

func (s *Sink) same(i, j int) bool {
	if s.Kind == String {
		return string(s.Bin.Value(i)) == string(s.Bin.Value(j))
	}
	return s.number(i) == s.number(j)
}

func (s *Sink) hash(seed maphash.Seed, i int) uint64 {
	if s.Kind == String {
		return maphash.Bytes(seed, s.Bin.Value(i))
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(s.number(i)))
	return maphash.Bytes(seed, b[:])
}
