package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Sizes of the entries of the two index files.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// offsetEntry says: the batch at Pos ends with offset base+Rel (or a later one of the same append does).
type offsetEntry struct{ Rel, Pos int32 }

// timeEntry says: up to offset base+Rel no timestamp is larger, and that offset's batch has it.
type timeEntry struct {
	Timestamp int64
	Rel       int32
}

func putOffsetEntry(b []byte, e offsetEntry) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.Rel))
	return binary.BigEndian.AppendUint32(b, uint32(e.Pos))
}

func getOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
}

func putTimeEntry(b []byte, e timeEntry) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Timestamp))
	return binary.BigEndian.AppendUint32(b, uint32(e.Rel))
}

func getTimeEntry(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
}

// indexer decides which batches get entries, as a Kafka broker does.
type indexer struct {
	info    Info
	since   int64 // bytes since the last entry
	offsets []offsetEntry
	times   []timeEntry
}

// add takes over the batch that was written at the end of the segment.
func (x *indexer) add(h record.BatchHeader) {
	if h.MaxTimestamp > x.info.MaxTimestamp {
		x.info.MaxTimestamp, x.info.MaxTimestampOffset = h.MaxTimestamp, h.LastOffset()
	}
	if x.since > IndexInterval {
		x.offsets = append(x.offsets, offsetEntry{int32(h.LastOffset() - x.info.Base), int32(x.info.Size)})
		x.addTime()
		x.since = 0
	}
	x.since += int64(h.Size())
	x.info.Size += int64(h.Size())
	x.info.Next = h.LastOffset() + 1
}

// addTime writes the largest timestamp down when it grew since the last entry.
func (x *indexer) addTime() {
	if x.info.MaxTimestamp < 0 {
		return
	}
	if n := len(x.times); n == 0 || x.info.MaxTimestamp > x.times[n-1].Timestamp {
		x.times = append(x.times, timeEntry{x.info.MaxTimestamp, int32(x.info.MaxTimestampOffset - x.info.Base)})
	}
}

// lookup finds entries in memory or in a file.
type lookup struct {
	offsets   []offsetEntry // of an active segment
	times     []timeEntry
	offFile   vfs.File // of a sealed one; nil when it is missing
	timeFile  vfs.File
	offCount  int
	timeCount int
}

// position gives where to start to look for the batch that holds rel.
func (l *lookup) position(rel int32) (int64, error) {
	if l.offFile == nil {
		i := sort.Search(len(l.offsets), func(i int) bool { return l.offsets[i].Rel > rel })
		if i == 0 {
			return 0, nil
		}
		return int64(l.offsets[i-1].Pos), nil
	}
	var buf [offsetEntrySize]byte
	var err error
	var pos int64
	i := sort.Search(l.offCount, func(i int) bool {
		e, rerr := l.offsetAt(i, buf[:])
		err = errors.Join(err, rerr)
		return e.Rel > rel
	})
	if i > 0 && err == nil {
		var e offsetEntry
		e, err = l.offsetAt(i-1, buf[:])
		pos = int64(e.Pos)
	}
	return pos, err
}

func (l *lookup) offsetAt(i int, buf []byte) (offsetEntry, error) {
	if _, err := l.offFile.ReadAt(buf, int64(i)*offsetEntrySize); err != nil {
		return offsetEntry{}, fmt.Errorf("read index: %w", err)
	}
	return getOffsetEntry(buf), nil
}

func (l *lookup) timeAt(i int, buf []byte) (timeEntry, error) {
	if l.timeFile == nil {
		return l.times[i], nil
	}
	if _, err := l.timeFile.ReadAt(buf, int64(i)*timeEntrySize); err != nil {
		return timeEntry{}, fmt.Errorf("read time index: %w", err)
	}
	return getTimeEntry(buf), nil
}

// below gives an offset up to which all timestamps are below ms, -1 when none is known.
func (l *lookup) below(ms int64) (int32, error) {
	n := len(l.times)
	if l.timeFile != nil {
		n = l.timeCount
	}
	var buf [timeEntrySize]byte
	var err error
	i := sort.Search(n, func(i int) bool {
		e, rerr := l.timeAt(i, buf[:])
		err = errors.Join(err, rerr)
		return e.Timestamp >= ms
	})
	if i == 0 || err != nil {
		return -1, err
	}
	e, err := l.timeAt(i-1, buf[:])
	return e.Rel, err
}

// openIndex opens an index file and counts its entries without the zeros that a broker preallocates. A
// missing file gives nil.
func openIndex(fsys vfs.FS, name string, entry int) (vfs.File, int, error) {
	f, err := fsys.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open index: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open index: %w", err)
	}
	var buf [timeEntrySize]byte
	n := sort.Search(int(size)/entry, func(i int) bool {
		b := buf[:entry]
		if _, rerr := f.ReadAt(b, int64(i)*int64(entry)); rerr != nil {
			err = errors.Join(err, rerr)
			return true
		}
		return isZero(b)
	})
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	return f, n, nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// loadOffsets reads the entries of an index file that lie in the first size bytes of the log. ok is false
// when they do not grow as they must, or when entries are missing: then the file is not to be trusted.
func loadOffsets(fsys vfs.FS, name string, size int64) (out []offsetEntry, ok bool, err error) {
	b, err := readIndex(fsys, name, size/IndexInterval*offsetEntrySize)
	if err != nil || b == nil {
		return nil, false, err
	}
	last := offsetEntry{-1, 0}
	for ; len(b) >= offsetEntrySize; b = b[offsetEntrySize:] {
		e := getOffsetEntry(b)
		if int64(e.Pos) >= size || e == (offsetEntry{}) {
			break
		}
		if e.Rel <= last.Rel || e.Pos <= last.Pos {
			return nil, false, nil
		}
		out, last = append(out, e), e
	}
	return out, true, nil
}

// loadTimes reads the entries of a time index up to offset base+next.
func loadTimes(fsys vfs.FS, name string, size int64, next int32) (out []timeEntry, ok bool, err error) {
	b, err := readIndex(fsys, name, (size/IndexInterval+1)*timeEntrySize)
	if err != nil || b == nil {
		return nil, false, err
	}
	last := timeEntry{-1, -1}
	for ; len(b) >= timeEntrySize; b = b[timeEntrySize:] {
		e := getTimeEntry(b)
		if e.Rel >= next || e == (timeEntry{}) && len(out) > 0 {
			break
		}
		if e.Timestamp <= last.Timestamp || e.Rel < last.Rel {
			return nil, false, nil
		}
		out, last = append(out, e), e
	}
	return out, true, nil
}

// readIndex reads at most limit bytes, which is all that an index of the log's size can hold; nil when the
// file is missing.
func readIndex(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	b := make([]byte, min(size, limit))
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return b[:n], nil
}
