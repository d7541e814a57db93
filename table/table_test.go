package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func TestOpenOrCreateRace(t *testing.T) {
	store := mem.New()
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			tb, err := OpenOrCreate(context.Background(), store, payload, Config{})
			if err != nil {
				t.Error(err)
				return
			}
			defer tb.Close()
			ids[i] = tb.current().Metadata().ID
		})
	}
	wg.Wait()
	if len(slices.Compact(ids)) != 1 || ids[0] == "" {
		t.Fatalf("several tables: %v", ids)
	}
	if _, err := Create(t.Context(), store, payload, Config{}); !errors.Is(err, deltalog.ErrTableExists) {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	store := mem.New()
	names := Names{Partition: "kafka_partition", Offset: "kafka_offset"}
	tb, err := Create(t.Context(), store, payload, Config{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tb.PayloadSchema()
	if err != nil || p.NumFields() != 1 || p.Field(0).Name != "text" {
		t.Fatalf("%v %v", p, err)
	}
	again, err := Open(t.Context(), store, Config{})
	if err != nil || again.Names != names {
		t.Fatalf("the mapping is lost: %+v %v", again.Names, err)
	}
	if _, err := Open(t.Context(), store, Config{Names: Names{Offset: "text"}}); err == nil {
		t.Fatal("a string column was taken for offsets")
	}
	dropped := newTestTable(t, Config{DropValue: true})
	if dropped.Names.Value != "" || dropped.Names.Key != "_key" {
		t.Fatalf("%+v", dropped.Names)
	}
	if _, err := Create(t.Context(), mem.New(), arrow.NewSchema(SystemFields(DefaultNames())[:1], nil), Config{}); err == nil {
		t.Fatal("a payload column hides a system column")
	}
	if _, err := Create(t.Context(), mem.New(), payload, Config{PartitionColumns: []string{"_offset"}}); err == nil {
		t.Fatal("partitioned by offset")
	}
}

func TestWriterRefusesUnsortedRows(t *testing.T) {
	tb := newTestTable(t, Config{})
	for _, rows := range [][]row{
		{{key{0, 2}, ""}, {key{0, 1}, ""}},
		{{key{0, 2}, ""}, {key{0, 2}, ""}},
		{{key{1, 2}, ""}, {key{0, 3}, ""}},
	} {
		for _, apart := range []bool{false, true} {
			w, err := tb.NewFileWriter(t.Context(), WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if apart {
				if err := w.Write(batchOf(t, tb, rows[:1])); err != nil {
					t.Fatal(err)
				}
				rows = rows[1:]
			}
			if err := w.Write(batchOf(t, tb, rows)); !errors.Is(err, ErrUnsorted) {
				t.Fatalf("%v: %v", rows, err)
			}
			if _, err := w.Close(t.Context()); !errors.Is(err, ErrUnsorted) {
				t.Fatalf("closed after an error: %v", err)
			}
			if apart {
				break
			}
		}
	}
	for info, err := range tb.Store.List(t.Context(), listData) {
		t.Fatalf("left behind: %v %v", info, err)
	}
}

func TestWriterAdd(t *testing.T) {
	tb := newTestTable(t, Config{})
	add := writeFile(t, tb, []row{{key{0, 1}, "a"}, {key{0, 2}, "b"}, {key{0, 5}, "c"}, {key{2, 0}, "d"}}, WriterOptions{})
	info, err := tb.Store.Head(t.Context(), add.Path)
	if err != nil || info.Size != add.Size || add.Size == 0 {
		t.Fatalf("size %d, %+v %v", add.Size, info, err)
	}
	if tag := add.Tags[RangesTag]; tag == nil || *tag != "[[0,1,3],[0,5,6],[2,0,1]]" {
		t.Fatalf("tags %v", add.Tags)
	}
	want := `{"numRecords":4,"minValues":{"_partition":0,"_offset":0,"_timestamp":"1970-01-01T00:00:01.000Z","text":"a"},` +
		`"maxValues":{"_partition":2,"_offset":5,"_timestamp":"1970-01-01T00:00:01.005Z","text":"d"},` +
		`"nullCount":{"_partition":0,"_offset":0,"_timestamp":0,"_key":0,"_headers":0,"_value":0,"text":0},"tightBounds":true}`
	if add.Stats != want {
		t.Fatalf("stats\nwant %s\ngot  %s", want, add.Stats)
	}
	if !add.DataChange || add.ModificationTime == 0 || add.PartitionValues == nil || deltalog.EncodePath(add.Path) != add.Path {
		t.Fatalf("%+v", add)
	}
	raw, err := tb.Store.Get(t.Context(), add.Path)
	if err != nil {
		t.Fatal(err)
	}
	checkFileSchema(t, raw)
}

// The names and types that Spark, delta-rs and DuckDB expect.
func checkFileSchema(t *testing.T, raw []byte) {
	pq, err := file.NewParquetReader(bytesReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text := pq.MetaData().Schema.String()
	for _, want := range []string{"repeated group field_id=-1 list", "optional group field_id=-1 element", "int64 field_id=-1 _timestamp (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if pq.MetaData().KeyValueMetadata().FindValue("ARROW:schema") != nil {
		t.Error("the file carries an Arrow schema that other engines may prefer to the table's")
	}
}

func TestWriterEmptyAndAborted(t *testing.T) {
	tb := newTestTable(t, Config{})
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(t.Context()); !errors.Is(err, ErrNoRows) {
		t.Fatal(err)
	}
	if w, err = tb.NewFileWriter(t.Context(), WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(batchOf(t, tb, []row{{key{0, 1}, "a"}})), w.Abort(), w.Abort()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(batchOf(t, tb, []row{{key{0, 2}, "a"}})); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	for info, err := range tb.Store.List(t.Context(), listData) {
		t.Fatalf("left behind: %v %v", info, err)
	}
}

func TestManyHolesKeepTheTagShort(t *testing.T) {
	var l rangeList
	for i := range int64(100_000) {
		l.add(int32(i/50_000), i*9+i%7)
	}
	tag := l.tag()
	ranges, ok := rangesTag(&deltalog.Add{Tags: map[string]*string{RangesTag: &tag}})
	if !ok || len(ranges) > maxRanges || len(l) > 5*maxRanges {
		t.Fatalf("%d ranges, %d kept, %v", len(ranges), len(l), ok)
	}
	for i := range int64(100_000) {
		if !inRanges(ranges, key{int32(i / 50_000), i*9 + i%7}) {
			t.Fatalf("row %d is not covered by %v", i, ranges)
		}
	}
}

func TestLakeEnd(t *testing.T) {
	tb := newTestTable(t, Config{})
	if _, ok := LakeEnd(tb.current(), "t", 0); ok {
		t.Fatal("a position in an empty table")
	}
	if _, err := tb.Log.Commit(t.Context(), deltalog.Commit{Operation: "WRITE", Txns: []deltalog.Txn{{AppID: AppID("t", 0), Version: 41}}}); err != nil {
		t.Fatal(err)
	}
	snap, err := tb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := LakeEnd(snap, "t", 0); !ok || end != 42 {
		t.Fatal(end, ok)
	}
}

func TestSystemColumns(t *testing.T) {
	s := NewSystemColumns(DefaultNames(), "")
	rec := &record.Record{Offset: 7, Timestamp: -1, Key: nil, Value: []byte{}, Headers: []record.Header{{Key: []byte("a"), Value: nil}, {Key: []byte("a"), Value: []byte("x")}}}
	s.Append(3, rec)
	s.Append(3, &record.Record{Offset: 8, Timestamp: 1<<63 - 1})
	s.Append(4, &record.Record{Offset: 9, Timestamp: 5})
	s.Truncate(2)
	rb := array.NewRecordBatch(arrow.NewSchema(SystemFields(DefaultNames()), nil), s.Arrays(), int64(s.Rows()))
	got := fmt.Sprint(rb.Columns())
	if want := `[[3 3] [7 8] [(null) (null)] [(null) (null)] [{["a" "a"] [(null) "x"]} {[] []}] ["" (null)]]`; got != want {
		t.Fatalf("want %s\ngot  %s", want, got)
	}
	s.Reset()
	run := func() {
		s.Reset()
		for range 1000 {
			s.Append(1, rec)
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Fatalf("%v allocations for 1000 rows", n)
	}
}

func TestPartitionColumns(t *testing.T) {
	tb := newTestTable(t, Config{PartitionColumns: []string{"text"}})
	if _, err := tb.NewFileWriter(t.Context(), WriterOptions{}); err == nil {
		t.Fatal("no value for a partition column")
	}
	value := "US/East"
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{PartitionValues: map[string]*string{"text": &value}})
	if err != nil {
		t.Fatal(err)
	}
	full := batchOf(t, tb, []row{{key{0, 1}, "x"}})
	rb := array.NewRecordBatch(w.Schema(), full.Columns()[:6], 1)
	if err := w.Write(rb); err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := scanRows(t, tb, commit(t, tb, add), ScanOptions{})
	if len(rows) != 1 || rows[0].text != value {
		t.Fatalf("%v", rows)
	}
}
