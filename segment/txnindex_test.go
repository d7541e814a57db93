package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// txnWriter has a segment of three markers at offsets 10, 11 and 12.
func txnWriter(t *testing.T, fsys vfs.FS) *Writer {
	t.Helper()
	if err := fsys.MkdirAll("/s"); err != nil {
		t.Fatal(err)
	}
	w, err := Create(fsys, "/s", 10)
	if err != nil {
		t.Fatal(err)
	}
	for o := record.Offset(10); o < 13; o++ {
		raw, err := record.BuildMarker(o, record.AbortMarker, 7, 0, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := record.ParseHeader(raw)
		if err == nil {
			err = w.Append(raw, h)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.AddAborted(AbortedTxn{ProducerID: 7, First: o - 3, Last: o, Stable: o + 1})
		if o == 11 { // written in two pieces
			if err := w.FlushIndex(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// TestTxnIndexBytes fixes the bytes, which Kafka's dump tool reads as version 0, producer 7, first 7, last 10,
// last stable offset 11.
func TestTxnIndexBytes(t *testing.T) {
	fsys := vfs.NewMem()
	w := txnWriter(t, fsys)
	if err := errors.Join(w.Seal(), w.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(fsys, "/s/00000000000000000010.txnindex")
	if err != nil || len(b) != 3*txnEntrySize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	want := "0000" + "0000000000000007" + "0000000000000007" + "000000000000000a" + "000000000000000b"
	if got := hex.EncodeToString(b[:txnEntrySize]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := Remove(fsys, "/s", 10); err != nil {
		t.Fatal(err)
	}
	if entries, err := fsys.ReadDir("/s"); err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// TestTxnIndexRecovery takes the entries that a checkpoint knows, whatever stands behind them, and never rewrites
// them; what is missing or wrong is damage (I8).
func TestTxnIndexRecovery(t *testing.T) {
	fsys := vfs.NewMem()
	w := txnWriter(t, fsys)
	full := w.Info()
	if err := errors.Join(w.FlushIndex(), w.SyncLog(), SyncAborted(fsys, "/s", 10), fsys.SyncDir("/s"), w.Close()); err != nil {
		t.Fatal(err)
	}
	part := Info{Base: 10, Next: 12, Size: full.Size / 3 * 2, MaxTimestamp: 1, MaxTimestampOffset: 10, Aborted: 2}
	w, err := OpenWriter(fsys, "/s", part)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Cut(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAborted(fsys, "/s", part)
	want := []AbortedTxn{{7, 7, 10, 11}, {7, 8, 11, 12}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	if b, err := vfs.ReadFile(fsys, "/s/00000000000000000010.txnindex"); err != nil || len(b) != 2*txnEntrySize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := errors.Join(w.FlushIndex(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"short":   func(b []byte) []byte { return b[:len(b)-1] },
		"version": func(b []byte) []byte { b[1] = 1; return b },
		"zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
		"offset":  func(b []byte) []byte { b[25] = 99; return b },
	} {
		m := fsys.Crash(nil, vfs.KeepAll)
		b, err := vfs.ReadFile(m, "/s/00000000000000000010.txnindex")
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.Create("/s/00000000000000000010.txnindex")
		if err == nil {
			_, err = f.WriteAt(damage(bytes.Clone(b)), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		var damaged *DamageError
		if _, err := ReadAborted(m, "/s", part); !errors.As(err, &damaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
