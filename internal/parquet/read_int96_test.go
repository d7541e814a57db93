package parquet

import (
	"bytes"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Times in the old form of 12 bytes are read from the year 1 to the year 9999, which nanoseconds would not hold, in plain
// columns and inside lists.
func TestOldTimes(t *testing.T) {
	element := schema.NewInt96Node("element", arrowparquet.Repetitions.Required, -1)
	list, err := schema.ListOf(element, arrowparquet.Repetitions.Required, -1)
	if err != nil {
		t.Fatal(err)
	}
	root, err := schema.NewGroupNode("schema", arrowparquet.Repetitions.Required, schema.FieldList{schema.NewInt96Node("at", arrowparquet.Repetitions.Required, -1), list}, -1)
	if err != nil {
		t.Fatal(err)
	}
	times := []time.Time{time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)}
	var old []arrowparquet.Int96
	for _, at := range times {
		var v arrowparquet.Int96
		day := at.Unix() / 86400
		if at.Unix()%86400 < 0 {
			day--
		}
		nanos := uint64(at.Unix()-day*86400)*1e9 + uint64(at.Nanosecond())
		for i := range 8 {
			v[i] = byte(nanos >> (8 * i))
		}
		for i := range 4 {
			v[8+i] = byte(uint32(day+2440588) >> (8 * i))
		}
		old = append(old, v)
	}
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root)
	rg, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c, err := rg.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		var def, rep []int16
		if i == 1 {
			def, rep = []int16{1, 1, 1}, []int16{0, 0, 0}
		}
		if _, err := c.(*file.Int96ColumnChunkWriter).WriteBatch(old, def, rep); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pq, err := file.NewParquetReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	fr, err := pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	g, err := OpenGroup(sourceOf(b.Bytes()), pq.MetaData(), fr.Manifest, 0, []int{0, 1}, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	cols, n, err := g.Next(10)
	if err != nil || n != len(times) {
		t.Fatal(n, err)
	}
	defer releaseAll(cols)
	at := array.MakeFromData(cols[0]).(*array.Timestamp)
	inner := array.MakeFromData(cols[1]).(*array.List)
	for i, want := range times {
		for _, got := range []arrow.Timestamp{at.Value(i), inner.ListValues().(*array.Timestamp).Value(i)} {
			if int64(got) != want.UnixMicro() {
				t.Errorf("row %d: %d, want %d (%s)", i, got, want.UnixMicro(), want)
			}
		}
	}
	if !arrow.TypeEqual(g.Schema().Field(1).Type.(*arrow.ListType).Elem(), at.DataType()) || at.DataType().(*arrow.TimestampType).Unit != arrow.Microsecond {
		t.Errorf("schema %v", g.Schema())
	}
}
