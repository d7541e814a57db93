package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seedtest.New(t), 7))
}

// row is what the tests write: the system columns and one payload column.
type row struct {
	key
	text string
}

var payload = arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)

func batchOf(t testing.TB, tb *Table, rows []row) arrow.RecordBatch {
	t.Helper()
	sys := NewSystemColumns(tb.Names, "")
	text := array.NewStringBuilder(memory.DefaultAllocator)
	for _, r := range rows {
		sys.Append(r.partition, &record.Record{Offset: record.Offset(r.offset), Timestamp: 1000 + r.offset, Key: []byte("k"), Value: []byte(r.text),
			Headers: []record.Header{{Key: []byte("h"), Value: nil}}})
		text.Append(r.text)
	}
	schema, err := tb.Schema(tb.current())
	if err != nil {
		t.Fatal(err)
	}
	return array.NewRecordBatch(schema, append(sys.Arrays(), text.NewArray()), int64(len(rows)))
}

func writeFile(t testing.TB, tb *Table, rows []row, opts WriterOptions) deltalog.Add {
	t.Helper()
	w, err := tb.NewFileWriter(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(rows, max(1, len(rows)/3)) {
		if err := w.Write(batchOf(t, tb, part)); err != nil {
			t.Fatal(err)
		}
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return add
}

func commit(t testing.TB, tb *Table, adds ...deltalog.Add) *deltalog.Snapshot {
	t.Helper()
	if _, err := tb.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: tb.current().Version(), Operation: "WRITE", Adds: adds, BlindAppend: true}); err != nil {
		t.Fatal(err)
	}
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func scanRows(t testing.TB, tb *Table, snap *deltalog.Snapshot, opts ScanOptions) []row {
	t.Helper()
	rows, err := tryScan(t.Context(), tb, snap, opts)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func tryScan(ctx context.Context, tb *Table, snap *deltalog.Snapshot, opts ScanOptions) ([]row, error) {
	var out []row
	opts.Columns = []string{"text", "_offset", "_partition"}
	for rb, err := range tb.Scan(ctx, snap, opts) {
		if err != nil {
			return out, err
		}
		text, offs, parts := rb.Column(0).(*array.String), rb.Column(1).(*array.Int64), rb.Column(2).(*array.Int32)
		for i := range int(rb.NumRows()) {
			out = append(out, row{key{parts.Value(i), offs.Value(i)}, strings.Clone(text.Value(i))})
		}
		rb.Release()
	}
	return out, nil
}

func newTestTable(t testing.TB, cfg Config) *Table {
	t.Helper()
	tb, err := Create(t.Context(), mem.New(), payload, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tb.Close() })
	return tb
}

func checkOrdered(t *testing.T, rows []row) {
	t.Helper()
	last := map[int32]int64{}
	for _, r := range rows {
		if l, ok := last[r.partition]; ok && r.offset <= l {
			t.Fatalf("partition %d: offset %d after %d", r.partition, r.offset, l)
		}
		last[r.partition] = r.offset
	}
}

func sortRows(rows []row) []row {
	out := slices.Clone(rows)
	slices.SortFunc(out, func(a, b row) int { return compareKey(a.key, b.key) })
	return out
}

// I4: whatever the files, each row comes once, in order of its partition; and pruning never loses a row.
func TestScanGivesEachRowOnceInOrder(t *testing.T) {
	rng := newRand(t)
	for round := range 40 {
		tb := newTestTable(t, Config{})
		var all []row
		for p := range int32(1 + rng.IntN(4)) {
			off := rng.Int64N(5)
			for range rng.IntN(400) {
				all = append(all, row{key{p, off}, fmt.Sprintf("%d/%d", p, off)})
				off += 1 + int64(rng.IntN(3)/2*rng.IntN(30))
			}
		}
		adds := randomFiles(t, rng, tb, all, round)
		snap := commit(t, tb, adds...)
		opts := ScanOptions{Parallel: 1 + rng.IntN(4), BatchRows: 1 + rng.IntN(100)}
		got := scanRows(t, tb, snap, opts)
		checkOrdered(t, got)
		if !slices.Equal(sortRows(got), sortRows(all)) {
			t.Fatalf("round %d: %d rows, want %d", round, len(got), len(all))
		}
		for range 5 {
			opts.Ranges = randomRanges(rng)
			want := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !inRanges(opts.Ranges, r.key) })
			got := scanRows(t, tb, snap, opts)
			checkOrdered(t, got)
			if !slices.Equal(sortRows(got), sortRows(want)) {
				t.Fatalf("round %d, ranges %v: %d rows, want %d", round, opts.Ranges, len(got), len(want))
			}
		}
	}
}

