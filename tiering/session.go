package tiering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// session is one run of the pipeline, from the positions in the table to the first failure that leaves its
// buffers in doubt. Its main loop alone decides what is dispatched and when a commit is made.
type session struct {
	t       *Tierer
	ctx     context.Context //nolint:containedctx // of all its goroutines; it outlives Run's by the last commit
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	budget  *budget
	fetch   *fetcher
	workers []*worker

	snap         *deltalog.Snapshot // whose schema the files are written for
	incarnation  string
	schemaString string
	schema       *arrow.Schema // of data files
	columns      []source
	payload      *arrow.Schema

	fetchBytes int64
	spillAt    int64
	rows       atomic.Int64  // not cut yet
	estimate   atomic.Int64  // bytes of data files of what is not cut yet
	pressed    atomic.Int32  // workers that need a cut to free memory
	look       chan struct{} // the three above changed in a way that matters
	failed     chan error
	flushed    chan result

	freeMu   sync.Mutex
	free     []*rows
	freeSize int64 // memory that they keep

	// Of the main loop alone:
	parts    map[int32]bool // true: leaving, after the next commit
	dirty    bool           // something was dispatched since the last cut
	flushing bool
	want     bool // a commit is due
	replies  chan *output
	age      *time.Timer
}

func (t *Tierer) newSession(ctx context.Context) (*session, error) {
	snap, err := t.cfg.Table.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	s := &session{
		t: t, snap: snap, incarnation: snap.Metadata().ID, schemaString: snap.Metadata().SchemaString,
		budget:     newBudget(t.cfg.MemoryBudget / 2),
		fetchBytes: min(maxFetch, t.cfg.MemoryBudget/4),
		spillAt:    t.cfg.MemoryBudget / 4 / int64(t.cfg.Workers),
		look:       make(chan struct{}, 1), failed: make(chan error, 1), flushed: make(chan result, 1),
		parts: map[int32]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.planColumns(); err != nil {
		s.cancel()
		return nil, err
	}
	s.fetch = newFetcher(s)
	for range t.cfg.Workers {
		s.workers = append(s.workers, newWorker(s))
	}
	s.age = time.NewTimer(time.Hour)
	s.age.Stop()
	return s, nil
}

func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// over says whether a limit is reached by what is not cut yet.
func (s *session) over() bool {
	return s.rows.Load() >= int64(s.t.cfg.MaxRows) || s.estimate.Load() >= s.t.cfg.MaxBytes || s.pressed.Load() > 0
}

// nudge makes the main loop look at over.
func (s *session) nudge() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

func (t *Tierer) tp(partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: t.cfg.Topic, Partition: partition}
}

// join begins to read a partition where the table stands.
func (s *session) join(ctx context.Context, partition int32, snap *deltalog.Snapshot) error {
	tp := s.t.tp(partition)
	b, err := s.t.cfg.Source.Bounds(ctx, tp)
	if err != nil {
		return fmt.Errorf("bounds of %s: %w", tp, err)
	}
	next, ok := table.LakeEnd(snap, s.t.cfg.App, partition)
	if !ok {
		next = b.Start
	}
	if next > b.End {
		return &AheadError{TP: tp, LakeEnd: next, LogEnd: b.End}
	}
	s.t.hold(ctx, partition, next)
	s.t.stats.joined(partition, next, b)
	s.parts[partition] = false
	s.fetch.add(partition, next, s.t.target(partition, b))
	return nil
}

// run is the session from start to end. nil means that all is committed and Run is over.
func (s *session) run(stop context.Context) (err error) {
	defer func() {
		s.cancel()
		s.wg.Wait()
		s.drain()
		s.t.stats.inFlight(s.budget.peak)
	}()
	if err := s.joinAll(stop); err != nil {
		return err
	}
	fetchCtx, stopFetch := context.WithCancel(s.ctx)
	defer stopFetch()
	s.wg.Go(func() {
		if err := s.fetch.run(fetchCtx); err != nil {
			s.fail(err)
		}
	})
	for _, w := range s.workers {
		s.wg.Go(func() { w.run(s.ctx) })
	}
	ended, err := s.loop(stop)
	if err != nil || !ended {
		return err
	}
	stopFetch()
	err = s.finish(stop)
	switch {
	case err == nil:
		return nil
	case stop.Err() != nil && s.ctx.Err() != nil: // without the cancellation in its chain: this is a failure
		return &lastCommitError{fmt.Errorf("%w %s; what is missing is tiered at the next start: %v", ErrStopTimeout, s.t.cfg.StopTimeout, err)}
	}
	return &lastCommitError{err}
}

func (s *session) joinAll(ctx context.Context) error {
	parts, err := s.t.wanted(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := s.join(ctx, p, s.snap); err != nil {
			return err
		}
	}
	return nil
}

