package wire

import "testing"

// Every size gets a buffer that is large enough, with little to spare, and goes back to where it is found again (I8).
func TestFrameBufferSizes(t *testing.T) {
	for _, n := range []int{0, 1, leastPooled - 1, leastPooled, leastPooled + 1, 20_000, 1<<20 - 1, 1 << 20, 1<<20 + 100, mostPooled - 1, mostPooled, mostPooled + 1} {
		b := newFrameBuffer(n)
		if len(b) != n || cap(b) > n+n/poolSteps+1 {
			t.Errorf("%d bytes: a buffer of %d, capacity %d", n, len(b), cap(b))
		}
		size, pool := pooledSize(n)
		if pool == nil != (n < leastPooled || n > mostPooled) || size < n {
			t.Errorf("%d bytes: size %d", n, size)
		}
		if again, same := pooledSize(size); again != size || same != pool {
			t.Errorf("a buffer for %d bytes has %d, and goes back as one of %d", n, size, again)
		}
		recycle(b)
	}
}
