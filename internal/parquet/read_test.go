package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
)

// dirty gives memory full of junk, and makes junk of what is freed, so that a byte that nobody wrote shows. It counts
// what is not freed.
type dirty struct{ held int }

func (d *dirty) AllocateDirty(size int) []byte {
	d.held += size
	return bytes.Repeat([]byte{0xa5}, size)
}

func (d *dirty) Allocate(size int) []byte {
	d.held += size
	return make([]byte, size)
}

func (d *dirty) Reallocate(size int, b []byte) []byte {
	grown := d.Allocate(size)
	copy(grown, b)
	d.Free(b)
	return grown
}

func (d *dirty) Free(b []byte) {
	d.held -= len(b)
	copy(b, bytes.Repeat([]byte{0xdb}, len(b)))
}

// rounds is how often a test tries something random: less in short runs, which the race detector makes slow.
func rounds(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

func sourceOf(b []byte) Source { return bytes.NewReader(b) }

// manifestOf opens a file and gives the types that the library reads it as.
func manifestOf(b []byte) (fr *pqarrow.FileReader, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("library: %v", p)
		}
	}()
	pq, err := openFile(b)
	if err != nil {
		return nil, err
	}
	for _, kv := range pq.MetaData().KeyValueMetadata() { // types are those of Parquet, as package table has it
		if kv.Key == "ARROW:schema" {
			kv.Key = ""
		}
	}
	return pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
}

// randomSpans are stretches of some rows.
func randomSpans(rng *rand.Rand, rows int64, most int) (out []RowSpan) {
	for at := int64(0); at < rows; {
		from := at + rng.Int64N(min(rows-at, int64(3*most))+1)
		to := from + rng.Int64N(min(rows-from, int64(most))+1)
		if from < to {
			out = append(out, RowSpan{from, to})
		}
		at = to + 1
	}
	return out
}

// readGroup reads a row group in batches of random sizes, and passes over random stretches, which are then missing, with
// or without the page index.
func readGroup(rng *rand.Rand, b []byte, fr *pqarrow.FileReader, group int, fields []int, mem memory.Allocator, skips bool) (batches []arrow.RecordBatch, at []int64, err error) {
	opts := ReadOptions{Allocator: mem, Ahead: []int64{0, 100, 4000}[rng.IntN(3)]}
	left, row := fr.ParquetReader().MetaData().RowGroup(group).NumRows(), int64(0)
	most := []int{3, 100, 5000}[rng.IntN(3)]
	spans := []RowSpan{{0, left}}
	if skips {
		spans = randomSpans(rng, left, most)
	}
	if rng.IntN(3) > 0 {
		if opts.Index, err = ReadIndex(sourceOf(b), fr.ParquetReader().MetaData()); err != nil {
			return nil, nil, err
		}
		if rng.IntN(2) == 0 {
			opts.Rows = spans
		}
	}
	g, err := OpenGroup(sourceOf(b), fr.ParquetReader().MetaData(), fr.Manifest, group, fields, opts)
	if err != nil {
		return nil, nil, err
	}
	defer g.Release()
	for len(spans) > 0 {
		if row < spans[0].From {
			if err := g.Skip(spans[0].From - row); err != nil {
				return batches, at, err
			}
			row = spans[0].From
		}
		left = spans[0].To - row
		cols, n, err := g.Next(int(min(left, int64(1+rng.IntN(most)))))
		if err != nil {
			return batches, at, err
		}
		arrays := make([]arrow.Array, len(cols))
		for i, d := range cols {
			arrays[i] = array.MakeFromData(d)
			d.Release()
			defer arrays[i].Release()
		}
		batches, at = append(batches, array.NewRecordBatch(g.Schema(), arrays, int64(n))), append(at, row)
		if row += int64(n); row == spans[0].To {
			spans = spans[1:]
		}
	}
	return batches, at, nil
}

// compareReads reads a file by this package and by the library, and compares each value. It says whether this package
// could read it.
func compareReads(t *testing.T, rng *rand.Rand, b []byte) bool {
	t.Helper()
	fr, err := manifestOf(b)
	if err != nil {
		t.Fatal(err)
	}
	mem := &dirty{}
	fields := rng.Perm(len(fr.Manifest.Fields))
	leaves := make([]int, fr.ParquetReader().MetaData().Schema.NumColumns())
	for i := range leaves {
		leaves[i] = i
	}
	for group := range fr.ParquetReader().NumRowGroups() {
		tab, err := fr.ReadRowGroups(t.Context(), leaves, []int{group})
		if err != nil && strings.Contains(err.Error(), "exceeds INT32 range") { // DuckDB's differences of integers: the library is wrong there
			t.Skip(err)
		}
		// What only we read: pages of nulls as differences, which the library refuses of its own writer, and times beyond 2262.
		if err != nil && (strings.Contains(err.Error(), "cannot have zero values per block") || strings.Contains(err.Error(), "outside the Arrow nanosecond range")) {
			got, _, err := readGroup(rng, b, fr, group, fields, mem, false)
			if err != nil {
				t.Fatalf("row group %d: %v", group, err)
			}
			for _, rb := range got {
				rb.Release()
			}
			continue
		}
		if err != nil { // what the library refuses we refuse, or leave to it
			if _, _, ours := readGroup(rng, b, fr, group, fields, mem, false); ours == nil {
				t.Fatalf("row group %d is read, the library says: %v", group, err)
			}
			return false
		}
		got, at, err := readGroup(rng, b, fr, group, fields, mem, rng.IntN(3) == 0)
		if errors.Is(err, ErrUnsupported) {
			t.Log(err)
			return false
		}
		if err != nil {
			t.Fatalf("row group %d: %v", group, err)
		}
		for i, field := range fields {
			want := column0(t, tab.Column(field))
			for j, rb := range got {
				from := at[j]
				part := array.NewSlice(want, from, from+rb.NumRows())
				c := rb.Column(i)
				if !sameArray(part, c) && !sameTimes(part, c) {
					t.Fatalf("column %s, row %d: library %v, we %v", rb.ColumnName(i), from, part, c)
				}
			}
		}
		for _, rb := range got {
			rb.Release()
		}
		if mem.held != 0 {
			t.Fatalf("%d bytes are not freed", mem.held)
		}
	}
	return true
}

