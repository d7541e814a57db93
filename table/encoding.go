package table

import (
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
)

// writerProperties choose how a file is encoded. A dictionary costs the Parquet library several allocations a
// value, so only columns whose first rows repeat get one; offsets and times are written as differences.
//
// Rows are handed to an encoder 512 at a time and pages end at 256 KiB: the library looks at a page's size only
// between such steps and copies a page several times, so a page should stay in the processor's cache. The raw
// value of a record is nothing that anybody prunes files by and is spared the comparisons.
func writerProperties(first arrow.RecordBatch, n Names, o WriterOptions, mem memory.Allocator) *parquet.WriterProperties {
	props := []parquet.WriterProperty{
		parquet.WithAllocator(mem),
		parquet.WithDictionaryDefault(false),
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithVersion(parquet.V2_6),
		parquet.WithMaxRowGroupLength(o.RowGroupRows),
		parquet.WithBatchSize(512),
		parquet.WithDataPageSize(256 << 10),
		parquet.WithCreatedBy("ledgerlake"),
		parquet.WithRootName("spark_schema"),
		parquet.WithStats(true),
		parquet.WithStatsFor(n.Value, false),
	}
	for i, f := range first.Schema().Fields() {
		switch f.Name {
		case n.Partition, n.Offset, n.Timestamp:
			props = append(props, parquet.WithEncodingFor(f.Name, parquet.Encodings.DeltaBinaryPacked))
		default:
			for _, path := range repeating(f.Name, first.Column(i), nil) {
				props = append(props, parquet.WithDictionaryFor(path, true))
			}
		}
	}
	return parquet.NewWriterProperties(props...)
}

// sampleRows is how many values of a column are looked at.
const sampleRows = 4096

// repeating gives the Parquet paths of the leaves of a column whose first values repeat.
func repeating(path string, a arrow.Array, out []string) []string {
	switch a := a.(type) {
	case *array.Struct:
		t := a.DataType().(*arrow.StructType)
		for i, f := range t.Fields() {
			out = repeating(path+"."+f.Name, a.Field(i), out)
		}
	case *array.List:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		out = repeatingSlice(path+".list.element", a.ListValues(), from, to, out)
	case *array.Map:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		out = repeatingSlice(path+".key_value.key", a.Keys(), from, to, out)
		out = repeatingSlice(path+".key_value.value", a.Items(), from, to, out)
	default:
		if repeats(a) {
			out = append(out, path)
		}
	}
	return out
}

func repeatingSlice(path string, a arrow.Array, from, to int64, out []string) []string {
	s := array.NewSlice(a, from, to)
	defer s.Release()
	return repeating(path, s, out)
}

func listBounds(offsets []int32, at, n int) (from, to int64) {
	if n == 0 {
		return 0, 0
	}
	return int64(offsets[at]), int64(offsets[at+n])
}

// repeats looks at the first values of a leaf: at most one in eight may be new.
func repeats(a arrow.Array) bool {
	n := min(a.Len(), sampleRows)
	if n-a.NullN() < 64 {
		return false
	}
	seen, values := make(map[uint64]struct{}, 64), 0
	note := func(i int, h uint64) bool {
		if a.IsValid(i) {
			values++
			seen[h] = struct{}{}
		}
		return len(seen) <= 16+sampleRows/8
	}
	seed := maphash.MakeSeed()
	for i := range n {
		ok := false
		switch a := a.(type) {
		case *array.String:
			ok = note(i, maphash.String(seed, a.Value(i)))
		case *array.Binary:
			ok = note(i, maphash.Bytes(seed, a.Value(i)))
		case *array.Int32:
			ok = note(i, uint64(a.Value(i)))
		case *array.Int64:
			ok = note(i, uint64(a.Value(i)))
		case *array.Date32:
			ok = note(i, uint64(a.Value(i)))
		}
		if !ok {
			return false
		}
	}
	return values >= 64 && len(seen) <= max(16, values/8)
}

// rawSize estimates the bytes that the rows take before they are encoded.
func rawSize(cols []arrow.Array) int64 {
	n := int64(0)
	for _, c := range cols {
		n += rawSizeOf(c)
	}
	return n
}

func rawSizeOf(a arrow.Array) int64 {
	switch a := a.(type) {
	case *array.String:
		return int64(len(a.ValueBytes())) + 4*int64(a.Len())
	case *array.Binary:
		return int64(len(a.ValueBytes())) + 4*int64(a.Len())
	case *array.Struct:
		n := int64(0)
		for i := range a.NumField() {
			n += rawSizeOf(a.Field(i))
		}
		return n
	case *array.List:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		s := array.NewSlice(a.ListValues(), from, to)
		defer s.Release()
		return rawSizeOf(s) + 4*int64(a.Len())
	case *array.Map:
		from, to := listBounds(a.Offsets(), a.Data().Offset(), a.Len())
		k, v := array.NewSlice(a.Keys(), from, to), array.NewSlice(a.Items(), from, to)
		defer k.Release()
		defer v.Release()
		return rawSizeOf(k) + rawSizeOf(v) + 4*int64(a.Len())
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return int64(a.Len()) * int64(t.BitWidth()) / 8
	}
	return int64(a.Len())
}
