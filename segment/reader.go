package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// headWindow is how much a walk from header to header reads at once.
const headWindow = 1024

// Reader reads one segment. It is safe for concurrent use.
type Reader struct {
	log   *shared
	info  Info // Size bounds the reads; Next is not known for a segment that Open opened
	look  lookup
	owned bool
}

// Open opens a segment for reading. Missing indexes make it slower, not wrong.
func Open(fsys vfs.FS, dir string, base record.Offset) (*Reader, error) {
	f, err := fsys.OpenRead(FileName(dir, base, LogSuffix))
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	r := &Reader{log: share(f), info: Info{Base: base}, owned: true}
	r.info.Size, err = f.Size()
	if err == nil {
		r.look.offFile, r.look.offCount, err = openIndex(fsys, FileName(dir, base, IndexSuffix), offsetEntrySize)
	}
	if err == nil {
		r.look.timeFile, r.look.timeCount, err = openIndex(fsys, FileName(dir, base, TimeIndexSuffix), timeEntrySize)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open segment: %w", err), r.Close())
	}
	return r, nil
}

// Limit makes the reader stop at a length that is known to be good.
func (r *Reader) Limit(size int64) { r.info.Size = min(r.info.Size, size) }

// Size is how many bytes of log the reader sees.
func (r *Reader) Size() int64 { return r.info.Size }

// Close closes the files; on a reader that a Writer gave it does nothing.
func (r *Reader) Close() error {
	if !r.owned {
		return nil
	}
	err := r.log.Close()
	if r.look.offFile != nil {
		err = errors.Join(err, r.look.offFile.Close())
	}
	if r.look.timeFile != nil {
		err = errors.Join(err, r.look.timeFile.Close())
	}
	return err
}

// Read gives whole batches from the one that holds offset from, or the first behind it. It stops before
// maxBytes, but gives at least one batch. io.EOF when the segment has nothing at or behind from.
func (r *Reader) Read(from record.Offset, maxBytes int) ([]byte, error) {
	pos, h, err := r.find(from)
	if err != nil {
		return nil, err
	}
	size := min(int64(max(maxBytes, h.Size())), r.info.Size-pos)
	buf := make([]byte, size)
	n, err := r.log.ReadAt(buf, pos)
	if n < len(buf) {
		return nil, fmt.Errorf("read segment: %w", noEOF(err))
	}
	end := h.Size()
	for end < len(buf) {
		next, err := record.ReadBatch(buf[end:])
		if errors.Is(err, record.ErrTruncated) {
			break
		}
		if err != nil {
			return nil, r.damage(pos+int64(end), err)
		}
		end += next.Size()
	}
	return buf[:end:end], nil
}

// find gives the position and header of the first batch that ends at or behind an offset.
func (r *Reader) find(from record.Offset) (int64, record.BatchHeader, error) {
	start, err := r.look.position(maxRel(from, r.info.Base))
	if err == nil && start > 0 {
		pos, h, err := r.walk(start, func(h record.BatchHeader) bool { return h.LastOffset() >= from })
		if err == nil {
			return pos, h, nil
		}
	}
	// At the start, or the index led astray: the log itself decides.
	return r.walk(0, func(h record.BatchHeader) bool { return h.LastOffset() >= from })
}

// walk goes from header to header until stop says so. io.EOF at the end.
func (r *Reader) walk(pos int64, stop func(record.BatchHeader) bool) (int64, record.BatchHeader, error) {
	var window [headWindow]byte
	var at int64 // of window in the file
	have := 0
	for pos < r.info.Size {
		if pos < at || pos+record.HeaderSize > at+int64(have) {
			n, err := r.log.ReadAt(window[:min(headWindow, r.info.Size-pos)], pos)
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, record.BatchHeader{}, fmt.Errorf("read segment: %w", err)
			}
			at, have = pos, n
		}
		h, err := record.ParseHeader(window[pos-at : have])
		if err == nil && pos+int64(h.Size()) > r.info.Size {
			err = record.ErrTruncated
		}
		if err != nil {
			return 0, h, r.damage(pos, err)
		}
		if stop(h) {
			return pos, h, nil
		}
		pos += int64(h.Size())
	}
	return 0, record.BatchHeader{}, io.EOF
}

// Finder gives the first record of a batch at or after both an offset and a time in ms; -1 where there is none. A caller that
// bounds what look-ups hold has one of its own (I8).
type Finder func(b record.Batch, from record.Offset, ms int64) (record.Offset, error)

func findFirst(b record.Batch, from record.Offset, ms int64) (record.Offset, error) {
	o, _, err := record.FirstAt(b, from, ms)
	return o, err
}

// OffsetForTime gives the offset of the first record whose timestamp is at or after ms; false when there is
// none. Offsets below from are not looked at. find looks into batches; nil for record.FirstAt.
func (r *Reader) OffsetForTime(ms int64, from record.Offset, find Finder) (record.Offset, bool, error) {
	if find == nil {
		find = findFirst
	}
	rel, err := r.look.below(ms)
	if err != nil {
		return 0, false, err
	}
	start, err := r.look.position(max(rel, maxRel(from, r.info.Base)))
	if err != nil {
		return 0, false, err
	}
	for {
		pos, h, err := r.walk(start, func(h record.BatchHeader) bool {
			return h.MaxTimestamp >= ms && h.LastOffset() >= from
		})
		if errors.Is(err, io.EOF) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		o, ok, err := r.inBatch(pos, h, ms, from, find)
		if ok || err != nil {
			return o, ok, err
		}
		start = pos + int64(h.Size())
	}
}

func (r *Reader) inBatch(pos int64, h record.BatchHeader, ms int64, from record.Offset, find Finder) (record.Offset, bool, error) {
	raw := make([]byte, h.Size())
	if _, err := r.log.ReadAt(raw, pos); err != nil {
		return 0, false, fmt.Errorf("read segment: %w", noEOF(err))
	}
	b := record.Batch{BatchHeader: h, Raw: raw}
	if err := b.VerifyCRC(); err != nil {
		return 0, false, r.damage(pos, err)
	}
	o, err := find(b, from, ms)
	if errors.Is(err, record.ErrCorrupt) {
		return max(h.BaseOffset, from), true, nil // cannot be told apart; the reader will say what is wrong
	}
	return o, o >= 0, err
}

func (r *Reader) damage(pos int64, err error) error {
	return &DamageError{Finding: Finding{File: r.log.Name(), Offset: pos, Expected: "a record batch", Found: err.Error()}}
}

func noEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
