package parquet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seedtest.New(t), 0))
}

// writeFile writes batches, with the end of a row group after some of them.
func writeFile(t testing.TB, rng *rand.Rand, p *Pool, s *arrow.Schema, opts Options, batches []arrow.RecordBatch) ([]byte, *Writer) {
	t.Helper()
	var buf bytes.Buffer
	w, err := p.NewWriter(&buf, s, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, rb := range batches {
		if err := w.Write(rb); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 {
			if err := w.EndRowGroup(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(buf.Len()) {
		t.Fatalf("Size is %d, the file has %d bytes", w.Size(), buf.Len())
	}
	return buf.Bytes(), w
}

func openFile(b []byte) (*file.Reader, error) { return file.NewParquetReader(bytes.NewReader(b)) }

func open(t testing.TB, b []byte) *file.Reader {
	t.Helper()
	r, err := openFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readTable(t testing.TB, b []byte) arrow.Table {
	t.Helper()
	fr, err := pqarrow.NewFileReader(open(t, b), pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := fr.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func column0(t testing.TB, c *arrow.Column) arrow.Array {
	t.Helper()
	a, err := array.Concatenate(c.Data().Chunks(), memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sameArray compares value by value; NaN is equal to itself.
func sameArray(want, got arrow.Array) bool {
	return array.ApproxEqual(want, got, array.WithNaNsEqual(true), array.WithAbsTolerance(0))
}

var codecs = []Codec{Snappy, Zstd, Uncompressed}

// Random tables of all types come back value by value through the library's reader, whatever is chosen for them.
func TestRandomTables(t *testing.T) {
	rng := newRand(t)
	pool := &Pool{}
	for round := range 60 {
		s := parquettest.Schema(rng)
		most := []int{50, 700, 3000}[min(round%4, 2)]
		opts := Options{Codec: codecs[rng.IntN(3)]}
		for range 2 { // the second time with the buffers of the first
			batches := parquettest.Batches(rng, s, most)
			b, w := writeFile(t, rng, pool, s, opts, batches)
			got := readTable(t, b)
			want := array.NewTableFromRecords(s, batches)
			if want.NumRows() != got.NumRows() || want.NumCols() != got.NumCols() || w.Rows() != want.NumRows() {
				t.Fatalf("round %d: %d rows, %d columns, want %d, %d", round, got.NumRows(), got.NumCols(), want.NumRows(), want.NumCols())
			}
			for i := range int(want.NumCols()) {
				a, c := column0(t, want.Column(i)), column0(t, got.Column(i))
				if !sameArray(a, c) {
					t.Fatalf("round %d: column %s differs\nwant %v\ngot  %v", round, s.Field(i), a, c)
				}
			}
			checkSchema(t, s, b)
			checkBounds(t, w, want)
			pool.Put(w)
		}
	}
}

// Rows that several writers have encoded come into one file in the order of their adoption, with their bounds.
func TestAdopt(t *testing.T) {
	rng := newRand(t)
	pool := &Pool{}
	for round := range 15 {
		s := parquettest.Schema(rng)
		opts := Options{Codec: codecs[rng.IntN(3)]}
		var buf bytes.Buffer
		w, err := pool.NewWriter(&buf, s, opts)
		if err != nil {
			t.Fatal(err)
		}
		var all []arrow.RecordBatch
		for range 1 + rng.IntN(4) {
			other, err := pool.NewWriter(failing{errors.New("written too early")}, s, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, rb := range parquettest.Batches(rng, s, 300) {
				to := other
				if rng.IntN(3) == 0 {
					if to = w; other.Rows() > 0 {
						continue
					}
				}
				if err := to.Write(rb); err != nil {
					t.Fatal(err)
				}
				all = append(all, rb)
			}
			if err := w.Adopt(other); err != nil {
				t.Fatal(err)
			}
			if other.Rows() != 0 || other.Size() != 0 {
				t.Fatalf("%d rows and %d bytes are left", other.Rows(), other.Size())
			}
			pool.Put(other)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want, got := array.NewTableFromRecords(s, all), readTable(t, buf.Bytes())
		if w.Rows() != want.NumRows() || got.NumRows() != want.NumRows() {
			t.Fatalf("round %d: %d rows, want %d", round, got.NumRows(), want.NumRows())
		}
		for i := range int(want.NumCols()) {
			if a, c := column0(t, want.Column(i)), column0(t, got.Column(i)); !sameArray(a, c) {
				t.Fatalf("round %d: column %s differs\nwant %v\ngot  %v", round, s.Field(i), a, c)
			}
		}
		checkBounds(t, w, want)
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	a, err1 := NewWriter(&bytes.Buffer{}, s, Options{})
	b, err2 := NewWriter(&bytes.Buffer{}, s, Options{Codec: Snappy})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if a.Adopt(b) == nil || a.Adopt(a) == nil {
		t.Error("a writer of other options, or itself, was adopted")
	}
}

// checkSchema compares with what the library makes of the same columns.
func checkSchema(t *testing.T, s *arrow.Schema, b []byte) {
	t.Helper()
	want, err := pqarrow.ToParquet(s, arrowparquet.NewWriterProperties(arrowparquet.WithRootName("spark_schema")), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	var a, c bytes.Buffer
	schema.PrintSchema(want.Root(), &a, 2)
	schema.PrintSchema(open(t, b).MetaData().Schema.Root(), &c, 2)
	// The library marks times without a zone as UTC for readers of the old kind; that is not so.
	clean := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "force_set_converted_type=true", "force_set_converted_type=false"), "repeated group field_id=-1 spark_schema", "required group field_id=-1 spark_schema")
	}
	if clean(a.String()) != clean(c.String()) {
		t.Fatalf("schema\n%s\nwant\n%s", c.String(), a.String())
	}
}

// checkBounds compares what the writer says of a top-level leaf with the values.
func checkBounds(t *testing.T, w *Writer, tab arrow.Table) {
	t.Helper()
	for i := range int(tab.NumCols()) {
		f := tab.Schema().Field(i)
		a := column0(t, tab.Column(i))
		nulls, ok := w.Nulls(f.Name)
		if strukt := f.Type.ID() == arrow.STRUCT; ok == strukt || ok && nulls != int64(a.NullN()) {
			t.Fatalf("column %s: %d nulls (%v), want %d", f, nulls, ok, a.NullN())
		}
		b, ok := w.Bounds(f.Name)
		if nested := arrow.IsNested(f.Type.ID()); ok == nested {
			t.Fatalf("column %s has bounds: %v", f, ok)
		} else if nested {
			continue
		}
		if b.Nulls != int64(a.NullN()) {
			t.Fatalf("column %s: %d nulls, want %d", f, b.Nulls, a.NullN())
		}
		switch a := a.(type) {
		case *array.Int64:
			lo, hi, any := int64(math.MaxInt64), int64(math.MinInt64), false
			for j := range a.Len() {
				if a.IsValid(j) {
					any, lo, hi = true, min(lo, a.Value(j)), max(hi, a.Value(j))
				}
			}
			if b.Any != any || any && (b.MinInt != lo || b.MaxInt != hi) {
				t.Fatalf("column %s: %d to %d, want %d to %d", f, b.MinInt, b.MaxInt, lo, hi)
			}
		case *array.String:
			var all []string
			for j := range a.Len() {
				if a.IsValid(j) {
					all = append(all, a.Value(j))
				}
			}
			if b.Any != (len(all) > 0) {
				t.Fatalf("column %s: bounds %v of %d values", f, b.Any, len(all))
			}
			if len(all) > 0 {
				lo, hi := slices.Min(all), slices.Max(all)
				if !strings.HasPrefix(lo, string(b.MinBytes)) || (len(lo) > len(b.MinBytes)) != b.MinCut || !strings.HasPrefix(hi, string(b.MaxBytes)) || !b.MaxCut && len(hi) > len(b.MaxBytes) {
					t.Fatalf("column %s: %q (%v) to %q (%v), want %q to %q", f, b.MinBytes, b.MinCut, b.MaxBytes, b.MaxCut, lo, hi)
				}
			}
		}
	}
}

// The statistics in the footer hold for the values of their row group: a reader may skip it by them.
func TestStatistics(t *testing.T) {
	rng := newRand(t)
	for range 40 {
		var fields []arrow.Field
		for i, dt := range parquettest.LeafTypes {
			fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: dt, Nullable: true})
		}
		s := arrow.NewSchema(fields, nil)
		batches := parquettest.Batches(rng, s, 300)
		b, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: Snappy}, batches)
		r := open(t, b)
		for g := range r.NumRowGroups() {
			for i := range s.NumFields() {
				checkStatistics(t, r, g, i)
			}
		}
	}
}

func checkStatistics(t *testing.T, r *file.Reader, g, i int) {
	t.Helper()
	cc, err := r.MetaData().RowGroup(g).ColumnChunk(i)
	if err != nil {
		t.Fatal(err)
	}
	st, err := cc.Statistics()
	if err != nil || st == nil {
		t.Fatalf("row group %d column %d: statistics %v, %v", g, i, st, err)
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := fr.ReadRowGroups(context.Background(), []int{i}, []int{g})
	if err != nil {
		t.Fatal(err)
	}
	a := column0(t, tab.Column(0))
	if st.NullCount() != int64(a.NullN()) {
		t.Fatalf("column %d: %d nulls, want %d", i, st.NullCount(), a.NullN())
	}
	for j := range a.Len() {
		if a.IsNull(j) {
			continue
		}
		in := true
		switch st := st.(type) {
		case *metadata.Int32Statistics:
			v := arrow.Int32Traits.CastFromBytes(widened(a, j))[0]
			in = st.HasMinMax() && st.Min() <= v && v <= st.Max()
		case *metadata.Int64Statistics:
			v := arrow.Int64Traits.CastFromBytes(widened(a, j))[0]
			in = st.HasMinMax() && st.Min() <= v && v <= st.Max()
		case *metadata.Float32Statistics:
			v := a.(*array.Float32).Value(j)
			in = !st.HasMinMax() || v != v || st.Min() <= v && v <= st.Max()
		case *metadata.Float64Statistics:
			v := a.(*array.Float64).Value(j)
			in = !st.HasMinMax() || v != v || st.Min() <= v && v <= st.Max()
		case *metadata.BooleanStatistics:
			v := a.(*array.Boolean).Value(j)
			in = st.HasMinMax() && (v || !st.Min()) && (!v || st.Max())
		case *metadata.ByteArrayStatistics:
			_, data := byteStrings(a)
			offsets, _ := byteStrings(a)
			v := data[offsets[j]:offsets[j+1]]
			in = !st.HasMinMax() || bytes.Compare(st.Min(), v) <= 0 && bytes.Compare(v, st.Max()) <= 0
		case *metadata.FixedLenByteArrayStatistics:
			in = st.HasMinMax() && a.(*array.Decimal128).Value(j).Cmp(fixed(st.Min())) >= 0 && a.(*array.Decimal128).Value(j).Cmp(fixed(st.Max())) <= 0
		}
		if !in {
			t.Fatalf("column %d (%s): %s is not within %v", i, a.DataType(), a.ValueStr(j), st)
		}
	}
}

// Pages end where they should, and a value larger than a page is a page of its own.
func TestLargeValues(t *testing.T) {
	rng := newRand(t)
	s := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	for i := range 200 {
		n := rng.IntN(1000)
		if i%50 == 7 {
			n = 3 << 20
		}
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat("x", n))
		b.Field(1).(*array.Int64Builder).Append(int64(i))
	}
	rb := b.NewRecordBatch()
	raw, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: Snappy}, []arrow.RecordBatch{rb, rb})
	got := readTable(t, raw)
	for i := range 2 {
		if !sameArray(column0(t, arrow.NewColumn(s.Field(i), arrow.NewChunked(s.Field(i).Type, []arrow.Array{rb.Column(i), rb.Column(i)}))), column0(t, got.Column(i))) {
			t.Fatalf("column %d differs", i)
		}
	}
}

// Once its buffers are warm, a writer allocates by batch and page, not by row.
func TestWriteDoesNotAllocateByRow(t *testing.T) {
	rng := newRand(t)
	var fields []arrow.Field
	for i, dt := range parquettest.LeafTypes {
		fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: dt, Nullable: true},
			arrow.Field{Name: string(rune('A' + i)), Type: arrow.ListOf(dt), Nullable: true})
	}
	s := arrow.NewSchema(fields, nil)
	batch := func(rows int) arrow.RecordBatch {
		b, h := array.NewRecordBuilder(memory.DefaultAllocator, s), parquettest.Habits{}
		for i, f := range s.Fields() {
			for range rows {
				h.Append(rng, b.Field(i), f.Nullable)
			}
		}
		return b.NewRecordBatch()
	}
	small, large := batch(100), batch(4000)
	// A collection takes warm blocks out of their pool, and how many fall into the few runs is the machine's business.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	w, err := NewWriter(io.Discard, s, Options{Codec: Snappy})
	if err != nil {
		t.Fatal(err)
	}
	write := func(rb arrow.RecordBatch) float64 {
		return testing.AllocsPerRun(5, func() {
			if err := errors.Join(w.Write(rb), w.EndRowGroup()); err != nil {
				t.Fatal(err)
			}
		})
	}
	write(large)
	few, many := write(small), write(large)
	t.Logf("%v allocations for %d rows, %v for %d", few, small.NumRows(), many, large.NumRows())
	// Larger chunks have more pages, how many depends on the seed; one allocation by row of any column would be 3,900 more.
	if many > few+float64(large.NumRows())/2 {
		t.Fatalf("%v allocations for %d rows, %v for %d", few, small.NumRows(), many, large.NumRows())
	}
}

// A file without rows is a file.
func TestNoRows(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b, _ := writeFile(t, newRand(t), &Pool{}, s, Options{}, nil)
	if tab := readTable(t, b); tab.NumRows() != 0 || tab.NumCols() != 1 {
		t.Fatalf("%d rows, %d columns", tab.NumRows(), tab.NumCols())
	}
}

// I8: what cannot be written is refused by name, and the sink's failure comes back.
func TestRefused(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Uint32, arrow.FixedWidthTypes.Time64us, &arrow.TimestampType{Unit: arrow.Nanosecond}, arrow.StructOf(),
		arrow.ListOf(arrow.PrimitiveTypes.Uint8), &arrow.Decimal128Type{Precision: 5, Scale: 7}, arrow.FixedWidthTypes.Float16,
	} {
		if _, err := NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt}}, nil), Options{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", dt, err)
		}
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	b.Field(0).(*array.Int64Builder).AppendNull()
	w, err := NewWriter(&bytes.Buffer{}, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rb := b.NewRecordBatch()
	if err := w.Write(rb); !errors.Is(err, ErrNull) {
		t.Errorf("null in a required column: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrNull) {
		t.Errorf("Close after a failure: %v", err)
	}
	if _, err := NewWriter(&bytes.Buffer{}, s, Options{Codec: 99}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("codec 99: %v", err)
	}
	full := errors.New("disk full")
	w, err = NewWriter(failing{full}, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.Field(0).(*array.Int64Builder).Append(1)
	if err := errors.Join(w.Write(b.NewRecordBatch()), w.Close()); !errors.Is(err, full) {
		t.Errorf("failing sink: %v", err)
	}
	d := arrow.NewSchema([]arrow.Field{{Name: "x", Type: &arrow.Decimal128Type{Precision: 2}, Nullable: true}}, nil)
	db := array.NewRecordBuilder(memory.DefaultAllocator, d)
	if err := db.Field(0).(*array.Decimal128Builder).AppendValueFromString("99"); err != nil {
		t.Fatal(err)
	}
	if w, err = NewWriter(&bytes.Buffer{}, d, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(db.NewRecordBatch()), w.Close()); err != nil {
		t.Errorf("decimal that fits: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// widened gives the value of an integer array as the physical type has it.
func widened(a arrow.Array, j int) []byte {
	switch a := a.(type) {
	case *array.Int8:
		return arrow.Int32Traits.CastToBytes([]int32{int32(a.Value(j))})
	case *array.Int16:
		return arrow.Int32Traits.CastToBytes([]int32{int32(a.Value(j))})
	case *array.Int32:
		return arrow.Int32Traits.CastToBytes([]int32{a.Value(j)})
	case *array.Date32:
		return arrow.Int32Traits.CastToBytes([]int32{int32(a.Value(j))})
	case *array.Int64:
		return arrow.Int64Traits.CastToBytes([]int64{a.Value(j)})
	case *array.Timestamp:
		return arrow.Int64Traits.CastToBytes([]int64{int64(a.Value(j))})
	}
	return nil
}

func fixed(b []byte) decimal128.Num {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return decimal128.FromBigInt(n)
}
