package table

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

var benchPayload = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "kind", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "amount", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "count", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "tags", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
}, nil)

// benchBatch is like events: 400 bytes of JSON a record and five typed columns. It also gives the raw bytes.
func benchBatch(b testing.TB, schema *arrow.Schema, rows int, first int64) (arrow.RecordBatch, int64) {
	rng := rand.New(rand.NewPCG(1, uint64(first)))
	sys := NewSystemColumns(DefaultNames(), "")
	pay := array.NewRecordBuilder(memory.DefaultAllocator, benchPayload)
	raw := int64(0)
	for i := range rows {
		id, kind := fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()), fmt.Sprintf("kind-%d", rng.IntN(12))
		amount, count := float64(rng.IntN(1e6))/100, rng.Int64N(1e6)
		value := fmt.Appendf(nil, `{"id":%q,"kind":%q,"amount":%.2f,"count":%d,"tags":["red","tag-%d"],"text":"%x"}`, id, kind, amount, count, rng.IntN(50), rng.Uint64())
		sys.Append(0, &record.Record{Offset: record.Offset(first + int64(i)), Timestamp: 1_700_000_000_000 + first + int64(i/3), Key: []byte(id[:8]), Value: value})
		pay.Field(0).(*array.StringBuilder).Append(id)
		pay.Field(1).(*array.StringBuilder).Append(kind)
		pay.Field(2).(*array.Float64Builder).Append(amount)
		pay.Field(3).(*array.Int64Builder).Append(count)
		l := pay.Field(4).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.StringBuilder).Append("red")
		l.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprintf("tag-%d", rng.IntN(50)))
		raw += int64(len(value))
	}
	return array.NewRecordBatch(schema, append(sys.Arrays(), pay.NewRecordBatch().Columns()...), int64(rows)), raw
}

const benchRows, benchBatches = 65536, 4

func benchData(b *testing.B) (*Table, []arrow.RecordBatch, int64) {
	tb, err := Create(b.Context(), mem.New(), benchPayload, Config{})
	if err != nil {
		b.Fatal(err)
	}
	schema, err := tb.Schema(tb.current())
	if err != nil {
		b.Fatal(err)
	}
	var out []arrow.RecordBatch
	total := int64(0)
	for i := range benchBatches {
		rb, raw := benchBatch(b, schema, benchRows, int64(i*benchRows))
		out, total = append(out, rb), total+raw
	}
	return tb, out, total
}

// BenchmarkWrite compares the writer with the Parquet library's own settings; bytes are those of the raw values.
func BenchmarkWrite(b *testing.B) {
	tb, batches, raw := benchData(b)
	b.Run("table", func(b *testing.B) {
		b.SetBytes(raw)
		b.ReportAllocs()
		defer cpuTime(b)()
		for b.Loop() {
			w, err := tb.NewFileWriter(context.Background(), WriterOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for _, rb := range batches {
				if err := w.Write(rb); err != nil {
					b.Fatal(err)
				}
			}
			add, err := w.Close(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(add.Size)/benchRows/benchBatches, "B/row")
			_ = tb.Store.Delete(context.Background(), add.Path)
		}
	})
	b.Run("defaults", func(b *testing.B) {
		b.SetBytes(raw)
		b.ReportAllocs()
		defer cpuTime(b)()
		for b.Loop() {
			var buf bytes.Buffer
			w, err := pqarrow.NewFileWriter(batches[0].Schema(), &buf, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy)), pqarrow.DefaultWriterProps())
			if err != nil {
				b.Fatal(err)
			}
			for _, rb := range batches {
				if err := w.WriteBuffered(rb); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(buf.Len())/benchRows/benchBatches, "B/row")
		}
	})
}

// BenchmarkScan reads all columns, the raw columns, and one column; an operation is one file.
func BenchmarkScan(b *testing.B) {
	tb, batches, raw := benchData(b)
	w, err := tb.NewFileWriter(b.Context(), WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, rb := range batches {
		if err := w.Write(rb); err != nil {
			b.Fatal(err)
		}
	}
	add, err := w.Close(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	snap := commit(b, tb, add)
	for _, c := range []struct {
		name    string
		columns []string
	}{{"all", nil}, {"raw", []string{"_key", "_value", "_headers"}}, {"one", []string{"count"}}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(raw)
			b.ReportAllocs()
			defer cpuTime(b)()
			rows := int64(0)
			for b.Loop() {
				for rb, err := range tb.Scan(context.Background(), snap, ScanOptions{Columns: c.columns}) {
					if err != nil {
						b.Fatal(err)
					}
					rows += rb.NumRows()
					rb.Release()
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

// cpuTime reports the processor time of an operation: the clock means little on a machine that others use too.
func cpuTime(b *testing.B) func() {
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N)/1e6, "cpu-ms/op") }
}
