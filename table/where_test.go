package table

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func parseWhere(t testing.TB, text string) *where.Filter {
	t.Helper()
	f, err := where.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// kept scans with a filter and gives the offsets.
func kept(t testing.TB, tb *Table, opts ScanOptions) []int64 {
	t.Helper()
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []int64
	for rb, err := range tb.Scan(t.Context(), snap, opts) {
		if err != nil {
			t.Fatal(err)
		}
		if opts.Columns != nil && int(rb.NumCols()) != len(opts.Columns) {
			t.Fatalf("%d columns, want %v", rb.NumCols(), opts.Columns)
		}
		out = append(out, rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64).Int64Values()...)
		rb.Release()
	}
	return out
}

// TestScanWhere compares scans with a filter to scans without one, and makes sure that files and row groups that
// cannot match are not read.
func TestScanWhere(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	const files, rows = 5, 300
	for f := range int64(files) {
		var rs []row
		for i := range int64(rows) {
			o := f*rows + i
			rs = append(rs, row{key{0, o}, fmt.Sprintf("%04d", o)})
		}
		commit(t, tb, writeFile(t, tb, rs, WriterOptions{RowGroupRows: 100}))
	}
	all := func(keep func(o int64) bool) (out []int64) {
		for o := range int64(files * rows) {
			if keep(o) {
				out = append(out, o)
			}
		}
		return out
	}
	for _, c := range []struct {
		where string
		keep  func(o int64) bool
		files int // that may be read
	}{
		{"text = '0450'", func(o int64) bool { return o == 450 }, 1},
		{"text >= '0290' AND text < '0310'", func(o int64) bool { return o >= 290 && o < 310 }, 2},
		{"_offset IN (3, 1499)", func(o int64) bool { return o == 3 || o == 1499 }, 2},
		{"_partition = 1", func(int64) bool { return false }, 0},
		{"text IS NULL", func(int64) bool { return false }, 0},
		{"_timestamp < '1970-01-01T00:00:01.005Z'", func(o int64) bool { return o < 5 }, files},
		{"_key = 'k' AND NOT text < '1400'", func(o int64) bool { return o >= 1400 }, 1},
		{"_key = 'x'", func(int64) bool { return false }, files}, // binary columns have no statistics
	} {
		var seen sync.Map
		store.SetHook(func(_ context.Context, call mem.Call) mem.Fault {
			if call.Op == mem.OpGetRange {
				seen.Store(call.Key, true)
			}
			return mem.Fault{}
		})
		for _, columns := range [][]string{nil, {"_offset"}, {"_offset", "text"}} {
			got := kept(t, tb, ScanOptions{Where: parseWhere(t, c.where), Columns: columns, Parallel: 1})
			if want := all(c.keep); !slices.Equal(got, want) {
				t.Errorf("%s with columns %v gives %v, want %v", c.where, columns, got, want)
			}
		}
		store.SetHook(nil)
		n := 0
		seen.Range(func(any, any) bool { n++; return true })
		if n > c.files {
			t.Errorf("%s read %d files, want at most %d", c.where, n, c.files)
		}
	}
	if got := kept(t, tb, ScanOptions{Where: parseWhere(t, "text > '0100'"), Ranges: []Range{{0, 90, 110}}}); !slices.Equal(got, []int64{101, 102, 103, 104, 105, 106, 107, 108, 109}) {
		t.Errorf("with a range: %v", got)
	}
}

// TestRowGroupsAreSkipped reads one row group of three.
func TestRowGroupsAreSkipped(t *testing.T) {
	tb, err := Create(t.Context(), mem.New(), payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	var rs []row
	for o := range int64(300) {
		rs = append(rs, row{key{0, o}, fmt.Sprintf("%04d", o)})
	}
	commit(t, tb, writeFile(t, tb, rs, WriterOptions{RowGroupRows: 100}))
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"text = '0150'": 1, "text < '0250'": 3, "_offset > 150": 2, "text IS NOT NULL": 3, "_key = 'k'": 3} {
		f := tb.FilesFor(snap, nil)[0]
		read, of, err := tb.RowGroups(t.Context(), snap, f.Add, ScanOptions{Where: parseWhere(t, text)})
		if err != nil || read != want || of != 3 {
			t.Errorf("%s: %d of %d row groups, %v; want %d", text, read, of, err, want)
		}
	}
	if read, of, err := tb.RowGroups(t.Context(), snap, tb.FilesFor(snap, nil)[0].Add, ScanOptions{Ranges: []Range{{0, 100, 101}}}); err != nil || read != 1 || of != 3 {
		t.Errorf("a range: %d of %d, %v", read, of, err)
	}
}
