package table

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// pagedRows are rows of two partitions, whose texts fill many pages and rise and fall.
func pagedRows(n int64) (rows []row) {
	for p := range int32(2) {
		for o := range n {
			rows = append(rows, row{key{p, o}, fmt.Sprintf("%03d %0120d", o/500%40, o)})
		}
	}
	return rows
}

// Whatever range, time and filter choose, the pages that are left out had none of the rows. I4
func TestPagesLeaveOutNothing(t *testing.T) {
	rng := newRand(t)
	tb := newTestTable(t, Config{})
	all := pagedRows(20_000)
	a := writeFile(t, tb, all, WriterOptions{RowGroupRows: 15_000})
	var gone []int64
	for i := range int64(len(all)) {
		if i%1000 > 950 || i > 7000 && i < 7900 {
			gone = append(gone, i)
		}
	}
	want := rowsWithout(all, gone)
	snap := commit(t, tb, a)
	dv := putVector(t, tb, "u", gone)
	files := edited(snap, a.Path, func(f *deltalog.Add) { f.DeletionVector = dv })
	for range 60 {
		opts, keep := randomChoice(t, rng)
		var left []row
		for _, r := range want {
			if keep(r) {
				left = append(left, r)
			}
		}
		opts.BatchRows, opts.Files = 1+rng.IntN(5000), files
		got, err := tryScan(t.Context(), tb, snap, opts)
		if err != nil {
			t.Fatal(err)
		}
		if !opts.MinTimestamp.IsZero() { // older rows next to newer ones are given
			got = slices.DeleteFunc(got, func(r row) bool { return !keep(r) })
		}
		if !slices.Equal(got, left) {
			t.Fatalf("%+v: %d rows, want %d", opts, len(got), len(left))
		}
	}
}

func rowsWithout(all []row, gone []int64) (out []row) {
	for i, r := range all {
		if _, found := slices.BinarySearch(gone, int64(i)); !found {
			out = append(out, r)
		}
	}
	return out
}

// randomChoice gives options, and says which rows they are for.
func randomChoice(t *testing.T, rng *rand.Rand) (opts ScanOptions, keep func(row) bool) {
	var tests []func(row) bool
	if rng.IntN(2) == 0 {
		for p := range int32(2) {
			if from := rng.Int64N(20_000); rng.IntN(3) > 0 {
				opts.Ranges = append(opts.Ranges, Range{p, record.Offset(from), record.Offset(from + 1 + rng.Int64N(3000))})
			}
		}
		if opts.Ranges == nil {
			opts.Ranges = []Range{{1, 5, 6}}
		}
		ranges := opts.Ranges
		tests = append(tests, func(r row) bool {
			return slices.ContainsFunc(ranges, func(x Range) bool {
				return x.Partition == r.partition && int64(x.From) <= r.offset && r.offset < int64(x.To)
			})
		})
	}
	if rng.IntN(2) == 0 {
		low := fmt.Sprintf("%03d", rng.IntN(41))
		high := low + fmt.Sprintf(" %0120d", rng.IntN(20_000))
		opts.Where = parseWhere(t, fmt.Sprintf("text >= '%s' AND text <= '%s'", low, high))
		tests = append(tests, func(r row) bool { return r.text >= low && r.text <= high })
	}
	if rng.IntN(4) == 0 {
		since := rng.Int64N(20_000)
		opts.MinTimestamp = time.UnixMilli(1000 + since)
		tests = append(tests, func(r row) bool { return r.offset >= since })
	}
	return opts, func(r row) bool {
		return !slices.ContainsFunc(tests, func(test func(row) bool) bool { return !test(r) })
	}
}

// meter counts the bytes that are read of a store.
type meter struct {
	objstore.Store
	read atomic.Int64
}

func (m *meter) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b, err := m.Store.GetRange(ctx, key, off, n)
	m.read.Add(int64(len(b)))
	return b, err
}

// A few rows of a large row group cost a few pages, of a store that is far too.
func TestFewRowsCostFewPages(t *testing.T) {
	store := &meter{Store: mem.New()}
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tb.Close() })
	a := writeFile(t, tb, pagedRows(60_000), WriterOptions{})
	snap := commit(t, tb, a)
	opts := ScanOptions{Ranges: []Range{{1, 30_000, 30_010}}}
	got, err := tb.Choose(t.Context(), snap, &a, opts)
	if err != nil || got.OfPages < 100 || got.Pages*5 > got.OfPages {
		t.Fatalf("%+v, %v", got, err)
	}
	store.read.Store(0)
	rows := scanRows(t, tb, snap, opts)
	if len(rows) != 10 || rows[0].offset != 30_000 {
		t.Fatalf("%v", rows)
	}
	if read := store.read.Load(); read == 0 || read*4 > a.Size {
		t.Fatalf("%d bytes of %d were read for 10 rows", read, a.Size)
	}
	t.Logf("%d of %d pages, %d of %d bytes", got.Pages, got.OfPages, store.read.Load(), a.Size)
}

// A damaged index, in a file that is otherwise whole, changes no answer: it counts as missing. I4, I8
func TestDamagedPageIndexChangesNoAnswer(t *testing.T) {
	rng := newRand(t)
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tb.Close() })
	a := writeFile(t, tb, pagedRows(20_000), WriterOptions{})
	snap := commit(t, tb, a)
	opts := ScanOptions{Where: parseWhere(t, "text > '039'"), Ranges: []Range{{0, 100, 19_990}}}
	want := scanRows(t, tb, snap, opts)
	good, err := store.Get(t.Context(), a.Path)
	if err != nil {
		t.Fatal(err)
	}
	at, size := indexPlace(t, tb, &a)
	for range 200 {
		bad := slices.Clone(good)
		bad[at+rng.Int64N(size)] ^= byte(1 + rng.IntN(255))
		if err := store.Put(t.Context(), a.Path, bad); err != nil {
			t.Fatal(err)
		}
		if got := scanRows(t, tb, snap, opts); !slices.Equal(got, want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
	}
}

// indexPlace says where in a file the page index is.
func indexPlace(t *testing.T, tb *Table, a *deltalog.Add) (at, size int64) {
	t.Helper()
	s, err := tb.newScan(tb.current(), ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.open(t.Context(), &unit{add: a, to: 1 << 62})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if _, err := fmt.Sscanf(*f.pq.MetaData().KeyValueMetadata().FindValue(ourparquet.IndexKey), "%d %d", &at, &size); err != nil {
		t.Fatal(err)
	}
	return at, size
}
