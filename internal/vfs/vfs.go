// Package vfs is the file system below every file format of this project; nothing else touches data files.
//
// Three implementations: OS is the real one; Mem keeps files in memory and can lose what was not synced, as
// a power cut does; Inject wraps another one and fails chosen operations. All are safe for concurrent use.
// A write is durable after Sync or SyncData of its file, a name after SyncDir of its directory, and not
// before: code that holds against Mem with Crash holds on file systems that promise no more than POSIX.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// ErrLocked is returned by Lock when another holder, in this or another process, has the lock.
var ErrLocked = errors.New("locked by another process")

// ErrUnknownOutcome is wrapped by WriteFileAtomic when it failed so late that after a crash the new content may
// be there as well as the old.
var ErrUnknownOutcome = errors.New("it is not known whether the change was made")

// File is an open file. ReadAt and WriteAt may run concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Writer // appends at the file's own position
	io.Closer
	Truncate(size int64) error
	Sync() error     // fsync
	SyncData() error // fdatasync: data and the size needed to read it
	// SyncPaced is SyncData for who is in no hurry: a large file goes to the disk piece by piece, so that syncs of others need
	// not wait for it as a whole. An error may be one that no later sync is told of.
	SyncPaced() error
	Size() (int64, error)
	Name() string
	// Preallocate reserves disk blocks up to size without changing what reads return beyond the old size
	// except that the file grows with zeros.
	Preallocate(size int64) error
}

// FS is a file system. Names use slashes.
type FS interface {
	Create(name string) (File, error) // truncates what is there
	Open(name string) (File, error)   // read-write; fs.ErrNotExist
	OpenRead(name string) (File, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(oldName, newName string) error // replaces newName
	Link(oldName, newName string) error   // fs.ErrExist when newName exists
	MkdirAll(name string) error
	ReadDir(name string) ([]fs.DirEntry, error) // sorted by name
	Stat(name string) (fs.FileInfo, error)
	SyncDir(name string) error
	// Space says how large the file system is that a name is in, and what is left of it for this process. What was written and
	// is not on the disk yet counts as taken. errors.ErrUnsupported where nobody knows.
	Space(name string) (Space, error)
	// Lock takes the exclusive lock of a file, made when missing; ErrLocked when it is held. Close of the
	// result, or the end of the process, gives it back.
	Lock(name string) (io.Closer, error)
}

// Space is that of a file system, in bytes.
type Space struct{ Total, Free int64 }

// ReadFile reads a whole file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// WriteFileAtomic replaces name with a file that holds data, so that after a crash either the old or the
// new content is there, whole. It returns when the new content is durable. After an error without
// ErrUnknownOutcome the old content is still there.
func WriteFileAtomic(fsys FS, dir, name string, data []byte) error {
	tmp := dir + "/" + name + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(tmp) // on a full disk it has the last bytes
		return err
	}
	err = fsys.Rename(tmp, dir+"/"+name)
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return nil
}

// MakeDirs makes a directory, those above it, and folders in it, where they are not there. Their names are durable when it
// returns.
func MakeDirs(fsys FS, dir string, folders ...string) error {
	var missing []string
	for d := path.Clean(dir); ; d = path.Dir(d) {
		if _, err := fsys.Stat(d); err == nil || d == path.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, f := range folders {
		if err := fsys.MkdirAll(path.Join(dir, f)); err != nil {
			return err
		}
	}
	for _, d := range missing {
		if err := fsys.SyncDir(path.Dir(d)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir) // also of folders that were there: who made them may have ended before this
}
