package parquet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
)

// A leaf has the levels and values that the library gives, however its rows are asked for.
func TestLeafReader(t *testing.T) {
	rng := newRand(t)
	for range rounds(15) {
		s := parquettest.Schema(rng)
		b, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: codecs[rng.IntN(3)]}, parquettest.Batches(rng, s, 700))
		f := open(t, b)
		for g := range f.NumRowGroups() {
			for i := range f.MetaData().Schema.NumColumns() {
				compareLeaf(t, rng, b, f, g, i)
			}
		}
	}
}

func compareLeaf(t *testing.T, rng *rand.Rand, b []byte, f *file.Reader, group, column int) {
	t.Helper()
	wantDef, wantRep, want := leafOf(t, f, group, column)
	mem := &dirty{}
	r, err := OpenLeaf(sourceOf(b), f.MetaData(), group, column, ReadOptions{Allocator: mem})
	if err != nil {
		t.Fatal(err)
	}
	desc := f.MetaData().Schema.Column(column)
	var def, rep []int16
	var got []string
	for r.Rows() > 0 {
		n := 1 + rng.IntN(300)
		s, rows, err := r.Next(n)
		if err != nil || rows > n || rows == 0 {
			t.Fatalf("%d rows of %d: %v", rows, n, err)
		}
		for i := range s.N {
			d, p := desc.MaxDefinitionLevel(), int16(0)
			if s.Def != nil {
				d = int16(s.Def[i])
			}
			if s.Rep != nil {
				p = int16(s.Rep[i])
			}
			def, rep = append(def, d), append(rep, p)
		}
		for i := 1; i < len(s.Ends); i++ {
			got = append(got, fmt.Sprint(s.Values[s.Ends[i-1]:s.Ends[i]]))
		}
		if s.Ends == nil {
			width := fixedWidth(desc.PhysicalType(), desc.TypeLength())
			for v := s.Values; len(v) > 0; v = v[width:] {
				got = append(got, fmt.Sprint(v[:width]))
			}
		}
	}
	r.Release()
	if !slices.Equal(def, wantDef) || !slices.Equal(rep, wantRep) {
		t.Fatalf("levels of column %s are not those of the library", desc.Path())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("values of column %s are not those of the library", desc.Path())
	}
	if mem.held != 0 {
		t.Fatalf("%d bytes are not freed", mem.held)
	}
}

// leafOf reads a leaf by the library; values are the bytes that they have in the file.
func leafOf(t *testing.T, f *file.Reader, group, column int) (def, rep []int16, values []string) {
	t.Helper()
	chunk, err := f.RowGroup(group).Column(column)
	if err != nil {
		t.Fatal(err)
	}
	most := int(f.MetaData().RowGroup(group).NumRows())*64 + 1
	def, rep = make([]int16, most), make([]int16, most)
	var levels int64
	var n int
	show := func(v any) { values = append(values, fmt.Sprint(v)) }
	switch c := chunk.(type) {
	case *file.BooleanColumnChunkReader:
		v := make([]bool, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for _, x := range v[:n] {
			show([]byte{map[bool]byte{true: 1}[x]})
		}
	case *file.Int32ColumnChunkReader:
		v := make([]int32, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for i := range n {
			show(arrow.Int32Traits.CastToBytes(v[i : i+1]))
		}
	case *file.Int64ColumnChunkReader:
		v := make([]int64, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for i := range n {
			show(arrow.Int64Traits.CastToBytes(v[i : i+1]))
		}
	case *file.Float32ColumnChunkReader:
		v := make([]float32, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for i := range n {
			show(arrow.Float32Traits.CastToBytes(v[i : i+1]))
		}
	case *file.Float64ColumnChunkReader:
		v := make([]float64, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for i := range n {
			show(arrow.Float64Traits.CastToBytes(v[i : i+1]))
		}
	case *file.ByteArrayColumnChunkReader:
		v := make([]arrowparquet.ByteArray, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for _, x := range v[:n] {
			show([]byte(x))
		}
	case *file.FixedLenByteArrayColumnChunkReader:
		v := make([]arrowparquet.FixedLenByteArray, most)
		levels, n, err = c.ReadBatch(int64(most), v, def, rep)
		for _, x := range v[:n] {
			show([]byte(x))
		}
	default:
		t.Fatalf("a chunk of type %T", c)
	}
	if err != nil || levels == int64(most) {
		t.Fatalf("%d levels: %v", levels, err)
	}
	return leveled(chunk.Descriptor().MaxDefinitionLevel(), def[:levels]), leveled(chunk.Descriptor().MaxRepetitionLevel(), rep[:levels]), values
}

// leveled makes levels that a column does not have zeros.
func leveled(most int16, levels []int16) []int16 {
	if most == 0 {
		clear(levels)
	}
	return levels
}
