package table

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// foreignFile writes rows as another engine does: no tags, no statistics, and the columns that it has no values
// for are null. A row with the key none has no place in the log.
func foreignFile(t *testing.T, tb *Table, name string, rows []row) deltalog.Add {
	t.Helper()
	schema, err := tb.Schema(tb.current())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for _, r := range rows {
		for i, f := range schema.Fields() {
			switch {
			case f.Name == "_partition" && r.partition >= 0:
				b.Field(i).(*array.Int32Builder).Append(r.partition)
			case f.Name == "_offset" && r.offset >= 0:
				b.Field(i).(*array.Int64Builder).Append(r.offset)
			case f.Name == "text":
				b.Field(i).(*array.StringBuilder).Append(r.text)
			default:
				b.Field(i).AppendNull()
			}
		}
	}
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(64)), pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(w.Write(b.NewRecordBatch()), w.Close())
	}
	if err == nil {
		err = tb.Store.Put(t.Context(), name, out.Bytes())
	}
	if err != nil {
		t.Fatal(err)
	}
	return deltalog.Add{Path: name, Size: int64(out.Len()), DataChange: true}
}

var none = key{-1, -1}

// textsOf scans and gives the texts in the order that they came in, those of foreign rows apart.
func textsOf(t *testing.T, tb *Table, snap *deltalog.Snapshot, opts ScanOptions) (placed, foreign []string, err error) {
	t.Helper()
	opts.Columns = []string{"text", "_offset"}
	for rb, err := range tb.Scan(t.Context(), snap, opts) {
		if err != nil {
			return placed, foreign, err
		}
		text, offset := rb.Column(0).(*array.String), rb.Column(1)
		for i := range int(rb.NumRows()) {
			if offset.IsNull(i) {
				foreign = append(foreign, strings.Clone(text.Value(i)))
			} else if len(foreign) > 0 {
				t.Fatal("a row of the log comes after foreign ones")
			} else {
				placed = append(placed, strings.Clone(text.Value(i)))
			}
		}
		rb.Release()
	}
	return placed, foreign, nil
}

// Rows that others appended without partition and offset, in files of their own or between rows of the log as
// after their OPTIMIZE, are in a scan of everything, each once, and in no scan of the log (I4).
func TestForeignRows(t *testing.T) {
	r := newRand(t)
	for range 40 {
		tb, err := OpenOrCreate(t.Context(), mem.New(), payload, Config{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		var wantPlaced, wantForeign []string
		offset := int64(0)
		place := func() row {
			offset += 1 + r.Int64N(3)
			wantPlaced = append(wantPlaced, fmt.Sprint("o", offset))
			return row{key{0, offset}, fmt.Sprint("o", offset)}
		}
		stray := func() row {
			text := fmt.Sprint("f", len(wantForeign))
			wantForeign = append(wantForeign, text)
			return row{none, text}
		}
		var adds []deltalog.Add
		for i := range 1 + r.IntN(4) {
			var rows []row
			for range 1 + r.IntN(200) {
				rows = append(rows, place())
			}
			adds = append(adds, writeFile(t, tb, rows, WriterOptions{}))
			rows = nil
			share := r.IntN(3) // none, some or all rows of a foreign file are of the log
			for n := range 1 + r.IntN(300) {
				if share == 2 || share == 1 && (r.IntN(3) > 0 || n < r.IntN(50)) {
					rows = append(rows, place())
				} else {
					rows = append(rows, stray())
				}
			}
			adds = append(adds, foreignFile(t, tb, fmt.Sprintf("foreign-%d.parquet", i), rows))
		}
		snap := commit(t, tb, adds...)
		placed, foreign, err := textsOf(t, tb, snap, ScanOptions{BatchRows: 1 + r.IntN(100)})
		if err != nil || !slices.Equal(placed, wantPlaced) || !slices.Equal(foreign, wantForeign) {
			t.Fatalf("%d rows of the log, want %d; %d foreign ones, want %d (%v)", len(placed), len(wantPlaced), len(foreign), len(wantForeign), err)
		}
		placed, foreign, err = textsOf(t, tb, snap, ScanOptions{Ranges: []Range{{Partition: 0, From: 0, To: 1 << 40}}})
		if err != nil || !slices.Equal(placed, wantPlaced) || len(foreign) > 0 {
			t.Fatalf("a scan of the log gives %d rows, want %d, and %d foreign ones (%v)", len(placed), len(wantPlaced), len(foreign), err)
		}
		if found, err := tb.Check(t.Context()); err != nil || len(found) > 0 {
			t.Fatalf("check: %v %v", found, err)
		}
	}
}

// A row with a partition and no offset, or the other way round, is damage and is named.
func TestHalfAPositionIsDamage(t *testing.T) {
	rng := newRand(t)
	for _, k := range []key{{0, -1}, {-1, 5}} {
		tb, err := OpenOrCreate(t.Context(), mem.New(), payload, Config{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		rows := []row{{key{0, 1}, "a"}, {none, "b"}, {k, "c"}}
		rng.Shuffle(2, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		snap := commit(t, tb, foreignFile(t, tb, "half.parquet", rows))
		for _, ranges := range [][]Range{nil, {{Partition: 0, From: 0, To: 100}}} {
			if _, _, err := textsOf(t, tb, snap, ScanOptions{Ranges: ranges}); !errors.Is(err, ErrNoPosition) {
				t.Errorf("key %v, ranges %v: %v", k, ranges, err)
			}
		}
	}
}
