package table

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Memory is zeroed and keeps its content when it grows, whatever was in the buffers before.
func TestBufferPool(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &bufferPool{}
	var live [][]byte
	for i := range 5000 {
		if len(live) > 20 {
			p.Free(live[0])
			live = live[1:]
		}
		size := rng.IntN(300_000)
		b := p.Allocate(size)
		if len(b) != size || bytes.Count(b, []byte{0}) != size {
			t.Fatalf("step %d: %d bytes of %d are zero", i, bytes.Count(b, []byte{0}), size)
		}
		for j := range b {
			b[j] = 7
		}
		grown := size + rng.IntN(300_000)
		b = p.Reallocate(grown, b)
		if len(b) != grown || bytes.Count(b[:size], []byte{7}) != size || bytes.Count(b[size:], []byte{0}) != grown-size {
			t.Fatalf("step %d: growing from %d to %d lost content or gave old bytes", i, size, grown)
		}
		b = p.Reallocate(size/2, b)
		if len(b) != size/2 || bytes.Count(b, []byte{7}) != size/2 {
			t.Fatalf("step %d: shrinking lost content", i)
		}
		live = append(live, b)
	}
}

func TestBufferClasses(t *testing.T) {
	for size, want := range map[int]int{minPooled: 0, minPooled + 1: 1, 2 * minPooled: 1, 2*minPooled + 1: 2} {
		if got, ok := class(size); !ok || got != want {
			t.Errorf("class(%d) = %d %v, want %d", size, got, ok, want)
		}
	}
	for _, size := range []int{0, minPooled - 1, 1 << 40} {
		if _, ok := class(size); ok {
			t.Errorf("class(%d) is pooled", size)
		}
	}
}
