package local

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// Batches that one goroutine appends without waiting get their offsets in order, are durable by few syncs, and each is told
// of once, also when the log is closed behind them (I1, I2).
func TestAppendThen(t *testing.T) {
	const n = 500
	inj := vfs.NewInject(vfs.NewMem())
	cfg := smallConfig(inj)
	cfg.JournalBytes, cfg.CheckpointBytes = 1<<20, 1<<30
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 3, SegmentBytes: 1 << 20})
	queued := make(chan struct{})
	var syncs atomic.Int64
	inj.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync && syncs.Add(1) == 1 {
			<-queued // the first sync lasts until all is there
		}
	})
	type told struct {
		n   int
		res broker.AppendResult
		err error
	}
	results := make(chan told, 2*n)
	for i := range n {
		l.AppendThen(t.Context(), broker.Append{TP: tp("t", int32(i%3)), Batch: batchOf(t, "v"), Then: func(res broker.AppendResult, err error) { results <- told{i, res, err} }})
	}
	close(queued)
	seen := map[int]bool{}
	for range n {
		r := <-results
		if r.err != nil || int(r.res.Base) != r.n/3 || seen[r.n] {
			t.Fatalf("append %d: %+v, %v", r.n, r.res, r.err)
		}
		seen[r.n] = true
	}
	if got := syncs.Load(); got > 5 {
		t.Errorf("%d syncs for batches that were there together", got)
	}
	for i := range n {
		l.AppendThen(t.Context(), broker.Append{TP: tp("t", 0), Batch: batchOf(t, "v"), Then: func(res broker.AppendResult, err error) { results <- told{i, res, err} }})
	}
	mustClose(t, l)
	if len(results) != n {
		t.Fatalf("%d of %d are told of when Close returns", len(results), n)
	}
	l = mustOpen(t, cfg)
	defer mustClose(t, l)
	got, _ := mustRead(t, l, tp("t", 0))
	if want := (n+2)/3 + n; len(got) != want {
		t.Errorf("%d records, want %d", len(got), want)
	}
}

// Batches that come together get their offsets, and those that have the queue's memory are written before others wait for it.
func TestAppendTogether(t *testing.T) {
	for name, queue := range map[string]int64{"through a large queue": 1 << 20, "through a small queue": 100} {
		t.Run(name, func(t *testing.T) {
			const n = 8
			cfg := smallConfig(vfs.NewMem())
			cfg.JournalBytes, cfg.CheckpointBytes, cfg.QueueBytes = 1<<20, 1<<30, queue
			l := mustOpen(t, cfg)
			defer mustClose(t, l)
			mustCreate(t, l, "t", broker.TopicConfig{Partitions: n, SegmentBytes: 1 << 20})
			for round := range 50 {
				told := make(chan error, 2*n)
				var all []broker.Append
				for i := range int32(n) {
					all = append(all, broker.Append{TP: tp("t", i), Batch: batchOf(t, "v"), Then: func(res broker.AppendResult, err error) {
						if err == nil && int(res.Base) != round {
							err = fmt.Errorf("offset %d in round %d", res.Base, round)
						}
						told <- err
					}})
				}
				l.AppendThen(t.Context(), all...)
				for range n {
					if err := <-told; err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Batches that come together while the journal syncs others wait for one sync.
func TestTogetherInOneSync(t *testing.T) {
	const n = 8
	inj := vfs.NewInject(vfs.NewMem())
	cfg := smallConfig(inj)
	cfg.JournalBytes, cfg.CheckpointBytes = 1<<20, 1<<30
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: n, SegmentBytes: 1 << 20})
	var syncs atomic.Int64
	syncing, goOn := make(chan struct{}), make(chan struct{})
	inj.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync && syncs.Add(1) == 1 {
			close(syncing)
			<-goOn
		}
	})
	told := make(chan error, n+1)
	batch := func(partition int32) broker.Append {
		return broker.Append{TP: tp("t", partition), Batch: batchOf(t, "v"), Then: func(_ broker.AppendResult, err error) { told <- err }}
	}
	l.AppendThen(t.Context(), batch(0))
	<-syncing
	var all []broker.Append
	for i := range int32(n) {
		all = append(all, batch(i))
	}
	l.AppendThen(t.Context(), all...)
	close(goOn)
	for range cap(told) {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
	if got := syncs.Load(); got != 2 {
		t.Errorf("%d syncs, want one for the first batch and one for %d", got, n)
	}
}

// The journal is not woken for the first of batches that come together.
func TestJournalAwaitsBatchesThatComeTogether(t *testing.T) {
	inj := vfs.NewInject(vfs.NewMem())
	l := mustOpen(t, smallConfig(inj))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2})
	syncing, goOn := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(syncing); <-goOn })
	inj.Observe(func(op vfs.Op, _ string) {
		if op == vfs.OpSync {
			begin()
		}
	})
	told := make(chan error, 3)
	batch := func(partition int32) broker.Append {
		return broker.Append{TP: tp("t", partition), Batch: batchOf(t, "v"), Then: func(_ broker.AppendResult, err error) { told <- err }}
	}
	l.AppendThen(t.Context(), batch(0))
	<-syncing // the journal takes nothing
	select {
	case <-l.queue.wake: // it had seen the batch before
	default:
	}
	p, err := l.partition(tp("t", 1))
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock() // the second batch waits for it
	all := []broker.Append{batch(0), batch(1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.AppendThen(t.Context(), all...)
	}()
	for n := 0; n == 0; runtime.Gosched() {
		n, _ = l.queue.size()
	}
	woken := len(l.queue.wake)
	p.mu.Unlock()
	<-done
	if then := len(l.queue.wake); woken != 0 || then != 1 {
		t.Errorf("the journal was woken %d times when one batch was queued, %d times when both were", woken, then)
	}
	close(goOn)
	for range cap(told) {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
}

// Close waits for batches that come together, and does not keep them from being written.
func TestCloseWhileBatchesComeTogether(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 3})
	told := make(chan error, 3)
	var all []broker.Append
	for i := range int32(cap(told)) {
		all = append(all, broker.Append{TP: tp("t", i), Batch: batchOf(t, "v"), Then: func(_ broker.AppendResult, err error) { told <- err }})
	}
	p, err := l.partition(tp("t", 1))
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock() // the second batch waits for it
	go l.AppendThen(t.Context(), all...)
	for n := 0; n == 0 && len(told) == 0; runtime.Gosched() { // until the first one is queued, or taken already
		n, _ = l.queue.size()
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for l.life.TryRLock() { // until Close waits
		l.life.RUnlock()
		runtime.Gosched()
	}
	p.mu.Unlock()
	for range cap(told) {
		if err := <-told; err != nil && !errors.Is(err, broker.ErrClosed) {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}
