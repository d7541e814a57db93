package maintenance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// I3, I4: files of several topics at the same offsets are merged topic by topic, in order, with the same rows; a restore to where a
// topic had no position yet is refused, since where it began is not known.
func TestOptimizeRowsOfSeveralTopics(t *testing.T) {
	names := table.DefaultNames()
	names.Topic = table.TopicColumn
	r := newRig(t, table.Config{Names: names})
	topics := []string{"a", "b"}
	next := map[string]map[int32]int64{"a": {}, "b": {}}
	for range 20 {
		for _, topic := range topics {
			r.topic, r.next = topic, next[topic]
			r.fill(1, 0, 1)
		}
	}
	one := func(topic string) *table.Table {
		tb, err := table.Open(t.Context(), r.store, table.Config{Topic: topic})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tb.Close() })
		return tb
	}
	want := map[string][]string{}
	for _, topic := range topics {
		if want[topic] = slices.Sorted(slices.Values(rows(t, one(topic), r.snap()))); len(want[topic]) != 400 {
			t.Fatalf("%d rows of %s", len(want[topic]), topic)
		}
	}
	txns := r.snap().Txns()
	report := optimize(t, r.reopen(), OptimizeOptions{})
	if report.After.Files != len(topics) || report.Rows == 0 {
		t.Errorf("%+v", report)
	}
	for _, topic := range topics {
		tb := one(topic)
		if got := slices.Sorted(slices.Values(rows(t, tb, r.snap()))); !slices.Equal(got, want[topic]) { // a scan is in order, or an error
			t.Errorf("%s has %d rows, or others", topic, len(got))
		}
		files, err := tb.FilesFor(r.snap(), []table.Range{{Partition: 1, From: 0, To: 5}})
		if err != nil || len(files) != 1 || !files[0].Exact {
			t.Errorf("%s: %+v, %v", topic, files, err)
		}
	}
	if found, err := r.reopen().Check(t.Context()); err != nil || len(found) > 0 || !maps.Equal(txns, r.snap().Txns()) {
		t.Errorf("Check = %v, %v", found, err)
	}
	_, err := Restore(t.Context(), r.reopen(), RestoreOptions{Version: 1, HasVersion: true})
	if err == nil || !strings.Contains(err.Error(), "several topics") {
		t.Errorf("Restore to before topic b = %v", err)
	}
}

// I3: a table whose system columns somebody has changed is mended by a restore, which takes positions back with the rows, though the
// table as it is has no places.
func TestRestoreOfSpoiltTable(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(3, 0, 1)
	good := r.snap()
	r.fill(2, 0, 1)
	schema := &deltalog.StructType{Fields: slices.Clone(r.snap().Schema().Fields)}
	schema.Fields[0].Type = deltalog.Long // _partition
	c, err := r.snap().Alter(deltalog.Change{Schema: schema, Set: map[string]string{"delta.enableTypeWidening": "true"}})
	if err == nil {
		_, err = r.table.Log.Commit(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	spoilt := r.reopen()
	if spoilt.Spoilt() == nil {
		t.Fatal("nothing is wrong with the table")
	}
	if _, err := Restore(t.Context(), spoilt, RestoreOptions{Version: good.Version(), HasVersion: true}); err != nil {
		t.Fatal(err)
	}
	mended := r.reopen()
	if err := mended.Spoilt(); err != nil || !maps.Equal(r.snap().Txns(), good.Txns()) || r.snap().NumFiles() != 3 {
		t.Errorf("afterwards: %v, positions %v, want %v", err, r.snap().Txns(), good.Txns())
	}
}
