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

// pacedBytes is what SyncPaced has on its way to the disk at a time.
const pacedBytes = 2 << 20

// Flags of sync_file_range(2): wait for what is on its way, begin with what is dirty, wait for that.
const syncRange = 0x1 | 0x2 | 0x4

// SyncPaced writes dirty pages out in pieces, for which nothing becomes durable, and then is SyncData. A failed write is told
// once for a descriptor, by the piece then and not by the fdatasync behind it.
func (f osFile) SyncPaced() error {
	size, err := f.Size()
	for at := int64(0); err == nil && at < size; at += pacedBytes {
		for {
			err = syscall.SyncFileRange(int(f.Fd()), at, pacedBytes, syncRange)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ESPIPE) {
			return f.SyncData()
		}
		err = os.NewSyscallError("sync_file_range", err)
	}
	if err != nil {
		return err
	}
	return f.SyncData()
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