// sameTimes compares times of 12 bytes: the library has nanoseconds, we microseconds.
func sameTimes(library, ours arrow.Array) bool {
	if a, ok := library.(*array.Struct); ok {
		b, ok := ours.(*array.Struct)
		same := ok && a.Len() == b.Len() && a.NumField() == b.NumField()
		for i := 0; same && i < a.Len(); i++ {
			same = a.IsNull(i) == b.IsNull(i)
		}
		for i := 0; same && i < a.NumField(); i++ {
			same = sameArray(a.Field(i), b.Field(i)) || sameTimes(a.Field(i), b.Field(i))
		}
		return same
	}
	nanos, ok1 := library.(*array.Timestamp)
	micros, ok2 := ours.(*array.Timestamp)
	if !ok1 || !ok2 || nanos.Len() != micros.Len() || arrow.TypeEqual(nanos.DataType(), micros.DataType()) {
		return false
	}
	for i := range nanos.Len() {
		if nanos.IsNull(i) != micros.IsNull(i) || !nanos.IsNull(i) && nanos.Value(i).ToTime(arrow.Nanosecond).UnixMicro() != int64(micros.Value(i)) {
			return false
		}
	}
	return true
}

// What this package writes is read as the library reads it, whatever the types and sizes of batches, and with rows
// passed over.
func TestReadOwnFiles(t *testing.T) {
	rng := newRand(t)
	for round := range rounds(20) {
		s := parquettest.Schema(rng)
		b, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: codecs[rng.IntN(3)]}, parquettest.Batches(rng, s, []int{50, 700, 3000}[min(round%4, 2)]))
		if !compareReads(t, rng, b) {
			t.Fatal("a file of ours was not read")
		}
	}
}

// So are files of the library's writer in every encoding, codec and page version that it has.
func TestReadEveryEncoding(t *testing.T) {
	rng := newRand(t)
	for round := range rounds(20) {
		s := parquettest.Schema(rng)
		options := []arrowparquet.WriterProperty{
			arrowparquet.WithCompression([]compress.Compression{compress.Codecs.Snappy, compress.Codecs.Zstd, compress.Codecs.Uncompressed, compress.Codecs.Lz4, compress.Codecs.Lz4Raw, compress.Codecs.Gzip}[rng.IntN(6)]),
			arrowparquet.WithDataPageVersion([]arrowparquet.DataPageVersion{arrowparquet.DataPageV1, arrowparquet.DataPageV2}[rng.IntN(2)]),
			arrowparquet.WithDataPageSize([]int64{100, 5000, 1 << 20}[rng.IntN(3)]),
			arrowparquet.WithDictionaryDefault(rng.IntN(2) == 0),
			arrowparquet.WithDictionaryPageSizeLimit([]int64{200, 1 << 20}[rng.IntN(2)]),
			arrowparquet.WithMaxRowGroupLength([]int64{100, 1 << 20}[rng.IntN(2)]),
			arrowparquet.WithPageIndexEnabled(rng.IntN(3) > 0),
		}
		for _, path := range leafPaths(t, s) {
			if e, ok := encodingFor(rng, path.typ); ok {
				options = append(options, arrowparquet.WithDictionaryFor(path.path, false), arrowparquet.WithEncodingFor(path.path, e))
			}
		}
		var buf bytes.Buffer
		w, err := pqarrow.NewFileWriter(s, &buf, arrowparquet.NewWriterProperties(options...), pqarrow.DefaultWriterProps())
		if err != nil {
			t.Fatal(err)
		}
		for _, rb := range parquettest.Batches(rng, s, []int{50, 700, 3000}[min(round%4, 2)]) {
			if err := w.WriteBuffered(rb); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !compareReads(t, rng, buf.Bytes()) {
			t.Fatal("a file of the library was not read")
		}
	}
}

type leafPath struct {
	path string
	typ  arrowparquet.Type
}

func leafPaths(t testing.TB, s *arrow.Schema) (out []leafPath) {
	t.Helper()
	p, err := pqarrow.ToParquet(s, arrowparquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.NumColumns() {
		out = append(out, leafPath{p.Column(i).Path(), p.Column(i).PhysicalType()})
	}
	return out
}

// encodingFor gives one of the encodings that a type can have; none half of the time.
func encodingFor(rng *rand.Rand, typ arrowparquet.Type) (arrowparquet.Encoding, bool) {
	e := arrowparquet.Encodings
	of := map[arrowparquet.Type][]arrowparquet.Encoding{
		arrowparquet.Types.Int32:             {e.DeltaBinaryPacked, e.ByteStreamSplit},
		arrowparquet.Types.Int64:             {e.DeltaBinaryPacked, e.ByteStreamSplit},
		arrowparquet.Types.Float:             {e.ByteStreamSplit},
		arrowparquet.Types.Double:            {e.ByteStreamSplit},
		arrowparquet.Types.ByteArray:         {e.DeltaLengthByteArray, e.DeltaByteArray},
		arrowparquet.Types.FixedLenByteArray: {e.ByteStreamSplit},
	}[typ]
	if len(of) == 0 || rng.IntN(2) == 0 {
		return e.Plain, false
	}
	return of[rng.IntN(len(of))], true
}
