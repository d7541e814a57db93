package local

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

const (
	writeBytes = 1 << 20        // frames are written when so much of them waits, and synced as a group
	keepBuffer = 2 * writeBytes // how large their buffer may stay between groups

	// Behind a small group so many zeros are written, before they are frames. The first write to preallocated disk space
	// changes metadata, for which a sync waits longer than for data; so one sync in many does. Large groups are their own.
	aheadBytes = 1 << 20
	aheadGroup = 64 << 10

	pageBytes = 4 << 10 // of the page cache, on the machines that matter
)

var zeros [aheadBytes]byte

// errNoFile means that the next journal file could not be made. Nothing has changed: the present file goes on.
var errNoFile = errors.New("no new journal file")

// journal writes frames. Only the committer uses it, but for its spares, and after an error other than errNoFile nobody does.
type journal struct {
	fs     vfs.FS
	dir    string
	bytes  int64 // size at which a file is full
	clock  func() time.Time
	file   vfs.File // nil before open
	seq    uint64   // of the file, or of the one to make
	key    frameKey
	pos    int64 // end of what was written
	synced int64
	ahead  int64  // up to here the disk blocks were written: by zeros behind pos, or in an earlier life of the file
	buf    []byte // frames that wait to be written
	err    error  // of a write before flush
	spares spares
	giving sync.Mutex // spares go back; only the spares' own lock is taken under it
}

// madeFile has a durable header and no frames.
type madeFile struct {
	vfs.File
	key     frameKey
	written int64 // see journal.ahead
}

func newJournal(cfg *Config, dir string, seq uint64) *journal {
	return &journal{fs: cfg.FS, dir: dir, bytes: cfg.JournalBytes, clock: cfg.Clock, seq: seq}
}

// open makes the first file.
func (j *journal) open() error {
	f, err := j.make(j.seq)
	if err != nil {
		return err
	}
	j.begin(f)
	return nil
}

func (j *journal) begin(f *madeFile) {
	j.file, j.key, j.pos, j.synced, j.ahead = f.File, f.key, fileHeaderSize, fileHeaderSize, f.written
}

// make makes a file durable under its name, so that frames in it can be relied on: from a spare where there is one.
func (j *journal) make(seq uint64) (*madeFile, error) {
	m, err := j.tryMake(seq)
	if j.madeRoom(err) { // the first spare was of no use, others are room
		m, err = j.tryMake(seq)
	}
	return m, err
}

func (j *journal) tryMake(seq uint64) (*madeFile, error) {
	salt, err := newSalt()
	if err != nil {
		return nil, err
	}
	name, header := journalName(j.dir, seq), fileHeader(seq, j.clock().UnixMilli(), salt)
	m := &madeFile{key: newFrameKey(seq, fileVersion, salt)}
	if m.File, m.written = j.renew(name, header); m.File == nil {
		if m.File, err = j.fs.Create(name); err != nil {
			return nil, fmt.Errorf("make journal: %w", err)
		}
		m.written, err = fileHeaderSize, j.fill(m.File, header)
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		// The file is without frames, which recovery takes for none.
		return nil, errors.Join(fmt.Errorf("make journal: %w", err), m.Close(), j.fs.Remove(name))
	}
	return m, nil
}

// fill gives a fresh file its disk space and its header.
func (j *journal) fill(f vfs.File, header []byte) error {
	if err := f.Preallocate(j.bytes); err != nil {
		return err
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return err
	}
	return f.Sync()
}

// full tells whether a frame of so many bytes belongs into the next file.
func (j *journal) full(size int64) bool {
	at := j.pos + int64(len(j.buf))
	return at > fileHeaderSize && at+size+frameHeaderSize > j.bytes
}

// add encodes a frame. The file may have become larger than it should be when the next one cannot be made.
func (j *journal) add(f Frame) {
	f.Synced = j.synced
	j.buf = appendFrame(j.buf, &f, &j.key)
	if len(j.buf) >= writeBytes && j.err == nil {
		j.err = j.write(0)
	}
}

// write writes what waits, and zeros behind it, so that a large group is never in memory as a whole. Until flush it may be torn.
func (j *journal) write(pad int64) error {
	j.buf = append(j.buf, zeros[:pad]...)
	n, err := j.file.WriteAt(j.buf, j.pos)
	if j.madeRoom(err) { // behind the file's size, or where nothing is preallocated
		n, err = j.file.WriteAt(j.buf, j.pos)
	}
	if err != nil {
		return fmt.Errorf("write journal at %d: %w", j.pos, err)
	}
	j.pos += int64(n) - pad
	if cap(j.buf) > keepBuffer {
		j.buf = nil
	}
	j.buf = j.buf[:0]
	return nil
}

// flush writes and syncs the frames that were added.
func (j *journal) flush() error {
	if j.err != nil {
		return j.err
	}
	if len(j.buf) > 0 {
		end := j.pos + int64(len(j.buf))
		if j.pos == j.synced {
			j.writeAhead(end)
		}
		if err := j.write(j.padding(end)); err != nil {
			return err
		}
	}
	if j.pos == j.synced {
		return nil
	}
	if err := j.file.SyncData(); err != nil {
		return fmt.Errorf("sync journal at %d: %w", j.pos, err)
	}
	j.synced = j.pos
	return nil
}

// padding is how many zeros go with a group that will end at end, where the file has blocks of an earlier life: a page that is
// written in part is read from the disk first, when memory was wanted for something else since. What they overwrite is of
// no use.
func (j *journal) padding(end int64) int64 {
	if end >= j.ahead {
		return 0
	}
	return min(-end&(pageBytes-1), j.bytes-end)
}

// writeAhead writes zeros behind a group that will end at end, where nothing was written yet. They are what the file holds
// there anyway, so no matter what a crash leaves of them, and a fault is for the frames' own write to meet.
func (j *journal) writeAhead(end int64) {
	if len(j.buf) > aheadGroup || end <= j.ahead || end >= j.bytes {
		return
	}
	j.ahead = min(end+aheadBytes, j.bytes)
	_, _ = j.file.WriteAt(zeros[:j.ahead-end], end)
}

// rotate makes the next file, closes the present one with an end frame and goes on in the next one. The next one
// comes first, so that a failure to make it (errNoFile) leaves a journal that can go on. A crash in between leaves
// a file without frames behind one without an end frame.
func (j *journal) rotate() error {
	next, err := j.make(j.seq + 1)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFile, err)
	}
	j.add(Frame{Kind: FrameEnd})
	if err := j.flush(); err != nil {
		return errors.Join(err, next.Close())
	}
	old := j.file
	if j.pos <= j.bytes { // a larger one is of no use as a spare
		j.spares.add(closedFile{j.seq, max(j.pos, j.ahead)})
	}
	j.seq++
	j.begin(next)
	if err := old.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
