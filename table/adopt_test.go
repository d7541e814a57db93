package table

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func encoded(t *testing.T, tb *Table, partition int32, from, to int64) *FileWriter {
	t.Helper()
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for o := from; o < to; o++ {
		rows = append(rows, row{key{partition, o}, fmt.Sprintf("text %d", o)})
	}
	if len(rows) > 0 {
		if err := w.Write(batchOf(t, tb, rows)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Writers that have encoded rows become one file: rows, ranges and statistics of all of them, nothing else stored.
func TestAdopt(t *testing.T) {
	tb, err := Create(t.Context(), mem.New(), payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := encoded(t, tb, 0, 5, 5)
	for _, o := range []*FileWriter{encoded(t, tb, 0, 0, 700), encoded(t, tb, 0, 700, 900), encoded(t, tb, 2, 3, 3), encoded(t, tb, 2, 30, 40)} {
		if o.Stored() {
			t.Fatal("a writer has stored its rows before a row group ended")
		}
		if err := w.Adopt(o); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Close(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatalf("Close of what was taken over: %v", err)
		}
	}
	if err := w.Write(batchOf(t, tb, []row{{key{3, 1}, "last"}})); err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := add.NumRecords(); n != 911 {
		t.Errorf("%d rows, want 911", n)
	}
	if want := "[[0,0,900],[2,30,40],[3,1,2]]"; *add.Tags[RangesTag] != want {
		t.Errorf("ranges %s, want %s", *add.Tags[RangesTag], want)
	}
	files := 0
	for info, err := range tb.Store.List(t.Context(), objstore.ListOptions{Prefix: "part-"}) {
		if err != nil {
			t.Fatal(err)
		}
		if files++; info.Key != add.Path || info.Size != add.Size {
			t.Errorf("stored %+v, the action says %s of %d bytes", info, add.Path, add.Size)
		}
	}
	if files != 1 {
		t.Errorf("%d files", files)
	}
	seen := int64(0)
	for rb, err := range tb.Scan(t.Context(), commit(t, tb, add), ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen += rb.NumRows()
	}
	if seen != 911 {
		t.Errorf("%d rows are read", seen)
	}
}

// Rows that would go back are refused, and a writer whose rows are in the store already is not taken over.
func TestAdoptRefuses(t *testing.T) {
	tb, err := Create(t.Context(), mem.New(), payload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := encoded(t, tb, 1, 10, 20)
	if err := w.Adopt(w); err == nil {
		t.Error("a writer took over itself")
	}
	stored, err := tb.NewFileWriter(t.Context(), WriterOptions{RowGroupRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for o := range int64(2000) {
		rows = append(rows, row{key{5, o}, "x"})
	}
	if err := stored.Write(batchOf(t, tb, rows)); err != nil {
		t.Fatal(err)
	}
	if !stored.Stored() {
		t.Fatal("row groups are not stored")
	}
	if err := w.Adopt(stored); err == nil {
		t.Error("a writer with stored rows was taken over")
	}
	if err := errors.Join(stored.Abort(), stored.Abort()); err != nil {
		t.Fatal(err)
	}
	if err := w.Adopt(encoded(t, tb, 1, 19, 25)); !errors.Is(err, ErrUnsorted) {
		t.Errorf("rows that go back: %v", err)
	}
	if _, err := w.Close(t.Context()); !errors.Is(err, ErrUnsorted) {
		t.Errorf("Close after it: %v", err)
	}
	for info, err := range tb.Store.List(t.Context(), objstore.ListOptions{Prefix: "part-"}) {
		t.Errorf("left behind: %s, %v", info.Key, err)
	}
}
