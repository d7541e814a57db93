package local

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// keyed is a log with a compacted topic of so many records: those of the first half are superseded by the others, or those of
// the second by the last.
func keyed(t *testing.T, topic string, n int, first bool) (*Log, *vfs.Mem) {
	t.Helper()
	l, mem, _ := roomyLog(t, DurabilityGroup)
	if topic == broker.OffsetsTopic { // roomyLog's own is not compacted
		if err := l.DeleteTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	mustCreate(t, l, topic, compactConfig())
	for i := range n {
		key := min(i, n/2)
		if first {
			key = i % (n / 2)
		}
		mustAppend(t, l, tp(topic, 0), kvBatch(t, record.None, kv{fmt.Sprint(key), fmt.Sprint(i, strings.Repeat("x", 200))}))
	}
	mustCheckpoint(t, l)
	return l, mem
}

// leave has so much of the disk left that compaction of the topic may claim n.
func leave(t *testing.T, l *Log, mem *vfs.Mem, topic string, n int64) {
	t.Helper()
	shortOf(t, l, mem, l.room.floor(leavesOf(topic).compaction)+n)
}

// TestCompactionLeaves: compaction may use half of the reserve, and that of state, which makes room for all, three quarters. No other
// topic's takes from that last one.
func TestCompactionLeaves(t *testing.T) {
	for _, topic := range []string{"keys", "__keys", broker.OffsetsTopic, broker.TransactionsTopic} {
		t.Run(topic, func(t *testing.T) {
			l, mem := keyed(t, topic, 40, false)
			before := state(mustScan(t, l, tp(topic, 0), 0))
			leave(t, l, mem, topic, 100)
			if err := l.Compact(t.Context()); !errors.Is(err, broker.ErrStorage) || l.failure() != nil {
				t.Fatalf("compact: %v; failed: %v", err, l.failure())
			}
			leave(t, l, mem, topic, 20_000)
			mustCompact(t, l)
			if got := mustScan(t, l, tp(topic, 0), 0); len(got) > 32 || !maps.Equal(state(got), before) {
				t.Errorf("%d records", len(got))
			}
			if c, s := l.room.claimed.Load(), l.room.settled.Load(); c != s {
				t.Errorf("%d bytes claimed, %d settled", c, s)
			}
			mustClose(t, l)
		})
	}
	if user, state := leavesOf("keys").compaction, leavesOf(broker.OffsetsTopic).compaction; user != leavingHalf || state != leavingQuarter {
		t.Errorf("leaves %d and %d eighths", user, state)
	}
}

// TestCompactionMakesRoomForGroups: where the state of groups has used its half of the reserve, or that of transactions its part, compaction
// gives it back; else they would wait for ever.
func TestCompactionMakesRoomForGroups(t *testing.T) {
	for _, topic := range []string{broker.OffsetsTopic, broker.TransactionsTopic} {
		l, mem := keyed(t, topic, 40, false)
		put := func() error {
			_, err := appendEither(t, l, tp(topic, 0), kvBatch(t, record.None, kv{"g", strings.Repeat("x", 200)}))
			return err
		}
		shortOf(t, l, mem, l.room.floor(leavesOf(topic).appends))
		if err := put(); !errors.Is(err, broker.ErrStorage) {
			t.Fatalf("its part of the reserve is gone: %v", err)
		}
		mustCompact(t, l)
		if err := put(); err != nil {
			t.Errorf("compaction of %s has made room: %v", topic, err)
		}
		mustClose(t, l)
	}
}

// TestHinderedCompactionWaits: a pass that was refused begins again when there is more room than it wanted, and else ever less often.
func TestHinderedCompactionWaits(t *testing.T) {
	l, mem := keyed(t, "keys", 40, false)
	leave(t, l, mem, "keys", 2000)
	tried := 0
	for range 200 {
		if err := l.Compact(t.Context()); err != nil {
			tried++
		}
	}
	if tried != 9 { // passes 1, 3, 6, 11, 20, 37, 70, 135 and 200
		t.Errorf("%d of 200 passes were refused", tried)
	}
	leave(t, l, mem, "keys", 20_000)
	mustCompact(t, l)
	if got := mustScan(t, l, tp("keys", 0), 0); len(got) > 32 {
		t.Errorf("%d records", len(got))
	}
	if p, _ := l.partition(tp("keys", 0)); p.hindered != (hindered{}) {
		t.Errorf("%+v", p.hindered)
	}
	mustClose(t, l)
}

// TestNoRoomForTheNextSwap: a pass that has put segments into place, and has no room to begin with the next, keeps those.
func TestNoRoomForTheNextSwap(t *testing.T) {
	const n, size = 80, 900_000 // more than goes into one swap
	inject := vfs.NewInject(vfs.NewMem())
	cfg := smallConfig(inject)
	cfg.Durability, cfg.CheckpointBytes = DurabilityNone, 1<<30
	l := mustOpen(t, cfg)
	mustCreate(t, l, "keys", compactConfig())
	p := tp("keys", 0)
	for i := range n {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint(max(i, 2)), strings.Repeat("x", size)}))
	}
	mustCheckpoint(t, l)
	inject.Fail(vfs.Rule{Op: vfs.OpMkdir, Pattern: cleanDir + "*", K: 2, Err: vfs.ErrNoSpace})
	if err := l.Compact(t.Context()); !errors.Is(err, vfs.ErrNoSpace) || l.failure() != nil {
		t.Fatalf("compact: %v; failed: %v", err, l.failure())
	}
	got := mustScan(t, l, p, 0)
	for i := range record.Offset(n) {
		if r, ok := got[i]; ok != (i >= 2) || ok && (r.key != fmt.Sprint(i) || len(r.value) != size) {
			t.Errorf("offset %d: there %t, key %s", i, ok, r.key)
		}
	}
	mustClose(t, l)
}