func inRanges(ranges []Range, k key) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool {
		return r.Partition == k.partition && int64(r.From) <= k.offset && k.offset < int64(r.To)
	})
}

func randomRanges(rng *rand.Rand) []Range {
	out := []Range{}
	for range rng.IntN(4) {
		from := record.Offset(rng.Int64N(800))
		out = append(out, Range{int32(rng.IntN(4)), from, from + record.Offset(rng.Int64N(300))})
	}
	return out
}

// randomFiles deals the rows to files: in stretches, or at random so that files overlap; some lose their tags,
// some their statistics too, and some are rewritten out of order as a foreign optimize does.
func randomFiles(t *testing.T, rng *rand.Rand, tb *Table, all []row, round int) []deltalog.Add {
	files := make([][]row, 1+rng.IntN(6))
	stretch := 1 + rng.IntN(150)
	if round%2 == 0 {
		stretch = 1
	}
	for i, r := range all {
		f := (i / stretch) % len(files)
		if stretch == 1 {
			f = rng.IntN(len(files))
		}
		files[f] = append(files[f], r)
	}
	var adds []deltalog.Add
	for _, rows := range files {
		if len(rows) == 0 {
			continue
		}
		rows = sortRows(rows)
		opts := WriterOptions{RowGroupRows: int64(1 + rng.IntN(200))}
		switch rng.IntN(4) {
		case 0, 1:
			adds = append(adds, writeFile(t, tb, rows, opts))
		case 2:
			a := writeFile(t, tb, rows, opts)
			a.Tags = nil
			if rng.IntN(2) == 0 {
				a.Stats = ""
			}
			adds = append(adds, a)
		case 3:
			cut := rng.IntN(len(rows))
			adds = append(adds, writeShuffled(t, tb, append(slices.Clone(rows[cut:]), rows[:cut]...), opts))
		}
	}
	rng.Shuffle(len(adds), func(i, j int) { adds[i], adds[j] = adds[j], adds[i] })
	return adds
}

// writeShuffled writes rows that are not sorted, as another engine may.
func writeShuffled(t *testing.T, tb *Table, rows []row, opts WriterOptions) deltalog.Add {
	w, err := tb.NewFileWriter(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	w.order = &orderCheck{}
	if err := w.Write(batchOf(t, tb, rows)); err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return add
}

// I4: a record that is in two files is an error that names both.
func TestDuplicateNamesBothFiles(t *testing.T) {
	for _, tagged := range []bool{true, false} {
		tb := newTestTable(t, Config{})
		a := writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "b"}}, WriterOptions{})
		b := writeFile(t, tb, []row{{key{0, 2}, "b"}, {key{0, 3}, "c"}}, WriterOptions{})
		if !tagged {
			b.Tags, b.Stats = nil, ""
		}
		_, err := tryScan(t.Context(), tb, commit(t, tb, a, b), ScanOptions{})
		var dup *DuplicateError
		if !errors.As(err, &dup) || dup.Offset != 2 || !slices.Contains(dup.Files[:], a.Path) || !slices.Contains(dup.Files[:], b.Path) {
			t.Fatalf("tagged %v: %v", tagged, err)
		}
	}
}

func TestTagThatLiesIsFound(t *testing.T) {
	tb := newTestTable(t, Config{})
	a := writeShuffled(t, tb, []row{{key{0, 5}, "a"}, {key{0, 2}, "b"}}, WriterOptions{})
	tag := "[[0,2,6]]"
	a.Tags = map[string]*string{RangesTag: &tag}
	if _, err := tryScan(t.Context(), tb, commit(t, tb, a), ScanOptions{}); !errors.Is(err, ErrUnsorted) {
		t.Fatal(err)
	}
}

