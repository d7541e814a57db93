package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// TestCrash cuts the power at a random operation of a segment's life: appends, syncs, index flushes, the seal.
// What was synced is whole afterwards (I1), what follows it is a prefix of what was appended or is cut, and
// the segment goes on from there as if nothing had been.
func TestCrash(t *testing.T) {
	seeds := 1000
	if testing.Short() {
		seeds = 200
	}
	seedtest.Each(t, seeds, func(t *testing.T, seed uint64) {
		if err := crashOnce(t, seed); err != nil {
			t.Fatal(err)
		}
	})
}

// life is what a segment went through until the power went.
type life struct {
	disk    *vfs.Mem
	batches []kept
	synced  Info // as of the last sync that was acknowledged
}

func crashOnce(t *testing.T, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	l := liveUntilCrash(t, rng)
	disk := l.disk
	if rng.IntN(2) == 0 { // the caller knows what was synced, and takes over what is whole behind it
		w, err := OpenWriter(disk, "/", l.synced)
		if err != nil {
			return fmt.Errorf("open at the synced length: %w", err)
		}
		if _, err := w.Extend(nil); err != nil {
			return err
		}
		if err := errors.Join(w.Cut(), w.Seal(), w.Close()); err != nil {
			return err
		}
	} else if _, _, err := Recover(disk, "/", 0); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	info, finding, err := Recover(disk, "/", 0)
	if err != nil || finding != nil {
		return fmt.Errorf("a second recovery is not quiet: %v %w", finding, err)
	}
	if info.Size < l.synced.Size || info.Next < l.synced.Next {
		return fmt.Errorf("%d bytes up to offset %d are left, %d up to %d were synced", info.Size, info.Next, l.synced.Size, l.synced.Next)
	}
	n := 0
	for ; n < len(l.batches) && l.batches[n].pos < info.Size; n++ {
	}
	left := l.batches[:n]
	if n > 0 && left[n-1].h.LastOffset()+1 != info.Next {
		return fmt.Errorf("the segment ends at offset %d, the last of its %d batches at %d", info.Next, n, left[n-1].h.LastOffset())
	}
	return goOn(t, rng, disk, info, left)
}

// goOn appends to what a crash left and reads everything.
func goOn(t *testing.T, rng *rand.Rand, disk *vfs.Mem, info Info, left []kept) error {
	w, err := OpenWriter(disk, "/", info)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for range 3 {
		raw, h := build(t, w.Info().Next, 2000, 1+rng.IntN(3), rng.IntN(500))
		left = append(left, kept{raw, h, w.Info().Size})
		if err := w.Append(raw, h); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Seal(), w.Close()); err != nil {
		return err
	}
	if found, err := Verify(disk, FileName("/", 0, LogSuffix)); err != nil || len(found) > 0 {
		return fmt.Errorf("verify: %v %w", found, err)
	}
	r, err := Open(disk, "/", 0)
	if err != nil {
		return err
	}
	checkReads(t, r, left, 0)
	checkTimes(t, r, left, 0)
	return r.Close()
}

// liveUntilCrash appends to a segment until the power goes at a random operation, at the latest after the seal.
func liveUntilCrash(t *testing.T, rng *rand.Rand) (l life) {
	t.Helper()
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	w, err := Create(inject, "/", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("/"); err != nil { // the name of a new segment is for the caller to sync
		t.Fatal(err)
	}
	mode := vfs.CrashMode(rng.IntN(3))
	left := rng.IntN(60)
	crash := func() {
		if l.disk == nil {
			l.disk = mem.Crash(rng, mode)
		}
	}
	inject.Observe(func(vfs.Op, string) {
		if left--; left < 0 {
			crash()
		}
	})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	l.synced = w.Info()
	for range 40 {
		before := w.Info()
		raw, h := build(t, before.Next, 1000, 1+rng.IntN(4), rng.IntN(900))
		if l.disk == nil { // a torn one may survive as a whole
			l.batches = append(l.batches, kept{raw, h, before.Size})
		}
		must(w.Append(raw, h))
		switch rng.IntN(6) {
		case 0:
			must(w.FlushIndex())
		case 1:
			must(w.SyncLog())
			if l.disk == nil {
				l.synced = w.Info()
			}
		}
	}
	if rng.IntN(2) == 0 {
		must(w.Seal())
		if l.disk == nil {
			l.synced = w.Info()
		}
	}
	crash()
	must(w.Close())
	return l
}
