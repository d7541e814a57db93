package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestPassingErrors takes away the file descriptors for a while: appends are refused with an error that clients
// retry, nothing that was acknowledged is lost, and when they are back, all goes on without a restart.
func TestPassingErrors(t *testing.T) {
	for _, rule := range []vfs.Rule{
		{Op: vfs.OpCreate, Pattern: "*.wal"}, {Op: vfs.OpCreate, Pattern: "*.log"}, {Op: vfs.OpCreate}, {Op: vfs.OpOpen},
		{Op: vfs.OpPreallocate},
	} {
		for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
			for k := 1; k < 8; k++ {
				t.Run(fmt.Sprintf("%s%s/%s/%d", rule.Op, rule.Pattern, d, k), func(t *testing.T) {
					mem := vfs.NewMem()
					inject := vfs.NewInject(mem)
					cfg := smallConfig(inject)
					cfg.Durability = d
					l := mustOpen(t, cfg)
					mustCreate(t, l, "t", broker.TopicConfig{})
					rule.K, rule.Forever, rule.Err = k, true, syscall.EMFILE
					inject.Fail(rule)
					if k%2 == 0 && rule.Op != vfs.OpOpen { // no spare can be used either
						inject.Fail(vfs.Rule{Op: vfs.OpOpen, Pattern: "*.wal", K: 1, Forever: true, Err: syscall.EMFILE})
					}
					acked := map[record.Offset]string{}
					refused := 0
					put := func(i int) {
						v := fmt.Sprintf("%d %0900d", i, i)
						res, err := appendEither(t, l, tp("t", 0), batchOf(t, v))
						switch {
						case err == nil:
							acked[res.Base] = v
						case errors.Is(err, broker.ErrStorage) && errors.Is(err, syscall.EMFILE):
							refused++
						default:
							t.Fatalf("append: %v", err)
						}
					}
					for i := range 40 {
						put(i)
					}
					if rule.Op == vfs.OpCreate && rule.Pattern == "*.log" && refused == 0 {
						t.Fatalf("nothing was refused, %d appended", len(acked))
					}
					inject.Heal()
					if err := l.failure(); err != nil {
						t.Fatalf("the log failed for good: %v", err)
					}
					was := refused
					for i := range 10 {
						put(100 + i)
					}
					if refused != was {
						t.Fatalf("appends are still refused")
					}
					if err := l.Checkpoint(); err != nil {
						t.Fatal(err)
					}
					for next := range record.Offset(len(acked)) {
						if _, ok := acked[next]; !ok { // I2
							t.Fatalf("offset %d was given to nobody", next)
						}
					}
					mode := vfs.KeepNothing
					if d == DurabilityNone {
						mode = vfs.KeepAll
					}
					mem = mem.Crash(nil, mode)
					mustClose(t, l)
					l = mustOpen(t, smallConfig(mem))
					got, _ := mustRead(t, l, tp("t", 0))
					for o, v := range acked {
						if got[o] != v { // I1
							t.Fatalf("offset %d: %.20q, want %.20q", o, got[o], v)
						}
					}
					mustClose(t, l)
				})
			}
		}
	}
}

// TestRotateCrash cuts the power around the failed and the repeated making of a journal file (I1).
func TestRotateCrash(t *testing.T) {
	seedtest.Each(t, 100, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		mem := vfs.NewMem()
		inject := vfs.NewInject(mem)
		cfg := smallConfig(inject)
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{})
		crashRNG := rand.New(rand.NewPCG(seed, 4)) // of the goroutine that is interrupted
		var after *vfs.Mem
		acked := map[record.Offset]string{}
		var survived int
		k, seen := rng.IntN(80), 0
		var mu sync.Mutex
		inject.Observe(func(vfs.Op, string) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; seen > k && after == nil {
				after, survived = mem.Crash(crashRNG, vfs.CrashMode(crashRNG.IntN(3))), len(acked)
			}
		})
		for i := range 40 {
			if rng.IntN(6) == 0 {
				inject.Fail(vfs.Rule{Op: vfs.OpSyncDir, Pattern: "journal", K: 1, Err: syscall.EMFILE})
			}
			v := fmt.Sprintf("%d %0800d", i, i)
			if res, err := appendEither(t, l, tp("t", 0), batchOf(t, v)); err == nil {
				mu.Lock()
				acked[res.Base] = v
				mu.Unlock()
			} else if !errors.Is(err, broker.ErrStorage) {
				t.Fatal(err)
			}
		}
		mustClose(t, l)
		if after == nil {
			return
		}
		if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("check: %v %v", found, err)
		}
		cfg.FS = after
		l = mustOpen(t, cfg)
		got, _ := mustRead(t, l, tp("t", 0))
		for o := range record.Offset(survived) {
			if got[o] != acked[o] { // I1
				t.Fatalf("offset %d: %.20q, want %.20q", o, got[o], acked[o])
			}
		}
		mustClose(t, l)
	})
}

// countFS counts the files that are open.
type countFS struct {
	vfs.FS
	open, most atomic.Int64
}

type countFile struct {
	vfs.File
	fs   *countFS
	once sync.Once
}

func (c *countFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	n := c.open.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	return &countFile{File: f, fs: c}, nil
}

func (c *countFS) Create(name string) (vfs.File, error)   { return c.wrap(c.FS.Create(name)) }
func (c *countFS) Open(name string) (vfs.File, error)     { return c.wrap(c.FS.Open(name)) }
func (c *countFS) OpenRead(name string) (vfs.File, error) { return c.wrap(c.FS.OpenRead(name)) }

func (f *countFile) Close() error {
	f.once.Do(func() { f.fs.open.Add(-1) })
	return f.File.Close()
}

// TestOpenFiles bounds the files that many small segments keep open, and closes all in the end.
func TestOpenFiles(t *testing.T) {
	fsys := &countFS{FS: vfs.NewMem()}
	cfg := smallConfig(fsys)
	cfg.OpenSegments, cfg.CheckpointBytes = 8, 1<<40
	cfg.DefaultTopic.SegmentBytes = broker.MinSegmentBytes
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	const n = 200
	for i := range n {
		mustAppend(t, l, tp("t", 0), batchOf(t, fmt.Sprintf("%0900d", i)))
		if i%10 == 9 { // the checkpoint that was asked for may still be under way
			if err := l.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				if got, _, err := readAll(l, tp("t", 0)); err != nil || len(got) != n {
					t.Errorf("%d records, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if most := fsys.most.Load(); most > 60 {
		t.Errorf("%d files were open", most)
	}
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if open := fsys.open.Load(); open != 0 {
		t.Errorf("%d files are open after the end", open)
	}
}

// TestSegmentBytesMinimum refuses segments of a few bytes, and opens topics that were made with them.
func TestSegmentBytesMinimum(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	if _, err := l.CreateTopic(t.Context(), "t", broker.TopicConfig{SegmentBytes: 10}); !errors.Is(err, broker.ErrInvalidTopic) {
		t.Fatalf("create: %v", err)
	}
	mustCreate(t, l, "t", broker.TopicConfig{})
	topics := l.states()
	s := topics["t"]
	s.Config.SegmentBytes = 1
	topics["t"] = s
	if err := l.saveTopics(topics, nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, smallConfig(mem))
	mustClose(t, l)
}
