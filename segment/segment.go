// Package segment reads and writes Kafka's own log files, byte for byte: a log of v2 record batches
// (<base offset, 20 digits>.log), an offset index (.index) and a time index (.timeindex) beside it, and an index of
// aborted transactions (.txnindex) where there are some. Kafka's tools read what this package writes, and it reads what a Kafka broker wrote.
//
// A Writer is not safe for concurrent use; a Reader is, and one taken from a Writer may be used while the
// Writer appends: it sees what was there when it was taken. Damage is a *DamageError that names the file and
// the position. Indexes only make reading faster: they are checked when they are opened and built again from
// the log when they do not fit it. Nothing is durable before Sync; after a crash, OpenWriter continues at a
// length that the caller knows to be good, and Extend takes over the whole batches behind it.
package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Suffixes of the files of a segment.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
)

// IndexInterval is how many bytes of log come between two index entries (index.interval.bytes).
const IndexInterval = 4096

// Errors of this package.
var (
	// ErrFull means that a batch does not fit the 32-bit offsets and positions of a segment's indexes.
	ErrFull = errors.New("segment is full")
	// ErrOrder means that a batch was appended whose offsets do not lie behind those of the segment.
	ErrOrder = errors.New("batch does not follow the end of the segment")
	// ErrName means that a file name is not that of a segment.
	ErrName = errors.New("not the name of a segment")
)

// Finding is one fault of a file.
type Finding struct {
	File     string
	Offset   int64 // byte position in the file
	Expected string
	Found    string
}

// String gives the line that the check command prints.
func (f Finding) String() string {
	return fmt.Sprintf("%s: at byte %d: expected %s, found %s", f.File, f.Offset, f.Expected, f.Found)
}

// DamageError is a Finding that stopped an operation.
type DamageError struct {
	Finding
	Cut bool // a batch, or its header, goes beyond the end of the file
}

func (e *DamageError) Error() string { return "damaged file: " + e.String() }

// Info describes the good part of a segment.
type Info struct {
	Base               record.Offset // offset that names the files; the first batch may begin above it
	Next               record.Offset // behind the last batch
	Size               int64         // bytes of log
	MaxTimestamp       int64         // -1 when the segment is empty
	MaxTimestampOffset record.Offset // last offset of the first batch that has it
	Aborted            int           `json:",omitempty"` // aborted transactions whose marker is in the segment
}

// EmptyInfo describes a segment without batches.
func EmptyInfo(base record.Offset) Info {
	return Info{Base: base, Next: base, MaxTimestamp: -1, MaxTimestampOffset: base}
}

// FileName gives the path of one file of a segment.
func FileName(dir string, base record.Offset, suffix string) string {
	return path.Join(dir, fmt.Sprintf("%020d%s", int64(base), suffix))
}

// ParseName gives the base offset in the name of a log file.
func ParseName(name string) (record.Offset, error) {
	digits, ok := strings.CutSuffix(path.Base(name), LogSuffix)
	if !ok || len(digits) != 20 {
		return 0, fmt.Errorf("%w: %s", ErrName, name)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s", ErrName, name)
	}
	return record.Offset(n), nil
}

// List gives the base offsets of the segments in a directory, ascending. Other files are left out.
func List(fsys vfs.FS, dir string) ([]record.Offset, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var out []record.Offset
	for _, e := range entries { // sorted by name, and the names have a fixed width
		if base, err := ParseName(e.Name()); err == nil && !e.IsDir() {
			out = append(out, base)
		}
	}
	return out, nil
}

// Remove removes the files of a segment. Files that are gone already are no error. The log goes last, so
// that what an interrupted call leaves is still listed.
func Remove(fsys vfs.FS, dir string, base record.Offset) error {
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix, TxnIndexSuffix, LogSuffix} {
		if err := fsys.Remove(FileName(dir, base, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	return nil
}

// fits tells whether a batch can be indexed at a position of a segment.
func fits(base record.Offset, h record.BatchHeader, pos int64) bool {
	return h.LastOffset()-base <= math.MaxInt32 && pos+int64(h.Size()) <= math.MaxInt32
}
