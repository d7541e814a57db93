package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// left gives how many records of a partition a power loss of this moment leaves.
func left(t *testing.T, mem *vfs.Mem) int {
	t.Helper()
	cfg := smallConfig(mem.Crash(rand.New(rand.NewPCG(1, 2)), vfs.KeepNothing))
	cfg.Durability = DurabilityNone
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	got, bounds, err := readAll(l, tp("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	if int(bounds.End) != len(got) {
		t.Fatalf("%d records, bounds %+v", len(got), bounds)
	}
	return len(got)
}

func openUnsynced(t *testing.T, topic broker.TopicConfig) (*Log, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	cfg := smallConfig(mem)
	cfg.Durability, cfg.CheckpointBytes, cfg.OpenSegments = DurabilityNone, 1<<30, 1000
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", topic)
	return l, mem
}

// Without durability a power loss takes what was not synced: with flush.messages less than so many records, over all
// segments that no checkpoint has seen (I1 as far as the topic asks for it).
func TestFlushMessages(t *testing.T) {
	for _, every := range []int64{0, 1, 3} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			l, mem := openUnsynced(t, broker.TopicConfig{FlushMessages: every})
			defer mustClose(t, l)
			value := string(make([]byte, 1000)) // a segment takes two
			for n := 1; n <= 14; n++ {
				mustAppend(t, l, tp("t", 0), batchOf(t, value))
				want := 0
				if every > 0 {
					want = n - n%int(every)
				}
				if got := left(t, mem); got != want {
					t.Fatalf("%d records with flush.messages %d: %d left, want %d", n, every, got, want)
				}
			}
		})
	}
}

// With flush.ms a power loss takes the records of that time at most; 0 syncs each append.
func TestFlushAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, mem := openUnsynced(t, broker.TopicConfig{FlushAge: 10 * time.Second})
		defer mustClose(t, l)
		for n := range 3 {
			mustAppend(t, l, tp("t", 0), batchOf(t, "a"))
			mustAppend(t, l, tp("t", 0), batchOf(t, "b"))
			<-time.After(9 * time.Second)
			if got := left(t, mem); got != 2*n {
				t.Fatalf("%d left after 9 s, want %d", got, 2*n)
			}
			<-time.After(2 * time.Second)
			synctest.Wait()
			if got := left(t, mem); got != 2*n+2 {
				t.Fatalf("%d left after 11 s, want %d", got, 2*n+2)
			}
		}
	})
	l, mem := openUnsynced(t, broker.TopicConfig{FlushAge: -1})
	defer mustClose(t, l)
	mustAppend(t, l, tp("t", 0), batchOf(t, "a", "b"))
	if got := left(t, mem); got != 2 {
		t.Fatalf("flush.ms 0: %d left", got)
	}
}

// A change of the settings holds for what is there already.
func TestFlushIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, mem := openUnsynced(t, broker.TopicConfig{FlushAge: time.Hour})
		defer mustClose(t, l)
		set := func(cfg broker.TopicConfig) {
			t.Helper()
			if err := l.SetTopicConfig(t.Context(), "t", cfg); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, tp("t", 0), batchOf(t, "a", "b", "c"))
		set(broker.TopicConfig{FlushMessages: 4})
		if got := left(t, mem); got != 0 {
			t.Fatalf("%d left too early", got)
		}
		set(broker.TopicConfig{FlushMessages: 3})
		if got := left(t, mem); got != 3 {
			t.Fatalf("%d left, want 3", got)
		}
		mustAppend(t, l, tp("t", 0), batchOf(t, "d"))
		set(broker.TopicConfig{FlushAge: time.Second})
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := left(t, mem); got != 4 {
			t.Fatalf("%d left, want 4", got)
		}
	})
}

