package vfs

import (
	"errors"
	"os"
	"syscall"
)

// SyncData is fdatasync: it does not wait for times and other metadata that reading does not need.
func (f osFile) SyncData() error {
	var err error
	for {
		err = syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return os.NewSyscallError("fdatasync", err)
}

// Preallocate is fallocate, or a plain truncate on file systems that have none.
func (f osFile) Preallocate(size int64) error {
	old, err := f.Size()
	if err != nil || old >= size {
		return err
	}
	for {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return f.Truncate(size)
	}
	return os.NewSyscallError("fallocate", err)
}
