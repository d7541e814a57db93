package publish

import (
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// propose makes a version out of what waits, one at a time. While a version is on its way into the store, the queue
// fills: the slower the store, the larger the versions. What becomes the next one is decided when the store is free.
//
// Who asked for an early answer does not wait for that: the requests go into a version that stays open, which the store
// sees as one when its turn comes. So their rate does not depend on the store, until the open version is full.
func (m *Machine) propose(now time.Time) {
	for m.batches == 0 && m.work != adopting && m.work != reopening {
		closed, open := m.closed()
		free := len(closed) < m.cfg.MaxPending
		switch {
		case free && len(closed) == 0 && !m.gathered(now, open):
			return
		case free && (open != nil || len(m.queue) > 0):
			if len(m.queue) == 0 && now.Before(m.sealAt) {
				m.wake(m.sealAt)
				return
			}
		case !free && m.early():
		default:
			return
		}
		batch := m.fill(open, !free)
		if len(batch) == 0 && (open == nil || !free) {
			if len(m.queue) > 0 && !free {
				return // nothing more goes into the open version
			}
			continue // all were answered or held; the queue is shorter
		}
		c := &fsm.Batch{Table: m.table, TxnID: m.cfg.NewID(), Time: m.cfg.Wall(), Engine: m.cfg.Engine, Requests: batch, Open: !free, Done: m.tell}
		m.tell = nil
		m.batches++
		m.since = now
		m.out = append(m.out, Propose{Command: c})
	}
}

// early says whether somebody in the queue waits for a decision alone.
func (m *Machine) early() bool {
	return slices.ContainsFunc(m.queue, func(e *entry) bool { return e.early })
}

// gathered says whether those are there who shared the last version or waited behind it: they come as soon as their
// answers have reached them. It is waited for them as long as they keep coming, and never for so long that two smaller
// versions would have been faster.
func (m *Machine) gathered(now time.Time, open *fsm.Version) bool {
	there := len(m.queue)
	if open != nil {
		there += len(open.Requests)
	}
	if there == 0 || there >= min(m.crowd, fsm.MaxBatchSize) || m.cfg.Linger == 0 {
		return true
	}
	quiet := max(m.cfg.Linger, min(m.took/8, maxQuiet)) // without another one
	due := m.since.Add(m.patience())
	if at := later(m.since, m.arrived).Add(quiet); at.Before(due) {
		due = at
	}
	if !now.Before(due) {
		return true
	}
	if m.cfg.Plant != NoGatherWake {
		m.wake(due)
	}
	return false
}

// patience is how long it is waited for others at most.
func (m *Machine) patience() time.Duration {
	if m.cfg.Linger == 0 {
		return 0
	}
	return max(m.cfg.Linger, min(m.took/2, maxGather))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const (
	maxQuiet  = 20 * time.Millisecond
	maxGather = 100 * time.Millisecond
)

// fill takes requests off the queue in their order. One that would be refused is held until the store was asked
// for foreign versions, which could be the reason. A request that does more than append is alone: not in the open
// version, nor in one that is to stay open.
func (m *Machine) fill(open *fsm.Version, stays bool) []fsm.Request {
	var batch []fsm.Request
	moved := map[string]bool{} // applications that requests before in this batch move
	size, count := 0, 0
	if open != nil {
		for i := range open.Requests {
			size += open.Requests[i].Size()
		}
		count = len(open.Requests)
	}
	for len(m.queue) > 0 && count+len(batch) < fsm.MaxBatchSize {
		e := m.queue[0]
		n := e.req.Size()
		if (count > 0 || len(batch) > 0) && size+n > fsm.MaxBatch {
			break
		}
		if !e.req.Plain() && (stays || count > 0 || len(batch) > 0) || len(batch) > 0 && !batch[0].Plain() {
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
