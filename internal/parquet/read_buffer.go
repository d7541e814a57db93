package parquet

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// mostBytes bounds what a batch's rows take in one column: a few bytes of a file can stand for any number.
const mostBytes = 256 << 20

// errTooMuch says that a batch would take more than mostBytes in a column. Fewer rows may not.
var errTooMuch = errors.New("parquet: too many bytes of one column in a batch")

// allocator gives memory that may have been in use before.
type allocator interface {
	memory.Allocator
	// AllocateDirty gives size bytes of any content.
	AllocateDirty(size int) []byte
}

// clean gives new memory; it is for callers whose allocator knows no other.
type clean struct{ memory.Allocator }

func (c clean) AllocateDirty(size int) []byte { return c.Allocate(size) }

// growing is a buffer that is filled from the front.
type growing struct {
	mem  allocator
	b    []byte // what is filled
	hint int    // bytes that were enough before
}

// room makes place for n bytes more behind what is filled.
func (g *growing) room(n int) error {
	if n <= cap(g.b)-len(g.b) {
		return nil
	}
	if n > mostBytes-len(g.b) {
		return errTooMuch
	}
	size := max(len(g.b)+n, min(2*len(g.b), mostBytes))
	if g.b == nil {
		size = max(n, g.hint)
	}
	b := g.mem.AllocateDirty(size)[:len(g.b)]
	copy(b, g.b)
	g.mem.Free(g.b[:cap(g.b)])
	g.b = b
	return nil
}

// extend appends n bytes of any content and gives them.
func (g *growing) extend(n int) ([]byte, error) {
	if err := g.room(n); err != nil {
		return nil, err
	}
	at := len(g.b)
	g.b = g.b[:at+n]
	return g.b[at:], nil
}

// take gives the filled part as a buffer, which frees it, and begins anew.
func (g *growing) take() *memory.Buffer {
	g.hint = max(len(g.b)+len(g.b)/16, g.hint/2)
	b := memory.NewBufferWithAllocator(g.b[:cap(g.b)], g.mem)
	b.ResizeNoShrink(len(g.b))
	g.b = nil
	return b
}

func (g *growing) free() {
	g.mem.Free(g.b[:cap(g.b)])
	g.b = nil
}
