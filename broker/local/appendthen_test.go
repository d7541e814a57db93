package local

import (
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
		l.AppendThen(t.Context(), tp("t", int32(i%3)), batchOf(t, "v"), func(res broker.AppendResult, err error) { results <- told{i, res, err} })
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
		l.AppendThen(t.Context(), tp("t", 0), batchOf(t, "v"), func(res broker.AppendResult, err error) { results <- told{i, res, err} })
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
