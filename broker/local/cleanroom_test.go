package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
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

// TestCompactionKeepsWhatIsWhole: a pass that is refused puts into place what it has of whole segments, which is room for the next.
func TestCompactionKeepsWhatIsWhole(t *testing.T) {
	l, mem := keyed(t, "keys", 200, true)
	p := tp("keys", 0)
	before, all := state(mustScan(t, l, p, 0)), len(mustScan(t, l, p, 0))
	// The first half is superseded; segments of the second are copied as they are.
	leave(t, l, mem, "keys", 12_000)
	if err := l.Compact(t.Context()); !errors.Is(err, broker.ErrStorage) {
		t.Fatalf("compact: %v", err)
	}
	got := mustScan(t, l, p, 0)
	if len(got) > all-80 || !maps.Equal(state(got), before) {
		t.Errorf("%d of %d records", len(got), all)
	}
	after := mem.Crash(nil, vfs.KeepNothing)
	mustClose(t, l)
	if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
	l = mustOpen(t, smallConfig(after))
	if again := mustScan(t, l, p, 0); !maps.Equal(again, got) {
		t.Errorf("%d records after a crash", len(again))
	}
	mustClose(t, l)
}

// TestCrashWhileKeepingWhatIsWhole cuts the power at each operation of such a pass, and opens the log on a disk as full (I1).
func TestCrashWhileKeepingWhatIsWhole(t *testing.T) {
	p := tp("keys", 0)
	for _, mode := range []vfs.CrashMode{vfs.KeepNothing, vfs.KeepSome, vfs.KeepAll} {
		fewer := 0 // crashes behind the checkpoint
		for k := 0; ; k++ {
			l, mem := keyed(t, "keys", 60, true)
			scanned := mustScan(t, l, p, 0)
			leave(t, l, mem, "keys", 2000)
			var mu sync.Mutex
			var after *vfs.Mem
			ops := 0
			l.fs.(*vfs.Inject).Observe(func(vfs.Op, string) {
				mu.Lock()
				defer mu.Unlock()
				if ops++; ops > k && after == nil {
					after = mem.Crash(rand.New(rand.NewPCG(uint64(k), 7)), mode)
				}
			})
			if err := l.Compact(t.Context()); !errors.Is(err, broker.ErrStorage) {
				t.Fatalf("compact: %v", err)
			}
			l.fs.(*vfs.Inject).Observe(nil)
			mustClose(t, l)
			if after == nil {
				break
			}
			if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
				t.Fatalf("operation %d: check: %v %v", k, found, err)
			}
			l = mustOpen(t, smallConfig(after))
			got := mustScan(t, l, p, 0)
			if !maps.Equal(state(got), state(scanned)) {
				t.Fatalf("operation %d: %d records, before %d", k, len(got), len(scanned))
			}
			if len(got) < len(scanned) {
				fewer++
			}
			mustClose(t, l)
		}
		if fewer < 5 {
			t.Errorf("only %d crashes behind the checkpoint", fewer)
		}
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
