package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
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
	a := writeFile(t, tb, rs, WriterOptions{RowGroupRows: 100})
	snap := commit(t, tb, a)
	for text, want := range map[string]int{"text = '0150'": 1, "text < '0250'": 3, "_offset > 150": 2, "text IS NOT NULL": 3, "_key = 'k'": 3} {
		got, err := tb.Choose(t.Context(), snap, &a, ScanOptions{Where: parseWhere(t, text)})
		if err != nil || got.Groups != want || got.OfGroups != 3 {
			t.Errorf("%s: %+v, %v; want %d row groups of 3", text, got, err, want)
		}
	}
	if got, err := tb.Choose(t.Context(), snap, &a, ScanOptions{Ranges: []Range{{0, 100, 101}}}); err != nil || got.Groups != 1 || got.OfGroups != 3 {
		t.Errorf("a range: %+v, %v", got, err)
	}
}

// The shortest text of a float, as other writers put it into statistics, lies beside its value: the answer must be
// that without statistics, for columns of 32 bits and for those that were widened to 64. I4
func TestWhereFloatStatistics(t *testing.T) {
	v := float32(0.1)
	for typ, text := range map[arrow.DataType]string{arrow.PrimitiveTypes.Float32: "float", arrow.PrimitiveTypes.Float64: "double"} {
		for _, stats := range []string{"", `{"numRecords":1,"minValues":{"f":0.1},"maxValues":{"f":0.1},"nullCount":{"f":0}}`} {
			schema := &deltalog.StructType{Fields: []deltalog.StructField{{Name: "f", Type: deltalog.Primitive(text), Nullable: true}}}
			store := mem.New()
			if _, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{}); err != nil {
				t.Fatal(err)
			}
			tb, err := Open(t.Context(), store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer tb.Close()
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true}}, nil))
			b.Field(0).(*array.Float32Builder).Append(v)
			var file bytes.Buffer
			w, err := pqarrow.NewFileWriter(b.Schema(), &file, parquet.NewWriterProperties(parquet.WithStats(false)), pqarrow.DefaultWriterProps())
			if err == nil {
				err = errors.Join(w.Write(b.NewRecordBatch()), w.Close(), store.Put(t.Context(), "x.parquet", file.Bytes()))
			}
			if err != nil {
				t.Fatal(err)
			}
			snap := commit(t, tb, deltalog.Add{Path: "x.parquet", Size: int64(file.Len()), PartitionValues: map[string]*string{}, DataChange: true, Stats: stats})
			for q, want := range map[string]int64{"f > 0.1": 1, "f = 0.10000000149011612": 1, "f >= 0.1000000001": 1, "f <= 0.1": 0, "f > 0.2": 0} {
				n := int64(0)
				for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{Where: parseWhere(t, q)}) {
					if err != nil {
						t.Fatal(err)
					}
					n += rb.NumRows()
					rb.Release()
				}
				if n != want {
					t.Errorf("%s with statistics %q: %s gives %d rows, want %d", typ, stats, q, n, want)
				}
			}
			if got, err := tb.FilesOf(snap, ScanOptions{Where: parseWhere(t, "f > 0.2")}); err != nil || stats != "" && len(got) > 0 {
				t.Errorf("%s: statistics rule no file out: %d files, %v", typ, len(got), err)
			}
		}
	}
}

func TestLoosen(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 0.1, 1e300, -1e300, 5e-324, math.MaxFloat32, -math.MaxFloat64, 1 << 53} {
		low, high := loosen(v, v)
		if low > v || high < v || float64(float32(v)) < low || float64(float32(v)) > high {
			t.Errorf("%v: %v to %v", v, low, high)
		}
	}
}
