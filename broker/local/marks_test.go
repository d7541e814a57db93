package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// TestMarksAboveEnd loses the batches of a log without durability, but not its marks: no offset below a mark is
// given again (I2), and the log can be read and appended to at its end.
func TestMarksAboveEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		mark func(l *Log) error
		want record.Offset
	}{
		{"hold", func(l *Log) error { return l.Hold(t.Context(), tp("t", 0), 15) }, 15},
		{"start", func(l *Log) error { _, err := l.DeleteRecords(t.Context(), tp("t", 0), 17); return err }, 17},
		{"hold within", func(l *Log) error { return l.Hold(t.Context(), tp("t", 0), 5) }, 10},
		{"none", func(*Log) error { return nil }, 10},
	} {
		for _, checkpointed := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, checkpointed), func(t *testing.T) {
				mem := vfs.NewMem()
				cfg := smallConfig(mem)
				cfg.Durability, cfg.CheckpointBytes = DurabilityNone, 1<<30
				l := mustOpen(t, cfg)
				mustCreate(t, l, "t", broker.TopicConfig{})
				fill(t, l, tp("t", 0), 10)
				if err := l.Checkpoint(); err != nil {
					t.Fatal(err)
				}
				fill(t, l, tp("t", 0), 10)
				if err := c.mark(l); err != nil {
					t.Fatal(err)
				}
				crashed := mem.Crash(nil, vfs.KeepNothing)
				mustClose(t, l)
				mem, cfg.FS = crashed, crashed
				for round := range record.Offset(3) {
					l = mustOpen(t, cfg)
					want := c.want + round
					if b, err := l.Bounds(t.Context(), tp("t", 0)); err != nil || b.End != want || b.Start > b.End {
						t.Fatalf("bounds %v, %v, want an end of %d", b, err, want)
					}
					got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp("t", 0), From: want}}, broker.FetchOptions{})
					if err != nil || got[0].Err != nil {
						t.Fatalf("fetch at the end: %v %v", err, got)
					}
					if res := mustAppend(t, l, tp("t", 0), batchOf(t, "next")); res.Base != want { // I2
						t.Fatalf("base %d, want %d", res.Base, want)
					}
					mustRead(t, l, tp("t", 0))
					if checkpointed {
						if err := l.Checkpoint(); err != nil {
							t.Fatal(err)
						}
					}
					mustClose(t, l)
					if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
						t.Fatalf("check: %v %v", found, err)
					}
				}
			})
		}
	}
}

// TestPowerLossWithoutDurability cuts the power at random operations of a log without durability, in rounds:
// records may be lost, but offsets below what a hold has said are never given again (I2).
func TestPowerLossWithoutDurability(t *testing.T) {
	seedtest.Each(t, 150, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := vfs.NewMem()
		held := record.Offset(0)
		for range 4 {
			inject := vfs.NewInject(mem)
			k, seen := rng.IntN(60), 0
			var after *vfs.Mem
			survived := held
			inject.Observe(func(vfs.Op, string) {
				if seen++; seen > k && after == nil {
					after, survived = mem.Crash(rng, vfs.CrashMode(rng.IntN(3))), held
				}
			})
			cfg := smallConfig(inject)
			cfg.Durability = DurabilityNone
			l := mustOpen(t, cfg)
			_, err := l.CreateTopic(t.Context(), "t", broker.TopicConfig{})
			if err != nil && !errors.Is(err, broker.ErrTopicExists) {
				t.Fatal(err)
			}
			for range 15 {
				res := mustAppend(t, l, tp("t", 0), batchOf(t, fmt.Sprintf("%0*d", rng.IntN(900), 1)))
				if res.Base < held {
					t.Fatalf("offset %d is given again, held at %d", res.Base, held) // I2
				}
				if rng.IntN(3) == 0 {
					if err := l.Hold(t.Context(), tp("t", 0), res.Base+1); err != nil {
						t.Fatal(err)
					}
					held = res.Base + 1
				}
			}
			mustRead(t, l, tp("t", 0))
			mustClose(t, l)
			if after != nil {
				mem, held = after, survived
			}
		}
	})
}

// TestHoldAboveEnd refuses what would otherwise be taken for lost records at the next start.
func TestHoldAboveEnd(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	mustCreate(t, l, "t", broker.TopicConfig{})
	var oor *broker.OutOfRangeError
	if err := l.Hold(t.Context(), tp("t", 0), 1); !errors.As(err, &oor) {
		t.Fatalf("hold above the end: %v", err)
	}
	mustClose(t, l)
}

