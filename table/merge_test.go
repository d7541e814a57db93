package table

import (
	"context"
	"encoding/base64"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

// largest notes the largest piece that was read.
type largest struct {
	objstore.Store
	objstore.IntoReader
	piece atomic.Int64
}

func (s *largest) ReadInto(ctx context.Context, key string, off int64, p []byte) error {
	for n := int64(len(p)); ; {
		if was := s.piece.Load(); n <= was || s.piece.CompareAndSwap(was, n) {
			break
		}
	}
	return s.IntoReader.ReadInto(ctx, key, off, p)
}

// Files that are merged share the memory of a scan: the more are open at once, the less of each is read ahead (I8). The rows
// are the same (I4).
func TestMergeSharesMemory(t *testing.T) {
	under, err := dir.Open(dir.Config{Root: "/lake", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	store := &largest{Store: under, IntoReader: under}
	tb, err := Create(t.Context(), store, payload, Config{DropValue: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	rng := newRand(t)
	const files, each = 12, 3000
	var want []row
	snap := tb.current()
	for i := range int64(files) {
		var rows []row
		for _, p := range []int32{0, 1} {
			for at := range int64(each / 2) {
				noise := make([]byte, 150)
				for j := range noise {
					noise[j] = byte(rng.Uint32())
				}
				rows = append(rows, row{key{p, i*each/2 + at}, base64.StdEncoding.EncodeToString(noise)})
			}
		}
		want = append(want, rows...)
		snap = commit(t, tb, writeFile(t, tb, rows, WriterOptions{}))
	}
	slices.SortFunc(want, func(a, b row) int { return compareKey(a.key, b.key) })
	for _, c := range []struct {
		memory      int64
		least, most int64
	}{
		{0, nearPiece, nearPiece + 16<<10},
		{4 << 20, leastPiece, 64 << 10},
		{1, leastPiece, leastPiece + 80<<10}, // a page and its header come whole
	} {
		store.piece.Store(0)
		got := scanRows(t, tb, snap, ScanOptions{Sorted: true, Memory: c.memory})
		if !slices.Equal(got, want) {
			t.Fatalf("memory %d: %d rows, or others", c.memory, len(got))
		}
		if n := store.piece.Load(); n < c.least || n > c.most {
			t.Errorf("memory %d: pieces of up to %d bytes, want %d to %d", c.memory, n, c.least, c.most)
		}
	}
}

func TestDepth(t *testing.T) {
	u := func(ranges ...Range) *unit { return &unit{hulls: ranges} }
	for _, c := range []struct {
		want  int
		group []*unit
	}{
		{1, []*unit{u(Range{0, 5, 9}), u(Range{0, 0, 5}), u(Range{1, 0, 3})}},
		{2, []*unit{u(Range{0, 5, 9}), u(Range{0, 0, 6}), u(Range{1, 0, 3})}},
		{2, []*unit{u(Range{0, 0, 5}, Range{1, 0, 5}), u(Range{0, 5, 9}), u(Range{1, 5, 9})}},
		{3, []*unit{u(), u(Range{0, 0, 5}, Range{1, 0, 5}), u(Range{0, 5, 9}, Range{1, 5, 9})}},
	} {
		if got := depth(c.group); got != c.want {
			t.Errorf("%v: %d open at once, want %d", c.group, got, c.want)
		}
	}
}