// I4: a file of ours whose rows have lost both columns of their places, as damage to two names in its footer does, is an error: its
// rows are not taken for others'.
func TestLostColumnsAreFound(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	add := writeFile(t, tb, []row{{key{0, 0}, "a"}, {key{0, 1}, "b"}}, WriterOptions{})
	snap := commit(t, tb, add)
	good, err := store.Get(t.Context(), add.Path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.ReplaceAll(bytes.ReplaceAll(good, []byte("_partition"), []byte("_pxrtition")), []byte("_offset"), []byte("_ofxset"))
	if err := store.Put(t.Context(), add.Path, bad); err != nil || bytes.Equal(good, bad) {
		t.Fatal(err)
	}
	for _, opts := range []ScanOptions{{}, {Ranges: []Range{{0, 0, 2}}}} {
		if got, err := tryScan(t.Context(), tb, snap, opts); !errors.Is(err, ErrNoPosition) {
			t.Errorf("ranges %v: %d rows, %v", opts.Ranges, len(got), err)
		}
	}
}

// I8: a broken file is an error, never a panic and never fewer rows.
func TestBrokenFile(t *testing.T) {
	rng := newRand(t)
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for i := range int64(300) {
		rows = append(rows, row{key{0, i}, fmt.Sprint(i % 7)})
	}
	add := writeFile(t, tb, rows, WriterOptions{RowGroupRows: 100})
	snap := commit(t, tb, add)
	good, err := store.Get(t.Context(), add.Path)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 300 {
		bad := slices.Clone(good)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
		}
		if err := store.Put(t.Context(), add.Path, bad); err != nil {
			t.Fatal(err)
		}
		got, err := tryScan(t.Context(), tb, snap, ScanOptions{})
		if err != nil {
			failed++
		} else if len(got) != len(rows) {
			t.Fatalf("%d rows and no error, want %d", len(got), len(rows))
		}
	}
	if failed == 0 {
		t.Fatal("no damage was noticed")
	}
	if err := store.Put(t.Context(), add.Path, good[:len(good)/2]); err != nil {
		t.Fatal(err)
	}
	if _, err := tryScan(t.Context(), tb, snap, ScanOptions{}); err == nil {
		t.Fatal("half a file was read")
	}
}

func TestScanStops(t *testing.T) {
	tb := newTestTable(t, Config{})
	var adds []deltalog.Add
	for i := range int64(20) {
		adds = append(adds, writeFile(t, tb, []row{{key{0, 2 * i}, "x"}, {key{0, 2*i + 1}, "y"}}, WriterOptions{}))
	}
	snap := commit(t, tb, adds...)
	n := 0
	for _, err := range tb.Scan(t.Context(), snap, ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	var last error
	for _, err := range tb.Scan(ctx, snap, ScanOptions{Parallel: 2}) {
		if n++; n == 2 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("a cancelled scan looks complete: %d batches, %v", n, last)
	}
}

func TestScanStoreFailure(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	snap := commit(t, tb, writeFile(t, tb, []row{{key{0, 1}, "a"}}, WriterOptions{}), writeFile(t, tb, []row{{key{0, 2}, "a"}}, WriterOptions{}))
	broken := errors.New("disk on fire")
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpGetRange {
			return mem.Fault{Before: broken}
		}
		return mem.Fault{}
	})
	if _, err := tryScan(t.Context(), tb, snap, ScanOptions{}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	store.SetHook(nil)
	if err := store.Delete(t.Context(), firstPath(snap)); err != nil {
		t.Fatal(err)
	}
	if _, err := tryScan(t.Context(), tb, snap, ScanOptions{}); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatal(err)
	}
}

// A data file that is not as long as the log says, or not there, is told by its path and by what the log has (I4).
func TestDataFileIsNotAsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, store *mem.Store, path string, b []byte)
		want   string
	}{
		"cut": {func(t *testing.T, s *mem.Store, path string, b []byte) { overwrite(t, s, path, b[:5]) }, "it has 5 bytes, the table's log says %d"},
		"longer": {func(t *testing.T, s *mem.Store, path string, b []byte) {
			overwrite(t, s, path, append([]byte{0}, b...))
		}, "the table's log says %d"},
		"empty":   {func(t *testing.T, s *mem.Store, path string, b []byte) { overwrite(t, s, path, nil) }, "it has 0 bytes, the table's log says %d"},
		"missing": {func(t *testing.T, s *mem.Store, path string, b []byte) { _ = s.Delete(t.Context(), path) }, "the table's log names it, with %d bytes, but it is not in the store"},
	} {
		store := mem.New()
		tb, err := Create(t.Context(), store, payload, Config{})
		if err != nil {
			t.Fatal(err)
		}
		snap := commit(t, tb, writeFile(t, tb, []row{{key{0, 1}, "a"}}, WriterOptions{}))
		path := firstPath(snap)
		b, err := store.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(c.want, len(b))
		c.change(t, store, path, b)
		if _, err := tryScan(t.Context(), tb, snap, ScanOptions{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func overwrite(t *testing.T, store *mem.Store, path string, b []byte) {
	t.Helper()
	if err := store.Put(t.Context(), path, b); err != nil {
		t.Fatal(err)
	}
}

func firstPath(snap *deltalog.Snapshot) string {
	for a := range snap.Files() {
		return a.Path
	}
	return ""
}

func TestMinTimestamp(t *testing.T) {
	tb := newTestTable(t, Config{})
	var adds []deltalog.Add
	for i := range int64(5) {
		adds = append(adds, writeFile(t, tb, []row{{key{0, i * 1_000_000}, "x"}}, WriterOptions{}))
	}
	rows := scanRows(t, tb, commit(t, tb, adds...), ScanOptions{MinTimestamp: time.UnixMilli(3_000_000)})
	if len(rows) != 2 || rows[0].offset != 3_000_000 {
		t.Fatalf("%v", rows)
	}
}

func TestPlan(t *testing.T) {
	tb := newTestTable(t, Config{})
	snap := commit(t, tb, writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "a"}, {key{1, 7}, "a"}}, WriterOptions{}),
		writeFile(t, tb, []row{{key{0, 3}, "a"}}, WriterOptions{}))
	p, err := tb.Plan(snap, []Range{{0, 3, 9}})
	if err != nil || len(p.Files) != 1 || p.Rows != 1 || p.Skipped != 1 || p.Bytes != p.Files[0].Add.Size || !p.Files[0].Exact {
		t.Fatalf("%+v", p)
	}
	if p, err = tb.Plan(snap, nil); err != nil || p.Rows != 4 || len(p.Files) != 2 || p.OfBytes != p.Bytes {
		t.Fatalf("%+v", p)
	}
}

