package local

import (
	"bytes"
	"errors"
	"path"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestDecompressionMemory appends small batches that decompress to 100 MB each, many at once: checking them must
// not hold what they decompress to (I8).
func TestDecompressionMemory(t *testing.T) {
	appenders := 12
	if testing.Short() {
		appenders = 3
	}
	for _, codec := range []record.Codec{record.Gzip, record.LZ4, record.Zstd} {
		b := record.NewBuilder(codec)
		value := make([]byte, 1<<20)
		for range 100 {
			b.Append(start.UnixMilli(), nil, value, nil)
		}
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		cfg := smallConfig(vfs.NewMem())
		cfg.ValidateMemory = 40 << 20
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{SegmentBytes: 1 << 30})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		for range appenders {
			wg.Go(func() { mustAppend(t, l, tp("t", 0), bytes.Clone(raw)) })
		}
		wg.Wait()
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d MiB for each", codec, used/uint64(appenders)>>20)
		if used > uint64(appenders)*33<<20 {
			t.Errorf("%s: %d bytes were allocated for batches of %d", codec, used, len(raw))
		}
		mustClose(t, l)
	}
}

// TestDecompressedLimit refuses what readers could not decompress.
func TestDecompressedLimit(t *testing.T) {
	cfg := smallConfig(vfs.NewMem())
	cfg.MaxBatchMemory = 1 << 20
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	b := record.NewBuilder(record.Gzip)
	b.Append(start.UnixMilli(), nil, make([]byte, 2<<20), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := appendEither(t, l, tp("t", 0), raw); !errors.Is(err, broker.ErrInvalidRecord) {
		t.Fatalf("append: %v", err)
	}
	mustClose(t, l)
}

// TestProducersAreCapped: producer ids that nobody was given fill no memory (I8). Those that go are the longest
// idle ones, and never one with an open transaction.
func TestProducersAreCapped(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		t.Run(d.String(), func(t *testing.T) {
			now := newClock()
			cfg := smallConfig(vfs.NewMem())
			cfg.Clock, cfg.MaxProducers, cfg.Durability = now.time, 80, d
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2})
			known := func() (n int) {
				for i := range int32(2) {
					states, err := l.Producers(t.Context(), tp("t", i))
					if err != nil {
						t.Fatal(err)
					}
					n += len(states)
				}
				return n
			}
			mustAppend(t, l, tp("t", 0), txnBatch(t, 1, 0, 0, "open"))
			seq := int32(0)
			for i := range int64(1000) {
				now.pass(time.Second)
				mustAppend(t, l, tp("t", int32(i%2)), producedBatch(t, 7e9+i, 0, 0, "v"))
				if i%10 == 0 {
					mustAppend(t, l, tp("t", 1), producedBatch(t, 2, 0, seq, "busy"))
					seq++
				}
				if n := known(); n > 90 {
					t.Fatalf("%d producers are remembered after %d, want 90 at most", n, i)
				}
			}
			if n := known(); n < 80 {
				t.Errorf("%d producers are remembered, want 80 at least", n)
			}
			mustClose(t, l)
			l = mustOpen(t, cfg)
			defer mustClose(t, l)
			for id, s := range map[int64]int32{2: seq - 1, 7e9 + 999: 0} { // a retry of what was last
				if res := mustAppend(t, l, tp("t", 1), producedBatch(t, id, 0, s, "v")); !res.Duplicate {
					t.Errorf("producer %d is forgotten", id)
				}
			}
			mustEnd(t, l, tp("t", 0), 1, 0, true)
			if b, err := l.Bounds(t.Context(), tp("t", 0)); err != nil || b.Stable != b.End {
				t.Errorf("the transaction is still open: %+v %v", b, err)
			}
		})
	}
}

// I8: what a producer had on its way to the disk at once, over however many connections, is not remembered once it is there.
func TestProducerForgetsABurst(t *testing.T) {
	inject := vfs.NewInject(vfs.NewMem())
	l := mustOpen(t, smallConfig(inject))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	came, let := make(chan struct{}), make(chan struct{})
	held := sync.OnceFunc(func() { close(came); <-let })
	inject.Observe(func(op vfs.Op, name string) {
		if op == vfs.OpSync && path.Ext(name) == journalSuffix {
			held() // all that follows waits for the first sync
		}
	})
	const n = 100
	var wg sync.WaitGroup
	for i := range int32(n) {
		wg.Add(1)
		l.AppendThen(t.Context(), broker.Append{TP: tp("t", 0), Batch: producedBatch(t, 7, 0, i, "v"), Then: func(_ broker.AppendResult, err error) {
			if err != nil {
				t.Error(err)
			}
			wg.Done()
		}})
		if i == 0 {
			<-came
		}
	}
	close(let)
	wg.Wait()
	p := l.all()[0]
	p.mu.Lock()
	kept, room := len(p.producers[7].Last), cap(p.producers[7].Last)
	p.mu.Unlock()
	if kept > keptBatches || room > 4*keptBatches {
		t.Errorf("%d batches are remembered, in room for %d; want %d", kept, room, keptBatches)
	}
	for i := range int32(keptBatches) { // retries of what is kept
		if res := mustAppend(t, l, tp("t", 0), producedBatch(t, 7, 0, n-1-i, "v")); !res.Duplicate || res.Base != record.Offset(n-1-i) {
			t.Errorf("a retry of sequence number %d: %+v", n-1-i, res)
		}
	}
}
