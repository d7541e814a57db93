package table

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// scanSplit scans with files taken apart from a size on.
func scanSplit(t testing.TB, tb *Table, snap *deltalog.Snapshot, opts ScanOptions, above int64) ([]int64, error) {
	t.Helper()
	s, err := tb.newScan(snap, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.splitAbove = above
	var out []int64
	err = s.run(t.Context(), snap, func(rb arrow.RecordBatch) bool {
		out = append(out, rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64).Int64Values()...)
		rb.Release()
		return true
	})
	return out, err
}

// TestSplitFiles reads the row groups of a file side by side: the rows come as they do one by one, for any ranges,
// filter and budget (I4).
func TestSplitFiles(t *testing.T) {
	rng := newRand(t)
	tb, err := Create(t.Context(), mem.New(), payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	o := int64(0)
	for range 4 {
		var rs []row
		for range 100 + rng.IntN(900) {
			rs = append(rs, row{key{0, o}, fmt.Sprintf("%05d", o)})
			o += 1 + int64(rng.IntN(3))
		}
		commit(t, tb, writeFile(t, tb, rs, WriterOptions{RowGroupRows: int64(20 + rng.IntN(200))}))
	}
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		opts := ScanOptions{Parallel: 1 + rng.IntN(6), BatchRows: 1 + rng.IntN(100), Memory: 1 + rng.Int64N(50_000)}
		if rng.IntN(2) == 0 {
			from := rng.Int64N(o)
			opts.Ranges = []Range{{0, record.Offset(from), record.Offset(from + rng.Int64N(o))}}
		}
		if rng.IntN(3) == 0 {
			opts.Where = parseWhere(t, fmt.Sprintf("text > '%05d'", rng.Int64N(o)))
		}
		want, err := scanSplit(t, tb, snap, opts, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		got, err := scanSplit(t, tb, snap, opts, 1)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v: %d rows, want %d; %v", opts, len(got), len(want), err)
		}
	}
}

// TestReadAheadIsBounded counts the files that are open while the consumer waits (I8).
func TestReadAheadIsBounded(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	size := int64(0)
	for f := range int64(20) {
		var rs []row
		for o := range int64(200) {
			rs = append(rs, row{key{0, f*200 + o}, "x"})
		}
		add := writeFile(t, tb, rs, WriterOptions{})
		size = max(size, add.Size)
		commit(t, tb, add)
	}
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		if c.Op == mem.OpGetRange {
			seen[c.Key] = true
		}
		return mem.Fault{}
	})
	taken := 0
	for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{Parallel: 8, Memory: 2 * size, BatchRows: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		taken += int(rb.NumRows())
		rb.Release()
		mu.Lock()
		// Files that were taken whole, one whose last batches wait, two that the budget lets in, one as another ends.
		if most := taken/200 + 4; len(seen) > most {
			t.Fatalf("%d files are open or were read after %d rows, want at most %d", len(seen), taken, most)
		}
		mu.Unlock()
	}
	if taken != 4000 {
		t.Errorf("%d rows", taken)
	}
}

// BenchmarkScanOneFile reads one file of many row groups, one core against all.
func BenchmarkScanOneFile(b *testing.B) {
	tb, err := Create(b.Context(), mem.New(), payload, Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer tb.Close()
	var rs []row
	bytes := int64(0)
	for o := range int64(200_000) {
		r := row{key{0, o}, fmt.Sprintf("%0200d", o)}
		bytes += 2 * int64(len(r.text)) // also in _value
		rs = append(rs, r)
	}
	snap := commit(b, tb, writeFile(b, tb, rs, WriterOptions{RowGroupRows: 20_000}))
	for _, parallel := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				got, err := scanSplit(b, tb, snap, ScanOptions{Parallel: parallel}, 1)
				if err != nil || len(got) != len(rs) {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
