package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// On a disk that has no room for another journal file retention still removes what has expired, which makes the room that
// appends wait for. The checkpoints that it writes meanwhile are good ones (I1).
func TestRetentionOnAFullDisk(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		seedtest.Each(t, 30, func(t *testing.T, seed uint64) {
			rng := rand.New(rand.NewPCG(seed, 11))
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			cfg := smallConfig(inject)
			cfg.Durability = d
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{RetentionBytes: 4000})
			mustCreate(t, l, "held", broker.TopicConfig{Tiered: true})
			acked, end := map[record.Offset]string{}, record.Offset(0)
			put := func() error {
				v := fmt.Sprintf("%d %0900d", end, end)
				res, err := appendEither(t, l, tp("t", 0), batchOf(t, v))
				if err == nil {
					acked[res.Base], end = v, res.Base+1
					_, err = appendEither(t, l, tp("held", 0), batchOf(t, "x"))
				}
				return err
			}
			for range 10 + rng.IntN(20) {
				if err := put(); err != nil {
					t.Fatal(err)
				}
			}
			inject.Fail(vfs.Rule{Op: vfs.OpPreallocate, K: 1, Forever: true, Err: syscall.ENOSPC})
			if seed%4 > 0 { // no spare can be used either
				inject.Fail(vfs.Rule{Op: vfs.OpOpen, Pattern: "*.wal", K: 1, Forever: true, Err: syscall.EMFILE})
			}
			for range rng.IntN(12) {
				if err := put(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if err := l.Hold(t.Context(), tp("held", 0), record.Offset(rng.IntN(10))); err != nil {
				t.Fatal(err)
			}
			if err := l.EnforceRetention(); err != nil {
				t.Fatalf("retention: %v", err)
			}
			if bases, err := segment.List(mem, "/log/data/t-0"); err != nil || len(bases) > 3 {
				t.Fatalf("segments %v, %v", bases, err)
			}
			for range rng.IntN(4) { // into what is left of the old file
				if err := put(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if rng.IntN(2) == 0 {
				inject.Heal()
				for range 1 + rng.IntN(5) {
					if err := put(); err != nil {
						t.Fatalf("there is room again: %v", err)
					}
				}
			}
			mode := vfs.KeepNothing
			if d == DurabilityNone {
				mode = vfs.KeepAll
			}
			after := mem.Crash(rng, mode)
			mustClose(t, l)
			if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
				t.Fatalf("check: %v %v", found, err)
			}
			l = mustOpen(t, smallConfig(after))
			got, b := mustRead(t, l, tp("t", 0))
			if b.End != end {
				t.Fatalf("the end is %d, was %d", b.End, end)
			}
			for o, v := range got {
				if acked[o] != v { // I1
					t.Fatalf("offset %d: %.20q, want %.20q", o, v, acked[o])
				}
			}
			mustClose(t, l)
		})
	}
}

// fullAt makes a disk full now: what is preallocated has its place.
func fullAt(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	mem.Limit(1 << 30)
	s, err := mem.Space("/log")
	if err != nil {
		t.Fatal(err)
	}
	mem.Limit(s.Total - s.Free)
}

// TestSparesMakeRoom: on a full disk spare journal files are given back, and what failed is tried once more; only then the log
// fails or refuses (I1, I2).
func TestSparesMakeRoom(t *testing.T) {
	appends := func(t *testing.T, l *Log) { fill(t, l, tp("t", 0), 1) }
	for _, c := range []struct {
		name string
		rule vfs.Rule // fails for ever before the disk is full
		do   func(*testing.T, *Log)
	}{
		{"segment", vfs.Rule{}, appends},
		{"checkpoint and indexes", vfs.Rule{}, mustCheckpoint},
		{"topics", vfs.Rule{}, func(t *testing.T, l *Log) { mustCreate(t, l, "u", broker.TopicConfig{}) }},
		{"producer ids", vfs.Rule{}, func(t *testing.T, l *Log) {
			if _, _, err := l.InitProducerID(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"journal file", vfs.Rule{Op: vfs.OpRename, Pattern: "*.wal"}, func(t *testing.T, l *Log) { // one spare is of no use
			if err := l.journal.rotate(); err != nil {
				t.Fatal(err)
			}
		}},
		{"journal behind its size", vfs.Rule{}, func(t *testing.T, l *Log) {
			pos := l.journal.pos
			l.journal.pos, l.journal.synced = l.journal.bytes, l.journal.bytes
			l.journal.add(Frame{Kind: FrameHold})
			if err := errors.Join(l.journal.flush(), l.journal.file.Truncate(l.journal.bytes)); err != nil {
				t.Fatal(err)
			}
			l.journal.pos, l.journal.synced = pos, pos // as if nothing had been
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			l := spareLog(t, inject)
			fill(t, l, tp("t", 0), 1) // something for a checkpoint
			if c.rule.Op != "" {
				c.rule.K, c.rule.Forever, c.rule.Err = 1, true, syscall.EIO
				inject.Fail(c.rule)
			}
			fullAt(t, mem)
			before := len(journals(t, mem))
			c.do(t, l)
			if n := len(journals(t, mem)); n >= before {
				t.Errorf("%d journal files, before %d", n, before)
			}
			inject.Heal()
			fill(t, l, tp("t", 0), 1)
			after := mem.Crash(nil, vfs.KeepNothing)
			mustClose(t, l)
			l = mustOpen(t, smallConfig(after))
			want := record.Offset(22)
			if c.name == "segment" {
				want++
			}
			if _, b := mustRead(t, l, tp("t", 0)); b.End != want {
				t.Errorf("%v, want %d", b, want)
			}
			mustClose(t, l)
		})
	}
}

// TestCloseOnAFullDisk: the last checkpoint has the spares' room, which nothing else wants any more.
func TestCloseOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	l := spareLog(t, mem)
	fill(t, l, tp("t", 0), 1) // something for a checkpoint
	fullAt(t, mem)
	mustClose(t, l)
	if seqs := journals(t, mem); len(seqs) > 0 {
		t.Errorf("journal files %v", seqs)
	}
	l = mustOpen(t, smallConfig(mem.Crash(nil, vfs.KeepNothing)))
	if _, b := mustRead(t, l, tp("t", 0)); b.End != 21 { // I1
		t.Errorf("%v", b)
	}
	mustClose(t, l)
}

// TestNoJournalFile: where none can be made any more, the log writes a checkpoint by itself, and those before it can be used again.
// Without appends nothing else would ask for one.
func TestNoJournalFile(t *testing.T) {
	l, mem, inject := injected(t, 0)
	fill(t, l, tp("t", 0), 20)
	inject.Fail(vfs.Rule{Op: vfs.OpPreallocate, K: 1, Forever: true, Err: vfs.ErrNoSpace})
	end := record.Offset(20)
	untilCheckpoint(t, l, func() {
		for ; l.crowded.Load() == nil && end < 50; end++ { // until the next one would be refused
			fill(t, l, tp("t", 0), 1)
		}
	})
	fill(t, l, tp("t", 0), 9)
	after := mem.Crash(nil, vfs.KeepNothing)
	mustClose(t, l)
	l = mustOpen(t, smallConfig(after))
	if _, b := mustRead(t, l, tp("t", 0)); b.End != end+9 { // I1
		t.Errorf("%v, want %d", b, end+9)
	}
	mustClose(t, l)
}

// TestFullForAMoment fails each write and each making of a file in turn, once, because the disk is full or the user's part of it is used up: nothing fails that
// a user sees, as room may be there a moment later.
func TestFullForAMoment(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, full := range []struct {
			op  vfs.Op
			err error
		}{
			{vfs.OpWrite, vfs.ErrNoSpace}, {vfs.OpCreate, vfs.ErrNoSpace}, {vfs.OpPreallocate, vfs.ErrNoSpace},
			{vfs.OpWrite, syscall.EDQUOT}, {vfs.OpCreate, syscall.EDQUOT}, {vfs.OpPreallocate, syscall.EDQUOT},
		} {
			t.Run(fmt.Sprintf("%s/%s/%v", d, full.op, full.err), func(t *testing.T) {
				for k := 1; ; k++ {
					mem := vfs.NewMem()
					inject := vfs.NewInject(mem)
					inject.Fail(vfs.Rule{Op: full.op, K: k, Err: full.err, Short: k * 7 % 200})
					acked, err := session(t, inject, d)
					if inject.Fired() == 0 {
						if k < 3 {
							t.Fatalf("only %d operations", k)
						}
						break
					}
					if err != nil || len(acked) != 12 {
						t.Fatalf("operation %d: %d appends, %v", k, len(acked), err)
					}
					l := mustOpen(t, smallConfig(mem))
					got, _ := mustRead(t, l, tp("t", 0))
					for o, v := range acked {
						if got[o] != v { // I1
							t.Fatalf("operation %d: offset %d: %.20q, want %.20q", k, o, got[o], v)
						}
					}
					mustClose(t, l)
				}
			})
		}
	}
}

// TestCrashWhileGivingBack cuts the power at each operation of a log that gives its spares back and goes on, and opens it on a
// disk as full (I1).
func TestCrashWhileGivingBack(t *testing.T) {
	removed := map[vfs.CrashMode]int{}
	crashAtEach(t, func(mem *vfs.Mem) { fullAt(t, mem) }, func(mode vfs.CrashMode, op vfs.Op, name string) {
		if op == vfs.OpRemove && path.Ext(name) == journalSuffix {
			removed[mode]++
		}
	}, func(k int, after *vfs.Mem) {
		for _, seq := range journals(t, after) {
			if seq < 4 {
				t.Errorf("operation %d: spare %d is still there", k, seq)
			}
		}
	})
	for _, mode := range []vfs.CrashMode{vfs.KeepNothing, vfs.KeepSome, vfs.KeepAll} {
		if removed[mode] < 3 {
			t.Errorf("only %d crashes while spares were removed", removed[mode])
		}
	}
}

// TestNoRoomForIndexes: a checkpoint that cannot write the indexes of its segments, sealed ones too, is tried again later; the
// log goes on meanwhile.
func TestNoRoomForIndexes(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, files := range []string{"*.index", "*.timeindex", "*.txnindex"} {
			for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite} {
				t.Run(fmt.Sprint(d, files, op), func(t *testing.T) {
					mem := vfs.NewMem()
					inject := vfs.NewInject(mem)
					cfg := smallConfig(inject)
					cfg.Durability, cfg.CheckpointBytes = d, 1<<30
					l := mustOpen(t, cfg)
					mustCreate(t, l, "t", broker.TopicConfig{})
					mustAppend(t, l, tp("t", 0), txnBatch(t, 1, 0, 0, "aborted"))
					if _, err := l.AppendMarker(t.Context(), tp("t", 0), broker.TxnMarker{ProducerID: 1}); err != nil {
						t.Fatal(err)
					}
					fill(t, l, tp("t", 0), 10)
					inject.Fail(vfs.Rule{Op: op, Pattern: files, K: 1, Forever: true, Err: vfs.ErrNoSpace})
					if err := l.Checkpoint(); !errors.Is(err, vfs.ErrNoSpace) || l.failure() != nil {
						t.Fatalf("checkpoint: %v; failed: %v", err, l.failure())
					}
					fill(t, l, tp("t", 0), 1)
					inject.Heal()
					mustCheckpoint(t, l)
					after := mem.Crash(nil, vfs.KeepNothing) // the checkpoint has made all durable, also without a journal
					mustClose(t, l)
					l = mustOpen(t, smallConfig(after))
					if seen, _, err := readCommitted(l, tp("t", 0), 0, 5000); err != nil || len(seen) != 11 {
						t.Errorf("%d records, %v", len(seen), err)
					}
					mustClose(t, l)
					if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
						t.Errorf("check: %v %v", found, err)
					}
				})
			}
		}
	}
}

