package raft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	hraft "github.com/hashicorp/raft"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// term is the time in which this node leads.
type term struct {
	n       *Node
	number  uint64 // Raft's number of it; set before the first table opens
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	tables  map[string]*runner
	stopped bool
}

// errNotLeader ends what waits when another node leads.
var errNotLeader = errors.New("this node does not lead the group any more")

// startTerm begins to lead: what was committed before is applied first, then what is pending is published. The
// function it gives ends the term and waits for all of its work.
func (n *Node) startTerm() (stop func()) {
	t := &term{n: n, tables: map[string]*runner{}}
	t.ctx, t.cancel = context.WithCancel(n.ctx)
	t.wg.Go(t.begin)
	return func() {
		n.setTerm(nil)
		t.cancel()
		t.mu.Lock()
		t.stopped = true
		t.mu.Unlock()
		t.wg.Wait()
	}
}

func (t *term) begin() {
	for {
		t.number = t.n.raft.CurrentTerm()
		err := t.n.await(t.n.raft.Barrier(10 * time.Second))
		if err == nil && t.n.raft.CurrentTerm() != t.number {
			err = errors.New("the term changed meanwhile") // the barrier may be of another one
		}
		if err == nil {
			err = t.n.replica.failed()
		}
		if err == nil {
			break
		}
		t.n.cfg.Logger.Warn("cannot begin to lead", "node", t.n.cfg.ID, "error", err)
		if t.n.raft.State() != hraft.Leader {
			return
		}
		if t.n.replica.failed() != nil { // another node may do better
			_ = t.n.await(t.n.raft.LeadershipTransfer())
		}
		pause(t.ctx, 100*time.Millisecond)
		if t.ctx.Err() != nil {
			return
		}
	}
	t.n.cfg.Logger.Info("leads the group", "node", t.n.cfg.ID)
	t.n.replica.mu.RLock()
	names := t.n.replica.state.Tables()
	t.n.replica.mu.RUnlock()
	for _, name := range names {
		if len((tableView{t.n.replica, name}).Pending()) > 0 {
			t.table(name)
		}
	}
	t.n.setTerm(t)
}

// table gives the work on a table; it begins when it is first asked for.
func (t *term) table(name string) *runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.tables[name]
	if r == nil && !t.stopped {
		r = newRunner(t, name)
		t.tables[name] = r
		t.wg.Go(r.run)
	}
	return r
}

// forget drops a table whose work ended, so that the next request begins it again.
func (t *term) forget(r *runner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tables[r.name] == r {
		delete(t.tables, r.name)
	}
}

// future is a command on its way.
type future struct {
	n     *Node
	f     hraft.ApplyFuture
	start time.Time
}

// apply hands a command to the log; commands of one caller keep their order.
func (t *term) apply(c fsm.Command) future {
	return future{t.n, t.n.raft.Apply(fsm.Encode(c), 5*time.Second), time.Now()}
}

// wait gives the result, once the command is applied here.
func (f future) wait() (fsm.Result, error) {
	if err := f.n.await(f.f); err != nil {
		return fsm.Result{}, fmt.Errorf("replicate: %w", err)
	}
	f.n.metrics.decide.Observe(time.Since(f.start).Seconds())
	res, ok := f.f.Response().(fsm.Result)
	if !ok {
		return fsm.Result{}, fmt.Errorf("replicate: unexpected response %T", f.f.Response())
	}
	return res, nil
}
