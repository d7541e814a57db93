package raft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// runner carries out the leader's work on one table. Its loop is the only goroutine that touches the machine.
type runner struct {
	t        *term
	name     string
	view     tableView
	events   chan func(m *publish.Machine, now time.Time) []publish.Effect
	stored   chan publish.Stored
	opened   chan struct{} // closed when the table is open, or failed
	failed   error         // after opened: why the table cannot be used
	hopeless bool          // ... and trying again will not help
	store    objstore.Store
	log      *deltalog.Log
	wg       sync.WaitGroup
	wake     *time.Timer
	loaded   func() // gives back the memory of the staged actions that the next put holds; of the loop

	mu      sync.Mutex
	callers map[string][]chan outcome
	ended   bool
	status  publish.Status
	snap    *deltalog.Snapshot // newest that requests were checked against
	shape   fsm.Shape          // of snap
	// replaced are versions that have other content now, oldest notice first, each until a writer says that it was told (I5).
	replaced []*rpc.Replaced
}

// outcome is the answer to a request, or why there is none.
type outcome struct {
	answer fsm.Answer
	err    error
}

func newRunner(t *term, name string) *runner {
	return &runner{t: t, name: name, view: tableView{t.n.replica, name}, opened: make(chan struct{}), callers: map[string][]chan outcome{},
		events: make(chan func(*publish.Machine, time.Time) []publish.Effect), stored: make(chan publish.Stored, 64)}
}

// run opens the table and works until the term ends.
func (r *runner) run() {
	defer r.end()
	if !r.open() {
		return
	}
	cfg := r.t.n.cfg
	m := publish.New(publish.Config{Engine: cfg.Engine, NewID: uuid.NewString, Linger: cfg.Linger, MaxWaiting: cfg.MaxWaiting,
		Verify: cfg.Verify}, r.name, r.view)
	r.wake = time.NewTimer(0)
	defer r.wake.Stop()
	r.wg.Go(r.keep)
	close(r.opened)
	for {
		var effects []publish.Effect
		select {
		case <-r.t.ctx.Done():
			return
		case <-r.wake.C:
			effects = m.Tick(time.Now())
		case fn := <-r.events:
			effects = fn(m, time.Now())
		}
		r.mu.Lock()
		r.status = m.Status() // before the answers: who has one and asks sees it
		r.mu.Unlock()
		r.do(effects)
	}
}

// end answers whoever still waits, and waits for the calls under way.
func (r *runner) end() {
	r.t.forget(r)
	r.mu.Lock()
	r.ended = true
	callers := r.callers
	r.callers = nil
	r.mu.Unlock()
	for _, list := range callers {
		for _, c := range list {
			c <- outcome{err: errNotLeader}
		}
	}
	r.wg.Wait()
	if r.log != nil {
		_ = r.log.Close()
	}
}

// post hands an event to the loop.
func (r *runner) post(fn func(m *publish.Machine, now time.Time) []publish.Effect) {
	select {
	case r.events <- fn:
	case <-r.t.ctx.Done():
	}
}

// do carries effects out.
func (r *runner) do(effects []publish.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case publish.Propose:
			if _, ok := e.Command.(*fsm.Foreign); ok {
				r.t.n.metrics.versions.WithLabelValues("foreign").Inc()
			}
			f := r.t.apply(e.Command) // here, so that proposals keep their order
			r.wg.Go(func() {
				res, err := f.wait()
				r.post(func(m *publish.Machine, now time.Time) []publish.Effect { return m.Proposed(now, e.Command, res, err) })
			})
		case publish.Put:
			loaded := r.loaded
			r.loaded = nil
			r.wg.Go(func() {
				r.put(e)
				if loaded != nil {
					loaded()
				}
			})
		case publish.Get:
			r.wg.Go(func() { r.get(e) })
		case publish.Load:
			r.wg.Go(func() { r.load(e) })
		case publish.Unstage:
			r.wg.Go(func() { r.unstage(e.Key) })
		case publish.Reply:
			r.answer(e.ID, outcome{e.Answer, e.Err})
		case publish.Stored:
			r.t.n.metrics.versions.WithLabelValues("own").Inc()
			r.t.n.metrics.size.Observe(float64(e.Requests))
			if len(e.Data) > inline { // up to 64 may wait: read again what is large
				e.Data = nil
			}
			select {
			case r.stored <- e:
			default: // the log catches up later by itself
			}
		case publish.Reopen:
			r.wg.Go(func() {
				err := r.reopen(e)
				r.post(func(m *publish.Machine, now time.Time) []publish.Effect { return m.Reopened(now, err) })
			})
		case publish.Wake:
			r.wake.Reset(max(0, time.Until(e.At)))
		}
	}
}