// TestFullForGood: without room a log fails in the middle of a segment's write; what it has acknowledged can be read, and is
// there when it is opened again with room (I1, I2).
func TestFullForGood(t *testing.T) {
	mem := vfs.NewMem()
	cfg := smallConfig(mem)
	cfg.CheckpointBytes, cfg.DiskReserve = 1<<30, -1
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 1) // no spares
	fullAt(t, mem)
	_, err := appendEither(t, l, tp("t", 0), batchOf(t, "lost or not"))
	if !errors.Is(err, broker.ErrStorage) || l.failure() == nil {
		t.Fatalf("append: %v, failed: %v", err, l.failure())
	}
	if _, b := mustRead(t, l, tp("t", 0)); b.End != 1 {
		t.Errorf("%v", b)
	}
	mustClose(t, l)
	mem.Limit(0)
	l = mustOpen(t, cfg)
	if _, b := mustRead(t, l, tp("t", 0)); b.End < 1 || b.End > 2 {
		t.Errorf("%v", b)
	}
	fill(t, l, tp("t", 0), 1)
	mustClose(t, l)
}

// A start that finds a checkpoint whose name was not synced makes it durable before it removes the journal files that the one before
// it needs (I1): a power loss may bring that back.
func TestNameOfACheckpointIsDurableFirst(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	l := mustOpen(t, smallConfig(inject))
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 5)
	inject.Fail(vfs.Rule{Op: vfs.OpSyncDir, Pattern: "log", K: 1, Forever: true, Err: syscall.EIO})
	if err := l.Checkpoint(); !errors.Is(err, vfs.ErrUnknownOutcome) {
		t.Fatalf("checkpoint: %v", err)
	}
	_ = l.Close() // its checkpoint is as unknown
	inject.Heal()
	var ops []string
	inject.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpSyncDir || op == vfs.OpRemove && path.Ext(name) == journalSuffix {
			ops = append(ops, fmt.Sprint(op, " ", path.Base(name)))
		}
	})
	l = mustOpen(t, smallConfig(inject))
	inject.Observe(nil)
	if len(ops) < 2 || ops[0] != "syncdir log" || !strings.HasPrefix(ops[1], "remove ") {
		t.Errorf("a start does %q", ops)
	}
	if _, b := mustRead(t, l, tp("t", 0)); b.End != 5 {
		t.Error(b)
	}
	mustClose(t, l)
}