// TestSwapThatNoCheckpointDecides: where the disk is too full for the checkpoint that would decide a swap, the new segments are removed:
// they are the room that the next one wants. Nothing is lost by it, nor by a crash (I1), and a later pass does it again.
func TestSwapThatNoCheckpointDecides(t *testing.T) {
	for _, full := range []error{vfs.ErrNoSpace, syscall.EDQUOT} {
		l, mem := keyed(t, "keys", 40, false)
		inject, before := l.fs.(*vfs.Inject), state(mustScan(t, l, tp("keys", 0), 0))
		inject.Fail(vfs.Rule{Op: vfs.OpWrite, Pattern: checkpointFile + "*", K: 1, Forever: true, Err: full})
		if err := l.Compact(t.Context()); !errors.Is(err, full) || l.failure() != nil {
			t.Fatalf("compact: %v; failed: %v", err, l.failure())
		}
		inject.Heal()
		p, err := l.partition(tp("keys", 0))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := l.fs.ReadDir(p.dir)
		if err != nil || p.swap != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() }) {
			t.Fatalf("swap %v waits beside %v, %v", p.swap, entries, err)
		}
		crashed := mustOpen(t, smallConfig(mem.Crash(nil, vfs.KeepNothing)))
		if got := state(mustScan(t, crashed, tp("keys", 0), 0)); !maps.Equal(got, before) {
			t.Errorf("%d keys after a crash, before %d", len(got), len(before))
		}
		mustClose(t, crashed)
		mustCheckpoint(t, l)
		mustCompact(t, l) // left out
		mustCompact(t, l)
		if got := mustScan(t, l, tp("keys", 0), 0); len(got) > 32 || !maps.Equal(state(got), before) {
			t.Errorf("%d records", len(got))
		}
		mustClose(t, l)
	}
}

// TestSwapOfAnUnknownCheckpointStays: where nobody knows whether the checkpoint that decides a swap is there, its files stay, and the next
// start goes by the checkpoint that it finds (I1).
func TestSwapOfAnUnknownCheckpointStays(t *testing.T) {
	for _, mode := range []vfs.CrashMode{vfs.KeepNothing, vfs.KeepAll} {
		l, mem := keyed(t, "keys", 40, false)
		inject, before := l.fs.(*vfs.Inject), state(mustScan(t, l, tp("keys", 0), 0))
		syncs := 0
		var armed bool
		inject.Observe(func(op vfs.Op, name string) {
			switch {
			case op == vfs.OpRename && strings.HasPrefix(path.Base(name), checkpointFile):
				armed = true // the sync of the directory behind it fails
				inject.Fail(vfs.Rule{Op: vfs.OpSyncDir, K: 1, Forever: true, Err: syscall.EIO})
			case armed && op == vfs.OpSyncDir:
				syncs++
			}
		})
		if err := l.Compact(t.Context()); !errors.Is(err, syscall.EIO) || l.failure() == nil || syncs == 0 {
			t.Fatalf("compact: %v; failed: %v", err, l.failure())
		}
		inject.Observe(nil)
		inject.Heal()
		p, err := l.partition(tp("keys", 0))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := l.fs.ReadDir(p.dir)
		if err != nil || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() }) {
			t.Fatalf("the new segments are gone: %v, %v", entries, err)
		}
		again := mustOpen(t, smallConfig(mem.Crash(nil, mode)))
		if got := state(mustScan(t, again, tp("keys", 0), 0)); !maps.Equal(got, before) {
			t.Errorf("%d keys, before %d", len(got), len(before))
		}
		mustClose(t, again)
		_ = l.Close() // it has failed
	}
}
