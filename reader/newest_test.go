package reader

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// Whatever the memory, the newest offset of each key is that of a plain map, and no file is left behind (I4).
func TestNewest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, limit := range []int64{1 << 30, 20_000, 2_000, 300} {
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

// One key too large for the memory is no endless division (I8).
func TestNewestCannotDivide(t *testing.T) {
	n := newNewest(100, t.TempDir())
	for i := range 20 {
		if err := n.put(int32(i), 1, []byte("the same key in many partitions")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.each(func(int32, int64) {}); err == nil {
		t.Error("keys that no hash can divide were found in less memory than they need")
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
}
