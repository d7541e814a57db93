package parquet

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// bomb is a file of a few hundred bytes with more than mostBytes in one column: rows, or elements of one row.
func bomb(t *testing.T, list bool, values int) []byte {
	t.Helper()
	long := strings.Repeat("x", 1<<20)
	var typ arrow.DataType = arrow.BinaryTypes.String
	opts := []arrowparquet.WriterProperty{arrowparquet.WithCompression(compress.Codecs.Zstd), arrowparquet.WithStats(false)}
	if list {
		typ = arrow.ListOf(typ)
		opts = append(opts, arrowparquet.WithDictionaryDefault(true), arrowparquet.WithDictionaryPageSizeLimit(8<<20))
	} else {
		opts = append(opts, arrowparquet.WithDictionaryDefault(false), arrowparquet.WithEncoding(arrowparquet.Encodings.DeltaByteArray))
	}
	s := arrow.NewSchema([]arrow.Field{{Name: "a", Type: typ}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	strs, ok := b.Field(0).(*array.StringBuilder)
	if !ok {
		lists := b.Field(0).(*array.ListBuilder)
		lists.Append(true)
		strs = lists.ValueBuilder().(*array.StringBuilder)
	}
	for range values {
		strs.Append(long)
	}
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &buf, arrowparquet.NewWriterProperties(opts...), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteBuffered(b.NewRecordBatch()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Rows that would take too much together come in several batches, whole; a row that does alone is damage (I8).
func TestMemoryOfWhatUnfolds(t *testing.T) {
	const values = mostBytes>>20 + 14
	b, mem := bomb(t, false, values), &counting{}
	fr, err := manifestOf(b)
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenGroup(sourceOf(b), fr.ParquetReader().MetaData(), fr.Manifest, 0, []int{0}, ReadOptions{Allocator: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	if err := g.Skip(2); err != nil {
		t.Fatal(err)
	}
	rows := 2
	for rows < values {
		cols, n, err := g.Next(1000)
		if err != nil {
			t.Fatal(err)
		}
		a := array.MakeFromData(cols[0]).(*array.String)
		for i := range n {
			if v := a.Value(i); len(v) != 1<<20 || v[0] != 'x' || v[len(v)-1] != 'x' {
				t.Fatalf("row %d has %d bytes", rows+i, len(v))
			}
		}
		a.Release()
		releaseAll(cols)
		rows += n
	}
	if rows != values || mem.peak > 2*mostBytes {
		t.Errorf("%d rows of %d with %d MiB", rows, values, mem.peak>>20)
	}
	mem = &counting{}
	if err := readAll(bomb(t, true, values), mem); !errors.Is(err, ErrDamaged) || mem.peak > 2*mostBytes || mem.held != 0 {
		t.Errorf("a row of %d MiB: %d MiB were held, %d bytes are not freed: %v", values, mem.peak>>20, mem.held, err)
	}
}
