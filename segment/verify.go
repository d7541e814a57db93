package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Verify reads a segment, named by its log file, and its indexes and tells what is wrong with them. It
// changes nothing. The error is for files that cannot be read; missing indexes are not a fault.
func Verify(fsys vfs.FS, name string) ([]Finding, error) { return VerifyTo(fsys, name, -1) }

// VerifyTo is Verify for the first size bytes of the log; -1 means all of it.
func VerifyTo(fsys vfs.FS, name string, size int64) ([]Finding, error) {
	return verify(fsys, name, size, true)
}

// VerifyLog is VerifyTo without the indexes. Those of a segment that was never sealed may be as a crash left them.
func VerifyLog(fsys vfs.FS, name string, size int64) ([]Finding, error) {
	return verify(fsys, name, size, false)
}

func verify(fsys vfs.FS, name string, size int64, indexes bool) ([]Finding, error) {
	base, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	f, err := fsys.OpenRead(name)
	if err != nil {
		return nil, fmt.Errorf("verify segment: %w", err)
	}
	defer f.Close()
	have, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("verify segment: %w", err)
	}
	v := &verifier{}
	if size > have {
		v.add(name, have, fmt.Sprintf("a length of %d bytes", size), fmt.Sprintf("%d bytes", have))
	}
	if size < 0 || size > have {
		size = have
	}
	if indexes {
		if err := v.openIndexes(fsys, path.Dir(name), base); err != nil {
			return nil, err
		}
	}
	return v.run(newScanner(f, EmptyInfo(base), size, true))
}

// verifier compares the indexes with the batches while the scan passes them.
type verifier struct {
	findings []Finding
	offsets  entryReader
	times    entryReader
}

func (v *verifier) add(file string, pos int64, expected, found string) {
	v.findings = append(v.findings, Finding{File: file, Offset: pos, Expected: expected, Found: found})
}

func (v *verifier) openIndexes(fsys vfs.FS, dir string, base record.Offset) error {
	v.offsets = entryReader{name: FileName(dir, base, IndexSuffix), size: offsetEntrySize}
	v.times = entryReader{name: FileName(dir, base, TimeIndexSuffix), size: timeEntrySize}
	for _, r := range []*entryReader{&v.offsets, &v.times} {
		odd, err := r.open(fsys)
		if err != nil {
			return err
		}
		if odd != 0 {
			v.add(r.name, int64(len(r.data)), fmt.Sprintf("entries of %d bytes", r.size), fmt.Sprintf("%d bytes left over", odd))
		}
	}
	return nil
}

func (v *verifier) run(s *scanner) ([]Finding, error) {
	maxTime := int64(-1)
	for {
		pos := s.pos
		h, err := s.Next()
		var damage *DamageError
		switch {
		case errors.Is(err, io.EOF):
			v.leftOver(s)
			return v.findings, nil
		case errors.As(err, &damage):
			v.findings = append(v.findings, damage.Finding)
			return v.findings, nil
		case err != nil:
			return nil, err
		}
		maxTime = max(maxTime, h.MaxTimestamp)
		v.checkOffsets(s, pos, h)
		v.checkTimes(s, h, maxTime)
	}
}

func (v *verifier) checkOffsets(s *scanner, pos int64, h record.BatchHeader) {
	for b := v.offsets.peek(); b != nil; b = v.offsets.peek() {
		e := getOffsetEntry(b)
		if int64(e.Pos) >= pos+int64(h.Size()) {
			return
		}
		if int64(e.Pos) != pos || s.base+record.Offset(e.Rel) < h.BaseOffset {
			v.add(v.offsets.name, v.offsets.pos, fmt.Sprintf("an entry for a batch; one begins at %d with offset %d", pos, h.BaseOffset),
				fmt.Sprintf("position %d, offset %d", e.Pos, s.base+record.Offset(e.Rel)))
		}
		v.offsets.next()
	}
}

func (v *verifier) checkTimes(s *scanner, h record.BatchHeader, maxTime int64) {
	for b := v.times.peek(); b != nil; b = v.times.peek() {
		e := getTimeEntry(b)
		if s.base+record.Offset(e.Rel) > h.LastOffset() {
			return
		}
		if e.Timestamp > maxTime {
			v.add(v.times.name, v.times.pos, fmt.Sprintf("a timestamp up to %d for offset %d", maxTime, s.base+record.Offset(e.Rel)),
				fmt.Sprint(e.Timestamp))
		}
		v.times.next()
	}
}

// leftOver reports index entries for batches that the log does not have.
func (v *verifier) leftOver(s *scanner) {
	size, err := s.f.Size()
	if err != nil || size > s.limit {
		return // only a part was verified
	}
	if b := v.offsets.peek(); b != nil {
		v.add(v.offsets.name, v.offsets.pos, fmt.Sprintf("positions below %d", s.limit), fmt.Sprint(getOffsetEntry(b).Pos))
	}
	if b := v.times.peek(); b != nil {
		v.add(v.times.name, v.times.pos, fmt.Sprintf("offsets below %d", s.next), fmt.Sprint(s.base+record.Offset(getTimeEntry(b).Rel)))
	}
}

// maxIndexFile bounds what is read of an index: the largest that positions of 31 bits can need.
const maxIndexFile = (1<<31/IndexInterval + 1) * timeEntrySize

// entryReader goes through an index file. The first zero entry, and all behind it, is preallocated space.
type entryReader struct {
	name string
	size int
	data []byte
	pos  int64
}

func (r *entryReader) open(fsys vfs.FS) (odd int64, err error) {
	f, err := fsys.OpenRead(r.name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("verify segment: %w", err)
	}
	size, err := f.Size()
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("verify segment: %w", err)
	}
	r.data, err = readIndex(fsys, r.name, maxIndexFile)
	return size % int64(r.size), err
}

func (r *entryReader) peek() []byte {
	if r.pos+int64(r.size) > int64(len(r.data)) {
		return nil
	}
	b := r.data[r.pos : r.pos+int64(r.size)]
	if isZero(b) {
		return nil
	}
	return b
}

func (r *entryReader) next() { r.pos += int64(r.size) }
