package local

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// spareLog is a log with three spares, files 1 to 3 of seven frames each, and an empty file 4.
func spareLog(t *testing.T, fsys vfs.FS) *Log {
	t.Helper()
	cfg := smallConfig(fsys)
	cfg.CheckpointBytes, cfg.DiskReserve = 1<<30, -1
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 20)
	mustCheckpoint(t, l)
	return l
}

func mustCheckpoint(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
}

func journals(t *testing.T, fsys vfs.FS) []uint64 {
	t.Helper()
	seqs, err := listJournals(fsys, "/log/journal")
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// TestSpares follows the files of a log: they are made of others and not preallocated, fewer of them stay when the log does
// little, and none is left when it is closed, or opened after a crash.
func TestSpares(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	l := spareLog(t, inject)
	want := func(fsys vfs.FS, seqs ...uint64) {
		t.Helper()
		if diff := cmp.Diff(seqs, journals(t, fsys)); diff != "" {
			t.Fatal(diff)
		}
	}
	want(mem, 1, 2, 3, 4)
	fresh := inject.Count(vfs.OpPreallocate)
	fill(t, l, tp("t", 0), 9)
	want(mem, 2, 3, 4, 5)
	after := mem.Crash(nil, vfs.KeepNothing)
	mustCheckpoint(t, l)
	want(mem, 3, 4, 6) // it has used two
	mustCheckpoint(t, l)
	want(mem, 4, 7)
	if n := inject.Count(vfs.OpPreallocate) - fresh; n != 0 {
		t.Errorf("%d files were preallocated", n)
	}
	fill(t, l, tp("t", 0), 9) // one more is full
	mustClose(t, l)
	want(mem)

	l = mustOpen(t, smallConfig(after))
	want(after, 6)
	if _, b := mustRead(t, l, tp("t", 0)); b.End != 29 {
		t.Errorf("%v", b)
	}
	mustClose(t, l)
}

// TestSparesAreLimited gives back what an interval of many files has used.
func TestSparesAreLimited(t *testing.T) {
	var s spares
	for seq := range uint64(9) {
		s.add(closedFile{seq: seq + 1})
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 0}, s.release(8, 3)); diff != "" {
		t.Error(diff)
	}
	if f, ok := s.take(); !ok || f.seq != 1 {
		t.Errorf("%+v %v", f, ok)
	}
	if diff := cmp.Diff([]uint64{2, 1}, s.release(9, 3)); diff != "" { // 1 is in use until it has another name
		t.Error(diff)
	}
	s.taken()
	if diff := cmp.Diff([]uint64{2, 0}, s.release(10, 3)); diff != "" {
		t.Error(diff)
	}
	s.forget()
	if f, ok := s.take(); ok {
		t.Errorf("%+v", f)
	}
}

// TestDropsWhatIsGone: a spare that is given back while a checkpoint drops old files is no fault of that.
func TestDropsWhatIsGone(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	l := spareLog(t, inject)
	gone := 0
	inject.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpRemove && path.Ext(name) == journalSuffix && mem.Remove(name) == nil {
			gone++
		}
	})
	mustCheckpoint(t, l)
	inject.Observe(nil)
	if gone == 0 {
		t.Error("the checkpoint dropped nothing")
	}
	mustClose(t, l)
}

// TestStaleFrames looks at a file that holds frames of its earlier life behind those of this one, and in place of its last
// one: they are none (I1), but a frame that was durable is missed as in any file.
func TestStaleFrames(t *testing.T) {
	const spare, last = "/log/journal/00000000000000000001.wal", "/log/journal/00000000000000000005.wal"
	frame := int64(frameHeaderSize + len(batchOf(t, strings.Repeat("0", 900))))
	at := func(n int64) int64 { return fileHeaderSize + n*frame }
	for _, c := range []struct {
		name     string
		from, to int64 // of the last file is as it was in its earlier life
		damaged  string
		end      record.Offset
	}{
		{"whole", 0, 0, "", 30},
		{"no last frame", at(2), at(3), "", 29},
		{"torn last frame", at(2) + 300, at(3), "", 29},
		{"last frame without its begin", at(2), at(2) + 30, "", 29},
		{"no frame that was durable", at(1), at(2), last, 0},
		{"half of one that was durable", at(0) + 300, at(1), last, 0},
		{"another header", 0, fileHeaderSize, last, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			l := spareLog(t, mem)
			old, err := vfs.ReadFile(mem, spare)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, l, tp("t", 0), 10)
			after := mem.Crash(nil, vfs.KeepNothing)
			mustClose(t, l)
			now, err := vfs.ReadFile(after, last)
			if err != nil || !bytes.Equal(now[pageBytes:at(7)], old[pageBytes:at(7)]) {
				t.Fatalf("the file was not made of the spare: %v", err)
			}
			patch(t, after, last, c.from, old[c.from:c.to])
			checkAndOpen(t, after, c.damaged, c.end)
		})
	}
}

// TestCrashWhileRenewing cuts the power at each operation of a log while its files are made of others (I1).
func TestCrashWhileRenewing(t *testing.T) {
	crashAtEach(t, func(*vfs.Mem) {}, func(vfs.CrashMode, vfs.Op, string) {}, func(int, *vfs.Mem) {})
}

