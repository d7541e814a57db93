package roaring

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seedtest.New(t), 1))
}

// write gives the portable form of sorted values; runs chooses run containers.
func write(values []int64, runs bool) []byte {
	le := binary.LittleEndian
	high := map[int64][]int64{}
	var order []int64
	for _, v := range values {
		if _, ok := high[v>>32]; !ok {
			order = append(order, v>>32)
		}
		high[v>>32] = append(high[v>>32], v&0xFFFFFFFF)
	}
	out := le.AppendUint64(nil, uint64(len(order)))
	for _, h := range order {
		out = le.AppendUint32(out, uint32(h))
		groups := map[int64][]uint16{}
		var keys []int64
		for _, v := range high[h] {
			if _, ok := groups[v>>16]; !ok {
				keys = append(keys, v>>16)
			}
			groups[v>>16] = append(groups[v>>16], uint16(v))
		}
		if runs {
			out = le.AppendUint32(out, cookieRuns|uint32(len(keys)-1)<<16)
			out = append(out, slices.Repeat([]byte{0xFF}, (len(keys)+7)/8)...)
		} else {
			out = le.AppendUint32(out, cookiePlain)
			out = le.AppendUint32(out, uint32(len(keys)))
		}
		for _, k := range keys {
			out = le.AppendUint16(le.AppendUint16(out, uint16(k)), uint16(len(groups[k])-1))
		}
		if !runs || len(keys) >= offsetsFrom {
			out = append(out, make([]byte, 4*len(keys))...)
		}
		for _, k := range keys {
			out = append(out, body(groups[k], runs)...)
		}
	}
	return out
}

func body(values []uint16, runs bool) []byte {
	le := binary.LittleEndian
	var out []byte
	switch {
	case runs:
		n := 0
		for i := 0; i < len(values); n++ {
			j := i + 1
			for j < len(values) && int(values[j]) == int(values[j-1])+1 {
				j++
			}
			out = le.AppendUint16(le.AppendUint16(out, values[i]), uint16(j-i-1))
			i = j
		}
		return append(le.AppendUint16(nil, uint16(n)), out...)
	case len(values) <= arrayMax:
		for _, v := range values {
			out = le.AppendUint16(out, v)
		}
		return out
	}
	out = make([]byte, bitmapBytes)
	for _, v := range values {
		out[v/8] |= 1 << (v % 8)
	}
	return out
}

func values(m *Bitmap, lo, hi int64) []int64 {
	out := []int64{}
	for from, to := range m.Ranges(lo, hi) {
		for ; from < to; from++ {
			out = append(out, from)
		}
	}
	return out
}

// Sets of every density give back exactly what went in, whole and in windows.
func TestRoundTrip(t *testing.T) {
	rnd := newRand(t)
	for _, density := range []float64{0.0001, 0.01, 0.3, 0.9, 1} {
		for _, runs := range []bool{false, true} {
			var want []int64
			for _, base := range []int64{0, 3 << 16, 9<<32 | 7<<16} {
				for i := range int64(3 << 16) {
					if rnd.Float64() < density {
						want = append(want, base+i)
					}
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)
			m, err := Parse(write(want, runs))
			if err != nil {
				t.Fatal(density, runs, err)
			}
			if got := values(m, 0, math.MaxInt64); !slices.Equal(got, want) {
				t.Fatalf("density %v runs %v: %d values, want %d", density, runs, len(got), len(want))
			}
			if top, ok := m.Max(); m.Cardinality() != int64(len(want)) || !ok || top != want[len(want)-1] {
				t.Fatal(m.Cardinality(), top, ok)
			}
			for range 20 {
				lo := rnd.Int64N(4 << 16)
				hi := lo + rnd.Int64N(2<<16)
				a, _ := slices.BinarySearch(want, lo)
				b, _ := slices.BinarySearch(want, hi)
				if got := values(m, lo, hi); !slices.Equal(got, want[a:b]) {
					t.Fatalf("window [%d,%d): %d values, want %d", lo, hi, len(got), b-a)
				}
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	m, err := Parse(make([]byte, 8))
	if err != nil || m.Cardinality() != 0 {
		t.Fatal(m, err)
	}
	if _, ok := m.Max(); ok {
		t.Fatal("an empty set has no largest value")
	}
}

// I8: every cut and every flipped bit gives an error or a bitmap that keeps its own promises.
func TestDamage(t *testing.T) {
	for _, runs := range []bool{false, true} {
		good := write([]int64{1, 2, 3, 9, 70000, 70001, 1 << 40}, runs)
		for i := range good {
			if _, err := Parse(good[:i]); !errors.Is(err, ErrFormat) {
				t.Fatalf("cut at %d: %v", i, err)
			}
			for bit := range 8 {
				bad := slices.Clone(good)
				bad[i] ^= 1 << bit
				check(t, bad)
			}
		}
		if _, err := Parse(append(good, 0)); !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, b []byte) {
	m, err := Parse(b)
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		return
	}
	n, last := int64(0), int64(-1)
	for from, to := range m.Ranges(0, math.MaxInt64) {
		if from <= last || to <= from {
			t.Fatalf("range [%d,%d) after %d", from, to, last)
		}
		n, last = n+to-from, to-1
	}
	if top, ok := m.Max(); n != m.Cardinality() || ok && top != last {
		t.Fatalf("%d values up to %d, want %d up to %d", n, last, m.Cardinality(), top)
	}
}

// I8
func FuzzParse(f *testing.F) {
	f.Add(write([]int64{1, 2, 3, 9, 70000}, false))
	f.Add(write([]int64{1, 2, 3, 9, 70000, 1 << 35}, true))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(check)
}
