package publish

import (
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// entry is a request that waits for its answer.
type entry struct {
	req    fsm.Request
	early  bool // answered as soon as it is decided
	synced bool // the store was asked for foreign versions after it came
	known  bool // the log has decided it
}

// work is what the machine waits for from the store, or from the log on the store's behalf.
type work uint8

const (
	idle      work = iota
	loading        // Load of what the head has staged
	putting        // Put of the head
	reading        // Get of the head after a Put that did not succeed
	syncing        // Get of the version behind the newest
	verifying      // Get of the newest
	adopting       // a Foreign is proposed
	reopening
)

// Machine is the leader's work on one table.
type Machine struct {
	cfg      Config
	table    string
	view     View
	waiting  map[string]*entry
	queue    []*entry      // not in a batch yet, oldest first
	held     []*entry      // would be refused, wait for a look into the store
	looking  []*entry      // ... which is under way
	since    time.Time     // when the oldest request of queue came, or a version was published after that
	crowd    int           // requests that waited or were answered when the last version was published
	arrived  time.Time     // when the last request came
	sealAt   time.Time     // not before: a close of the open version alone was refused by the log
	wakeAt   time.Time     // earliest time for which this step wants a Wake
	putAt    time.Time     // when the last Put began
	took     time.Duration // how long it took
	batches  int           // proposed and not answered
	done     int64
	doneHash string
	tell     *fsm.PublishedAt // what the log is still to be told, with the next batch
	tellAt   time.Time        // ... or alone, at this time
	seen     time.Time        // when done was last known to be in the store
	work     work
	head     *fsm.Version // that is being put or read
	data     []byte
	base     int64 // that is being verified; done may move meanwhile
	baseHash string
	staged   map[int64]string // keys of staged objects, of versions that the log does not yet know to be published
	failures int
	retryAt  time.Time
	err      error // the last failure, nil after a success
	out      []Effect
}

// New starts the work of a leader. The caller must have applied all that was committed before its term, and must
// call Tick once: what is pending is published first.
func New(cfg Config, table string, view View) *Machine {
	m := &Machine{cfg: cfg.withDefaults(), table: table, view: view, waiting: map[string]*entry{}, staged: map[int64]string{}}
	m.done, m.doneHash = view.Version()
	if p := view.Pending(); m.cfg.Plant == NoFinish && len(p) > 0 {
		m.done, m.doneHash = p[len(p)-1].Number, ""
	}
	return m
}

// Status is the state of the machine for people.
type Status struct {
	Version, Pending int64
	Waiting          int
	Err              error
}

// Status gives it.
func (m *Machine) Status() Status {
	return Status{Version: m.done, Pending: int64(len(m.ahead())), Waiting: len(m.waiting), Err: m.err}
}

// Submit takes a request that was checked against the newest metadata. With early it is answered once it is
// decided: it then will be published unless a foreign writer is in its way.
func (m *Machine) Submit(now time.Time, r fsm.Request, early bool) []Effect {
	a := m.view.Answer(r.ID)
	switch {
	case a.Code.Final() || a.Code == fsm.Pending && early:
		m.reply(r.ID, a)
	case m.waiting[r.ID] != nil:
	case len(m.waiting) >= m.cfg.MaxWaiting:
		m.out = append(m.out, Reply{ID: r.ID, Err: ErrBusy})
	case a.Code == fsm.Pending && a.Version <= m.done: // in the store, and the log is about to learn it
		a.Code = fsm.Published
		m.reply(r.ID, a)
	default:
		e := &entry{req: r, early: early, known: a.Code == fsm.Pending}
		m.waiting[r.ID] = e
		if !e.known {
			m.enqueue(now, e)
		}
	}
	return m.step(now)
}

func (m *Machine) enqueue(now time.Time, e *entry) {
	if len(m.queue) == 0 {
		m.since = now
	}
	m.queue, m.arrived = append(m.queue, e), now
}

// Tick lets time pass.
func (m *Machine) Tick(now time.Time) []Effect { return m.step(now) }

// Proposed tells what became of a proposal: its result once it is applied here, or an error when it may be lost.
func (m *Machine) Proposed(now time.Time, c fsm.Command, res fsm.Result, err error) []Effect {
	switch c := c.(type) {
	case *fsm.Batch:
		m.batches--
		if err != nil && len(c.Requests) == 0 {
			m.sealAt = now.Add(m.cfg.RetryBase)
		}
		if c.Done != nil {
			m.told(c.Done, res.Done, err)
		}
		m.decided(c, res, err)
	case *fsm.Foreign:
		if m.work == adopting {
			m.work = idle
		}
		if err != nil {
			m.fail(now, err)
		} else {
			m.rebased(now)
		}
	case *fsm.PublishedAt:
		m.told(c, res.Applied, err)
	}
	return m.step(now)
}

// told follows what the log was told of a version in the store.
func (m *Machine) told(c *fsm.PublishedAt, applied bool, err error) {
	switch key := m.staged[c.Version]; {
	case err != nil || !applied: // the log does not know: find the version in the store once more
		m.tell = nil
		m.done, m.doneHash = m.view.Version()
	case key != "":
		m.out = append(m.out, Unstage{Key: key})
	}
	delete(m.staged, c.Version)
}

// tellNow tells the log alone, before it is told something that stands on it.
func (m *Machine) tellNow() {
	if m.tell != nil {
		m.out = append(m.out, Propose{Command: m.tell})
		m.tell = nil
	}
}

// Reopened tells that the table was read anew and is applied here, or why not.
func (m *Machine) Reopened(now time.Time, err error) []Effect {
	m.work = idle
	if err != nil {
		m.fail(now, err)
	} else {
		m.done, m.doneHash = m.view.Version()
		m.rebased(now)
	}
	return m.step(now)
}

func (m *Machine) decided(c *fsm.Batch, res fsm.Result, err error) {
	for i := range c.Requests {
		id := c.Requests[i].ID
		e := m.waiting[id]
		switch {
		case e == nil: // published already
		case err != nil:
			m.drop(id, ErrNotDecided)
		case i >= len(res.Answers):
			m.drop(id, ErrNotDecided)
		case res.Answers[i].Code == fsm.Pending:
			e.known = true
			if now := m.view.Answer(id); e.early && now.Code == fsm.Pending {
				m.reply(id, now)
			} else {
				m.settle(id, now) // a foreign version may have come between
			}
		default:
			m.reply(id, res.Answers[i])
		}
	}
}

// settle answers what is not pending any more.
func (m *Machine) settle(id string, a fsm.Answer) {
	switch {
	case a.Code == fsm.Pending:
	case a.Code == fsm.Unknown:
		m.reply(id, fsm.Answer{Code: fsm.Recheck})
	default:
		m.reply(id, a)
	}
}

// rebased looks at every request again after versions were decided anew.
func (m *Machine) rebased(now time.Time) {
	m.catchUp()
	m.failures, m.retryAt, m.seen, m.err = 0, time.Time{}, now, nil
	for _, id := range m.ids() {
		if m.waiting[id].known {
			m.settle(id, m.view.Answer(id))
		}
	}
	m.release(now, false)
}

// ids gives the waiting ids in a fixed order, so that a simulation repeats itself.
func (m *Machine) ids() []string {
	ids := make([]string, 0, len(m.waiting))
	for id := range m.waiting {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *Machine) reply(id string, a fsm.Answer) {
	delete(m.waiting, id)
	m.out = append(m.out, Reply{ID: id, Answer: a})
}

func (m *Machine) drop(id string, err error) {
	delete(m.waiting, id)
	m.out = append(m.out, Reply{ID: id, Err: err})
}

// release puts held requests back in front of the queue, after a look into the store that covers them.
func (m *Machine) release(now time.Time, synced bool) {
	back := m.looking
	m.looking = nil
	if !synced {
		back = append(back, m.held...)
		m.held = nil
	}
	if len(back) == 0 {
		return
	}
	for _, e := range back {
		e.synced = synced
	}
	if len(m.queue) == 0 {
		m.since = now
	}
	m.queue = append(back, m.queue...)
}

func (m *Machine) fail(now time.Time, err error) {
	m.err = err
	pause := m.cfg.RetryBase << min(m.failures, 20)
	if pause > m.cfg.RetryMax || pause <= 0 {
		pause = m.cfg.RetryMax
	}
	m.failures++
	m.retryAt = now.Add(pause)
	m.held = append(m.looking, m.held...)
	m.looking = nil
}

// step does all that can be done now and gives the effects.
func (m *Machine) step(now time.Time) []Effect {
	m.catchUp()
	m.wakeAt = time.Time{}
	m.propose(now)
	if m.tell != nil && !now.Before(m.tellAt) {
		m.tellNow()
	} else if m.tell != nil {
		m.wake(m.tellAt)
	}
	m.advance(now)
	out := m.out
	if !m.wakeAt.IsZero() {
		out = append(out, Wake{At: m.wakeAt})
	}
	m.out = nil
	return out
}

// wake asks for a Tick at a time, the earliest of all that are asked for in one step.
func (m *Machine) wake(at time.Time) {
	if m.wakeAt.IsZero() || at.Before(m.wakeAt) {
		m.wakeAt = at
	}
}

// catchUp follows a base that moved: what is in the base is in the store.
func (m *Machine) catchUp() {
	if v, hash := m.view.Version(); v > m.done {
		m.done, m.doneHash = v, hash
	}
}

// ahead gives the versions that are decided and not in the store as far as is known. The last one may be open.
func (m *Machine) ahead() []*fsm.Version {
	p := m.view.Pending()
	for len(p) > 0 && p[0].Number <= m.done {
		p = p[1:]
	}
	return p
}

// closed gives those of them that may be put, and the one behind them that is open, if there is one.
func (m *Machine) closed() (closed []*fsm.Version, open *fsm.Version) {
	p := m.ahead()
	if n := len(p) - 1; n >= 0 && p[n].Open() && m.cfg.Plant != PutOpen {
		return p[:n], p[n]
	}
	return p, nil
}
