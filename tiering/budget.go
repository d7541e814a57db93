package tiering

import (
	"context"
	"sync"
)

// budget counts bytes of batches between the source and the decoders.
type budget struct {
	limit int64
	mu    sync.Mutex
	used  int64
	peak  int64
	wake  chan struct{} // closed and replaced when bytes come back
}

func newBudget(limit int64) *budget { return &budget{limit: limit, wake: make(chan struct{})} }

// acquire takes n bytes when they fit, or when nothing else is taken: a batch larger than the budget must get
// through too.
func (b *budget) acquire(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		if b.used == 0 || b.used+n <= b.limit {
			b.used += n
			b.peak = max(b.peak, b.used)
			b.mu.Unlock()
			return nil
		}
		wake := b.wake
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// now gives what is taken and the limit.
func (b *budget) now() (used, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.limit
}

// release gives n bytes back; a negative n takes more without waiting.
func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.peak = max(b.peak, b.used)
	if n > 0 {
		close(b.wake)
		b.wake = make(chan struct{})
	}
}
