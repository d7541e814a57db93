package wire

import (
	"math/bits"
	"sync"
)

// Bodies of Produce requests come by the thousand, are large, and nothing of them is needed when they are answered: what an
// Append was given is in the log then, or refused. So they are used again; a fresh one costs zeroing and collecting.
const (
	leastPooled = 16 << 10
	mostPooled  = 4 << 20
	poolSteps   = 4 // sizes between a power of two and the next, so that little is left over
)

var frameBuffers [64 * poolSteps]sync.Pool // of *[]byte, by size

// pooledSize gives the size of the buffer for n bytes, and its pool; nil for sizes that are not pooled.
func pooledSize(n int) (size int, pool *sync.Pool) {
	if n < leastPooled || n > mostPooled {
		return n, nil
	}
	power := bits.Len(uint(n-1)) - 1 // 1<<power < n <= 1<<(power+1)
	step := 1 << power / poolSteps
	over := (n - 1<<power + step - 1) / step // 1 to poolSteps
	return 1<<power + over*step, &frameBuffers[power*poolSteps+over-1]
}

// newFrameBuffer gives n bytes with whatever is in them.
func newFrameBuffer(n int) []byte {
	size, pool := pooledSize(n)
	if pool == nil {
		return make([]byte, n)
	}
	if b, ok := pool.Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, size)[:n]
}

// recycle takes a buffer of newFrameBuffer that nobody uses any more.
func recycle(b []byte) {
	if size, pool := pooledSize(cap(b)); pool != nil && size == cap(b) {
		b = b[:size]
		pool.Put(&b)
	}
}
