package deltalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
)

// datedCheckpoint has one file whose statistics stand by their types: a day, a time and one without a zone, the same for each,
// in days since 1970, and the footer keys given.
func datedCheckpoint(t testing.TB, day int64, keys ...string) []byte {
	t.Helper()
	var k, v []string
	for i := 0; i < len(keys); i += 2 {
		k, v = append(k, keys[i]), append(v, keys[i+1])
	}
	meta := arrow.NewMetadata(k, v)
	at := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	least := arrow.StructOf(arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, arrow.Field{Name: "at", Type: at, Nullable: true},
		arrow.Field{Name: "local", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true})
	stats := arrow.StructOf(arrow.Field{Name: "numRecords", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "minValues", Type: least, Nullable: true})
	add := arrow.StructOf(arrow.Field{Name: "path", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "stats_parsed", Type: stats, Nullable: true})
	s := arrow.NewSchema([]arrow.Field{{Name: "add", Type: add, Nullable: true}}, &meta)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	adds := b.Field(0).(*array.StructBuilder)
	adds.Append(true)
	adds.FieldBuilder(0).(*array.StringBuilder).Append("f")
	parsed := adds.FieldBuilder(1).(*array.StructBuilder)
	parsed.Append(true)
	parsed.FieldBuilder(0).(*array.Int64Builder).Append(7)
	bounds := parsed.FieldBuilder(1).(*array.StructBuilder)
	bounds.Append(true)
	bounds.FieldBuilder(0).(*array.Date32Builder).Append(arrow.Date32(day))
	bounds.FieldBuilder(1).(*array.TimestampBuilder).Append(arrow.Timestamp(day*86400e6 + 3600e6))
	bounds.FieldBuilder(2).(*array.TimestampBuilder).Append(arrow.Timestamp(day*86400e6 + 3600e6))
	rec := b.NewRecordBatch()
	defer rec.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(w.Write(rec), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Statistics that stand by their types in a checkpoint of Spark's old calendar are the days of the same name, as Spark reads
// them; a time whose zone had other clocks is no bound at all.
func TestStatsOfTheOldCalendar(t *testing.T) {
	const version, legacy, zone = "org.apache.spark.version", "org.apache.spark.legacyDateTime", "org.apache.spark.timeZone"
	const julian = -141438 + 10 // 4 October 1582 there
	for name, c := range map[string]struct {
		day  int64
		keys []string
		want string
	}{
		"today's calendar":   {julian, []string{version, "4.0.0"}, `"d":"1582-10-14","at":"1582-10-14T01:00:00.000Z","local":"1582-10-14T01:00:00.000"`},
		"asked for":          {julian, []string{version, "4.0.0", legacy, "", zone, "UTC"}, `"d":"1582-10-04","at":"1582-10-04T01:00:00.000Z","local":"1582-10-14T01:00:00.000"`},
		"an old Spark":       {julian, []string{version, "2.4.8"}, `"d":"1582-10-04","at":"1582-10-04T01:00:00.000Z","local":"1582-10-14T01:00:00.000"`},
		"an unknown clock":   {julian, []string{version, "4.0.0", legacy, "", zone, "Europe/Paris"}, `"d":"1582-10-04","local":"1582-10-14T01:00:00.000"`},
		"after the change":   {julian + 1, []string{version, "4.0.0", legacy, "", zone, "UTC"}, `"d":"1582-10-15","at":"1582-10-15T01:00:00.000Z","local":"1582-10-15T01:00:00.000"`},
		"in modern times":    {10, []string{version, "4.0.0", legacy, "", zone, "Europe/Paris"}, `"d":"1970-01-11","at":"1970-01-11T01:00:00.000Z","local":"1970-01-11T01:00:00.000"`},
		"of a zone of hours": {julian, []string{version, "4.0.0", legacy, "", zone, "GMT-05:00"}, `"d":"1582-10-04","at":"1582-10-04T01:00:00.000Z","local":"1582-10-14T01:00:00.000"`},
	} {
		b := datedCheckpoint(t, c.day, c.keys...)
		if got, want := statsOf(t, b), `{"numRecords":7,"minValues":{`+c.want+`}}`; !sameJSON(t, got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// Times of 12 bytes, which reach further than nanoseconds, are moved by a key of their own.
	for by, want := range map[string]string{"4.0.0": `"1582-10-14T01:00:00.000Z"`, "3.0.0": `"1582-10-04T01:00:00.000Z"`} {
		f, err := file.NewParquetReader(bytes.NewReader(datedCheckpoint(t, julian, version, by)))
		if err != nil {
			t.Fatal(err)
		}
		l := &parquetLeaf{calendar: ourparquet.CalendarOf(f.MetaData()), times: make([]parquet.Int96, 1)}
		if got, ok := l.appendTime(nil, julian*86400e6+3600e6, true); !ok || string(got) != want {
			t.Errorf("12 bytes by %s: %s, want %s", by, got, want)
		}
		_ = f.Close()
	}
}

func statsOf(t *testing.T, b []byte) (stats string) {
	t.Helper()
	err := parseParquet(&checkpointSource{size: int64(len(b)), window: b}, false, func(a *actions) error {
		for _, x := range a.adds {
			stats = x.Stats
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// A time in Parquet's old form that no writer means is no bound (I8).
func TestInt96Micros(t *testing.T) {
	of := func(day int32, nanos uint64) (v parquet.Int96) {
		binary.LittleEndian.PutUint64(v[:], nanos)
		binary.LittleEndian.PutUint32(v[8:], uint32(day))
		return v
	}
	for _, c := range []struct {
		v    parquet.Int96
		want int64
		ok   bool
	}{
		{of(2440588, 1999), 1, true},
		{of(2440587, 86_399_999_999_999), -1, true},
		{of(5373484, 0), 253402214400e6, true}, // 31 December 9999
		{of(-1<<31, 0), 0, false},
		{of(1<<31-1, 0), 0, false},
		{of(2440588, 1<<63), 0, false},
		{of(2440588, 86_400_000_000_000), 0, false},
	} {
		if got, ok := int96Micros(c.v); ok != c.ok || ok && got != c.want {
			t.Errorf("%x: %d, %v, want %d, %v", c.v, got, ok, c.want, c.ok)
		}
	}
}
