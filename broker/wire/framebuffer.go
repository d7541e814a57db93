package wire

import (
	"math/bits"
	"slices"
	"sync"
)

// frameBuffers keeps bodies of Produce requests for the next ones: they come by the thousand, and a fresh one costs zeroing and
// collecting. Nothing of a body is needed when it is answered: what an Append was given is in the log then, or refused.
// What is idle has a share of the memory budget to itself; what is in use has its request's.
type frameBuffers struct {
	most int64 // bytes that may be idle

	mu    sync.Mutex
	idle  [][]byte // the one that was used last at the end
	bytes int64    // of them
}

const (
	leastReused = 16 << 10
	mostReused  = 16 << 20 // a request of 12 partitions with 1 MB each has 12
	mostIdle    = 64       // buffers: they are searched one by one
	reusedSteps = 4        // sizes between a power of two and the next, so that little is left over
)

// size gives the size of the buffer that get makes for n bytes: n, or a little more where it can be used again.
func (f *frameBuffers) size(n int) int {
	if n < leastReused || n > mostReused {
		return n
	}
	power := 1 << (bits.Len(uint(n-1)) - 1) // power < n <= 2*power
	step := power / reusedSteps
	size := power + (n-power+step-1)/step*step
	if int64(size) > f.most {
		return n
	}
	return size
}

// get gives n bytes with whatever is in them.
func (f *frameBuffers) get(n int) []byte {
	size := f.size(n)
	f.mu.Lock()
	for i, b := range slices.Backward(f.idle) {
		if cap(b) == size {
			f.idle = slices.Delete(f.idle, i, i+1)
			f.bytes -= int64(size)
			f.mu.Unlock()
			return b[:n]
		}
	}
	f.mu.Unlock()
	return make([]byte, size)[:n]
}

// put takes a buffer of get that nobody uses any more. For it, those go that were not used for longest.
func (f *frameBuffers) put(b []byte) {
	if cap(b) < leastReused || cap(b) > mostReused || int64(cap(b)) > f.most {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, b)
	f.bytes += int64(cap(b))
	out := 0
	for ; len(f.idle)-out > mostIdle || f.bytes > f.most; out++ {
		f.bytes -= int64(cap(f.idle[out]))
	}
	f.idle = slices.Delete(f.idle, 0, out)
}
