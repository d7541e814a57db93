package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/segment"
)

// journalReader reads the frames of one journal file.
type journalReader struct {
	f      vfs.File
	size   int64
	seq    uint64
	key    frameKey
	pos    int64
	head   [frameHeaderSize]byte
	buf    []byte
	summed int64 // bytes of payload that were read
	ended  bool  // an end frame was read
	empty  bool  // the file has no whole header
}

// openJournal opens a file and checks its header. A header that is not there at all, as a crash right after
// a fresh file was made leaves it, is an empty file; one of another format or version is an error.
func openJournal(fsys vfs.FS, name string, seq uint64) (*journalReader, error) {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	r := &journalReader{f: f, seq: seq}
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *journalReader) readHeader() error {
	var err error
	if r.size, err = r.f.Size(); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	b := make([]byte, fileHeaderSize)
	n, err := r.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("open journal: %w", err)
	}
	r.pos = fileHeaderSize
	version := binary.BigEndian.Uint32(b[8:])
	good := headerCRC(b, version) == binary.BigEndian.Uint32(b[32:])
	if n < fileHeaderSize || !good {
		// The header is durable before the first frame is written: without frames it may be torn.
		if r.empty, err = r.zeroFrom(fileHeaderSize); r.empty || err != nil {
			return err
		}
	}
	switch {
	case string(b[:8]) != fileMagic:
		return r.damage(0, "a journal of ledgerlake", fmt.Sprintf("%q", b[:8]))
	case version < 1 || version > fileVersion:
		return r.damage(8, fmt.Sprintf("version 1 to %d", fileVersion), fmt.Sprint(version))
	case !good:
		return r.damage(32, "the header's CRC-32C", fmt.Sprintf("%08x", binary.BigEndian.Uint32(b[32:])))
	case binary.BigEndian.Uint64(b[16:]) != r.seq:
		return r.damage(16, fmt.Sprintf("sequence number %d", r.seq), fmt.Sprint(binary.BigEndian.Uint64(b[16:])))
	}
	r.key = newFrameKey(r.seq, version, [16]byte(b[36:52]))
	return nil
}

// zeroFrom tells whether only zeros follow a position.
func (r *journalReader) zeroFrom(pos int64) (bool, error) {
	window := make([]byte, 64<<10)
	for pos < r.size {
		n, err := r.f.ReadAt(window, pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("open journal: %w", err)
		}
		for _, c := range window[:n] {
			if c != 0 {
				return false, nil
			}
		}
		if n == 0 {
			break
		}
		pos += int64(n)
	}
	return true, nil
}

func (r *journalReader) damage(pos int64, expected, found string) error {
	return &segment.DamageError{Finding: segment.Finding{File: r.f.Name(), Offset: pos, Expected: expected, Found: found}}
}

// errTorn means that no good frame stands at a position.
var errTorn = errors.New("no frame")

// at reads the frame at a position; errTorn when there is none.
func (r *journalReader) at(pos int64) (Frame, error) {
	if pos+frameHeaderSize > r.size {
		return Frame{}, errTorn
	}
	if _, err := r.f.ReadAt(r.head[:], pos); err != nil {
		return Frame{}, fmt.Errorf("read journal: %w", err)
	}
	f, n, crc := decodeFrameHeader(r.head[:])
	if binary.BigEndian.Uint32(r.head[:]) != r.key.magic || n > r.size-pos-frameHeaderSize || f.Synced > pos {
		return Frame{}, errTorn
	}
	if int64(cap(r.buf)) < n { // bounded by the file's size
		r.buf = make([]byte, n)
	}
	f.Payload, f.Position = r.buf[:n], pos
	if _, err := r.f.ReadAt(f.Payload, pos+frameHeaderSize); err != nil && n > 0 {
		return Frame{}, fmt.Errorf("read journal: %w", err)
	}
	r.summed += n
	if r.key.sum(r.head[12:], f.Payload) != crc {
		return Frame{}, errTorn
	}
	return f, nil
}

// Next gives the next frame. io.EOF at the end: after an end frame, or where the last write was torn. A bad
// frame that was durable once is a *segment.DamageError.
func (r *journalReader) Next() (Frame, error) {
	if r.ended || r.empty {
		return Frame{}, io.EOF
	}
	f, err := r.at(r.pos)
	if errors.Is(err, errTorn) {
		return f, r.checkTorn()
	}
	if err != nil {
		return f, err
	}
	r.pos += f.size()
	if f.Kind == FrameEnd {
		r.ended = true
		return f, io.EOF
	}
	return f, nil
}

// checkEnd is called at the end of the frames. A file without an end frame is complete only as the last one that
// has frames: the first frame of a file is written when its predecessor is closed and durable.
func (r *journalReader) checkEnd(fsys vfs.FS, dir string, later []uint64) error {
	if r.ended {
		return nil
	}
	for _, seq := range later {
		next, err := openJournal(fsys, journalName(dir, seq), seq)
		if err != nil {
			return err
		}
		_, err = next.Next()
		ended := next.ended
		if cerr := next.Close(); cerr != nil {
			return fmt.Errorf("read journal: %w", cerr)
		}
		if err == nil || ended {
			return r.damage(r.pos, "a frame, since a later file has some", "none")
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// maxCandidates bounds the search for frames behind a bad one. Bytes look like the magic of a frame by accident
// once in 4 GiB; only a file without a salt can be full of them, when somebody has sent them on purpose (I8).
const (
	maxCandidates      = 1 << 16
	maxCandidatesBytes = 1 << 30
)

// checkTorn looks for a good frame behind a bad one that says that the bad one was durable.
func (r *journalReader) checkTorn() error {
	bad := r.pos
	magic := binary.BigEndian.AppendUint32(nil, r.key.magic)
	candidates, summed := 0, r.summed
	window := make([]byte, 64<<10)
	for at := bad + 1; at < r.size; at += int64(len(window) - len(magic) + 1) {
		n, err := r.f.ReadAt(window, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read journal: %w", err)
		}
		for i := range indexAll(window[:n], magic) {
			f, err := r.at(at + int64(i))
			if err == nil && f.Synced > bad {
				return r.damage(bad, "a frame: one at "+fmt.Sprint(f.Position)+" says that it was durable", "none")
			}
			if err != nil && !errors.Is(err, errTorn) {
				return err
			}
			if candidates++; candidates > maxCandidates || r.summed-summed > maxCandidatesBytes {
				return r.damage(bad, "a frame, or no more of them", fmt.Sprintf("%d that are none", candidates))
			}
		}
	}
	return io.EOF
}

// indexAll gives the positions of a pattern.
func indexAll(b, pattern []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i+len(pattern) <= len(b); i++ {
			if b[i] == pattern[0] && string(b[i:i+len(pattern)]) == string(pattern) && !yield(i) {
				return
			}
		}
	}
}

func (r *journalReader) Close() error { return r.f.Close() }
