package publish

import (
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// advance starts the next call to the store: the oldest version that is decided, or a look for foreign ones.
func (m *Machine) advance(now time.Time) {
	if m.work != idle {
		return
	}
	ahead, _ := m.closed()
	if len(ahead) == 0 && len(m.held) == 0 {
		return
	}
	if now.Before(m.retryAt) {
		m.wake(m.retryAt)
		return
	}
	switch {
	case m.doneHash != "" && now.Sub(m.seen).Abs() >= m.cfg.Verify:
		// The table may have been dropped and made again meanwhile: never tear a hole into another table's log.
		m.work, m.base, m.baseHash = verifying, m.done, m.doneHash
		m.out = append(m.out, Get{Version: m.base})
	case len(ahead) > 0:
		m.head = ahead[0]
		if s, ok := m.head.Staged(); ok {
			m.work = loading
			m.out = append(m.out, Load{Version: m.head.Number, Staged: s})
			return
		}
		m.put(now, nil)
	default:
		m.work = syncing
		m.look()
		m.out = append(m.out, Get{Version: m.done + 1})
	}
}

// put starts the put of the head.
func (m *Machine) put(now time.Time, staged []byte) {
	data, err := m.head.Content(staged)
	if err != nil {
		m.work = idle
		m.fail(now, err)
		m.wake(m.retryAt)
		return
	}
	m.work, m.data, m.putAt = putting, data, now
	m.look()
	m.out = append(m.out, Put{Version: m.head.Number, Data: data})
}

// LoadDone tells what a Load found. When it is not what the log names, the version may be in the store already, by an
// earlier leader that has cleaned up; else it is tried again.
func (m *Machine) LoadDone(now time.Time, version int64, data []byte, err error) []Effect {
	if m.work != loading || m.head.Number != version {
		return m.step(now)
	}
	s, _ := m.head.Staged()
	if err == nil && fsm.HashOf(data) != s.Hash {
		err = fmt.Errorf("staged actions %s are not those that were decided", s.Key)
	}
	m.work = idle
	switch p := m.ahead(); {
	case err != nil:
		m.err = fmt.Errorf("read staged actions of version %d: %w", version, err)
		m.work = reading
		m.out = append(m.out, Get{Version: version})
	case len(p) > 0 && p[0] == m.head: // not decided anew meanwhile
		m.put(now, data)
	}
	return m.step(now)
}

// look moves the held requests under the call that starts: if it finds nothing foreign, nothing foreign was there
// when they came.
func (m *Machine) look() {
	m.looking = append(m.looking, m.held...)
	m.held = nil
}

// PutDone tells how a Put ended. Everything but success is followed by reading back: the store may have failed
// after it did the work, and an object that exists may be ours.
func (m *Machine) PutDone(now time.Time, version int64, err error) []Effect {
	if m.work != putting || m.head.Number != version {
		return m.step(now)
	}
	switch {
	case err == nil || m.cfg.Plant == NoReadBack && errors.Is(err, objstore.ErrExists):
		m.took = now.Sub(m.putAt)
		m.published(now, m.data)
		m.release(now, true)
	default:
		m.err = err
		m.work, m.data = reading, nil
		m.out = append(m.out, Get{Version: version})
	}
	return m.step(now)
}

// GetDone tells what a Get found.
func (m *Machine) GetDone(now time.Time, version int64, data []byte, err error) []Effect {
	was := m.work
	if was != reading && was != syncing && was != verifying {
		return m.step(now)
	}
	m.work = idle
	missing := errors.Is(err, objstore.ErrNotFound)
	switch {
	case err != nil && !missing:
		m.fail(now, err)
	case was == verifying && (missing || fsm.HashOf(data) != m.baseHash):
		m.work = reopening
		m.tellNow()
		m.out = append(m.out, Reopen{Version: m.base, Hash: m.baseHash})
	case was == verifying:
		m.seen = now
	case missing && was == reading:
		m.fail(now, m.err) // the put did not happen, or not yet: the same again
	case missing:
		m.seen, m.failures, m.err = now, 0, nil
		m.release(now, true)
	default:
		m.found(now, version, data)
	}
	return m.step(now)
}

// found looks at a commit file that stands where the next version goes.
func (m *Machine) found(now time.Time, version int64, data []byte) {
	// The log learned it meanwhile, or lost what it was told of a version before: what stands here then may be ours, which
	// only the next one can be compared with. Taken for another writer's it would be decided twice (I3).
	if m.catchUp(); version != m.done+1 {
		m.release(now, false)
		return
	}
	name := deltalog.CommitKey(deltalog.Version(version))
	c, err := deltalog.ParseCommit(data, name)
	if err != nil {
		m.fail(now, err)
		return
	}
	if ahead := m.ahead(); len(ahead) > 0 && ahead[0].Number == version && ahead[0].TxnID == c.Info.TxnID {
		m.head = ahead[0]
		m.published(now, data)
		m.release(now, false)
		return
	}
	f, err := fsm.ForeignOf(m.table, version, data, c)
	if err != nil {
		m.fail(now, fmt.Errorf("take in %s of another writer: %w", name, err))
		return
	}
	m.work = adopting
	m.tellNow()
	m.out = append(m.out, Propose{Command: f})
}

// published is called when the head is in the store for ever: its requests are answered at once, since a new
// leader finds it there and says the same.
func (m *Machine) published(now time.Time, data []byte) {
	v := m.head
	m.work, m.head, m.data = idle, nil, nil
	m.done, m.doneHash, m.seen = v.Number, fsm.HashOf(data), now
	m.failures, m.retryAt, m.err = 0, time.Time{}, nil
	if s, ok := v.Staged(); ok {
		m.staged[v.Number] = s.Key
	}
	m.tellNow() // of the one before
	m.tell, m.tellAt = &fsm.PublishedAt{Table: m.table, Version: v.Number, TxnID: v.TxnID, Hash: m.doneHash}, now.Add(2*m.patience())
	m.out = append(m.out, Stored{Version: v.Number, Data: data, Requests: len(v.Requests)})
	// Whoever came during the put waits a moment for those who are answered now (gathered): else the writers would be two
	// crowds, each of which waits for a version of the other before its own.
	m.crowd, m.since, m.arrived = len(m.queue), now, now
	for i := range v.Requests {
		if id := v.Requests[i].ID; m.waiting[id] != nil {
			m.crowd++
			m.reply(id, fsm.Answer{Code: fsm.Published, Version: v.Number})
		}
	}
}