// Large files are read in pieces, and large values make small batches; the rows are the same.
func TestScanOfLargeFilesAndValues(t *testing.T) {
	tb := newTestTable(t, Config{})
	text := strings.Repeat("0123456789abcdef", 1<<13)
	var rows, other []row
	for i := range int64(600) {
		r := row{key{0, i}, fmt.Sprint(i, text[:(i%100)*1000])}
		if i%2 == 0 {
			rows = append(rows, r)
		} else {
			other = append(other, r)
		}
	}
	snap := commit(t, tb, writeFile(t, tb, rows, WriterOptions{RowGroupRows: 150}), writeFile(t, tb, other, WriterOptions{}))
	for _, above := range []int64{0, 1 << 40} {
		s, err := tb.newScan(snap, ScanOptions{Columns: []string{"_offset", "text"}})
		if err != nil {
			t.Fatal(err)
		}
		s.streamAbove = above
		var got []row
		batches := 0
		if err := s.run(t.Context(), snap, func(rb arrow.RecordBatch) bool {
			for i := range int(rb.NumRows()) {
				got = append(got, row{key{0, rb.Column(0).(*array.Int64).Value(i)}, strings.Clone(rb.Column(1).(*array.String).Value(i))})
			}
			batches++
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, sortRows(append(slices.Clone(rows), other...))) {
			t.Fatalf("above %d: %d rows, or others", above, len(got))
		}
		if batches < 2 {
			t.Fatalf("30 MB came in %d batch", batches)
		}
	}
}

// A snapshot that does not know its files is no table without rows: whatever needs them says so. I4, I8
func TestSnapshotWithoutFiles(t *testing.T) {
	store := mem.New()
	full, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	a := writeFile(t, full, []row{{key{0, 1}, "a"}, {key{0, 2}, "b"}}, WriterOptions{})
	commit(t, full, a)
	tb, err := Open(t.Context(), store, Config{Log: deltalog.Config{NoFiles: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	snap := tb.current()
	if _, err := tryScan(t.Context(), tb, snap, ScanOptions{}); !errors.Is(err, ErrNoFiles) {
		t.Errorf("Scan: %v", err)
	}
	if _, err := tb.FilesFor(snap, nil); !errors.Is(err, ErrNoFiles) {
		t.Errorf("FilesFor: %v", err)
	}
	if _, err := tb.FilesOf(snap, ScanOptions{}); !errors.Is(err, ErrNoFiles) {
		t.Errorf("FilesOf: %v", err)
	}
	if _, err := tb.Plan(snap, nil); !errors.Is(err, ErrNoFiles) {
		t.Errorf("Plan: %v", err)
	}
	if rows := scanRows(t, tb, snap, ScanOptions{Files: []*deltalog.Add{&a}}); len(rows) != 2 {
		t.Errorf("files that are named are read: %v", rows)
	}
	if err := store.Delete(t.Context(), a.Path); err != nil {
		t.Fatal(err)
	}
	if found, err := tb.Check(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("Check looks at all files, whatever the Log keeps: %v, %v", found, err)
	}
}
