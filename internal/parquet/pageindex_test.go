package parquet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
)

// What the index says of each page holds for its values, and the library reads the same from it.
func TestPageIndexIsTrue(t *testing.T) {
	rng := newRand(t)
	indexed := 0
	for round := range rounds(20) {
		s := parquettest.Schema(rng)
		b, w := writeFile(t, rng, &Pool{}, s, Options{Codec: codecs[rng.IntN(3)]}, parquettest.Batches(rng, s, []int{50, 3000, 20_000}[min(round%4, 2)]))
		r, tab := open(t, b), readTable(t, b)
		footer := r.MetaData()
		x, err := ReadIndex(bytes.NewReader(b), footer)
		if err != nil {
			t.Fatal(err)
		}
		first := int64(0)
		for g := range r.NumRowGroups() {
			for i, c := range w.cols {
				p, err := x.Pages(g, i)
				if err != nil {
					t.Fatal(err)
				}
				if p == nil {
					if at, _ := footer.RowGroup(g).ColumnChunk(i); at.GetOffsetIndexLocation() != nil {
						t.Fatalf("%s: the footer names an index, and it is not read", c.name)
					}
					continue
				}
				indexed++
				checkPlaces(t, b, p)
				if p.Limits != nil && len(c.path) == 1 {
					checkLimits(t, rng, c, p, array.NewSlice(column0(t, tab.Column(c.column)), first, first+footer.RowGroup(g).NumRows()))
				}
				compareIndex(t, r.GetPageIndexReader(), g, i, c, p)
			}
			first += footer.RowGroup(g).NumRows()
		}
	}
	if indexed == 0 {
		t.Fatal("no chunk had an index")
	}
}

// checkPlaces looks for a page where the index has one.
func checkPlaces(t *testing.T, b []byte, p *Pages) {
	t.Helper()
	for i, at := range p.at {
		h, n, err := parsePageHeader(b[at : at+p.size[i]])
		if err != nil || h.typ != dataPage || int64(n)+h.packed != p.size[i] {
			t.Fatalf("page %d at %d: %+v %v", i, at, h, err)
		}
	}
}

// checkLimits compares what the index says of the pages with the values.
func checkLimits(t *testing.T, rng *rand.Rand, c *column, p *Pages, values arrow.Array) {
	t.Helper()
	for i, l := range p.Limits {
		page := array.NewSlice(values, p.First[i], p.First[i+1])
		if int64(page.NullN()) != l.Nulls || l.Empty != (page.NullN() == page.Len()) {
			t.Fatalf("%s page %d: %+v, of %d rows %d are null", c.name, i, l, page.Len(), page.NullN())
		}
		for j := 0; j < page.Len(); j += 1 + rng.IntN(1+page.Len()/500) {
			if page.IsValid(j) {
				v := plainValue(c, page, j)
				if c.compare(l.Min, v) > 0 || c.compare(l.Max, v) < 0 {
					t.Fatalf("%s page %d: %x is not between %x and %x", c.name, i, v, l.Min, l.Max)
				}
			}
		}
	}
}

