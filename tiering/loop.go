package tiering

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

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
			s.goBack()
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
		if m, known := s.parts[c.partition]; !known || m.leaving || m.gen != c.gen {
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
		s.caughtUp(c.partition, c.next)
	}
	return nil
}

// caughtUp asks for a commit when all that the log had when its partitions were joined is dispatched: who waits for
// what came meanwhile need not wait for more to come. That is one commit for each time that partitions are taken over.
func (s *session) caughtUp(partition int32, next record.Offset) {
	end, behind := s.backlog[partition]
	if !behind || next < end {
		return
	}
	delete(s.backlog, partition)
	s.want = s.want || len(s.backlog) == 0
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
	for p, m := range s.parts {
		if m.leaving {
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
		more := slices.ContainsFunc(outs, func(o *output) bool { return o.more })
		ranges, err := s.flush(s.ctx, outs)
		s.flushed <- result{err: err, ranges: ranges, parts: leaving, more: more}
	})
	return nil
}

// landed takes the end of a flush.
func (s *session) landed(r result) error {
	s.flushing = false
	if r.err != nil {
		return r.err
	}
	if r.more { // chunks from before the cut are of no commit yet, maybe of partitions that are leaving too
		r.parts, s.dirty = nil, true
		s.age.Reset(s.t.cfg.MaxAge)
	}
	for _, p := range r.parts {
		delete(s.parts, p)
		s.t.stats.left(p)
		s.t.release(p)
	}
	s.joined.Store(int32(len(s.parts)))
	if len(r.ranges) > 0 {
		s.t.progressed()
	}
	for _, m := range s.parts { // revoked after that flush had begun
		s.want = s.want || m.leaving
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
	s.goBack() // workers may have met more since the loop ended
	if stop.Err() == nil {
		return s.stranded // its partition is not at the end: the next session reads on
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
		for _, p := range o.rest {
			if p.file != nil {
				_ = p.file.Abort() // best effort: a leftover is no part of the table
			}
		}
	}
}
