package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

func TestRestart(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, c := range []struct {
			name string
			fs   vfs.FS
			dir  string
		}{{"os", vfs.OS(), filepath.Join(t.TempDir(), "a", "b")}, {"mem", vfs.NewMem(), "/x/log"}} {
			t.Run(d.String()+"/"+c.name, func(t *testing.T) {
				cfg := smallConfig(c.fs)
				cfg.Dir, cfg.Durability = c.dir, d
				l := mustOpen(t, cfg)
				mustCreate(t, l, "orders", broker.TopicConfig{Partitions: 2})
				want := [2]map[record.Offset]string{{}, {}}
				for round := range 3 {
					for i := range 50 {
						p := int32(i % 2)
						v := fmt.Sprintf("round %d value %d %0200d", round, i, i)
						res := mustAppend(t, l, tp("orders", p), batchOf(t, v, v+"b"))
						if n := record.Offset(len(want[p])); res.Base != n {
							t.Fatalf("base %d, want %d", res.Base, n)
						}
						want[p][res.Base], want[p][res.Base+1] = v, v+"b"
					}
					mustClose(t, l)
					if found, err := CheckDir(t.Context(), cfg.FS, cfg.Dir); err != nil || len(found) > 0 {
						t.Fatalf("check: %v %v", found, err)
					}
					l = mustOpen(t, cfg)
					for p := range want {
						got, _ := mustRead(t, l, tp("orders", int32(p)))
						if diff := cmp.Diff(want[p], got); diff != "" {
							t.Fatalf("partition %d (-want +got):\n%s", p, diff)
						}
					}
				}
				mustClose(t, l)
			})
		}
	}
}

func TestTopics(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "a", broker.TopicConfig{Partitions: 3})
	mustCreate(t, l, "b", broker.TopicConfig{})
	mustAppend(t, l, tp("a", 2), batchOf(t, "old"))
	if _, err := l.CreateTopic(t.Context(), "a", broker.TopicConfig{}); !errors.Is(err, broker.ErrTopicExists) {
		t.Fatalf("create twice: %v", err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a b", "\x00"} {
		if _, err := l.CreateTopic(t.Context(), bad, broker.TopicConfig{}); !errors.Is(err, broker.ErrInvalidTopic) {
			t.Errorf("create %q: %v", bad, err)
		}
	}
	if _, err := l.CreateTopic(t.Context(), "c", broker.TopicConfig{Partitions: 1 << 30}); !errors.Is(err, broker.ErrInvalidTopic) {
		t.Errorf("too many partitions: %v", err)
	}
	before, err := l.Topics(t.Context())
	if err != nil || len(before) != 2 {
		t.Fatalf("topics: %v %v", before, err)
	}
	if err := l.DeleteTopic(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := appendEither(t, l, tp("a", 2), batchOf(t, "x")); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Fatalf("append to a deleted topic: %v", err)
	}
	if err := l.DeleteTopic(t.Context(), "a"); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Fatalf("delete twice: %v", err)
	}
	mustCreate(t, l, "a", broker.TopicConfig{Partitions: 3})
	after, err := l.Topics(t.Context())
	if err != nil || after[0].ID == before[0].ID || after[1].ID != before[1].ID {
		t.Fatalf("ids: %v, then %v, %v", before, after, err)
	}
	if res := mustAppend(t, l, tp("a", 2), batchOf(t, "new")); res.Base != 0 {
		t.Fatalf("base %d", res.Base)
	}
	// The journal still has the frame of the deleted topic, which must not come back.
	l = mustOpen(t, smallConfig(mem.Crash(nil, vfs.KeepNothing)))
	got, _ := mustRead(t, l, tp("a", 2))
	if diff := cmp.Diff(map[record.Offset]string{0: "new"}, got); diff != "" {
		t.Fatal(diff)
	}
	mustClose(t, l)
	if _, err := l.Topics(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("topics of a closed log: %v", err)
	}
	if _, err := appendEither(t, l, tp("a", 2), batchOf(t, "x")); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("append to a closed log: %v", err)
	}
}

func TestLocked(t *testing.T) {
	for _, c := range []Config{{Dir: filepath.Join(t.TempDir(), "log")}, {Dir: "/log", FS: vfs.NewMem()}} {
		l := mustOpen(t, c)
		if _, err := Open(t.Context(), c); !errors.Is(err, vfs.ErrLocked) {
			t.Fatalf("second open: %v", err)
		}
		mustClose(t, l)
		mustClose(t, mustOpen(t, c))
	}
}

// TestConcurrent has many appenders on few partitions, with checkpoints and fetches between (run it with -race).
func TestConcurrent(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			cfg := smallConfig(vfs.NewMem())
			cfg.Durability = d
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{Partitions: 3})
			var wg sync.WaitGroup
			for g := range 12 {
				wg.Go(func() {
					last := record.Offset(-1)
					for i := range 60 {
						res, err := appendEither(t, l, tp("t", int32(g%3)), batchOf(t, fmt.Sprint(g, i)))
						if err != nil || res.Base <= last { // I2
							t.Errorf("append: %v after %d, %v", res, last, err)
							return
						}
						last = res.Base
						if i%10 == 0 {
							if _, _, err := readAll(l, tp("t", int32(g%3))); err != nil {
								t.Errorf("read: %v", err)
							}
						}
					}
				})
			}
			wg.Go(func() {
				for range 20 {
					if err := l.Checkpoint(); err != nil {
						t.Errorf("checkpoint: %v", err)
					}
				}
			})
			wg.Wait()
			mustClose(t, l)
			l = mustOpen(t, cfg)
			for p := range int32(3) {
				if got, b := mustRead(t, l, tp("t", p)); len(got) != 240 || b.End != 240 {
					t.Fatalf("partition %d: %d records, %v", p, len(got), b)
				}
			}
			mustClose(t, l)
		})
	}
}
