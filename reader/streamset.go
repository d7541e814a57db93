package reader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// errHistoryClosed is returned by a closed History.
var errHistoryClosed = errors.New("history is closed")

// streamSet keeps the streams that wait for their consumers, the one that waits longest first. It bounds their
// number and, with those in use, their memory.
type streamSet struct {
	cfg HistoryConfig

	mu     sync.Mutex
	idle   []*stream
	memory int64 // of all streams
	wake   chan struct{}
	timer  *time.Timer // for the first of idle; nil while there is none
	closed bool
}

func newStreamSet(cfg HistoryConfig) streamSet {
	return streamSet{cfg: cfg, wake: make(chan struct{})}
}

// take gives the stream that stands at an offset, or nil.
func (x *streamSet) take(tp record.TopicPartition, t *table.Table, from record.Offset) *stream {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.idle, func(s *stream) bool { return s.tp == tp && s.next == from && s.table == t })
	if i < 0 {
		return nil
	}
	s := x.idle[i]
	x.idle = slices.Delete(x.idle, i, i+1)
	return s
}

// admit waits until there is memory for a new stream; idle ones make room. One that is larger than the budget
// gets through when it is alone.
func (x *streamSet) admit(ctx context.Context, s *stream) error {
	for {
		x.mu.Lock()
		if x.closed {
			x.mu.Unlock()
			return errHistoryClosed
		}
		n := 0
		for free := x.cfg.MemoryBudget - x.memory; free < s.cost && n < len(x.idle); n++ {
			free += x.idle[n].cost
		}
		out := x.evict(n)
		ok := x.memory == 0 || x.memory+s.cost <= x.cfg.MemoryBudget
		if ok {
			x.memory += s.cost
		}
		wake := x.wake
		x.mu.Unlock()
		closeAll(out)
		if ok {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give takes a stream back after a Fetch.
func (x *streamSet) give(s *stream) {
	x.mu.Lock()
	if x.closed || s.ended {
		x.mu.Unlock()
		x.drop(s)
		return
	}
	s.used = time.Now()
	x.idle = append(x.idle, s)
	out := x.evict(len(x.idle) - x.cfg.MaxStreams)
	x.arm()
	close(x.wake) // who waits for memory may evict it
	x.wake = make(chan struct{})
	x.mu.Unlock()
	closeAll(out)
}

// drop closes a stream that its caller has taken.
func (x *streamSet) drop(s *stream) {
	s.close()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.memory -= s.cost
	close(x.wake)
	x.wake = make(chan struct{})
}

// evict takes the first n idle streams out; the caller closes them, without the lock. It holds x.mu.
func (x *streamSet) evict(n int) []*stream {
	if n <= 0 {
		return nil
	}
	out := slices.Clone(x.idle[:n])
	x.idle = slices.Delete(x.idle, 0, n)
	for _, s := range out {
		x.memory -= s.cost
	}
	return out
}

func closeAll(streams []*stream) {
	for _, s := range streams {
		s.close()
	}
}

// arm sets the timer for the stream that waits longest. It holds x.mu.
func (x *streamSet) arm() {
	if x.timer == nil && len(x.idle) > 0 && !x.closed {
		x.timer = time.AfterFunc(time.Until(x.idle[0].used.Add(x.cfg.Idle)), x.expire)
	}
}

// expire closes the streams that waited too long.
func (x *streamSet) expire() {
	x.mu.Lock()
	x.timer = nil
	n := 0
	for n < len(x.idle) && time.Since(x.idle[n].used) >= x.cfg.Idle {
		n++
	}
	out := x.evict(n)
	x.arm()
	x.mu.Unlock()
	closeAll(out)
}

func (x *streamSet) close() {
	x.mu.Lock()
	x.closed = true
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	out := x.evict(len(x.idle))
	close(x.wake)
	x.wake = make(chan struct{})
	x.mu.Unlock()
	closeAll(out)
}
