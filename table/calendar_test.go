package table

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// Dates of a file of Spark's old calendar come out as Spark reads them, whichever decoder reads the file, and its limits, which
// are of that calendar, leave out no row. A time whose zone had other clocks is refused by name.
func TestFileOfTheOldCalendar(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, {Name: "at", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true}}, nil)
	for _, codec := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Brotli} { // the library reads the second
		for zone, want := range map[string]string{"UTC": "[-141438 -718999 10] [-12220243200000000 -62121513600000000 1000000]", "Europe/Paris": "Europe/Paris"} {
			tb, err := Create(t.Context(), mem.New(), schema, Config{})
			if err != nil {
				t.Fatal(err)
			}
			columns, err := tb.Schema(tb.current())
			if err != nil {
				t.Fatal(err)
			}
			meta := arrow.NewMetadata([]string{"org.apache.spark.version", "org.apache.spark.legacyDateTime", "org.apache.spark.timeZone"}, []string{"4.2.0", "", zone})
			columns = arrow.NewSchema(columns.Fields(), &meta)
			b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
			days := []int32{-141428, -719001, 10} // 4 October 1582 and 13 June of the year 1, Julian
			for i, day := range days {
				for j, f := range columns.Fields() {
					switch f.Name {
					case "_partition":
						b.Field(j).(*array.Int32Builder).Append(0)
					case "_offset":
						b.Field(j).(*array.Int64Builder).Append(int64(i))
					case "d":
						b.Field(j).(*array.Date32Builder).Append(arrow.Date32(day))
					case "at":
						at := arrow.Timestamp(day) * 86400e6
						if day > 0 {
							at = 1e6
						}
						b.Field(j).(*array.TimestampBuilder).Append(at)
					default:
						b.Field(j).AppendNull()
					}
				}
			}
			var out bytes.Buffer
			w, err := pqarrow.NewFileWriter(columns, &out, parquet.NewWriterProperties(parquet.WithCompression(codec), parquet.WithMaxRowGroupLength(1)), pqarrow.DefaultWriterProps())
			if err == nil {
				err = errors.Join(w.Write(b.NewRecordBatch()), w.Close(), tb.Store.Put(t.Context(), "old.parquet", out.Bytes()))
			}
			if err != nil {
				t.Fatal(err)
			}
			snap := commit(t, tb, deltalog.Add{Path: "old.parquet", Size: int64(out.Len()), DataChange: true})
			var d []arrow.Date32
			var at []arrow.Timestamp
			for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{Columns: []string{"d", "at"}}) {
				if err != nil {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v", zone, err)
					}
					break
				}
				d = append(d, rb.Column(0).(*array.Date32).Date32Values()...)
				at = append(at, rb.Column(1).(*array.Timestamp).TimestampValues()...)
				rb.Release()
			}
			if got := fmt.Sprint(d, at); zone == "UTC" && got != want {
				t.Errorf("%s: %s, want %s", codec, got, want)
			} else if zone != "UTC" && d != nil {
				t.Errorf("%s: rows %v", zone, d)
			}
			if zone != "UTC" {
				continue
			}
			// The limits of each row group are of the one day that it has, by the old calendar.
			for text, want := range map[string]int{"d < '1582-10-10'": 2, "d = '1582-10-04'": 1, "at < '1582-10-05T00:00:00Z' AND at >= '1582-10-04T00:00:00Z'": 1, "d > '1582-10-15'": 1} {
				if got := kept(t, tb, ScanOptions{Where: parseWhere(t, text), Columns: []string{"_offset"}}); len(got) != want {
					t.Errorf("%s: rows %v, want %d", text, got, want)
				}
			}
		}
	}
}
