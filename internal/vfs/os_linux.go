package vfs

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// Space is statfs. Whoever writes takes what it reserves, also before its pages have blocks on the disk.
func (osFS) Space(name string) (Space, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(name, &st)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return Space{}, &os.PathError{Op: "statfs", Path: name, Err: err}
		}
		break
	}
	if st.Blocks == 0 { // of a file system that counts nothing
		return Space{}, &os.PathError{Op: "statfs", Path: name, Err: errors.ErrUnsupported}
	}
	return spaceOf(&st), nil
}

// spaceOf counts in fragments. A block may be what reads are best made of: virtiofs says 1 MiB, of files in 4 KiB.
func spaceOf(st *syscall.Statfs_t) Space {
	unit := int64(st.Frsize)
	if unit == 0 { // of an old file system
		unit = int64(st.Bsize)
	}
	total := bytesOf(st.Blocks, unit)
	return Space{Total: total, Free: min(bytesOf(st.Bavail, unit), total)}
}

// bytesOf clamps what does not go into 63 bits, such as the ^0 blocks of a file system without an end.
func bytesOf(blocks uint64, unit int64) int64 {
	if unit <= 0 {
		return 0
	}
	return int64(min(blocks, uint64(math.MaxInt64/unit))) * unit
}

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
	if err != nil {
		return err
	}
	return paced(size, func(at int64) error { return syscall.SyncFileRange(int(f.Fd()), at, pacedBytes, syncRange) }, f.SyncData)
}

// paced does each piece and then the whole, or at once the whole where there are no pieces to be had.
func paced(size int64, piece func(at int64) error, whole func() error) error {
	for at := int64(0); at < size; at += pacedBytes {
		err := piece(at)
		for errors.Is(err, syscall.EINTR) {
			err = piece(at)
		}
		if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ESPIPE) {
			break
		}
		if err != nil {
			return os.NewSyscallError("sync_file_range", err)
		}
	}
	return whole()
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
