package parquet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// Definition levels of pages of differences are runs wherever there is a null: Spark 4.2, which skips rows by the page index,
// forgets where it was when all that it skips of a bit-packed group is null, and gives the values of other rows. Found by
// TestSparkPrunesByOurPages, in one condition of some thousand.
func TestNoNullIsBitPackedBesideDifferences(t *testing.T) {
	rng := newRand(t)
	i64, i32 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	s := arrow.NewSchema([]arrow.Field{
		{Name: "i64", Type: i64, Nullable: true}, {Name: "i32", Type: i32, Nullable: true}, {Name: "list", Type: arrow.ListOf(i64), Nullable: true},
		{Name: "in", Type: arrow.StructOf(arrow.Field{Name: "a", Type: i64, Nullable: true}, arrow.Field{Name: "b", Type: i32, Nullable: true}), Nullable: true},
	}, nil)
	differences, plain := 0, 0
	for _, nulls := range []int{2, 3, 5, 8, 37, 1000} {
		raw, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: Snappy}, []arrow.RecordBatch{upward(rng, s, 20_000, nulls)})
		readTable(t, raw)
		f := open(t, raw)
		for i := range s.NumFields() + 1 {
			r, err := f.RowGroup(0).GetColumnPageReader(i)
			if err != nil {
				t.Fatal(err)
			}
			for r.Next() {
				page, ok := r.Page().(*file.DataPageV1)
				if !ok {
					continue
				}
				if arrowparquet.Encoding(page.Encoding()) != arrowparquet.Encodings.DeltaBinaryPacked {
					plain++
				} else if groupsWithNulls(t, page.Data(), f.MetaData().Schema.Column(i).MaxRepetitionLevel() > 0) {
					t.Errorf("one in %d null: %s has bit-packed definition levels beside differences", nulls, f.MetaData().Schema.Column(i).Path())
				} else {
					differences++
				}
			}
		}
	}
	t.Logf("%d pages of differences, %d others", differences, plain)
	if differences < 50 || plain < 5 {
		t.Error("too few to say anything")
	}
}

// upward are rows of numbers that grow, one in some of them null.
func upward(rng *rand.Rand, s *arrow.Schema, rows, nulls int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	var add func(b array.Builder, i int)
	add = func(b array.Builder, i int) {
		if rng.IntN(nulls) == 0 {
			b.AppendNull()
			return
		}
		switch b := b.(type) {
		case *array.Int64Builder:
			b.Append(int64(i)*3 + rng.Int64N(5))
		case *array.Int32Builder:
			b.Append(int32(i) + rng.Int32N(3))
		case *array.ListBuilder:
			b.Append(true)
			for range rng.IntN(4) {
				add(b.ValueBuilder(), i)
			}
		case *array.StructBuilder:
			b.Append(true)
			for k := range b.NumField() {
				add(b.FieldBuilder(k), i)
			}
		}
	}
	for i := range rows {
		for k := range s.NumFields() {
			add(b.Field(k), i)
		}
	}
	return b.NewRecordBatch()
}

// groupsWithNulls says whether the definition levels of a page, which has nulls, have a bit-packed group.
func groupsWithNulls(t *testing.T, page []byte, repeated bool) bool {
	t.Helper()
	take := func() []byte {
		n := binary.LittleEndian.Uint32(page)
		levels := page[4 : 4+n]
		page = page[4+n:]
		return levels
	}
	if repeated {
		take()
	}
	for r := bytes.NewReader(take()); r.Len() > 0; {
		head, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		if head&1 == 1 {
			return true
		}
		if _, err := r.ReadByte(); err != nil {
			t.Fatal(err)
		}
	}
	return false
}
