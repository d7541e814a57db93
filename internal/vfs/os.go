package vfs

import (
	"io/fs"
	"os"
)

// osFS is the file system of the operating system.
type osFS struct{}

var _ FS = osFS{}

// OS gives the file system of the operating system.
func OS() FS { return osFS{} }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func wrapFile(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Create makes a file, empty, and opens it for reading and writing.
func (osFS) Create(name string) (File, error) {
	return wrapFile(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644))
}

// Open opens a file that exists for reading and writing.
func (osFS) Open(name string) (File, error) { return wrapFile(os.OpenFile(name, os.O_RDWR, 0)) }

// OpenRead opens a file for reading.
func (osFS) OpenRead(name string) (File, error) { return wrapFile(os.Open(name)) }

// Remove removes a file or an empty directory.
func (osFS) Remove(name string) error { return os.Remove(name) }

// RemoveAll removes a tree; a missing one is no error.
func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename moves a file over newName.
func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Link gives a file a second name.
func (osFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

// MkdirAll makes a directory and its parents.
func (osFS) MkdirAll(name string) error { return os.MkdirAll(name, 0o755) }

// ReadDir lists a directory by name.
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat describes a file.
func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir makes the names in a directory durable.
func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
