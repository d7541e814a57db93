package table

import (
	"math/bits"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// bufferPool is the allocator of the Parquet writer. The library grows its page and chunk buffers by a little
// at a time, each time into new zeroed memory with a copy of the old: measured, that was a third of a file
// writer's time. Here buffers grow within powers of two and are used again by later files.
//
// Like memory.GoAllocator it gives zeroed memory and may be used concurrently.
type bufferPool struct {
	classes [poolClasses]sync.Pool // of *[]byte with capacity minPooled << i
	small   memory.GoAllocator
}

const (
	minPooled   = 32 << 10
	poolClasses = 16 // up to 1 GiB
)

var _ memory.Allocator = (*bufferPool)(nil)

// class gives the index of the smallest class that holds size, false when none does or size is small.
func class(size int) (int, bool) {
	if size < minPooled {
		return 0, false
	}
	c := bits.Len(uint(size-1)) - bits.Len(uint(minPooled-1))
	return c, c < poolClasses
}

func (p *bufferPool) Allocate(size int) []byte {
	c, ok := class(size)
	if !ok {
		return p.small.Allocate(size)
	}
	if b, ok := p.classes[c].Get().(*[]byte); ok {
		clear((*b)[:size])
		return (*b)[:size]
	}
	return make([]byte, size, minPooled<<c)
}

func (p *bufferPool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) && cap(b) >= minPooled {
		if size > len(b) {
			clear(b[len(b):size])
		}
		return b[:size]
	}
	n := p.Allocate(size)
	copy(n, b)
	p.Free(b)
	return n
}

func (p *bufferPool) Free(b []byte) {
	c, ok := class(cap(b))
	if !ok || cap(b) != minPooled<<c {
		return // not ours, or small: the garbage collector's
	}
	b = b[:0]
	p.classes[c].Put(&b)
}