// plainValue gives a value as PLAIN has it without length.
func plainValue(c *column, a arrow.Array, i int) []byte {
	var w bytes.Buffer
	one, err := NewWriter(&w, arrow.NewSchema([]arrow.Field{{Name: "v", Type: a.DataType(), Nullable: true}}, nil), Options{KeepBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	part := array.NewSlice(a, int64(i), int64(i)+1)
	if err := one.Write(array.NewRecordBatch(one.schema, []arrow.Array{part}, 1)); err != nil {
		panic(err)
	}
	p := one.cols[0].kept
	switch c.kind {
	case kindInt32:
		return appendInts(nil, p.i32)
	case kindInt64:
		return appendInts(nil, p.i64)
	case kindBytes:
		return p.plain[headroom+4:]
	}
	return p.plain[headroom:]
}

// compareIndex compares what the library reads.
func compareIndex(t *testing.T, lib *metadata.PageIndexReader, g, i int, c *column, p *Pages) {
	t.Helper()
	rg, err := lib.RowGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	places, err := rg.GetOffsetIndex(i)
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range places.GetPageLocations() {
		if at.Offset != p.at[k] || int64(at.CompressedPageSize) != p.size[k] || at.FirstRowIndex != p.First[k] {
			t.Fatalf("%s page %d: library %+v, we %d %d %d", c.name, k, at, p.at[k], p.size[k], p.First[k])
		}
	}
	if p.Limits == nil {
		return
	}
	limits, err := rg.GetColumnIndex(i)
	if err != nil {
		t.Fatal(err)
	}
	var mins, maxs [][]byte
	for k, l := range p.Limits {
		if l.Empty != limits.GetNullPages()[k] || l.Nulls != limits.GetNullCounts()[k] ||
			!bytes.Equal(l.Min, limits.GetMinValues()[k]) || !bytes.Equal(l.Max, limits.GetMaxValues()[k]) {
			t.Fatalf("%s page %d: library has another index than %+v", c.name, k, l)
		}
		if !l.Empty {
			mins, maxs = append(mins, l.Min), append(maxs, l.Max)
		}
	}
	up := slices.IsSortedFunc(mins, c.compare) && slices.IsSortedFunc(maxs, c.compare)
	back := func(a, b []byte) int { return -c.compare(a, b) }
	down := slices.IsSortedFunc(mins, back) && slices.IsSortedFunc(maxs, back)
	want := unordered
	if up {
		want = ascending
	} else if down {
		want = descending
	}
	if got := int(limits.GetBoundaryOrder()); got != want {
		t.Fatalf("%s: order %d, want %d", c.name, got, want)
	}
}

// manyPages is a file with a column that grows and one of texts.
func manyPages(t testing.TB, rows int) []byte {
	s := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("%08d%0200d", i, i*i))
	}
	out, _ := writeFile(t, newRand(t), &Pool{}, s, Options{Codec: Snappy}, []arrow.RecordBatch{b.NewRecordBatch()})
	return out
}

// Whatever is wrong with an index of ours is noticed: it then counts as missing. I4, I8
func TestDamagedPageIndexIsNoIndex(t *testing.T) {
	b := manyPages(t, 50_000)
	footer := open(t, b).MetaData()
	var at, size int64
	if _, err := fmt.Sscanf(*footer.KeyValueMetadata().FindValue(IndexKey), "%d %d", &at, &size); err != nil {
		t.Fatal(err)
	}
	if p := pagesOf(t, b, footer, 1); p == nil || p.Len() < 10 || p.Limits == nil {
		t.Fatalf("whole: %v", p)
	}
	for i := at; i < at+size; i++ {
		b[i] ^= 1 << (i % 8)
		for leaf := range 2 {
			if p := pagesOf(t, b, footer, leaf); p != nil {
				t.Fatalf("byte %d of the index is wrong, and column %d has pages", i-at, leaf)
			}
		}
		b[i] ^= 1 << (i % 8)
	}
}

func pagesOf(t *testing.T, b []byte, footer *metadata.FileMetaData, leaf int) *Pages {
	t.Helper()
	x, err := ReadIndex(bytes.NewReader(b), footer)
	if err != nil {
		t.Fatal(err)
	}
	p, err := x.Pages(0, leaf)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is no index is nil, and takes no memory that the bytes do not justify. I8
func FuzzParsePageIndex(f *testing.F) {
	x := pageIndex{}
	l := leaf{kind: kindInt64}
	for i := range int64(3) {
		x.add(&Bounds{Any: i != 1, MinInt: i, MaxInt: 2 * i, Nulls: i}, &l, 100, 10)
	}
	var t thrift
	x.appendColumn(&t, &l)
	f.Add(slices.Clone(t.b))
	t.reset(nil)
	x.appendOffsets(&t, 4)
	f.Add(slices.Clone(t.b))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p := parseOffsets(b, int64(len(b))); p != nil && len(p.at) > len(b) {
			t.Fatalf("%d pages in %d bytes", len(p.at), len(b))
		}
		for _, width := range []int{0, 8} {
			if got := parseColumn(b, 3, width); got != nil && len(got) != 3 {
				t.Fatalf("%d pages, want 3", len(got))
			}
		}
	})
}
