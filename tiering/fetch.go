package tiering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	maxWait      = 500 * time.Millisecond // of a long poll
	maxFetch     = 4 << 20
	minRangeSize = 64 << 10

	// wholeBatch is what is asked of a partition at least, as far as the fetch allows. Kafka gives nothing of one whose first
	// batch is larger than what is asked of it, once the answer has anything: with a small share for each of many
	// partitions large batches came one at a time.
	wholeBatch = 1 << 20
)

// chunk is what one fetch gave of one partition: batches that decide the offsets [from, next).
type chunk struct {
	partition  int32
	from, next record.Offset
	batches    []byte
	aborted    []broker.AbortedTxn
	lost       bool   // no batches: retention was faster
	gen        uint64 // of the position that it was fetched at
	fetch      Step   // that gave it; only the first chunk of one has its busy time
}

// fetcher asks the source for all partitions of a session, one response ahead of the decoders.
type fetcher struct {
	s   *session
	out chan []chunk // closed when the ends are reached (UntilEnd)

	mu    sync.Mutex
	pos   map[int32]*position
	gen   uint64 // of the newest position
	ended bool   // all ends are reached (UntilEnd): positions move no more
	wake  chan struct{}
}

type position struct {
	gen    uint64 // tells a partition that is added again from its former self
	next   record.Offset
	target record.Offset // UntilEnd: where to stop; else, or while only mark says so, -1
	mark   broker.EndMark
	tries  int       // failures in a row
	after  time.Time // not before, after a failure
}

func newFetcher(s *session) *fetcher {
	return &fetcher{s: s, out: make(chan []chunk), pos: map[int32]*position{}, wake: make(chan struct{}, 1)}
}

// add begins to read a partition and gives the stamp that its chunks will bear.
func (f *fetcher) add(partition int32, next record.Offset, to end) uint64 {
	f.mu.Lock()
	f.gen++
	gen := f.gen
	f.pos[partition] = &position{gen: gen, next: next, target: to.offset, mark: to.mark}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return gen
}

func (f *fetcher) remove(partition int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pos, partition)
}

// run fetches until ctx ends or the targets are reached. An error ends the session.
func (f *fetcher) run(ctx context.Context) error {
	for try := 0; ctx.Err() == nil; {
		if err := f.lookForEnds(ctx); err != nil {
			return err
		}
		ranges, left, wait := f.ranges()
		if left == 0 && f.s.t.cfg.UntilEnd {
			close(f.out)
			return nil
		}
		if len(ranges) == 0 {
			f.idle(ctx, wait)
			continue
		}
		err := f.fetch(ctx, ranges)
		if err == nil {
			try = 0
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return err
		}
		try++
		f.s.t.stats.retried()
		f.s.t.cfg.Logger.Warn("fetch failed, will be tried again", "topic", f.s.t.cfg.Topic, "try", try, "error", err)
		sleep(ctx, f.s.t.cfg.pause(try))
	}
	return nil
}

// lookForEnds asks the marks of partitions whose ends have no offsets yet.
func (f *fetcher) lookForEnds(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, pos := range f.pos {
		if pos.mark == nil || pos.target >= 0 {
			continue
		}
		end, reached, err := pos.mark(ctx, pos.next)
		if err != nil {
			return fmt.Errorf("end of %s: %w", f.s.t.tp(p), err)
		}
		if reached {
			pos.target = end
			f.s.t.ended(p, end)
		}
	}
	return nil
}

func (f *fetcher) idle(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.wake:
	case <-timer.C:
	}
}

// ranges gives what to ask for now, how many partitions are not at their target, and how long to wait when there is nothing
// to ask for. They begin anywhere, so that a full response does not always favor the same partitions.
func (f *fetcher) ranges() (ranges []broker.FetchRange, left int, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait = time.Minute
	now := time.Now()
	for p, pos := range f.pos {
		if pos.target >= 0 && pos.next >= pos.target {
			continue
		}
		left++
		if d := pos.after.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		ranges = append(ranges, broker.FetchRange{TP: f.s.t.tp(p), ID: f.s.logID, From: pos.next})
	}
	if len(ranges) == 0 {
		f.ended = left == 0 && f.s.t.cfg.UntilEnd
		return nil, left, wait
	}
	slices.SortFunc(ranges, func(a, b broker.FetchRange) int { return int(a.TP.Partition - b.TP.Partition) })
	first := rand.IntN(len(ranges)) // not in turn: the source may have a turn of its own, and two of them can pass over every other partition
	ranges = append(ranges[first:], ranges[:first]...)
	size := max(int(f.s.fetchBytes)/len(ranges), min(int(f.s.fetchBytes), wholeBatch), minRangeSize)
	for i := range ranges {
		ranges[i].MaxBytes = size
	}
	return ranges, left, wait
}

