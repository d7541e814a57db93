package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropCache takes a file that is synced out of the page cache.
func dropCache(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %s from the page cache: %w", f.Name(), err)
	}
	return nil
}

// settle writes out what was written to the disks before, and frees there what was removed, so that who is measured next does
// not wait for it.
func settle() { unix.Sync() }