// crashAtEach cuts the power at each operation of a log with spares that appends on, in each mode, and looks whether all is there that
// was acknowledged (I1). begin may change what the log runs on; seen is told of the operation before which the power goes, and
// opened of the log's files when it is open again.
func crashAtEach(t *testing.T, begin func(*vfs.Mem), seen func(mode vfs.CrashMode, op vfs.Op, name string), opened func(k int, after *vfs.Mem)) {
	for _, mode := range []vfs.CrashMode{vfs.KeepNothing, vfs.KeepSome, vfs.KeepAll} {
		for k := 0; ; k++ {
			rng := rand.New(rand.NewPCG(uint64(k), uint64(mode)))
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			l := spareLog(t, inject)
			begin(mem)
			var mu sync.Mutex
			var after *vfs.Mem
			ops, acked, was := 0, 20, 0
			inject.Observe(func(op vfs.Op, name string) {
				mu.Lock()
				defer mu.Unlock()
				if ops++; ops > k && after == nil {
					after, was = mem.Crash(rng, mode), acked
					seen(mode, op, name)
				}
			})
			for range 9 {
				fill(t, l, tp("t", 0), 1)
				mu.Lock()
				acked++
				mu.Unlock()
			}
			inject.Observe(nil)
			mustClose(t, l)
			if after == nil {
				break
			}
			if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
				t.Fatalf("operation %d: check: %v %v", k, found, err)
			}
			l = mustOpen(t, smallConfig(after))
			if _, b := mustRead(t, l, tp("t", 0)); int(b.End) != was && int(b.End) != was+1 { // one was not answered yet
				t.Fatalf("operation %d: %v, acknowledged %d", k, b, was)
			}
			opened(k, after)
			mustClose(t, l)
		}
	}
}

// TestRenewFails fails each step that makes a file of a spare. A fresh file is made then; where the directory cannot be
// synced, none is, and nothing has changed.
func TestRenewFails(t *testing.T) {
	for _, c := range []struct {
		rule vfs.Rule
		made bool
	}{
		{vfs.Rule{Op: vfs.OpOpen, Pattern: "*.wal"}, true},
		{vfs.Rule{Op: vfs.OpWrite, Pattern: "*.wal"}, true},
		{vfs.Rule{Op: vfs.OpWrite, Pattern: "*.wal", Short: 40}, true},
		{vfs.Rule{Op: vfs.OpSync, Pattern: "*.wal"}, true},
		{vfs.Rule{Op: vfs.OpRename, Pattern: "*.wal"}, true},
		{vfs.Rule{Op: vfs.OpSyncDir}, false},
	} {
		t.Run(fmt.Sprint(c.rule.Op, c.rule.Short), func(t *testing.T) {
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			l := spareLog(t, inject)
			c.rule.K, c.rule.Err = 1, syscall.EIO
			inject.Fail(c.rule)
			err := l.journal.rotate() // nothing else runs
			if c.made != (err == nil) || !c.made && !errors.Is(err, errNoFile) || inject.Fired() != 1 {
				t.Fatalf("rotate: %v, fired %d", err, inject.Fired())
			}
			fill(t, l, tp("t", 0), 9)
			after := mem.Crash(nil, vfs.KeepNothing)
			mustCheckpoint(t, l)
			if seqs := journals(t, mem); seqs[0] == 1 {
				t.Errorf("the spare that failed is still there: %v", seqs)
			}
			mustClose(t, l)
			l = mustOpen(t, smallConfig(after))
			if _, b := mustRead(t, l, tp("t", 0)); b.End != 29 {
				t.Errorf("%v", b)
			}
			mustClose(t, l)
		})
	}
}

// TestAheadOfSpare writes no zeros over blocks that are written already.
func TestAheadOfSpare(t *testing.T) {
	inject := vfs.NewInject(vfs.NewMem())
	l := spareLog(t, inject)
	writes := func() int {
		before := inject.Count(vfs.OpWrite)
		l.journal.add(Frame{Kind: FrameHold})
		if err := l.journal.flush(); err != nil {
			t.Fatal(err)
		}
		return inject.Count(vfs.OpWrite) - before
	}
	if n := writes(); n != 2 {
		t.Errorf("%d writes of the first group of a fresh file, want the frame and zeros", n)
	}
	if err := l.journal.rotate(); err != nil {
		t.Fatal(err)
	}
	if n := writes(); n != 1 {
		t.Errorf("%d writes of the first group of a file made of a spare, want the frame", n)
	}
	mustClose(t, l)
}

// TestPadding: over blocks that are written already a group ends with its page, or the file; the next one begins where its
// frames end. Behind them nothing is known of the disk, and nothing is added.
func TestPadding(t *testing.T) {
	for end, want := range map[int64]int64{1: 4095, 4095: 1, 4096: 0, 4097: 4095, 9999: 1, 10_000: 0, 10_001: 0} {
		if got := (&journal{bytes: 10_000, ahead: 10_000}).padding(end); got != want {
			t.Errorf("a group that ends at %d of 10,000 bytes: %d, want %d", end, got, want)
		}
		if got := (&journal{bytes: 20_000, ahead: end}).padding(end); got != 0 {
			t.Errorf("a group that ends at %d, where what is written ends: %d", end, got)
		}
	}
	l := spareLog(t, vfs.NewMem())
	if err := l.journal.rotate(); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		l.journal.add(Frame{Kind: FrameHold})
		if err := l.journal.flush(); err != nil {
			t.Fatal(err)
		}
		if want := fileHeaderSize + (i+1)*frameHeaderSize; l.journal.pos != want || l.journal.synced != want {
			t.Errorf("after %d frames the journal is at %d, %d, want %d", i+1, l.journal.pos, l.journal.synced, want)
		}
	}
	mustClose(t, l)
}
