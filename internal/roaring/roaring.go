// Package roaring reads the roaring bitmaps of Delta's deletion vectors: sets of row numbers A
// bitmap that parses is well-formed throughout; anything else is an error that names the byte (I8).
//
// A Bitmap keeps the bytes that it was parsed from and takes a few bytes for each of its containers besides, so
// hostile input cannot make it larger than it is. It never changes and may be used by many goroutines.
package roaring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"sort"
)

// ErrFormat is wrapped by every error of Parse.
var ErrFormat = errors.New("broken roaring bitmap")

const (
	cookieRuns  = 12347 // with a set of flags: which containers are runs
	cookiePlain = 12346
	offsetsFrom = 4 // with runs, containers from this number on have an offset table
	arrayMax    = 4096
	bitmapBytes = 1 << 16 / 8
)

type kind uint8

const (
	kindArray  kind = iota // sorted values, two bytes each
	kindBitmap             // one bit a value
	kindRuns               // first value and length - 1, two bytes each
)

// container holds the values of 2^16 neighbours.
type container struct {
	high int64 // the bits above the low 16
	kind kind
	data []byte
}

// Bitmap is a sorted set of values.
type Bitmap struct {
	containers []container
	n          int64
}

// Parse reads the portable form of a 64-bit bitmap: the number of 32-bit ones, then for each its upper half and
// the standard portable form. All of b must be used.
func Parse(b []byte) (*Bitmap, error) {
	p := &parser{b: b}
	m := &Bitmap{}
	count := p.u64()
	last := int64(-1)
	for i := uint64(0); i < count && p.err == nil; i++ { // ends with the input, whatever count says
		high := int64(p.u32())
		if p.err == nil && (high <= last || high >= 1<<31-1) {
			p.fail("upper half %d after %d", high, last)
		}
		last = high
		p.bitmap(m, high<<16)
	}
	if p.err == nil && p.at != len(b) {
		p.fail("%d bytes too many", len(b)-p.at)
	}
	if p.err != nil {
		return nil, p.err
	}
	return m, nil
}

// Cardinality is the number of values.
func (m *Bitmap) Cardinality() int64 { return m.n }

// Max gives the largest value, false for an empty set.
func (m *Bitmap) Max() (int64, bool) {
	if len(m.containers) == 0 {
		return 0, false
	}
	last := m.containers[len(m.containers)-1]
	top := int64(0)
	last.spans(func(_, to int64) bool { top = to - 1; return true })
	return last.high<<16 | top, true
}

// Ranges gives the values from lo to below hi as [from, to) in ascending order. Neighbouring ranges may touch.
func (m *Bitmap) Ranges(lo, hi int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		first := sort.Search(len(m.containers), func(i int) bool { return m.containers[i].high >= lo>>16 })
		for _, c := range m.containers[first:] {
			base := c.high << 16
			if base >= hi {
				return
			}
			more := c.spans(func(from, to int64) bool {
				from, to = max(base+from, lo), min(base+to, hi)
				return from >= to || yield(from, to)
			})
			if !more {
				return
			}
		}
	}
}

// spans gives the low parts of the values as ranges; it is false when yield ended it.
func (c *container) spans(yield func(from, to int64) bool) bool {
	switch c.kind {
	case kindRuns:
		for i := 0; i < len(c.data); i += 4 {
			from := int64(binary.LittleEndian.Uint16(c.data[i:]))
			if !yield(from, from+int64(binary.LittleEndian.Uint16(c.data[i+2:]))+1) {
				return false
			}
		}
		return true
	case kindArray:
		for i := 0; i < len(c.data); {
			from := int64(binary.LittleEndian.Uint16(c.data[i:]))
			to := from + 1
			for i += 2; i < len(c.data) && int64(binary.LittleEndian.Uint16(c.data[i:])) == to; i += 2 {
				to++
			}
			if !yield(from, to) {
				return false
			}
		}
		return true
	}
	for from := nextBit(c.data, 0, true); from < 1<<16; {
		to := nextBit(c.data, from, false)
		if !yield(from, to) {
			return false
		}
		from = nextBit(c.data, to, true)
	}
	return true
}

// nextBit finds the first bit at or after i that is set, or that is not; 1<<16 when there is none.
func nextBit(data []byte, i int64, set bool) int64 {
	for i < 1<<16 {
		w := binary.LittleEndian.Uint64(data[i/64*8:])
		if !set {
			w = ^w
		}
		if w >>= i % 64; w != 0 {
			return i + int64(bits.TrailingZeros64(w))
		}
		i = (i/64 + 1) * 64
	}
	return 1 << 16
}

// parser reads bytes in order; after an error it gives zeros.
type parser struct {
	b   []byte
	at  int
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w at byte %d: %s", ErrFormat, p.at, fmt.Sprintf(format, args...))
	}
}

func (p *parser) take(n int) []byte {
	if p.err == nil && n > len(p.b)-p.at {
		p.fail("%d bytes wanted, %d are left", n, len(p.b)-p.at)
	}
	if p.err != nil {
		return nil
	}
	p.at += n
	return p.b[p.at-n : p.at]
}

func (p *parser) u64() uint64 {
	if b := p.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *parser) u32() uint32 {
	if b := p.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// bitmap reads one 32-bit bitmap, whose containers follow base.
func (p *parser) bitmap(m *Bitmap, base int64) {
	var n int
	var flags []byte
	switch cookie := p.u32(); {
	case p.err != nil:
		return
	case cookie&0xFFFF == cookieRuns:
		n = int(cookie>>16) + 1
		flags = p.take((n + 7) / 8)
	case cookie == cookiePlain:
		count := p.u32()
		if count > 1<<16 {
			p.fail("%d containers", count)
		}
		n = int(count)
	default:
		p.fail("cookie %d", cookie)
	}
	heads := p.take(4 * n)
	if flags == nil || n >= offsetsFrom {
		p.take(4 * n) // offsets: the containers follow each other anyway
	}
	last := int64(-1)
	for i := 0; i < n && p.err == nil; i++ {
		key := int64(binary.LittleEndian.Uint16(heads[4*i:]))
		card := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		if key <= last {
			p.fail("container %d after container %d", key, last)
			return
		}
		last = key
		c := p.container(card, flags != nil && flags[i/8]>>(i%8)&1 == 1)
		c.high = base | key
		m.containers = append(m.containers, c)
		m.n += int64(card)
	}
}

// container reads one container and makes sure that it has card values in ascending order.
func (p *parser) container(card int, runs bool) container {
	var c container
	switch {
	case runs:
		n := 0
		if b := p.take(2); b != nil {
			n = int(binary.LittleEndian.Uint16(b))
		}
		c = container{kind: kindRuns, data: p.take(4 * n)}
	case card <= arrayMax:
		c = container{kind: kindArray, data: p.take(2 * card)}
	default:
		c = container{kind: kindBitmap, data: p.take(bitmapBytes)}
	}
	if p.err != nil {
		return c
	}
	got, last := int64(0), int64(-1)
	c.spans(func(from, to int64) bool {
		if from <= last || to > 1<<16 {
			p.fail("values from %d to %d after %d", from, to-1, last)
			return false
		}
		got, last = got+to-from, to-1
		return true
	})
	if p.err == nil && got != int64(card) {
		p.fail("a container of %d values, its head says %d", got, card)
	}
	return c
}
