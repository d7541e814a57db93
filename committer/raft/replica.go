package raft

import (
	"fmt"
	"io"
	"sync"

	hraft "github.com/hashicorp/raft"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// replica is the state machine on this node, behind a lock.
type replica struct {
	mu    sync.RWMutex
	state *fsm.State
	bad   error // an entry that could not be read: the node must not go on
	onBad func(error)
}

var _ hraft.FSM = (*replica)(nil)

// Apply changes the state by a committed entry.
func (r *replica) Apply(l *hraft.Log) any {
	c, err := fsm.Decode(l.Data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		// All nodes read the same bytes: those with the same program agree. A node that is older stops here,
		// rather than to decide something else. It goes on to keep the log and to vote, so that the others need not do
		// without it; a newer program reads on from here.
		if r.bad == nil {
			r.bad = fmt.Errorf("entry %d: %w", l.Index, err)
			if r.onBad != nil {
				r.onBad(r.bad)
			}
		}
		return fsm.Result{Text: err.Error()}
	}
	if r.bad != nil {
		return fsm.Result{Text: r.bad.Error()}
	}
	return r.state.Apply(c)
}

// Snapshot takes the state as it is now.
func (r *replica) Snapshot() (hraft.FSMSnapshot, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.bad != nil {
		return nil, r.bad
	}
	return image(r.state.Snapshot()), nil
}

// Restore replaces the state.
func (r *replica) Restore(in io.ReadCloser) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	state := fsm.New()
	if err := state.Restore(b); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.bad = state, nil
	return nil
}

func (r *replica) failed() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bad
}

// image is a snapshot.
type image []byte

// Persist writes it.
func (s image) Persist(sink hraft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot: %w", err)
	}
	return sink.Close()
}

// Release has nothing to free.
func (image) Release() {}

// tableView is what the leader's work on one table sees of the state.
type tableView struct {
	r    *replica
	name string
}

func read[T any](v tableView, f func(t *fsm.Table) T) T {
	v.r.mu.RLock()
	defer v.r.mu.RUnlock()
	t := v.r.state.Table(v.name)
	if t == nil {
		var zero T
		return zero
	}
	return f(t)
}

// Check says what a request would be answered now.
func (v tableView) Check(q *fsm.Request) fsm.Answer {
	return read(v, func(t *fsm.Table) fsm.Answer { return t.Check(q, fsm.NoPlant) })
}

// Answer says what became of a request.
func (v tableView) Answer(id string) fsm.Answer {
	return read(v, func(t *fsm.Table) fsm.Answer { return t.Answer(id) })
}

// Pending gives what is decided and not known to be published.
func (v tableView) Pending() []*fsm.Version {
	return read(v, func(t *fsm.Table) []*fsm.Version { return append([]*fsm.Version(nil), t.Pending()...) })
}

// Version gives the newest version known to be in the store.
func (v tableView) Version() (int64, string) {
	type pair struct {
		v    int64
		hash string
	}
	p := read(v, func(t *fsm.Table) pair { n, hash := t.Version(); return pair{n, hash} })
	return p.v, p.hash
}

func (v tableView) known() bool { return read(v, func(*fsm.Table) bool { return true }) }

func (v tableView) shape() fsm.Shape {
	return read(v, func(t *fsm.Table) fsm.Shape { return t.Shape() })
}
