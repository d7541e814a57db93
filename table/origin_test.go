package table

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestOriginBecomesColumns: what a log beside Kafka's knows of a record is in columns of its own, and not among the
// record's headers; a table remembers that it has them (I3).
func TestOriginBecomesColumns(t *testing.T) {
	store := mem.New()
	names := DefaultNames().WithOrigin()
	tab, err := Create(t.Context(), store, arrow.NewSchema(nil, nil), Config{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if tab, err = Open(t.Context(), store, Config{}); err != nil {
		t.Fatal(err)
	}
	if tab.Names != names {
		t.Fatalf("the table says its columns are %+v", tab.Names)
	}
	o := record.Origin{Ledger: 5, Entry: 7, Batch: 2, FirstLedger: 4, FirstEntry: 9, Index: -1, EventTime: 12, Sequence: 3, Producer: []byte("p"), SchemaVersion: []byte{1}}
	user := record.Header{Key: []byte("k"), Value: []byte("v")}
	s := NewSystemColumns(tab.Names, "")
	s.Append(1, &record.Record{Offset: 10, Headers: []record.Header{{Key: []byte(record.OriginHeader), Value: o.AppendTo(nil)}, user}})
	s.Append(1, &record.Record{Offset: 11, Headers: []record.Header{user, {Key: []byte(record.OriginHeader), Value: o.AppendTo(nil)}}}) // a header of the user's own
	rb := array.NewRecordBatch(arrow.NewSchema(SystemFields(tab.Names), nil), s.Arrays(), 2)
	defer rb.Release()
	for column, want := range map[string][2]string{
		"_ledger": {"5", "(null)"}, "_entry": {"7", "(null)"}, "_batch": {"2", "(null)"}, "_index": {"(null)", "(null)"},
		"_event_time": {"1970-01-01T00:00:00.012Z", "(null)"}, "_producer": {"p", "(null)"}, "_sequence": {"3", "(null)"},
		"_ordering_key": {"(null)", "(null)"}, "_schema_version": {"AQ==", "(null)"}, "_first_chunk": {"4:9", "(null)"},
	} {
		a := rb.Column(rb.Schema().FieldIndices(column)[0])
		if got := [2]string{a.ValueStr(0), a.ValueStr(1)}; got != want {
			t.Errorf("%s is %v, want %v", column, got, want)
		}
	}
	headers := rb.Column(4).(*array.List)
	if from, to := headers.ValueOffsets(0); to-from != 1 {
		t.Errorf("the first row has %d headers, want the user's own", to-from)
	}
	if from, to := headers.ValueOffsets(1); to-from != 2 {
		t.Errorf("the second row has %d headers, want both", to-from)
	}
}
