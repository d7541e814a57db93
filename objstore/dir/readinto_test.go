package dir_test

import (
	"errors"
	"io"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
)

func TestReadInto(t *testing.T) {
	s := open(t, dir.Config{Root: "/lake", FS: vfs.NewMem()})
	if err := s.Put(t.Context(), "k", []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if err := s.ReadInto(t.Context(), "k", 3, buf); err != nil || string(buf) != "3456" {
		t.Errorf("%q, %v", buf, err)
	}
	if err := s.ReadInto(t.Context(), "k", 8, buf); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("past the end: %v", err)
	}
	if err := s.ReadInto(t.Context(), "none", 0, buf); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("no object: %v", err)
	}
	if b, err := s.GetInto(t.Context(), "k", make([]byte, 2, 16)); err != nil || string(b) != "0123456789" {
		t.Errorf("whole, with room: %q, %v", b, err)
	}
	copy(buf, "3456")
	if b, err := s.GetInto(t.Context(), "k", buf); err != nil || string(b) != "0123456789" || string(buf) != "3456" {
		t.Errorf("whole, without room: %q, buf %q, %v", b, buf, err)
	}
}
