package local

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// keepBuffer is how large an encoding buffer may stay between groups.
const keepBuffer = 8 << 20

// errNoFile means that the next journal file could not be made. Nothing has changed: the present file goes on.
var errNoFile = errors.New("no new journal file")

// journal writes frames. Only the committer uses it, and after an error other than errNoFile nobody does.
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
	buf    []byte // frames that wait for flush
}

func newJournal(cfg *Config, dir string, seq uint64) *journal {
	return &journal{fs: cfg.FS, dir: dir, bytes: cfg.JournalBytes, clock: cfg.Clock, seq: seq}
}

// open makes the first file.
func (j *journal) open() error {
	f, key, err := j.make(j.seq)
	if err != nil {
		return err
	}
	j.begin(f, key)
	return nil
}

func (j *journal) begin(f vfs.File, key frameKey) {
	j.file, j.key, j.pos, j.synced = f, key, fileHeaderSize, fileHeaderSize
}

// make makes a file durable under its name, so that frames in it can be relied on.
func (j *journal) make(seq uint64) (vfs.File, frameKey, error) {
	salt, err := newSalt()
	if err != nil {
		return nil, frameKey{}, err
	}
	name := journalName(j.dir, seq)
	f, err := j.fs.Create(name)
	if err != nil {
		return nil, frameKey{}, fmt.Errorf("make journal: %w", err)
	}
	err = f.Preallocate(j.bytes)
	if err == nil {
		_, err = f.WriteAt(fileHeader(seq, j.clock().UnixMilli(), salt), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		// The file is without frames, which recovery takes for none.
		return nil, frameKey{}, errors.Join(fmt.Errorf("make journal: %w", err), f.Close(), j.fs.Remove(name))
	}
	return f, newFrameKey(seq, fileVersion, salt), nil
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
}

// flush writes and syncs the frames that were added.
func (j *journal) flush() error {
	if len(j.buf) == 0 {
		return nil
	}
	n, err := j.file.WriteAt(j.buf, j.pos)
	if err == nil {
		err = j.file.SyncData()
	}
	if err != nil {
		return fmt.Errorf("write journal at %d: %w", j.pos, err)
	}
	j.pos += int64(n)
	j.synced = j.pos
	if cap(j.buf) > keepBuffer {
		j.buf = nil
	}
	j.buf = j.buf[:0]
	return nil
}

// rotate makes the next file, closes the present one with an end frame and goes on in the next one. The next one
// comes first, so that a failure to make it (errNoFile) leaves a journal that can go on. A crash in between leaves
// a file without frames behind one without an end frame.
func (j *journal) rotate() error {
	next, key, err := j.make(j.seq + 1)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFile, err)
	}
	j.add(Frame{Kind: FrameEnd})
	if err := j.flush(); err != nil {
		return errors.Join(err, next.Close())
	}
	old := j.file
	j.seq++
	j.begin(next, key)
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
