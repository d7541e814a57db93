package table

import (
	"math/bits"
	"os"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// recycler is the allocator of what a scan decodes. A scan asks for the same large buffers again and again: those
// that are released are used again, instead of new pages that the system clears and the collector finds. What nobody
// releases goes to the collector as ever. What was freed and waits goes with the second collection.
//
// It is cleared as new memory is: the Parquet library counts on that in the offsets of lists. Who reads a batch after
// its Release reads others' rows; LEDGERLAKE_POISON=1 makes such a mistake show, since what is freed is then
// overwritten at once.
type recycler struct {
	free   [2 * classes]sync.Pool // of *byte, the first of a block of the class's size
	poison bool
}

var _ memory.Allocator = (*recycler)(nil)

const (
	smallest = 32 << 10 // smaller ones cost the collector little
	classes  = 12       // two in each doubling
)

// recycled is shared by all scans of the process.
var recycled = &recycler{poison: os.Getenv("LEDGERLAKE_POISON") == "1"}

// classOf gives the class of blocks that hold size, and their size; -1 when it is too small or too large to be kept.
func classOf(size int) (class, capacity int) {
	if size <= smallest/2 {
		return -1, size
	}
	k := max(0, bits.Len(uint((size-1)/smallest)))
	capacity = smallest << k
	class = 2 * k
	if half := capacity / 4 * 3; size <= half {
		capacity, class = half, class-1
	}
	if class < 0 || class >= 2*classes {
		return -1, size
	}
	return class, capacity
}

// Allocate implements memory.Allocator.
func (r *recycler) Allocate(size int) []byte {
	b, used := r.get(size)
	if used {
		clear(b)
	}
	return b
}

// AllocateDirty gives memory that may have been in use before, with what it held then, to who overwrites it all.
func (r *recycler) AllocateDirty(size int) []byte {
	b, _ := r.get(size)
	return b
}

func (r *recycler) get(size int) (b []byte, used bool) {
	class, capacity := classOf(size)
	if class < 0 {
		return make([]byte, size), false
	}
	if p, ok := r.free[class].Get().(*byte); ok {
		return unsafe.Slice(p, capacity)[:size], true
	}
	return make([]byte, capacity)[:size], false
}

// Reallocate implements memory.Allocator.
func (r *recycler) Reallocate(size int, b []byte) []byte {
	if old := len(b); size <= cap(b) {
		b = b[:size]
		clear(b[min(old, size):])
		return b
	}
	grown := r.Allocate(size)
	copy(grown, b)
	r.Free(b)
	return grown
}

// Free implements memory.Allocator.
func (r *recycler) Free(b []byte) {
	b = b[:cap(b)]
	if r.poison {
		for i := range b {
			b[i] = 0xdb
		}
	}
	if class, capacity := classOf(len(b)); class >= 0 && capacity == len(b) {
		r.free[class].Put(unsafe.SliceData(b))
	}
}
