package reader

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// Whatever the memory, the newest offset of each key is that of a plain map, and no file is left behind (I4).
func TestNewest(t *testing.T) {
	seed := seedtest.New(t)
	for _, limit := range []int64{1 << 30, 20_000, 2_000, 500} { // smaller, and some seed in a million has too many keys of one hash
		rng := rand.New(rand.NewPCG(seed, 0))
		dir := t.TempDir()
		n := newNewest(limit, dir)
		want := map[placedKey]int64{}
		for o := range int64(4000) {
			k := placedKey{rng.Int32N(3), fmt.Sprint("key", rng.IntN(1500))}
			if rng.IntN(50) == 0 {
				k.key = ""
			}
			want[k] = o
			if err := n.put(k.partition, o, []byte(k.key)); err != nil {
				t.Fatal(err)
			}
		}
		if spilled := n.files != nil; spilled != (limit < 1<<20) {
			t.Errorf("limit %d: keys in files: %v", limit, spilled)
		}
		got := map[[2]int64]bool{}
		count, err := n.each(func(p int32, off int64) {
			if got[[2]int64{int64(p), off}] {
				t.Errorf("offset %d twice", off)
			}
			got[[2]int64{int64(p), off}] = true
		})
		if err != nil || count != int64(len(want)) {
			t.Fatalf("limit %d: %d keys, want %d: %v", limit, count, len(want), err)
		}
		for k, off := range want {
			if !got[[2]int64{int64(k.partition), off}] {
				t.Fatalf("limit %d: offset %d, the newest of %v, is missing", limit, off, k)
			}
		}
		if err := n.close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("files left: %v %v", left, err)
		}
	}
}

// Keys that no hash divides are an error, no endless division (I8).
func TestNewestCannotDivide(t *testing.T) {
	n := newNewest(300, t.TempDir())
	n.depth = maxDivisions // as if all before had put the same keys together
	var err error
	for i := 0; err == nil && i < 20; i++ {
		err = n.put(1, int64(i), fmt.Appendf(nil, "key %d", i))
	}
	if err == nil || n.files != nil {
		t.Errorf("divided once more: %v", err)
	}
}
