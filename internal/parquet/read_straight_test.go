package parquet

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/s2"
)

// longValues are batches of a column of long texts that compress, as messages do, one of any bytes, and one with nulls.
func longValues(rng *rand.Rand, rows int) (*arrow.Schema, []arrow.RecordBatch) {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "message", Type: arrow.BinaryTypes.String},
		{Name: "bytes", Type: arrow.BinaryTypes.Binary},
		{Name: "sometimes", Type: arrow.BinaryTypes.Binary, Nullable: true},
	}, nil)
	var out []arrow.RecordBatch
	for rows > 0 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, s)
		n := min(rows, 1+rng.IntN(400))
		for range n {
			text := strings.Repeat(`{"kind":"page_view","user":"`, 1+rng.IntN(40)) + string(rune('a'+rng.IntN(26)))
			b.Field(0).(*array.StringBuilder).Append(text)
			noise := make([]byte, rng.IntN(700))
			for i := range noise {
				noise[i] = byte(rng.Uint32())
			}
			b.Field(1).(*array.BinaryBuilder).Append(noise)
			if rng.IntN(5) == 0 {
				b.Field(2).AppendNull()
			} else {
				b.Field(2).(*array.BinaryBuilder).Append([]byte(text[:rng.IntN(len(text))]))
			}
		}
		rows -= n
		out = append(out, b.NewRecordBatch())
	}
	return s, out
}

// Long values are written with their lengths in front, and read as the library reads them, in batches that end anywhere
// within pages.
func TestLongValues(t *testing.T) {
	rng := newRand(t)
	for range rounds(15) {
		s, batches := longValues(rng, 100+rng.IntN(4000))
		opts := Options{Codec: codecs[rng.IntN(3)]}
		if rng.IntN(2) == 0 {
			opts.Opaque = "bytes"
		}
		b, _ := writeFile(t, rng, &Pool{}, s, opts, batches)
		chunk, err := open(t, b).MetaData().RowGroup(0).ColumnChunk(0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(chunk.Encodings(), 6) { // DELTA_LENGTH_BYTE_ARRAY
			t.Fatalf("encodings are %v", chunk.Encodings())
		}
		if !compareReads(t, rng, b) {
			t.Fatal("a file of ours was not read")
		}
	}
}

// Damage in such pages, whose writer gave no checksums, is an error or other values, and no more memory (I8).
func TestLongValuesDamaged(t *testing.T) {
	rng := newRand(t)
	s, batches := longValues(rng, 500)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &buf, arrowparquet.NewWriterProperties(arrowparquet.WithDictionaryDefault(false), arrowparquet.WithEncoding(arrowparquet.Encodings.DeltaLengthByteArray),
		arrowparquet.WithCompression(compress.Codecs.Snappy), arrowparquet.WithDataPageVersion(arrowparquet.DataPageV1), arrowparquet.WithDataPageSize(8000)), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	for _, rb := range batches {
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
	for range rounds(200) {
		bad := slices.Clone(buf.Bytes())
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
		checkDamaged(t, bad)
	}
}

// The front of a snappy block is what it begins with, however little of it is asked for; of damage it gives no more than
// there is room for (I8).
func TestSnappyFront(t *testing.T) {
	rng := newRand(t)
	for range rounds(2000) {
		s, batches := longValues(rng, 1+rng.IntN(5))
		want := batches[0].Column(rng.IntN(s.NumFields())).Data().Buffers()[2]
		raw := []byte{}
		if want != nil {
			raw = want.Bytes()
		}
		packed := s2.EncodeSnappy(nil, raw)
		room := 1 + rng.IntN(600)
		got := snappyFront(make([]byte, 0, room), packed)
		if !bytes.HasPrefix(raw, got) || len(got) < min(room, len(raw))-64 {
			t.Fatalf("%d bytes of %d, room for %d", len(got), len(raw), room)
		}
		for range 20 {
			bad := slices.Clone(packed)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			if got := snappyFront(make([]byte, 0, room), bad); len(got) > room {
				t.Fatalf("%d bytes where there is room for %d", len(got), room)
			}
		}
	}
}
