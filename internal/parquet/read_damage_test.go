package parquet

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
)

// readAll reads all row groups and drops what it reads.
func readAll(b []byte, mem memory.Allocator) error {
	fr, err := manifestOf(b)
	if err != nil {
		return nil // the library refuses the footer
	}
	fields := make([]int, len(fr.Manifest.Fields))
	for i := range fields {
		fields[i] = i
	}
	for group := range fr.ParquetReader().NumRowGroups() {
		g, err := OpenGroup(sourceOf(b), fr.ParquetReader().MetaData(), fr.Manifest, group, fields, ReadOptions{Allocator: mem})
		if err != nil {
			return err
		}
		for g.rows > 0 && err == nil {
			var cols []arrow.ArrayData
			cols, _, err = g.Next(1000)
			releaseAll(cols)
		}
		g.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// A page whose bytes changed is noticed by its checksum, wherever the change is (I8).
func TestDamagedPageIsNoticed(t *testing.T) {
	rng := newRand(t)
	for range rounds(15) {
		s := parquettest.Schema(rng)
		b, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: codecs[rng.IntN(3)]}, parquettest.Batches(rng, s, 300))
		meta := open(t, b).MetaData()
		for i := range meta.NumRowGroups() {
			for j := range meta.Schema.NumColumns() {
				chunk, err := meta.RowGroup(i).ColumnChunk(j)
				if err != nil {
					t.Fatal(err)
				}
				start := chunk.DataPageOffset()
				if chunk.HasDictionaryPage() {
					start = chunk.DictionaryPageOffset()
				}
				end := start + chunk.TotalCompressedSize()
				for at := start; at < end; {
					h, n, err := parsePageHeader(b[at:end])
					if err != nil {
						t.Fatal(err)
					}
					at += int64(n)
					bad := slices.Clone(b)
					bad[at+rng.Int64N(h.packed)] ^= 1 << rng.IntN(8)
					if err := readAll(bad, &dirty{}); !errors.Is(err, ErrDamaged) {
						t.Fatalf("column %s, page at %d of %d bytes: %v", meta.Schema.Column(j).Path(), at, h.packed, err)
					}
					at += h.packed
				}
			}
		}
	}
}

// counting bounds what is held at once.
type counting struct {
	dirty
	peak int
}

func (c *counting) AllocateDirty(size int) []byte {
	c.peak = max(c.peak, c.held+size)
	return c.dirty.AllocateDirty(size)
}

func (c *counting) Allocate(size int) []byte {
	c.peak = max(c.peak, c.held+size)
	return c.dirty.Allocate(size)
}

// withoutChecksums writes a file by the library, whose pages have none, so that damage reaches the decoders.
func withoutChecksums(t testing.TB, rng *rand.Rand, options ...arrowparquet.WriterProperty) []byte {
	t.Helper()
	s := parquettest.Schema(rng)
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
	for _, rb := range parquettest.Batches(rng, s, 100) {
		if err := w.WriteBuffered(rb); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// checkDamaged reads a file that may be anything: no panic, and no more memory than its size explains (I8).
func checkDamaged(t *testing.T, b []byte) {
	t.Helper()
	mem := &counting{}
	err := readAll(b, mem)
	if most := 512<<20 + 1000*len(b); mem.peak > most {
		t.Fatalf("%d bytes for a file of %d: %v", mem.peak, len(b), err)
	}
	if mem.held != 0 {
		t.Fatalf("%d bytes are not freed: %v", mem.held, err)
	}
}

// Bytes changed at random, in files without checksums, give an error or other values (I8).
func TestDamageGivesNoPanic(t *testing.T) {
	rng := newRand(t)
	for range rounds(60) {
		b := withoutChecksums(t, rng, arrowparquet.WithDataPageVersion([]arrowparquet.DataPageVersion{arrowparquet.DataPageV1, arrowparquet.DataPageV2}[rng.IntN(2)]),
			arrowparquet.WithDictionaryDefault(rng.IntN(2) == 0))
		for range 30 {
			bad := slices.Clone(b)
			for range 1 + rng.IntN(4) {
				at := rng.IntN(len(bad))
				if rng.IntN(2) == 0 {
					bad[at] ^= 1 << rng.IntN(8)
				} else {
					bad[at] = []byte{0, 0x7f, 0x80, 0xff}[rng.IntN(4)]
				}
			}
			checkDamaged(t, bad)
		}
	}
}

func FuzzRead(f *testing.F) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f.Add(withoutChecksums(f, rng, arrowparquet.WithDataPageVersion([]arrowparquet.DataPageVersion{arrowparquet.DataPageV1, arrowparquet.DataPageV2}[seed%2])))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkDamaged(t, b) })
}

// A page without a byte gives an error for its values, and none of the page before (I8).
func TestEmptyPageHasNoValuesOfTheOneBefore(t *testing.T) {
	l := &leafReader{}
	l.name, l.kind, l.width = "a", kindInt32, 4
	l.dict = dictionary{loaded: true, n: 1, data: []byte{7, 0, 0, 0}}
	l.vals.mem = clean{memory.DefaultAllocator}
	if err := l.openValues(encDictionary, []byte{1, 20 << 1, 0}); err != nil { // a run of 20 codes, of which 10 are used
		t.Fatal(err)
	}
	if err := l.decode(10); err != nil {
		t.Fatal(err)
	}
	if err := l.openValues(encDictionary, nil); err != nil { // right when all its slots are null
		t.Fatal(err)
	}
	if err := l.decode(10); !errors.Is(err, ErrDamaged) {
		t.Fatalf("10 values of a page without a byte: %v, want ErrDamaged", err)
	}
}

// A page header that its chunk cuts off is damage, wherever the cut is (I8).
func TestHeaderThatIsCutOff(t *testing.T) {
	whole := []byte{0x15, 0x00, 0x15, 0x02, 0x15, 0x02, 0x00}
	for n := 1; n <= len(whole); n++ {
		p := pages{src: sourceOf(whole[:n]), end: int64(n), ahead: int64(n), mem: clean{memory.DefaultAllocator}}
		if _, err := p.header(); (n < len(whole)) != errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of a header of %d: %v", n, len(whole), err)
		}
	}
}
