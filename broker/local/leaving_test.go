package local

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// TestWhoLeavesWhat: who makes room for others goes on when they are refused. Names that clients can give to topics leave nothing to them.
func TestWhoLeavesWhat(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			l, mem, _ := roomyLog(t, d)
			writers := []struct {
				topic  string
				leaves int64
			}{
				{"t", reserve}, {"__t", reserve}, {"__t_positions", reserve}, {"__consumer_offsets2", reserve},
				{broker.OffsetsTopic, reserve / 2}, {broker.ShareTopic, reserve / 2}, {broker.SettingsTopic, reserve / 2},
				{broker.TransactionsTopic, reserve / 8 * 3}, {"a marker", reserve / 4},
			}
			for _, w := range writers {
				if w.topic != "t" && w.topic != broker.OffsetsTopic && w.topic != "a marker" {
					mustCreate(t, l, w.topic, broker.TopicConfig{})
				}
			}
			for id := range int64(20) {
				mustAppend(t, l, tp("t", 0), txnBatch(t, id, 0, 0, "open"))
			}
			producer := int64(0)
			for _, left := range []int64{reserve - 1, reserve/2 + 2000, reserve/2 - 1, reserve/8*3 - 1, reserve/4 - 1} {
				shortOf(t, l, mem, left)
				for _, w := range writers {
					var err error
					if w.topic == "a marker" {
						_, err = l.AppendMarker(t.Context(), tp("t", 0), broker.TxnMarker{ProducerID: producer})
						producer++
					} else {
						_, err = appendEither(t, l, tp(w.topic, 0), batchOf(t, "x"))
					}
					if want := left >= w.leaves; want != (err == nil) || err != nil && !errors.Is(err, broker.ErrStorage) {
						t.Errorf("%s, %d left: %v", w.topic, left, err)
					}
				}
			}
			mustClose(t, l)
		})
	}
}

// shortOf leaves so much of the disk, less than what is wanted for appends, and waits for what the log does about it.
func shortOf(t *testing.T, l *Log, mem *vfs.Mem, left int64) {
	t.Helper()
	do := func() {
		taken(t, mem, left)
		l.room.look()
	}
	if l.Room().Refused == nil {
		leanJournal(t, l)
		untilCheckpoint(t, l, do)
	}
	do()
}

// leanJournal leaves nothing of the journal that a later checkpoint would give back.
func leanJournal(t *testing.T, l *Log) {
	t.Helper()
	mustCheckpoint(t, l)
	mustCheckpoint(t, l) // keeps no more spares than files that became free since the first
}

