package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// An index that leads astray, as after damage, makes a span slower, not wrong.
func TestSpanWithWrongIndex(t *testing.T) {
	m := vfs.NewMem()
	batches := makeSegment(t, m, 1000, 100, 3)
	f, err := m.Open("/00000000000000001000.index")
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil || size < 5*offsetEntrySize {
		t.Fatalf("index of %d bytes, %v", size, err)
	}
	for at := int64(7); at < size; at += offsetEntrySize { // the lowest byte of each place
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(m, "/", 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkReads(t, r, batches, 3)
}

// What is pinned can be read after the writer, or the reader, was closed, and not after its release.
func TestPin(t *testing.T) {
	m := vfs.NewMem()
	w, err := Create(m, "/", 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, h := build(t, 0, 1, 3, 100)
	if err := w.Append(raw, h); err != nil {
		t.Fatal(err)
	}
	view := w.Reader()
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(m, "/", 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		r     *Reader
		close func() error
	}{"of a writer": {view, w.Close}, "opened": {opened, opened.Close}} {
		s, err := x.r.Span(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		log, release, err := x.r.Pin()
		if err != nil {
			t.Fatal(err)
		}
		if err := x.close(); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, s.Size)
		if _, err := log.ReadAt(got, s.Pos); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: pinned, then closed: %v", name, err)
		}
		release()
		if _, err := log.ReadAt(got, s.Pos); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: released: %v, want closed", name, err)
		}
		if _, _, err := x.r.Pin(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: pinned after all is closed: %v", name, err)
		}
	}
}