func (f *fetcher) fetch(ctx context.Context, ranges []broker.FetchRange) error {
	b := f.s.budget
	reserved := f.s.fetchBytes
	if err := b.acquire(ctx, reserved); err != nil {
		return err
	}
	start := time.Now()
	got, err := f.s.t.cfg.Source.Fetch(ctx, ranges, broker.FetchOptions{
		MinBytes: 1, MaxWait: maxWait, MaxBytes: int(f.s.fetchBytes), Isolation: broker.ReadCommitted,
	})
	if err == nil && len(got) != len(ranges) {
		err = fmt.Errorf("the source answered %d of %d partitions", len(got), len(ranges))
	}
	if err != nil {
		b.release(reserved)
		return err
	}
	var chunks []chunk
	var took Step
	took.add(start)
	size := int64(0)
	for i := range got {
		c, ok, err := f.take(ranges[i], &got[i])
		if err != nil {
			b.release(reserved)
			return err
		}
		if ok {
			c.fetch, took.Busy = took, 0
			chunks = append(chunks, c)
			size += int64(len(c.batches))
		}
	}
	b.release(reserved - size)
	if len(chunks) == 0 {
		if time.Since(start) < maxWait/20 { // a source that does not wait must not be asked in a loop
			sleep(ctx, maxWait/20)
		}
		return nil
	}
	select {
	case f.out <- chunks:
	case <-ctx.Done():
		b.release(size)
	}
	return nil
}

// take turns the answer for one partition into a chunk and moves the position over it.
func (f *fetcher) take(r broker.FetchRange, got *broker.Fetched) (chunk, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pos := f.pos[r.TP.Partition]
	if pos == nil || pos.next != r.From {
		return chunk{}, false, nil // removed, or removed and added again, while the fetch was under way
	}
	bounds := got.Bounds
	var outside *broker.OutOfRangeError
	if errors.As(got.Err, &outside) {
		bounds = outside.Bounds
	}
	if got.Err == nil || outside != nil {
		f.s.t.stats.bounds(r.TP.Partition, bounds)
		if bounds.Start > pos.next {
			return f.gap(r.TP, pos, bounds)
		}
		if outside != nil && pos.next > bounds.End {
			return chunk{}, false, &AheadError{TP: r.TP, LakeEnd: pos.next, LogEnd: bounds.End}
		}
	}
	if got.Err != nil {
		if permanent(got.Err) {
			return chunk{}, false, fmt.Errorf("fetch %s: %w", r.TP, got.Err)
		}
		pos.tries++
		f.s.t.stats.retried()
		pos.after = time.Now().Add(f.s.t.cfg.pause(pos.tries))
		f.s.t.cfg.Logger.Warn("fetch failed, will be tried again", "partition", r.TP.String(), "try", pos.tries, "error", got.Err)
		return chunk{}, false, nil
	}
	pos.tries = 0
	next, err := endOf(got.Batches)
	if err != nil {
		return chunk{}, false, fmt.Errorf("read %s at offset %d: %w", r.TP, pos.next, err)
	}
	if next <= pos.next {
		return chunk{}, false, nil
	}
	c := chunk{partition: r.TP.Partition, from: pos.next, next: next, batches: got.Batches, aborted: got.Aborted, gen: pos.gen}
	pos.next = next
	return c, true, nil
}

// gap handles records that retention dropped before they were tiered.
func (f *fetcher) gap(tp record.TopicPartition, pos *position, b broker.Bounds) (chunk, bool, error) {
	if f.s.t.cfg.OnGap == GapFail {
		return chunk{}, false, &GapError{TP: tp, LakeEnd: pos.next, LogStart: b.Start}
	}
	to := b.Start
	if f.s.t.cfg.OnGap == GapLatest {
		to = max(b.Start, b.Stable)
	}
	c := chunk{partition: tp.Partition, from: pos.next, next: to, lost: true, gen: pos.gen}
	pos.next = to
	return c, true, nil
}

// endOf gives the offset after the last whole batch; 0 when there is none.
func endOf(batches []byte) (record.Offset, error) {
	next := record.Offset(0)
	for len(batches) > 0 {
		b, err := record.ReadBatch(batches)
		if errors.Is(err, record.ErrTruncated) {
			break
		}
		if err != nil {
			if next > 0 {
				break // what comes before it is good; it is met again as the first of the next fetch
			}
			return 0, err
		}
		next = max(next, b.LastOffset()+1)
		batches = batches[b.Size():]
	}
	return next, nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
