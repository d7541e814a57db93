package local

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// keepBuffer is how large an encoding buffer may stay between groups.
const keepBuffer = 8 << 20

// journal writes frames. Only the committer uses it, and after an error nobody does.
type journal struct {
	fs     vfs.FS
	dir    string
	bytes  int64 // size at which a file is full
	clock  func() time.Time
	file   vfs.File // nil until the first frame needs it
	seq    uint64   // of the file, or of the one to make
	key    frameKey
	pos    int64 // end of what was written
	synced int64
	buf    []byte // frames that wait for flush
}

func newJournal(cfg *Config, dir string, seq uint64) *journal {
	return &journal{fs: cfg.FS, dir: dir, bytes: cfg.JournalBytes, clock: cfg.Clock, seq: seq}
}

// open makes the next file durable under its name, so that frames in it can be relied on.
func (j *journal) open() error {
	salt, err := newSalt()
	if err != nil {
		return err
	}
	f, err := j.fs.Create(journalName(j.dir, j.seq))
	if err != nil {
		return fmt.Errorf("make journal: %w", err)
	}
	err = f.Preallocate(j.bytes)
	if err == nil {
		_, err = f.WriteAt(fileHeader(j.seq, j.clock().UnixMilli(), salt), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make journal: %w", err), f.Close())
	}
	j.file, j.pos, j.synced, j.key = f, fileHeaderSize, fileHeaderSize, newFrameKey(j.seq, fileVersion, salt)
	return nil
}

// add encodes a frame. A full file is closed first.
func (j *journal) add(f Frame) error {
	if j.file != nil && j.pos+int64(len(j.buf))+f.size()+frameHeaderSize > j.bytes && j.pos+int64(len(j.buf)) > fileHeaderSize {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if j.file == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	f.Synced = j.synced
	j.buf = appendFrame(j.buf, &f, &j.key)
	return nil
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

// rotate closes the file with an end frame; the next frame opens the next one.
func (j *journal) rotate() error {
	if j.file == nil {
		return nil
	}
	end := Frame{Kind: FrameEnd, Synced: j.synced}
	j.buf = appendFrame(j.buf, &end, &j.key)
	if err := j.flush(); err != nil {
		return err
	}
	err := j.file.Close()
	j.file = nil
	j.seq++
	if err != nil {
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