func (r *runner) put(e publish.Put) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	start := time.Now()
	err := r.store.PutIfAbsent(ctx, deltalog.CommitKey(deltalog.Version(e.Version)), e.Data)
	r.t.n.metrics.put.Observe(time.Since(start).Seconds())
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		r.t.n.metrics.failures.WithLabelValues("put").Inc()
		r.t.n.cfg.Logger.Warn("publish", "table", r.name, "version", e.Version, "error", err)
	}
	r.post(func(m *publish.Machine, now time.Time) []publish.Effect { return m.PutDone(now, e.Version, err) })
}

func (r *runner) get(e publish.Get) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.n.cfg.StoreLimit)
	defer cancel()
	data, err := r.store.Get(ctx, deltalog.CommitKey(deltalog.Version(e.Version)))
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		r.t.n.metrics.failures.WithLabelValues("get").Inc()
	}
	r.post(func(m *publish.Machine, now time.Time) []publish.Effect { return m.GetDone(now, e.Version, data, err) })
}

// keep lets the Delta log follow, which makes the checkpoints, and first takes away what a crash left.
func (r *runner) keep() {
	if err := r.sweep(); err != nil && r.t.ctx.Err() == nil {
		r.t.n.cfg.Logger.Warn("staged actions stay until another leader looks", "table", r.name, "error", err)
	}
	for {
		select {
		case <-r.t.ctx.Done():
			return
		case e := <-r.stored:
			if e.Version%10 == 0 { // it may have missed versions of others
				_, _ = r.look(r.t.ctx)
			}
			if e.Data == nil {
				var err error
				if e.Data, err = r.store.Get(r.t.ctx, deltalog.CommitKey(deltalog.Version(e.Version))); err != nil {
					continue // as when it was not handed over
				}
			}
			r.log.Published(deltalog.Version(e.Version), e.Data)
		}
	}
}

// look gives the newest snapshot. What the log says, once, of a version that was replaced waits for the next request.
func (r *runner) look(ctx context.Context) (*deltalog.Snapshot, error) {
	snap, err := r.log.Snapshot(ctx)
	var replaced *deltalog.ReplacedError
	if errors.As(err, &replaced) {
		r.noteReplaced(replaced)
		snap, err = r.log.Snapshot(ctx)
	}
	return snap, err
}

// maxReplaced bounds the replaced versions that wait to be told: of more, the newest.
const maxReplaced = 16

// noteReplaced may be called for one version by the log and by the machine.
func (r *runner) noteReplaced(e *deltalog.ReplacedError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.replaced {
		if x.Version == int64(e.Version) && x.By == e.By {
			return
		}
	}
	r.replaced = append(r.replaced, &rpc.Replaced{ID: uuid.NewString(), Version: int64(e.Version), By: e.By})
	r.replaced = r.replaced[max(0, len(r.replaced)-maxReplaced):]
}

// telling gives what a request is to be told, by what its writer acknowledges: it is told again as long as nobody does, since
// an answer can be lost. A writer that cannot acknowledge is told once.
func (r *runner) telling(told string) *rpc.Replaced {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.replaced) > 0 && told == r.replaced[0].ID {
		r.replaced = r.replaced[1:]
	}
	if len(r.replaced) == 0 {
		return nil
	}
	x := r.replaced[0]
	if told == "" {
		r.replaced = r.replaced[1:]
	}
	return x
}

// submit hands a request to the loop and waits for its answer.
func (r *runner) submit(ctx context.Context, q fsm.Request, early bool) (fsm.Answer, error) {
	c := make(chan outcome, 1)
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return fsm.Answer{}, errNotLeader
	}
	r.callers[q.ID] = append(r.callers[q.ID], c)
	r.mu.Unlock()
	r.post(func(m *publish.Machine, now time.Time) []publish.Effect { return m.Submit(now, q, early) })
	select {
	case o := <-c:
		return o.answer, o.err
	case <-r.t.ctx.Done():
		return fsm.Answer{}, errNotLeader
	case <-ctx.Done():
		r.leave(q.ID, c)
		return fsm.Answer{}, fmt.Errorf("wait for the answer: %w", ctx.Err())
	}
}

func (r *runner) leave(id string, c chan outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.callers[id]
	for i, x := range list {
		if x == c {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(r.callers, id)
	} else if r.callers != nil {
		r.callers[id] = list
	}
}

func (r *runner) answer(id string, o outcome) {
	r.mu.Lock()
	list := r.callers[id]
	delete(r.callers, id)
	r.mu.Unlock()
	for _, c := range list {
		c <- o
	}
}
