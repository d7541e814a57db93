package deltalog

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// dictionaryBomb is a checkpoint of few bytes whose rows have long texts, which stand in dictionaries.
func dictionaryBomb(t *testing.T, rows int, long string) []byte {
	t.Helper()
	text := func(names ...string) *arrow.StructType {
		var fields []arrow.Field
		for _, n := range names {
			fields = append(fields, arrow.Field{Name: n, Type: arrow.BinaryTypes.String, Nullable: true})
		}
		return arrow.StructOf(fields...)
	}
	dv := append(text("storageType", "pathOrInlineDv").Fields(),
		arrow.Field{Name: "sizeInBytes", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "cardinality", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	files := arrow.StructOf(append(text("path", "stats", "clusteringProvider").Fields(), arrow.Field{Name: "deletionVector", Type: arrow.StructOf(dv...), Nullable: true})...)
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "add", Type: files, Nullable: true}}, nil))
	add := b.Field(0).(*array.StructBuilder)
	str := func(s *array.StructBuilder, i int, v string) { s.FieldBuilder(i).(*array.StringBuilder).Append(v) }
	for i := range rows {
		add.Append(true)
		str(add, 0, fmt.Sprint("f", i))
		str(add, 1, long)
		str(add, 2, long)
		v := add.FieldBuilder(3).(*array.StructBuilder)
		v.Append(true)
		str(v, 0, "p")
		str(v, 1, long)
		v.FieldBuilder(2).(*array.Int32Builder).Append(1)
		v.FieldBuilder(3).(*array.Int64Builder).Append(1)
	}
	var buf bytes.Buffer
	rec := b.NewRecordBatch()
	w, err := pqarrow.NewFileWriter(rec.Schema(), &buf, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(true),
		parquet.WithDictionaryPageSizeLimit(16<<20), parquet.WithStats(false)), pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Write(rec)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// A checkpoint of a few thousand bytes can stand for any number of long texts: they are decoded in batches that share a
// budget, and what outlives a batch has each of them once (I8).
func TestDictionaryBomb(t *testing.T) {
	const rows = 1000
	file := dictionaryBomb(t, rows, `{"numRecords":1,"x":"`+strings.Repeat("a", 256<<10)+`"}`)
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools hold on to what they have for one round
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, n := held(), int64(0), 0
	var kept []Add
	err := parseParquet(&checkpointSource{size: int64(len(file)), window: file}, false, func(a *actions) error {
		for _, x := range a.adds {
			if x.Stats != x.ClusteringProvider || x.Stats != x.DeletionVector.PathOrInlineDV || x.Path != fmt.Sprint("f", n) {
				t.Errorf("file %d is %s, with texts of %d, %d and %d bytes", n, x.Path, len(x.Stats), len(x.ClusteringProvider), len(x.DeletionVector.PathOrInlineDV))
			}
			n++
			kept = append(kept, Add{ClusteringProvider: x.ClusteringProvider, DeletionVector: x.DeletionVector})
		}
		most = max(most, held()-before)
		return nil
	})
	if err != nil || n != rows {
		t.Fatalf("%d files: %v", n, err)
	}
	t.Logf("%d bytes in the file, %d MiB held", len(file), most>>20)
	if most > 3*batchBytes {
		t.Errorf("a file of %d bytes holds %d MiB, with batches of %d MiB", len(file), most>>20, batchBytes>>20)
	}
	runtime.KeepAlive(kept)
}
