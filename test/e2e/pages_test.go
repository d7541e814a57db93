package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// pagesRows is the number of rows of a file for the tests of the page index, in two row groups: integers of 8 bytes have
// 6 pages there, long texts hundreds.
const pagesRows = 48_000

// paged is a column of that file. Those that are loose have no column index: their pages' limits are not to be said.
type paged struct {
	name  string
	kind  arrow.DataType
	value func(i int) any
	loose bool
}

// pagedColumns are what may go wrong between a writer of a page index and its readers.
func pagedColumns(rng *rand.Rand) []paged {
	utc, wall := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Microsecond}
	leaf := arrow.StructOf(arrow.Field{Name: "c", Type: arrow.FixedWidthTypes.Date32, Nullable: true})
	nest := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "in", Type: leaf, Nullable: true})
	hole := func(from, to int, value func(i int) any) func(i int) any { // all-null pages
		return func(i int) any {
			if i >= from && i < to || i%37 == 5 {
				return nil
			}
			return value(i)
		}
	}
	i64 := func(scale, add int64) func(i int) any { return func(i int) any { return int64(i)*scale + add } }
	long := strings.Repeat("the same beginning of all ", 3)[:63]
	texts := []string{long + "\u00e9", long + "e", long[:20], "", long + "\U0010ffff" + "x", strings.Repeat("\U0010ffff", 15) + "zzzzz", long + "z" + long}
	zeros := []float64{0, math.Copysign(0, -1)}
	return []paged{
		{"up", arrow.PrimitiveTypes.Int64, i64(3, -60_000), false},
		{"down", arrow.PrimitiveTypes.Int64, i64(-3, 60_000), false},
		{"any", arrow.PrimitiveTypes.Int64, func(int) any { return rng.Int64() - rng.Int64() }, false},
		{"i32down", arrow.PrimitiveTypes.Int32, func(i int) any { return int32(20_000 - i) }, false},
		{"i16", arrow.PrimitiveTypes.Int16, hole(9000, 14_000, func(i int) any { return int16(i/3 - 5000) }), false},
		{"i8", arrow.PrimitiveTypes.Int8, func(i int) any { return int8(i/400 - 60) }, false},
		{"hole", arrow.PrimitiveTypes.Int64, hole(8000, 40_000, i64(1, 0)), false},
		{"late", arrow.PrimitiveTypes.Int64, hole(0, 20_000, i64(-1, 0)), false},
		{"void", arrow.BinaryTypes.String, hole(0, pagesRows, nil), false},
		{"day", arrow.FixedWidthTypes.Date32, hole(30_000, 31_000, func(i int) any { return arrow.Date32(i/2 - 10_000) }), false},
		{"at", utc, func(i int) any { return arrow.Timestamp(int64(i-24_000) * 1_000_001) }, false},
		{"wall", wall, func(i int) any { return arrow.Timestamp(int64(24_000-i) * 86_400_000_001) }, false},
		{"f64", arrow.PrimitiveTypes.Float64, hole(100, 9000, func(i int) any { return float64(i-24_000) / 8 }), false},
		{"f32", arrow.PrimitiveTypes.Float32, func(i int) any { return float32(24_000-i) / 8 }, false},
		{"zero", arrow.PrimitiveTypes.Float64, func(i int) any { return zeros[i/8192%2] }, false},
		{"zero32", arrow.PrimitiveTypes.Float32, func(i int) any { return float32(zeros[i/20_000%2]) }, false},
		{"nan", arrow.PrimitiveTypes.Float64, func(i int) any { return []float64{float64(i), math.NaN()}[i/8192%2] }, true},
		{"nan32", arrow.PrimitiveTypes.Float32, func(i int) any { return float32([]float64{float64(i), math.NaN()}[i/100%2]) }, true},
		{"inf", arrow.PrimitiveTypes.Float64, func(i int) any { return []float64{math.Inf(-1), float64(i), math.Inf(1)}[i/8192%3] }, false},
		{"dec7", &arrow.Decimal128Type{Precision: 7, Scale: 2}, func(i int) any { return decimal128.FromI64(int64(i-20_000) * 11) }, false},
		{"dec18", &arrow.Decimal128Type{Precision: 18, Scale: 3}, func(i int) any { return decimal128.FromI64(int64(20_000-i) * 1e12) }, false},
		{"dec38", &arrow.Decimal128Type{Precision: 38, Scale: 9}, hole(0, 5000, func(i int) any {
			return decimal128.FromI64(int64(i-20_000) * 1e12).Mul(decimal128.FromI64(1e15))
		}), false},
		{"dec20", &arrow.Decimal128Type{Precision: 20, Scale: 0}, func(i int) any { return decimal128.FromI64(int64(i%5000-2500) * 1e15) }, false},
		{"yes", arrow.FixedWidthTypes.Boolean, func(i int) any { return i >= 17_000 && (i < 34_000 || i%2 == 0) }, false},
		{"no", arrow.FixedWidthTypes.Boolean, hole(0, 8192, func(int) any { return false }), false},
		{"text", arrow.BinaryTypes.String, func(i int) any { return fmt.Sprintf("%06d %s", i, long) }, false},
		{"tied", arrow.BinaryTypes.String, func(i int) any { return fmt.Sprintf("%s%s%06d", long, long, pagesRows-i) }, false},
		{"odd", arrow.BinaryTypes.String, hole(2000, 7000, func(i int) any { return texts[i/3000%len(texts)] + []string{"", fmt.Sprint(i)}[i%2] }), false},
		{"most", arrow.BinaryTypes.String, func(i int) any { return strings.Repeat("\U0010ffff", 16+i%3) }, true},
		{"kinds", arrow.BinaryTypes.String, func(i int) any { return fmt.Sprintf("kind-%d", i/6000) }, false},
		{"raw", arrow.BinaryTypes.Binary, func(i int) any { return append(bytes.Repeat([]byte{byte(i / 200), 0x80}, 40), byte(i), 0, 0xff) }, false},
		{"rawmost", arrow.BinaryTypes.Binary, func(i int) any { return bytes.Repeat([]byte{0xff}, 64+i%3) }, true},
		{"rawshort", arrow.BinaryTypes.Binary, hole(0, 100, func(i int) any { return []byte{byte(i >> 8), byte(i)}[:i%3] }), false},
		{"col-0b8a5d2c-6a60-4a6e-9d5b-3f1f2d0c9e11", arrow.PrimitiveTypes.Int64, i64(1, 5), false},
		{"nest", nest, hole(8000, 18_000, func(i int) any {
			return []any{hole(20_000, 34_000, i64(2, 0))(i), fmt.Sprintf("%05d%s", i/7, long), hole(18_000, 30_000, func(i int) any {
				return []any{hole(0, 0, func(i int) any { return arrow.Date32(i) })(i)}
			})(i)}
		}), false},
		{"list", arrow.ListOf(arrow.PrimitiveTypes.Int64), hole(10_000, 19_000, func(i int) any {
			v := make([]any, i%4)
			for j := range v {
				v[j] = hole(0, 3000, i64(1, int64(j)))(i)
			}
			return v
		}), true},
		{"pairs", arrow.ListOf(leaf), func(i int) any { return make([]any, i%3) }, true},
	}
}