// A sync that fails is told to who waits for it, and the log takes nothing more: nobody knows what the page cache has lost.
func TestFlushFails(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	cfg := smallConfig(inject)
	cfg.Durability = DurabilityNone
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{FlushMessages: 2})
	mustAppend(t, l, tp("t", 0), batchOf(t, "a"))
	inject.Fail(vfs.Rule{Op: vfs.OpSync, Pattern: "*.log", K: 1, Err: syscall.EIO})
	if _, err := l.Append(t.Context(), tp("t", 0), batchOf(t, "b")); err == nil {
		t.Fatal("an append was acknowledged whose sync failed")
	}
	if _, err := l.Append(t.Context(), tp("t", 0), batchOf(t, "c")); err == nil {
		t.Fatal("the log goes on after a failed sync")
	}
	_ = l.Close()
}

// A moment without a handle for the directory refuses the append that its sync is due for, and no other: a retry of it is not
// acknowledged before the names are durable, and without one the sync is tried again by itself (I1 as far as the topic asks).
func TestFlushOutOfHandles(t *testing.T) {
	for _, retry := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			cfg := smallConfig(inject)
			cfg.Durability = DurabilityNone
			l := mustOpen(t, cfg)
			defer mustClose(t, l)
			mustCreate(t, l, "t", broker.TopicConfig{FlushMessages: 2})
			mustCreate(t, l, "other", broker.TopicConfig{})
			mustAppend(t, l, tp("t", 0), producedBatch(t, 7, 0, 0, "a"))
			inject.Fail(vfs.Rule{Op: vfs.OpSyncDir, K: 1, Forever: true, Err: syscall.EMFILE})
			for range 2 { // the second is a retry
				if _, err := l.Append(t.Context(), tp("t", 0), producedBatch(t, 7, 0, 1, "b")); !errors.Is(err, broker.ErrStorage) || !errors.Is(err, syscall.EMFILE) {
					t.Fatalf("append without a sync of the names: %v", err)
				}
			}
			mustAppend(t, l, tp("other", 0), batchOf(t, "c"))
			if got := left(t, mem); got != 0 {
				t.Fatalf("%d left, want none yet", got)
			}
			<-time.After(3 * syncAgain) // still none free
			inject.Heal()
			if retry {
				res, err := l.Append(t.Context(), tp("t", 0), producedBatch(t, 7, 0, 1, "b"))
				if err != nil || !res.Duplicate || res.Base != 1 {
					t.Fatalf("retry: %+v, %v", res, err)
				}
			} else {
				<-time.After(2 * syncAgain)
				synctest.Wait()
			}
			if got := left(t, mem); got != 2 {
				t.Fatalf("%d left, want 2", got)
			}
		})
	}
}

// I2: a log without durability that was told to sync ends, after a power loss, no earlier than it did then: its offsets may be
// in a table.
func TestSyncedOffsetsAreNotGivenAgain(t *testing.T) {
	seedtest.Each(t, 50, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 21))
		mem := vfs.NewMem()
		cfg := smallConfig(mem)
		cfg.Durability = DurabilityNone
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{})
		acked := map[record.Offset]string{}
		put := func(n int) {
			for range n {
				v := fmt.Sprintf("%d %0600d", len(acked), rng.Uint32())
				acked[mustAppend(t, l, tp("t", 0), batchOf(t, v)).Base] = v
			}
		}
		put(rng.IntN(30))
		if rng.IntN(2) == 0 {
			if err := l.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		put(rng.IntN(10))
		if err := l.Sync(t.Context(), tp("t", 0)); err != nil {
			t.Fatal(err)
		}
		synced := record.Offset(len(acked))
		put(rng.IntN(10))
		after := mem.Crash(rng, vfs.CrashMode(rng.IntN(3)))
		mustClose(t, l)
		cfg.FS = after
		l = mustOpen(t, cfg)
		got, b := mustRead(t, l, tp("t", 0))
		if b.End < synced {
			t.Fatalf("the end is %d, synced was %d", b.End, synced)
		}
		for o, v := range got {
			if acked[o] != v {
				t.Fatalf("offset %d: %.20q, want %.20q", o, v, acked[o])
			}
		}
		mustClose(t, l)
	})
}
