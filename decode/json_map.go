package decode

import "hash/maphash"

// entrySet finds equal keys among the entries of one map.
type entrySet struct {
	seed  maphash.Seed
	slots []int32 // entry + 1, or 0; open addressing, at most half full
	drop  []bool  // entries of which a later one has the key
	some  bool    // any to drop
}

// smallMap is the number of entries up to which comparing each with each beats the hash table.
const smallMap = 8

// mapping decodes an object into a map. Columns only grow, so that an entry cannot be replaced by a later
// one with the same key: then the object is decoded once more without the entries that lose.
func (d *JSON) mapping(n *node, b []byte, i int) int {
	if b[i] != '{' {
		return d.mismatch(n, b, i)
	}
	if d.depth++; d.depth > d.opts.MaxDepth {
		return d.tooDeep(i)
	}
	row, first := n.maps.Len(), n.maps.Entries()
	next := d.entries(n, b, i+1, nil)
	if next < 0 {
		return next
	}
	if n.dups.find(n, first) {
		n.maps.Truncate(row)
		// A map below this node is another node: its set does not disturb ours.
		if next = d.entries(n, b, i+1, n.dups.drop); next < 0 {
			return next
		}
	}
	d.depth--
	n.maps.Append()
	return next
}

// entries appends the entries from after the brace, apart from those to drop.
func (d *JSON) entries(n *node, b []byte, i int, drop []bool) int {
	i = skipSpace(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for count := 0; ; count++ {
		if i >= len(b) || b[i] != '"' {
			return d.unexpected(b, i, "a key")
		}
		start := i
		name, next := d.str(b, i)
		if next < 0 {
			return next
		}
		if i = skipSpace(b, next); i >= len(b) || b[i] != ':' {
			return d.unexpected(b, i, "':'")
		}
		i = skipSpace(b, i+1)
		if drop != nil && drop[count] {
			i = d.skip(b, i)
		} else {
			n.keys.Append(name)
			if i = d.value(n.elem, b, i); i >= 0 {
				n.maps.AppendEntry()
			}
		}
		if i < 0 {
			return d.at(string(b[start:min(next, start+64)]))
		}
		i = skipSpace(b, i)
		if i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if i < len(b) && b[i] == '}' {
			return i + 1
		}
		return d.unexpected(b, i, "',' or '}'")
	}
}

// find marks the entries from first on that lose to a later one, and tells whether there are any.
func (s *entrySet) find(n *node, first int) bool {
	count := n.maps.Entries() - first
	if count < 2 {
		return false
	}
	s.drop, s.some = s.drop[:0], false
	for range count {
		s.drop = append(s.drop, false)
	}
	if count <= smallMap {
		s.pairs(n, first, count)
	} else {
		s.hash(n, first, count)
	}
	return s.some
}

func (s *entrySet) pairs(n *node, first, count int) {
	for i := range count {
		for j := i + 1; j < count; j++ {
			if string(n.keys.Value(first+i)) == string(n.keys.Value(first+j)) {
				s.drop[i], s.some = true, true
				break
			}
		}
	}
}

func (s *entrySet) hash(n *node, first, count int) {
	size := 16
	for size < 2*count {
		size *= 2
	}
	if cap(s.slots) < size {
		s.slots = make([]int32, size)
	}
	s.slots = s.slots[:size]
	clear(s.slots)
	for i := range count {
		name := n.keys.Value(first + i)
		at := int(maphash.Bytes(s.seed, name)) & (size - 1)
		for s.slots[at] != 0 {
			j := int(s.slots[at] - 1)
			if string(n.keys.Value(first+j)) == string(name) {
				s.drop[j], s.some = true, true
				break
			}
			at = (at + 1) & (size - 1)
		}
		s.slots[at] = int32(i + 1)
	}
}
