package table

import (
	"math/rand/v2"
	"testing"
)

// Blocks have the size asked for, are used again after Free and never by two at once, and keep their bytes when they grow (I8).
func TestRecycler(t *testing.T) {
	for size := range 3 * smallest {
		if class, capacity := classOf(size); capacity < size || class >= 0 && (capacity > 2*size || capacity%64 != 0) {
			t.Fatalf("%d bytes get %d of class %d", size, capacity, class)
		}
	}
	r := &recycler{poison: true}
	rng := rand.New(rand.NewPCG(1, 1))
	type block struct {
		b    []byte
		mark byte
	}
	var held []block
	for i := range 3000 {
		size := 1 + rng.IntN(1<<uint(4+rng.IntN(20)))
		switch n := len(held); {
		case n == 0 || n < 20 && rng.IntN(2) == 0:
			b := r.Allocate(size)
			if len(b) != size {
				t.Fatalf("%d bytes instead of %d", len(b), size)
			}
			fill(b, byte(i))
			held = append(held, block{b, byte(i)})
		case rng.IntN(2) == 0:
			x := &held[rng.IntN(n)]
			keep := min(size, len(x.b))
			x.b = r.Reallocate(size, x.b)
			check(t, x.b[:keep], x.mark)
			fill(x.b, x.mark)
		default:
			x := held[n-1]
			held = held[:n-1]
			check(t, x.b, x.mark)
			r.Free(x.b)
		}
	}
	for _, x := range held {
		check(t, x.b, x.mark)
	}
}

func fill(b []byte, mark byte) {
	for i := range b {
		b[i] = mark
	}
}

func check(t *testing.T, b []byte, mark byte) {
	t.Helper()
	for i, v := range b {
		if v != mark {
			t.Fatalf("byte %d of %d is %#x, want %#x", i, len(b), v, mark)
		}
	}
}
