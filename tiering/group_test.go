package tiering_test

import (
	"context"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
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
