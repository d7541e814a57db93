package tiering_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// oneBatch answers each fetch with one batch, so that chunks are on their way all the time.
type oneBatch struct{ *fakeLog }

func (o oneBatch) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	for i := range ranges {
		ranges[i].MaxBytes = 1
	}
	return o.fakeLog.Fetch(ctx, ranges, opts)
}

// TestReassign takes a partition away and gives it back while chunks of it are on their way: one that was fetched
// before is not taken for one that was fetched after, which would end the session.
func TestReassign(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.Source = oneBatch{r.log}
	r.cfg.UntilEnd, r.cfg.Manual, r.cfg.MaxAge = false, true, time.Hour
	r.fill(1000, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	tr.Assign(ctx, []int32{0})
	for tr.Stats().Rows < 1000 {
		from := record.Offset(tr.Stats().Rows)
		eventually(t, func() bool {
			r.log.mu.Lock()
			defer r.log.mu.Unlock()
			return r.log.asked[0] >= min(from+2, 1000)
		})
		tr.Revoke(ctx, []int32{0})
		tr.Assign(ctx, []int32{0})
	}
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if s := tr.Stats(); s.Restarts != 0 {
		t.Errorf("%d sessions were begun again", s.Restarts)
	}
	r.check()
}

// gated gives each partition up to a limit, batch by batch.
type gated struct {
	oneBatch
	mu     sync.Mutex
	limit  map[int32]record.Offset
	asked  map[int32]record.Offset
	opened chan struct{}
}

func (g *gated) open(p int32, to record.Offset) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit[p] = to
	close(g.opened)
	g.opened = make(chan struct{})
}

// reached says whether all before an offset was taken: it is asked for what comes then.
func (g *gated) reached(p int32, o record.Offset) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[p] >= o
}

func (g *gated) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	g.mu.Lock()
	opened := g.opened
	var open []broker.FetchRange
	for _, r := range ranges {
		g.asked[r.TP.Partition] = r.From
		if r.From < g.limit[r.TP.Partition] {
			open = append(open, r)
		}
	}
	g.mu.Unlock()
	if len(open) == 0 {
		select {
		case <-opened:
		case <-ctx.Done():
		}
	}
	got, err := g.oneBatch.Fetch(ctx, open, opts)
	if err != nil {
		return nil, err
	}
	out := make([]broker.Fetched, len(ranges))
	for i, r := range ranges {
		if len(open) > 0 && open[0].TP == r.TP {
			out[i], open, got = got[0], open[1:], got[1:]
		} else if out[i].Bounds, err = g.Bounds(ctx, r.TP); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TestLastBehindLeaves takes the only partition away that is still behind, while the others catch up during the commit
// that lets go of it: who waits for these need not wait for the age of the commit after it.
func TestLastBehindLeaves(t *testing.T) {
	r := newRig(t, 2)
	g := &gated{oneBatch: oneBatch{r.log}, limit: map[int32]record.Offset{0: 5}, asked: map[int32]record.Offset{}, opened: make(chan struct{})}
	r.cfg.Source, r.cfg.UntilEnd, r.cfg.Manual, r.cfg.MaxAge = g, false, true, time.Hour
	r.fill(10, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	tr.Assign(ctx, []int32{0, 1})
	eventually(t, func() bool { return g.reached(0, 5) })
	committing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && strings.HasPrefix(c.Key, "_delta_log/") {
			once.Do(func() { close(committing) })
			<-goOn
		}
		return mem.Fault{}
	})
	left := make(chan struct{})
	go func() {
		defer close(left)
		tr.Revoke(ctx, []int32{1})
	}()
	<-committing
	g.open(0, 10)
	eventually(t, func() bool { return g.reached(0, 10) })
	close(goOn)
	<-left
	eventually(t, func() bool { return tr.Stats().Rows == 10 })
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}