// loop dispatches and commits until the ends are reached or Run is to stop; then there may be a rest to commit.
func (s *session) loop(stop context.Context) (ended bool, err error) {
	discover := time.NewTicker(s.t.discoverEvery())
	defer discover.Stop()
	for {
		in := s.fetch.out
		if s.flushing && s.over() {
			in = nil // enough is waiting for the commit under way: the source is not read meanwhile
		}
		select {
		case <-stop.Done():
			return true, nil
		case err := <-s.failed:
			return false, err
		case chunks, more := <-in:
			if !more {
				return true, nil
			}
			if err := s.dispatch(chunks); err != nil {
				return false, err
			}
		case <-s.look:
		case <-s.age.C:
			s.want = true
		case r := <-s.flushed:
			if err := s.landed(r); err != nil {
				return false, err
			}
		case <-s.t.poke:
			if err := s.reconcile(stop); err != nil {
				return false, err
			}
		case <-discover.C:
			if err := s.addNew(stop); err != nil {
				return false, err
			}
		}
		if !s.flushing && (s.want || s.over()) {
			if err := s.startFlush(); err != nil {
				return false, err
			}
		}
	}
}

func (s *session) dispatch(chunks []chunk) error {
	for i := range chunks {
		c := &chunks[i]
		if leaving, known := s.parts[c.partition]; !known || leaving {
			s.budget.release(int64(len(c.batches)))
			continue
		}
		if c.lost {
			s.t.stats.lost(int64(c.next - c.from))
			s.t.cfg.Logger.Warn("records were dropped by retention before they were tiered",
				"partition", s.t.tp(c.partition).String(), "from", c.from, "to", c.next)
		}
		if !s.dirty {
			s.dirty = true
			s.age.Reset(s.t.cfg.MaxAge)
		}
		if err := s.send(s.workers[int(c.partition)%len(s.workers)], message{chunk: *c}); err != nil {
			return err
		}
	}
	return nil
}

// send gives a message to a worker. A worker that has failed still takes messages, so this never hangs.
func (s *session) send(w *worker, m message) error {
	select {
	case w.in <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// startFlush cuts all workers and commits what they hand over, while they go on.
func (s *session) startFlush() error {
	s.want, s.dirty, s.flushing = false, false, true
	s.age.Stop()
	replies := make(chan *output, len(s.workers))
	s.replies = replies
	var leaving []int32
	for p, l := range s.parts {
		if l {
			leaving = append(leaving, p)
		}
	}
	for _, w := range s.workers {
		if err := s.send(w, message{cut: replies}); err != nil {
			return err
		}
	}
	s.wg.Go(func() {
		var outs []*output
		for range s.workers {
			select {
			case out := <-replies:
				outs = append(outs, out)
			case <-s.ctx.Done():
				abortOutputs(outs)
				return
			}
		}
		s.nudge() // what is not cut yet is little again: dispatch goes on during the upload
		ranges, err := s.flush(s.ctx, outs)
		s.flushed <- result{err: err, ranges: ranges, parts: leaving}
	})
	return nil
}

// landed takes the end of a flush.
func (s *session) landed(r result) error {
	s.flushing = false
	if r.err != nil {
		return r.err
	}
	for _, p := range r.parts {
		delete(s.parts, p)
		s.t.release(p)
	}
	if len(r.ranges) > 0 {
		s.t.progressed()
	}
	for _, leaving := range s.parts { // revoked after that flush had begun
		s.want = s.want || leaving
	}
	return nil
}

// finish commits what is left, within StopTimeout when Run was told to stop.
func (s *session) finish(stop context.Context) error {
	timeout := time.AfterFunc(time.Hour*24*365, s.cancel)
	defer timeout.Stop()
	stopping := stop.Done()
	if stop.Err() != nil {
		stopping = nil
		timeout.Reset(s.t.cfg.StopTimeout)
	}
	for s.flushing || s.dirty {
		if !s.flushing {
			if err := s.startFlush(); err != nil {
				return err
			}
		}
		select {
		case <-stopping:
			stopping = nil
			timeout.Reset(s.t.cfg.StopTimeout)
		case err := <-s.failed:
			return err
		case r := <-s.flushed:
			if err := s.landed(r); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// drain drops what a cut that nobody waits for any more has handed over. All goroutines have ended.
func (s *session) drain() {
	for {
		select {
		case out := <-s.replies:
			abortOutputs([]*output{out})
		default:
			return
		}
	}
}

func abortOutputs(outs []*output) {
	for _, o := range outs {
		abortAll(o.files)
	}
}

// reconcile follows what Assign, Revoke and Lose have asked for.
func (s *session) reconcile(ctx context.Context) error {
	gone, leaving, joining := s.t.changes(s.parts)
	if gone {
		return errRestart
	}
	for _, p := range leaving {
		s.parts[p] = true
		s.fetch.remove(p)
		s.want = true
	}
	return s.joinNew(ctx, joining)
}

func (s *session) joinNew(ctx context.Context, parts []int32) error {
	if len(parts) == 0 {
		return nil
	}
	snap, err := s.t.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	for _, p := range parts {
		if err := s.join(ctx, p, snap); err != nil {
			return err
		}
	}
	return nil
}

// addNew looks for partitions that were added to the topic.
func (s *session) addNew(ctx context.Context) error {
	if s.t.cfg.Manual || s.t.cfg.Partitions != nil || s.t.cfg.UntilEnd {
		return nil
	}
	all, err := s.t.cfg.Source.Partitions(ctx, s.t.cfg.Topic)
	if errors.Is(err, broker.ErrUnknownTopic) {
		return fmt.Errorf("topic %s: %w", s.t.cfg.Topic, err)
	}
	if err != nil {
		return nil //nolint:nilerr // the next look may do better, and what is known goes on
	}
	return s.joinNew(ctx, slices.DeleteFunc(all, func(p int32) bool { _, known := s.parts[p]; return known }))
}
