package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// scanBuffer is how much a scan holds in memory, however large a batch claims to be (I8).
const scanBuffer = 256 << 10

// crcStart is the first byte that a batch's CRC covers.
const crcStart = 21

// scanner walks the batches of a log file in order.
type scanner struct {
	f     vfs.File
	pos   int64
	limit int64         // end of what may be read
	base  record.Offset // of the segment
	next  record.Offset // no batch may begin below
	crc   bool          // verify checksums
	table *crc32.Table
	buf   []byte
	have  []byte // part of buf: the bytes at pos
}

func newScanner(f vfs.File, info Info, limit int64, crc bool) *scanner {
	return &scanner{f: f, pos: info.Size, limit: limit, base: info.Base, next: info.Next, crc: crc,
		table: crc32.MakeTable(crc32.Castagnoli), buf: make([]byte, min(scanBuffer, max(limit-info.Size, 0)))}
}

// fill makes n bytes available in have, or fewer when the limit comes first. n is at most len(buf).
func (s *scanner) fill(n int) error {
	if len(s.have) >= n || s.pos+int64(len(s.have)) >= s.limit {
		return nil
	}
	kept := copy(s.buf, s.have)
	want := min(int64(len(s.buf)), s.limit-s.pos)
	got, err := s.f.ReadAt(s.buf[kept:want], s.pos+int64(kept))
	s.have = s.buf[:kept+got]
	if errors.Is(err, io.EOF) {
		s.limit = min(s.limit, s.pos+int64(len(s.have)))
		err = nil
	}
	if err != nil {
		return fmt.Errorf("scan segment: %w", err)
	}
	return nil
}

func (s *scanner) skip(n int64) {
	s.pos += n
	s.have = s.have[min(n, int64(len(s.have))):]
}

// Next gives the next batch's header; the scanner then stands behind the batch. io.EOF at the limit, a
// *DamageError at the first bad byte, where the scanner stays.
func (s *scanner) Next() (record.BatchHeader, error) {
	if s.pos >= s.limit {
		return record.BatchHeader{}, io.EOF
	}
	if err := s.fill(record.HeaderSize); err != nil {
		return record.BatchHeader{}, err
	}
	if s.pos >= s.limit { // the file is shorter than its limit
		return record.BatchHeader{}, io.EOF
	}
	h, err := record.ParseHeader(s.have)
	if err != nil {
		d := s.damage(s.pos, "a record batch", s.describe(err))
		d.Cut = errors.Is(err, record.ErrTruncated)
		return h, d
	}
	size := int64(h.Size())
	switch {
	case s.pos+size > s.limit:
		d := s.damage(s.pos, fmt.Sprintf("a batch of %d bytes", size), fmt.Sprintf("only %d bytes", s.limit-s.pos))
		d.Cut = true
		return h, d
	case h.BaseOffset < s.next:
		return h, s.damage(s.pos, fmt.Sprintf("base offset %d or more", s.next), fmt.Sprint(h.BaseOffset))
	case !fits(s.base, h, s.pos):
		return h, s.damage(s.pos, fmt.Sprintf("an offset near %d", s.base), fmt.Sprint(h.LastOffset()))
	}
	if !s.crc {
		s.skip(size)
	} else if err := s.verify(h, size); err != nil {
		return h, err
	}
	s.next = h.LastOffset() + 1
	return h, nil
}

// verify computes the checksum piece by piece, so that a batch need not fit into memory.
func (s *scanner) verify(h record.BatchHeader, size int64) error {
	start, sum := s.pos, uint32(0)
	s.skip(crcStart)
	for left := size - crcStart; left > 0; {
		if err := s.fill(1); err != nil {
			return err
		}
		n := min(left, int64(len(s.have)))
		if n == 0 {
			break // the file became shorter while it was read
		}
		sum = crc32.Update(sum, s.table, s.have[:n])
		s.skip(n)
		left -= n
	}
	if sum != h.CRC {
		s.pos, s.have = start, nil
		return s.damage(start, fmt.Sprintf("CRC-32C %08x", h.CRC), fmt.Sprintf("%08x", sum))
	}
	return nil
}

func (s *scanner) damage(pos int64, expected, found string) *DamageError {
	return &DamageError{Finding: Finding{File: s.f.Name(), Offset: pos, Expected: expected, Found: found}}
}

// describe says what stands at the position instead of a batch.
func (s *scanner) describe(err error) string {
	head := s.have[:min(len(s.have), record.HeaderSize)]
	zero := true
	for _, c := range head {
		zero = zero && c == 0
	}
	switch {
	case zero:
		return fmt.Sprintf("zeros (%d bytes up to the end)", s.limit-s.pos)
	case errors.Is(err, record.ErrTruncated):
		return fmt.Sprintf("only %d bytes", s.limit-s.pos)
	default:
		return err.Error()
	}
}
