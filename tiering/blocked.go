package tiering

import (
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

// A record may be out of reach for a while: its schema is in a registry that does not answer. Its partition waits then, and is
// fetched again from that record after a pause; what came before it is committed as always, and so are the other partitions.
// The pause grows while it is the same record. Each try is made by the worker of the partition: a registry that hangs, instead of
// refusing, holds up the other partitions of that worker and the commit for as long as the format is patient (format.SetPatience).

// blockedError says that a record cannot be judged yet.
type blockedError struct {
	at  record.Offset
	err error
}

func (e *blockedError) Error() string { return e.err.Error() }
func (e *blockedError) Unwrap() error { return e.err }

// block is a partition that stands before such a record.
type block struct {
	partition int32
	gen       uint64 // of the position that the record was fetched at
	at        record.Offset
	err       error
}

// waiting is how often a partition stood before the same record.
type waiting struct {
	at    record.Offset
	tries int
}

// blocked tells the session that a partition of a chunk stands. A worker never waits for the session.
func (w *worker) blocked(c *chunk, e *blockedError) {
	w.standing[c.partition] = c.gen
	w.s.blockMu.Lock()
	w.s.blocks = append(w.s.blocks, block{c.partition, c.gen, e.at, e.err})
	w.s.blockMu.Unlock()
	w.s.nudge()
}

// stands says whether a chunk was fetched before its partition is to be read again.
func (w *worker) stands(c *chunk) bool {
	gen, ok := w.standing[c.partition]
	if ok && gen != c.gen {
		delete(w.standing, c.partition)
		return false
	}
	return ok
}

func (s *session) takeBlocks() []block {
	s.blockMu.Lock()
	defer s.blockMu.Unlock()
	out := s.blocks
	s.blocks = nil
	return out
}

// goBack lets the partitions that stand be fetched again, each after its pause.
func (s *session) goBack() {
	for _, b := range s.takeBlocks() {
		m, known := s.parts[b.partition]
		if !known || m.leaving || m.gen != b.gen {
			continue
		}
		wait := s.waits[b.partition]
		if wait.at != b.at {
			wait = waiting{at: b.at}
		}
		wait.tries++
		pause := s.t.cfg.pause(wait.tries)
		gen, ok := s.fetch.back(b.partition, b.at, pause)
		if !ok {
			s.stranded = b.err
			continue
		}
		s.waits[b.partition] = wait
		m.gen = gen
		s.parts[b.partition] = m
		s.t.stats.retried()
		s.t.cfg.Logger.Warn("a partition waits for a record that cannot be read yet; what is before it is committed", "try", wait.tries, "pause", pause, "error", b.err)
	}
}

// back moves the position of a partition back, to be read again after a pause, and gives its new stamp; false when all had been
// fetched, so that nobody reads it again.
func (f *fetcher) back(partition int32, at record.Offset, pause time.Duration) (gen uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0, false
	}
	f.gen++
	if pos := f.pos[partition]; pos != nil {
		pos.gen, pos.next, pos.after = f.gen, at, time.Now().Add(pause)
	}
	return f.gen, true
}
