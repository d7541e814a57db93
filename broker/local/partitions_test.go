package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// I1: partitions that were added, and what was appended to them, survive power loss; the old ones keep theirs.
func TestCreatePartitions(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2})
	appendTo := func(p int32) {
		t.Helper()
		if _, err := appendEither(t, l, tp("t", p), batchOf(t, fmt.Sprintf("value of %d", p))); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(1)
	for _, bad := range []int32{-1, 0, 1, 2, broker.MaxPartitions + 1, 1<<31 - 1} {
		if err := l.CreatePartitions(t.Context(), "t", bad); !errors.Is(err, broker.ErrInvalidTopic) {
			t.Errorf("%d partitions: %v", bad, err)
		}
	}
	if err := l.CreatePartitions(t.Context(), "none", 5); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("no topic: %v", err)
	}
	if err := l.CreatePartitions(t.Context(), "t", 5); err != nil {
		t.Fatal(err)
	}
	appendTo(4)
	if n, err := l.Size(t.Context(), tp("t", 4)); err != nil || n < 70 {
		t.Errorf("size %d %v", n, err)
	}
	after := mem.Crash(rand.New(rand.NewPCG(1, 1)), vfs.KeepNothing)
	mustClose(t, l)

	l = mustOpen(t, smallConfig(after))
	defer mustClose(t, l)
	parts, err := l.Partitions(t.Context(), "t")
	if err != nil || len(parts) != 5 {
		t.Fatalf("%v %v", parts, err)
	}
	for p, want := range map[int32]int64{0: 0, 1: 1, 2: 0, 4: 1} {
		if b, err := l.Bounds(t.Context(), tp("t", p)); err != nil || int64(b.End) != want {
			t.Errorf("partition %d: %+v %v, want %d", p, b, err, want)
		}
	}
	topics, err := l.Topics(t.Context())
	if err != nil || topics[0].Config.Partitions != 5 {
		t.Errorf("%+v %v", topics, err)
	}
}

// An error at any operation leaves the topic as it was, or with its new partitions; a second try succeeds.
func TestCreatePartitionsFails(t *testing.T) {
	for k := 1; k < 30; k++ {
		inject := vfs.NewInject(vfs.NewMem())
		l := mustOpen(t, smallConfig(inject))
		mustCreate(t, l, "t", broker.TopicConfig{})
		inject.Fail(vfs.Rule{Op: vfs.AnyOp, K: k})
		err := l.CreatePartitions(t.Context(), "t", 3)
		inject.Heal()
		fired := inject.Fired() > 0
		if err == nil && l.failure() == nil {
			if _, err := appendEither(t, l, tp("t", 2), batchOf(t, "v")); err != nil {
				t.Errorf("operation %d: append: %v", k, err)
			}
		} else if l.failure() == nil {
			if _, err := appendEither(t, l, tp("t", 2), batchOf(t, "v")); !errors.Is(err, broker.ErrUnknownTopic) {
				t.Errorf("operation %d: append to a partition that was not made: %v", k, err)
			}
			if err := l.CreatePartitions(t.Context(), "t", 3); err != nil {
				t.Errorf("operation %d: again: %v", k, err)
			}
		}
		_ = l.Close() // a log that failed says so
		if !fired {
			return
		}
	}
	t.Error("the number of operations has no end")
}
