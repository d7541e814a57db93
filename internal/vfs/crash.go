package vfs

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// CrashMode says what a crash keeps of that which was not synced.
type CrashMode int

// Modes of a crash.
const (
	KeepNothing CrashMode = iota // only what was synced
	KeepSome                     // a random prefix of the writes, or random blocks of them, file by file
	KeepAll                      // everything, as when only the process dies
)

// Crash gives the file system that a crash at this moment leaves. m itself goes on and is not changed.
func (m *Mem) Crash(rng *rand.Rand, mode CrashMode) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.durable)
	keep := 0
	switch mode {
	case KeepAll:
		keep = len(m.pending)
	case KeepSome:
		keep = rng.IntN(len(m.pending) + 1)
	}
	for _, op := range m.pending[:keep] {
		for i, k := range op.names {
			setName(names, k, op.nodes[i])
		}
	}
	out := &Mem{live: map[string]*node{}, locks: map[string]bool{}, size: m.size}
	clones := map[*node]*node{}
	// Parents come before children, and a name whose parent is lost is lost too. Sorted: the order decides
	// what rng gives to which file, and a seed must repeat.
	for _, k := range slices.Sorted(maps.Keys(names)) {
		if p := out.live[path.Dir(k)]; k != "/" && k != "." && (p == nil || !p.dir) {
			continue
		}
		n := names[k]
		if clones[n] == nil {
			clones[n] = n.crash(rng, mode)
		}
		out.live[k] = clones[n]
	}
	out.durable = maps.Clone(out.live)
	return out
}

func (n *node) crash(rng *rand.Rand, mode CrashMode) *node {
	if n.dir {
		return &node{dir: true, modified: n.modified}
	}
	c := &node{modified: n.modified}
	switch {
	case mode == KeepAll || len(n.old) == 0 && n.syncedSize == int64(len(n.data)):
		c.data = slices.Clone(n.data)
	case mode == KeepNothing:
		c.data = n.durableData()
	case rng.IntN(2) == 0:
		c.data = n.crashPrefix(rng)
	default:
		c.data = n.crashBlocks(rng)
	}
	c.syncedSize = int64(len(c.data))
	return c
}

// durableData is the content as of the last sync.
func (n *node) durableData() []byte {
	out := make([]byte, n.syncedSize)
	copy(out, n.data)
	for b, old := range n.old {
		if b*blockSize < n.syncedSize {
			copy(out[b*blockSize:], old)
		}
	}
	return out
}

// crashPrefix keeps the first writes, the last of them whole or torn at any byte.
func (n *node) crashPrefix(rng *rand.Rand) []byte {
	out := n.durableData()
	k := rng.IntN(len(n.spans) + 1)
	for i, s := range n.spans[:k] {
		if s.off == s.end { // a truncate, or a grow with zeros
			if size := int(s.off); size <= len(out) {
				out = out[:size]
			} else {
				out = append(out, make([]byte, size-len(out))...)
			}
			continue
		}
		end := min(s.end, int64(len(n.data)))
		if i == k-1 && rng.IntN(2) == 0 {
			end = min(end, s.off+rng.Int64N(s.end-s.off+1))
		}
		if end <= s.off {
			continue
		}
		if int64(len(out)) < end {
			out = append(out, make([]byte, end-int64(len(out)))...)
		}
		copy(out[s.off:end], n.data[s.off:end])
	}
	return out
}

// crashBlocks keeps each written block or not: disks write them in any order. The size may have become
// durable without the data, which then reads as zeros.
func (n *node) crashBlocks(rng *rand.Rand) []byte {
	out := n.durableData()
	if size := int64(len(n.data)); size > n.syncedSize {
		size = n.syncedSize + rng.Int64N(size-n.syncedSize+1)
		out = append(out, make([]byte, size-n.syncedSize)...)
	} else if rng.IntN(2) == 0 {
		out = out[:size]
	}
	for _, b := range slices.Sorted(maps.Keys(n.old)) {
		lo, hi := b*blockSize, min((b+1)*blockSize, int64(len(out)), int64(len(n.data)))
		if lo < hi && rng.IntN(2) == 0 {
			copy(out[lo:hi], n.data[lo:hi])
		}
	}
	return out
}
