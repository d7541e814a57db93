package vfs

import (
	"io"
	"io/fs"
)

// File is an open file. ReadAt and WriteAt may run concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Writer // appends at the file's own position
	io.Closer
	Truncate(size int64) error
	Sync() error     // fsync
	SyncData() error // fdatasync: data and the size needed to read it
	Size() (int64, error)
	Name() string
	// Preallocate reserves disk blocks up to size without changing what reads return beyond the old size
	// except that the file grows with zeros.
	Preallocate(size int64) error
}

// FS is the file system below every file format of this project. Nothing else touches data files.
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
}
