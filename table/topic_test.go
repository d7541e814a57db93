package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func topicNames() Names {
	n := DefaultNames()
	n.Topic = TopicColumn
	return n
}

// topicFile writes rows of a topic, as tiering does.
func topicFile(t *testing.T, tb *Table, topic string, rows []row) deltalog.Add {
	t.Helper()
	sys := NewSystemColumns(tb.Names, topic)
	text := array.NewStringBuilder(memory.DefaultAllocator)
	for _, r := range rows {
		sys.Append(r.partition, &record.Record{Offset: record.Offset(r.offset), Timestamp: 1000 + r.offset, Value: []byte(r.text)})
		text.Append(r.text)
	}
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{PartitionValues: map[string]*string{TopicColumn: &topic}})
	if err != nil {
		t.Fatal(err)
	}
	var cols []arrow.Array
	for _, f := range w.Schema().Fields() {
		i := slices.IndexFunc(SystemFields(tb.Names), func(s arrow.Field) bool { return s.Name == f.Name })
		if i < 0 {
			cols = append(cols, text.NewArray())
		} else {
			cols = append(cols, sys.Array(i))
		}
	}
	if err := w.Write(array.NewRecordBatch(w.Schema(), cols, int64(len(rows)))); err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return add
}

func rowsOf(topic string, partition int32, from, to int64) (out []row) {
	for o := from; o < to; o++ {
		out = append(out, row{key{partition, o}, fmt.Sprint(topic, "/", partition, "/", o)})
	}
	return out
}

// I4: a table with rows of several topics at the same offsets gives each topic's alone, in order, to who asks for one; all of
// them, once, to who asks for none; and refuses offsets of which it is not said whose they are (I8).
func TestRowsOfSeveralTopics(t *testing.T) {
	store := mem.New()
	tb, err := Create(t.Context(), store, payload, Config{Names: topicNames()})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	snap := commit(t, tb,
		topicFile(t, tb, "a", append(rowsOf("a", 0, 0, 50), rowsOf("a", 1, 0, 20)...)),
		topicFile(t, tb, "b", rowsOf("b", 0, 0, 30)),
		topicFile(t, tb, "a", rowsOf("a", 0, 50, 80)),
		topicFile(t, tb, "b", rowsOf("b", 0, 30, 60)))
	for topic, want := range map[string][]row{"a": slices.Concat(rowsOf("a", 0, 0, 80), rowsOf("a", 1, 0, 20)), "b": rowsOf("b", 0, 0, 60), "c": nil} {
		one, err := Open(t.Context(), store, Config{Topic: topic})
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		if got := sortRows(scanRows(t, one, snap, ScanOptions{})); !slices.Equal(got, sortRows(want)) || !one.Ordered() || one.Topic() != topic {
			t.Errorf("%s: %d rows, want %d", topic, len(got), len(want))
		}
		got := scanRows(t, one, snap, ScanOptions{Ranges: []Range{{0, 40, 55}}})
		var part []row
		for _, r := range want {
			if r.partition == 0 && r.offset >= 40 && r.offset < 55 {
				part = append(part, r)
			}
		}
		if !slices.Equal(got, part) {
			t.Errorf("%s: offsets 40 to 54 are %v", topic, got)
		}
		if files, err := one.FilesFor(snap, nil); err != nil || len(files) != 2 && topic != "c" || topic == "c" && len(files) != 0 {
			t.Errorf("%s: %d files, %v", topic, len(files), err)
		}
	}
	all, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if got := scanRows(t, all, snap, ScanOptions{}); len(got) != 160 || all.Ordered() || all.Names != topicNames() {
		t.Errorf("%d rows of all topics, names %+v", len(got), all.Names)
	}
	for _, opts := range []ScanOptions{{Ranges: []Range{{0, 0, 10}}}, {Sorted: true}} {
		if _, err := tryScan(t.Context(), all, snap, opts); !errors.Is(err, ErrSeveralTopics) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if topics, err := all.Topics(snap); err != nil || !slices.Equal(topics, []string{"a", "b"}) {
		t.Errorf("topics %v, %v", topics, err)
	}
	if found, err := all.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("Check: %v, %v", found, err)
	}
	commit(t, tb, topicFile(t, tb, "b", rowsOf("b", 0, 59, 61)))
	if found, err := all.Check(t.Context()); err != nil || len(found) != 1 || !strings.Contains(found[0].String(), "topic b") {
		t.Errorf("Check of a row that is there twice: %v, %v", found, err)
	}
}

// A column that tells topics apart has to be a partition column (I8).
func TestTopicColumnIsAPartitionColumn(t *testing.T) {
	tb := newTestTable(t, Config{})
	names := topicNames()
	names.Topic = "text"
	if _, err := Open(t.Context(), tb.Store, Config{Names: names}); err == nil || !strings.Contains(err.Error(), "no partition column") {
		t.Errorf("Open = %v", err)
	}
}

// System columns whose types somebody has changed are told by name, with what to do; somebody else's columns of such names are not
// ours (I8).
func TestSpoiltSystemColumns(t *testing.T) {
	fields := SystemFields(DefaultNames())
	spoil := func(i int, typ arrow.DataType) []arrow.Field {
		out := slices.Clone(fields)
		out[i].Type = typ
		return out
	}
	for name, c := range map[string]struct {
		fields []arrow.Field
		want   string
	}{
		"as made":       {fields, ""},
		"partition":     {spoil(0, arrow.PrimitiveTypes.Int64), "_partition is of type int64, and the log fills it with int32"},
		"offset":        {spoil(1, arrow.BinaryTypes.String), "_offset is of type utf8"},
		"headers":       {spoil(4, arrow.ListOf(arrow.StructOf(arrow.Field{Name: "zz", Type: arrow.BinaryTypes.String, Nullable: true}))), "_headers is of type list"},
		"somebody else": {[]arrow.Field{{Name: "_key", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "_offset", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, ""},
	} {
		schema, err := deltalog.FromArrow(arrow.NewSchema(c.fields, nil))
		if err != nil {
			t.Fatal(err)
		}
		store := mem.New()
		log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		tb, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer tb.Close()
		got := tb.Spoilt()
		if (got == nil) != (c.want == "") || got != nil && (!strings.Contains(got.Error(), c.want) || !strings.Contains(got.Error(), "restore TABLE --to-version")) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