// appendAny appends a value of a column: a []any is a list or a struct.
func appendAny(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for i, x := range v.([]any) {
			appendAny(b.FieldBuilder(i), x)
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, x := range v.([]any) {
			appendAny(b.ValueBuilder(), x)
		}
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Int16Builder:
		b.Append(v.(int16))
	case *array.Int8Builder:
		b.Append(v.(int8))
	case *array.Date32Builder:
		b.Append(v.(arrow.Date32))
	case *array.TimestampBuilder:
		b.Append(v.(arrow.Timestamp))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.Decimal128Builder:
		b.Append(v.(decimal128.Num))
	default:
		panic(fmt.Sprintf("no %T", b))
	}
}

// pagesJob writes the file, and beside it a job for pages.py: the file, and the rows that pages of each leaf begin with.
func pagesJob(t *testing.T, rng *rand.Rand) string {
	t.Helper()
	columns := pagedColumns(rng)
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.kind, Nullable: true})
	}
	s := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, s, parquet.Options{Codec: []parquet.Codec{parquet.Snappy, parquet.Zstd, parquet.Uncompressed}[rng.IntN(3)]})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < pagesRows; {
		for n := 1 + rng.IntN(9000); n > 0 && i < pagesRows; n, i = n-1, i+1 {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			for j, c := range columns {
				appendAny(b.Field(j+1), c.value(i))
			}
			if i == pagesRows*3/5 {
				n = 0
			}
		}
		err := w.Write(b.NewRecordBatch())
		if i == pagesRows*3/5+1 && err == nil {
			err = w.EndRowGroup()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pages.parquet") // alone there: pages.py makes a Delta table of the folder
	job, err := json.Marshal(map[string]any{"file": path, "borders": pageBorders(t, out.Bytes(), columns)})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{path: out.Bytes(), path + ".job": job} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path + ".job"
}

// pageBorders reads the rows at which pages begin. Every leaf has to have an index, and limits in it but for the loose.
func pageBorders(t *testing.T, b []byte, columns []paged) map[string][]int64 {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	x, err := parquet.ReadIndex(bytes.NewReader(b), r.MetaData())
	if err != nil {
		t.Fatal(err)
	}
	loose := map[string]bool{}
	for _, c := range columns {
		loose[c.name] = c.loose
	}
	borders, first := map[string][]int64{}, int64(0)
	for g := range r.NumRowGroups() {
		for i := range r.MetaData().Schema.NumColumns() {
			c := r.MetaData().Schema.Column(i)
			p, err := x.Pages(g, i)
			if err != nil || p == nil {
				t.Fatalf("%s has no pages: %v", c.Path(), err)
			}
			if top := c.ColumnPath()[0]; (p.Limits == nil) != loose[top] {
				t.Errorf("%s: limits of its pages are known: %t", c.Path(), p.Limits != nil)
			}
			for _, at := range p.First[:p.Len()] {
				borders[c.Path()] = append(borders[c.Path()], first+at)
			}
		}
		first += r.MetaData().RowGroup(g).NumRows()
	}
	return borders
}

// engineReport is what pages.py says of an engine: how many conditions it asked, and those whose rows are not the ones
// that the engine finds when it tests every row. Pruned are pages or rows that it left out, if it says how many.
type engineReport struct {
	Asked, Found int
	Wrong        []string
	Pruned       *int
}

// askEngines lets engines answer every eighth of some thousand conditions, another part of them by each seed.
func askEngines(t *testing.T, run func(args ...string) []byte, engines, job string, rng *rand.Rand) {
	t.Helper()
	const step = 8
	said := map[string]engineReport{}
	out := run(engines, job, fmt.Sprint(rng.IntN(step)), fmt.Sprint(step))
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, engine := range strings.Split(engines, ",") {
		r := said[engine]
		for _, w := range r.Wrong {
			t.Errorf("%s: %s", engine, w)
		}
		if r.Asked < 100 || r.Found < r.Asked/2 {
			t.Errorf("%s: of %d conditions %d have rows: too few to say anything", engine, r.Asked, r.Found)
		}
		t.Logf("%s: %d conditions, %d of them with rows", engine, r.Asked, r.Found)
		if pages := engine == "DataFusion" || engine == "Spark"; pages && (r.Pruned == nil || *r.Pruned == 0) {
			t.Errorf("%s has left nothing out by the page index", engine)
		} else if pages {
			t.Logf("%s left out %d by the page index", engine, *r.Pruned)
		}
	}
}

// What we say of pages and row groups makes no other engine leave out a row: under conditions around the borders and
// limits of every leaf's pages it finds the rows that it finds by testing all of them. DataFusion leaves pages out by it.
func TestOthersPruneByOurPages(t *testing.T) {
	harness.Python(t)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	run := func(args ...string) []byte { return harness.RunPython(t, nil, "pages.py", args...) }
	askEngines(t, run, "DuckDB,polars,pyarrow,DataFusion", pagesJob(t, rng), rng)
}

// Nor Spark, which leaves pages out by the column index, and reads parts of the other columns by the offset index.
func TestSparkPrunesByOurPages(t *testing.T) {
	harness.SparkPython(t)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	job := pagesJob(t, rng)
	harness.RunPython(t, nil, "pages.py", "conditions", job)
	askEngines(t, func(args ...string) []byte { return harness.RunSpark(t, "pages.py", args...) }, "Spark", job, rng)
}
