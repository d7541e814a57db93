package segment

import (
	"io/fs"
	"sort"
	"sync/atomic"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Span says where in the log file a run of whole batches lies.
type Span struct {
	Pos  int64
	Size int
	Next record.Offset // where to read on
}

// Span gives what Read would give as a place in the file. Only the headers at both ends are looked at: damage between them is
// for who takes the bytes to find, as a consumer does by their CRC. A span does not change, but is gone when the files are closed: see Pin.
func (r *Reader) Span(from record.Offset, maxBytes int) (Span, error) {
	pos, h, err := r.find(from)
	if err != nil {
		return Span{}, err
	}
	end := min(pos+int64(max(maxBytes, h.Size())), r.info.Size)
	start, err := r.look.before(end)
	if err != nil || start <= pos {
		return r.spanFrom(pos, pos, end)
	}
	s, err := r.spanFrom(pos, start, end)
	if err != nil { // the index led astray: the log itself decides
		return r.spanFrom(pos, pos, end)
	}
	return s, nil
}

// spanFrom looks from a batch at start for the last one that ends at or before end.
func (r *Reader) spanFrom(pos, start, end int64) (Span, error) {
	s := Span{Pos: pos}
	_, _, err := r.walk(start, func(h record.BatchHeader) bool {
		if start+int64(h.Size()) > end {
			s.Next = h.BaseOffset
			return true
		}
		start += int64(h.Size())
		s.Next = h.LastOffset() + 1
		return start == end
	})
	s.Size = int(start - pos)
	return s, err
}

// before gives the place of the last batch with an entry of which the end may lie at or before a place in the log.
func (l *lookup) before(end int64) (int64, error) {
	at := func(i int) (int64, error) { return int64(l.offsets[i].Pos), nil }
	n := len(l.offsets)
	if l.offFile != nil {
		var buf [offsetEntrySize]byte
		n, at = l.offCount, func(i int) (int64, error) {
			e, err := l.offsetAt(i, buf[:])
			return int64(e.Pos), err
		}
	}
	var failed error
	i := sort.Search(n, func(i int) bool {
		pos, err := at(i)
		if err != nil {
			failed = err
		}
		return pos >= end
	})
	if i == 0 || failed != nil {
		return 0, failed
	}
	return at(i - 1)
}

// shared is a log file that stays open while parts of it are being sent.
type shared struct {
	vfs.File
	users atomic.Int32
}

func share(f vfs.File) *shared {
	s := &shared{File: f}
	s.users.Store(1)
	return s
}

// pin keeps the file open; false when it is closed already.
func (s *shared) pin() bool {
	for {
		n := s.users.Load()
		if n == 0 {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Close ends one use. The last one closes the file.
func (s *shared) Close() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	return s.File.Close()
}

// Pin keeps the log file open, whoever closes the reader or its writer, until release is called, once. fs.ErrClosed when
// that has happened before.
func (r *Reader) Pin() (log vfs.File, release func(), err error) {
	if !r.log.pin() {
		return nil, nil, fs.ErrClosed
	}
	return r.log.File, func() { _ = r.log.Close() }, nil // whoever wrote it has synced it
}
