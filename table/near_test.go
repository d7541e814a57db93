package table

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

// TestScanNear reads columns larger than a piece from a store that reads into the scan's memory (I4).
func TestScanNear(t *testing.T) {
	store, err := dir.Open(dir.Config{Root: "/lake", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := Create(t.Context(), store, benchPayload, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	schema, err := tb.Schema(tb.current())
	if err != nil {
		t.Fatal(err)
	}
	want, _ := benchBatch(t, schema, 20_000, 0)
	defer want.Release()
	w, err := tb.NewFileWriter(t.Context(), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	add, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, near := objstore.Store(store).(objstore.IntoReader); !near || add.Size < 4*nearPiece {
		t.Fatalf("a file of %d bytes in a store that is near: %t", add.Size, near)
	}
	snap := commit(t, tb, add)
	for _, rows := range []int{700, 16384} {
		at := int64(0)
		for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{BatchRows: rows}) {
			if err != nil {
				t.Fatal(err)
			}
			part := want.NewSlice(at, min(at+rb.NumRows(), want.NumRows()))
			if !array.RecordEqual(rb, part) {
				t.Fatalf("batches of %d: rows from %d on are not those that were written", rows, at)
			}
			at += rb.NumRows()
			part.Release()
			rb.Release()
		}
		if at != want.NumRows() {
			t.Fatalf("batches of %d: %d rows, want %d", rows, at, want.NumRows())
		}
	}
}
