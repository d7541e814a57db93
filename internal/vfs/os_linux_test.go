package vfs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
)

// TestPaced: a failed write is told once, by a piece: no sync behind it may hide that (I1). One that was interrupted is done again,
// and where there are no pieces the whole is synced.
func TestPaced(t *testing.T) {
	const size = 2*pacedBytes + 1
	for _, c := range []struct {
		fail   error
		at     int // of the pieces that are asked for
		pieces []int64
		whole  bool
	}{
		{nil, 0, []int64{0, pacedBytes, 2 * pacedBytes}, true},
		{syscall.EIO, 0, []int64{0}, false},
		{syscall.ENOSPC, 1, []int64{0, pacedBytes}, false},
		{syscall.EIO, 2, []int64{0, pacedBytes, 2 * pacedBytes}, false},
		{syscall.EINTR, 1, []int64{0, pacedBytes, pacedBytes, 2 * pacedBytes}, true},
		{syscall.ENOSYS, 0, []int64{0}, true},
		{syscall.ESPIPE, 1, []int64{0, pacedBytes}, true},
	} {
		t.Run(fmt.Sprint(c.fail, c.at), func(t *testing.T) {
			var asked []int64
			whole := false
			err := paced(size, func(at int64) error {
				asked = append(asked, at)
				if len(asked)-1 == c.at {
					return c.fail
				}
				return nil
			}, func() error { whole = true; return nil })
			if !slices.Equal(asked, c.pieces) || whole != c.whole {
				t.Errorf("pieces %v, whole %v", asked, whole)
			}
			if whole != (err == nil) || err != nil && !errors.Is(err, c.fail) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := paced(1, func(int64) error { return nil }, func() error { return syscall.EIO }); !errors.Is(err, syscall.EIO) {
		t.Errorf("the whole failed: %v", err)
	}
}

// TestSpaceOf: what a file system counts is fragments, where it knows of some.
func TestSpaceOf(t *testing.T) {
	for _, c := range []struct {
		bsize, frsize int64
		want          Space
	}{
		{4096, 4096, Space{Total: 100 * 4096, Free: 50 * 4096}},
		{1 << 20, 4096, Space{Total: 100 * 4096, Free: 50 * 4096}},
		{4096, 0, Space{Total: 100 * 4096, Free: 50 * 4096}},
	} {
		st := syscall.Statfs_t{Blocks: 100, Bfree: 60, Bavail: 50} // ten are root's
		st.Bsize, st.Frsize = c.bsize, c.frsize
		if got := spaceOf(&st); got != c.want {
			t.Errorf("blocks of %d, fragments of %d: %+v, want %+v", c.bsize, c.frsize, got, c.want)
		}
	}
	st := syscall.Statfs_t{Blocks: ^uint64(0), Bavail: ^uint64(0), Frsize: 4096}
	if got := spaceOf(&st); got.Total < math.MaxInt64-4096 || got.Free != got.Total {
		t.Errorf("without an end: %+v", got)
	}
	st.Blocks = 100
	if got := spaceOf(&st); got.Total != 100*4096 || got.Free != got.Total {
		t.Errorf("more free than there is: %+v", got)
	}
}
