package publish

import (
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// propose makes a version out of what waits, one at a time. While versions are on their way into the store, the
// queue fills: the slower the store, the larger the versions.
func (m *Machine) propose(now time.Time) {
	if m.work == adopting || m.work == reopening {
		return
	}
	ahead := len(m.ahead())
	for m.batches == 0 && len(m.queue) > 0 && ahead < m.cfg.MaxPending {
		if due := m.since.Add(m.linger()); ahead == 0 && now.Before(due) && len(m.queue) < min(m.crowd, fsm.MaxBatchSize) {
			m.out = append(m.out, Wake{At: due})
			return
		}
		batch := m.fill()
		if len(batch) == 0 {
			continue // all were answered or held; the queue is shorter
		}
		c := &fsm.Batch{Table: m.table, TxnID: m.cfg.NewID(), Time: m.cfg.Wall(), Engine: m.cfg.Engine, Requests: batch}
		m.batches++
		m.since = now
		m.out = append(m.out, Propose{Command: c})
	}
}

// linger is how long the first request of a version waits for the others that were there the last time: they come
// as soon as their answers have reached them. It is a small part of what a put takes.
func (m *Machine) linger() time.Duration {
	if m.cfg.Linger == 0 {
		return 0
	}
	return max(m.cfg.Linger, min(m.took/4, maxLinger))
}

const maxLinger = 20 * time.Millisecond

// fill takes requests off the queue in their order. One that would be refused is held until the store was asked
// for foreign versions, which could be the reason. A request that does more than append is alone.
func (m *Machine) fill() []fsm.Request {
	var batch []fsm.Request
	moved := map[string]bool{} // applications that requests before in this batch move
	size := 0
	for len(m.queue) > 0 && len(batch) < fsm.MaxBatchSize {
		e := m.queue[0]
		n := e.req.Size()
		if len(batch) > 0 && (size+n > fsm.MaxBatch || !e.req.Plain() || !batch[0].Plain()) {
			break
		}
		m.queue = m.queue[1:]
		if !m.fits(e, moved) {
			continue
		}
		for _, x := range e.req.Ranges {
			moved[fsm.AppID(e.req.App, x.Partition)] = true
		}
		size += n
		batch = append(batch, e.req)
	}
	return batch
}

// fits says whether a request is to be proposed now.
func (m *Machine) fits(e *entry, moved map[string]bool) bool {
	if a := m.view.Answer(e.req.ID); a.Code != fsm.Unknown { // decided through another leader
		e.known = true
		m.settle(e.req.ID, a)
		return false
	}
	a := m.view.Check(&e.req)
	switch a.Code {
	case fsm.Pending, fsm.Invalid, fsm.Stale, fsm.Fenced: // no foreign version makes these better
		return true
	case fsm.Incarnation:
		m.seen = time.Time{} // the table may have been made again just now: read the base anew
	}
	if e.synced {
		return true
	}
	for _, x := range e.req.Ranges {
		if moved[fsm.AppID(e.req.App, x.Partition)] {
			return true // it follows a request of this batch
		}
	}
	m.held = append(m.held, e)
	return false
}