// TestTransactionEndsOnANearlyFullDisk: where the state of groups has used up its part of the reserve an open transaction can still be ended, and
// retention removes what it kept back: else nothing would make room (I6 holds: what goes has expired).
func TestTransactionEndsOnANearlyFullDisk(t *testing.T) {
	l, mem, _ := roomyLog(t, DurabilityGroup)
	mustCreate(t, l, "old", broker.TopicConfig{RetentionBytes: 1000})
	mustAppend(t, l, tp("old", 0), txnBatch(t, 8, 0, 0, "open"))
	fill(t, l, tp("old", 0), 80)
	shortOf(t, l, mem, reserve/2-1)
	if _, err := appendEither(t, l, tp(broker.OffsetsTopic, 0), batchOf(t, "x")); err == nil {
		t.Fatal("groups have their part still")
	}
	before := l.Room().Free
	if err := l.EnforceRetention(); err != nil || l.Room().Free > before+10_000 {
		t.Fatalf("retention went beyond an open transaction: %+v, %v", l.Room(), err)
	}
	if _, err := l.AppendMarker(t.Context(), tp("old", 0), broker.TxnMarker{ProducerID: 8, Commit: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.EnforceRetention(); err != nil {
		t.Fatal(err)
	}
	if now := l.Room().Free; now < before+50_000 {
		t.Errorf("%d bytes are free, before %d", now, before)
	}
	mustAppend(t, l, tp(broker.OffsetsTopic, 0), batchOf(t, "x"))
	mustClose(t, l)
}

// TestJournalFollowsTheReserve: as long as anybody may append, there is room for another journal file, and for the checkpoint that
// begins with it. On a disk of 448 MiB one of 64 MiB would not go into the reserve.
func TestJournalFollowsTheReserve(t *testing.T) {
	mem := vfs.NewMem()
	mem.Limit(64 << 20)
	l := mustOpen(t, Config{Dir: "/log", FS: vfs.NewInject(mem), Clock: at(start)})
	mustCreate(t, l, "t", broker.TopicConfig{})
	mustAppend(t, l, tp("t", 0), txnBatch(t, 8, 0, 0, "open"))
	shortOf(t, l, mem, l.room.floor(leavingQuarter)+600)
	if _, err := l.AppendMarker(t.Context(), tp("t", 0), broker.TxnMarker{ProducerID: 8, Commit: true}); err != nil {
		t.Error(err)
	}
	seq := l.journal.seq
	taken(t, mem, l.room.floor(leavingQuarter)) // nobody's claim leaves less
	mustCheckpoint(t, l)
	if l.journal.seq != seq+1 {
		t.Error("no new journal file could be made")
	}
	mustClose(t, l)
}

// TestJournalSize: what was set stays, and is said where it does not go into the reserve.
func TestJournalSize(t *testing.T) {
	for _, c := range []struct{ disk, reserve, set, want, said int64 }{
		{1 << 40, 0, 0, 56 << 20, 0},
		{1 << 30, 0, 0, 23488101, 0},
		{20 << 20, 0, 0, 1 << 20, 0},
		{5 << 20, 0, 0, 1 << 20, 1},
		{1 << 30, -1, 0, 64 << 20, 0},
		{1 << 30, 64 << 20, 0, 14 << 20, 0},
		{1 << 30, 4 << 20, 4 << 20, 4 << 20, 0},
		{1 << 30, 4<<20 - 1, 4 << 20, 4 << 20, 1},
	} {
		mem, lines := vfs.NewMem(), &said{}
		mem.Limit(c.disk)
		l := mustOpen(t, Config{Dir: "/log", FS: mem, Clock: at(start), DiskReserve: c.reserve, JournalBytes: c.set, Logger: slog.New(slog.NewTextHandler(lines, nil))})
		if n := lines.count("smaller than a journal file"); l.journal.bytes != c.want || int64(n) != c.said {
			t.Errorf("%+v: files of %d, said %d times", c, l.journal.bytes, n)
		}
		mustClose(t, l)
	}
}

// TestRoomWithoutAJournalFile: appends that are refused because none can be made are told like those for which little is free. Without
// durability they are not refused.
func TestRoomWithoutAJournalFile(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		cfg := smallConfig(vfs.NewMem())
		cfg.Durability = d
		l := mustOpen(t, cfg)
		if r := l.Room(); r.Refused != nil {
			t.Errorf("%s: %+v", d, r)
		}
		l.crowded.Store(&errNoFile)
		if r := l.Room(); (r.Refused != nil) != (d == DurabilityGroup) {
			t.Errorf("%s, crowded: %+v", d, r)
		}
		l.crowded.Store(nil)
		mustClose(t, l)
	}
}

// TestRoomForAJournalFileIsSeen: when a journal file can be made again an idle log finds that out by itself.
func TestRoomForAJournalFileIsSeen(t *testing.T) {
	inject := vfs.NewInject(vfs.NewMem())
	cfg := smallConfig(inject)
	cfg.CheckpointBytes, cfg.RetentionInterval = 1<<30, time.Millisecond
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	inject.Fail(vfs.Rule{Op: vfs.OpPreallocate, K: 1, Forever: true, Err: vfs.ErrNoSpace})
	var err error
	for err == nil {
		_, err = appendEither(t, l, tp("t", 0), batchOf(t, strings.Repeat("x", 100)))
	}
	if !errors.Is(err, broker.ErrStorage) || l.Room().Refused == nil {
		t.Fatalf("%v; %+v", err, l.Room())
	}
	untilCheckpoint(t, l, func() {}) // without a journal file of its own
	inject.Heal()
	for l.Room().Refused != nil {
		untilCheckpoint(t, l, func() {})
	}
	mustAppend(t, l, tp("t", 0), batchOf(t, "y"))
	mustClose(t, l)
}