// TestFailedCheckpointDrops keeps the list of dropped segments when a checkpoint or a removal fails.
func TestFailedCheckpointDrops(t *testing.T) {
	for _, rule := range []vfs.Rule{
		{Op: vfs.OpCreate, Pattern: "checkpoint.tmp", K: 1, Err: syscall.EMFILE},
		{Op: vfs.OpRemove, Pattern: "*.log", K: 2, Err: syscall.EIO},
	} {
		l, mem, inject := injected(t, 0)
		fill(t, l, tp("t", 0), 12)
		if _, err := l.DeleteRecords(t.Context(), tp("t", 0), 9); err != nil {
			t.Fatal(err)
		}
		inject.Fail(rule)
		if err := l.Checkpoint(); (err != nil) != (rule.Op == vfs.OpCreate) || inject.Fired() == 0 {
			t.Fatalf("checkpoint: %v, %d failed", err, inject.Fired())
		}
		if err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		bases, err := segment.List(mem, "/log/data/t-0")
		if err != nil || cmp.Diff([]record.Offset{9}, bases) != "" {
			t.Errorf("%s: segments %v, %v", rule.Op, bases, err)
		}
		mustClose(t, l)
	}
}

// TestDroppedOfDeletedTopic never removes the files of a new topic by a list that is about the old one.
func TestDroppedOfDeletedTopic(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	l := mustOpen(t, smallConfig(inject))
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 6)
	if _, err := l.DeleteRecords(t.Context(), tp("t", 0), 6); err != nil {
		t.Fatal(err)
	}
	inject.Fail(vfs.Rule{Op: vfs.OpCreate, Pattern: "checkpoint.tmp", K: 1, Err: syscall.EMFILE})
	if err := l.EnforceRetention(); err == nil {
		t.Fatal("the checkpoint was not failed")
	}
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 6)
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if got, _ := mustRead(t, l, tp("t", 0)); len(got) != 6 { // I1
		t.Fatalf("%d records", len(got))
	}
	mustClose(t, l)
}

// TestTopicChangeOutcome fails each operation of a change of the topics. Either the change was not made and can
// be made again, or the log takes nothing any more, since the next start may find it made (I1).
func TestTopicChangeOutcome(t *testing.T) {
	changes := []struct {
		name   string
		change func(l *Log) error
		made   func(l *Log) bool
	}{
		{"create", func(l *Log) error { _, err := l.CreateTopic(t.Context(), "new", broker.TopicConfig{}); return err },
			func(l *Log) bool { _, err := l.partition(tp("new", 0)); return err == nil }},
		{"delete", func(l *Log) error { return l.DeleteTopic(t.Context(), "t") },
			func(l *Log) bool { _, err := l.partition(tp("t", 0)); return err != nil }},
		{"set", func(l *Log) error {
			return l.SetTopicConfig(t.Context(), "t", broker.TopicConfig{RetentionBytes: 12345})
		}, func(l *Log) bool { return l.topics["t"].config().RetentionBytes == 12345 }},
	}
	for _, c := range changes {
		for _, keep := range []vfs.CrashMode{vfs.KeepNothing, vfs.KeepAll} {
			fired := true
			for k := 1; fired; k++ {
				mem := vfs.NewMem()
				inject := vfs.NewInject(mem)
				l := mustOpen(t, smallConfig(inject))
				mustCreate(t, l, "t", broker.TopicConfig{})
				mustAppend(t, l, tp("t", 0), batchOf(t, "first"))
				inject.Fail(vfs.Rule{K: k, Err: syscall.EIO})
				err := c.change(l)
				fired = inject.Fired() > 0
				inject.Heal()
				made := c.made(l)
				if (err == nil) != made {
					t.Fatalf("%s, operation %d: %v, made: %v", c.name, k, err, made)
				}
				_, aerr := appendEither(t, l, tp("t", 0), batchOf(t, "second"))
				if err != nil && l.failure() == nil { // known not to be made: all goes on
					if aerr != nil {
						t.Fatalf("%s, operation %d: append after a change that was not made: %v", c.name, k, aerr)
					}
					if again := mem.Crash(nil, keep); true {
						l := mustOpen(t, smallConfig(again))
						if c.made(l) {
							t.Fatalf("%s, operation %d: found made after %v", c.name, k, err)
						}
						mustClose(t, l)
					}
					if err := c.change(l); err != nil {
						t.Fatalf("%s, operation %d: again: %v", c.name, k, err)
					}
					made = true
				}
				if l.failure() != nil && aerr == nil {
					t.Fatalf("%s, operation %d: a failed log took an append", c.name, k)
				}
				mem = mem.Crash(nil, keep)
				mustClose(t, l)
				l = mustOpen(t, smallConfig(mem))
				if made && !c.made(l) {
					t.Fatalf("%s, operation %d: the change is lost", c.name, k)
				}
				if c.name != "delete" && aerr == nil {
					if got, _ := mustRead(t, l, tp("t", 0)); len(got) != 2 { // I1
						t.Fatalf("%s, operation %d: %v", c.name, k, got)
					}
				}
				mustClose(t, l)
			}
		}
	}
}
