package sim

import (
	"errors"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
)

// group is the model of the replicated log with its nodes.
type group struct {
	w      *world
	log    [][]byte // committed, in order
	term   int
	leader *node // of the term
	nodes  []*node
}

// node is one process.
type node struct {
	w           *world
	g           *group
	id          int
	life        int // counts restarts
	pausedUntil int64
	skew        int64 // of its wall clock, ms
	state       *fsm.State
	applied     int
	results     map[int]fsm.Result // of its own proposals, by index
	term        int                // of machine
	machine     *publish.Machine   // while it believes to lead
	inflight    []*proposal
	callers     map[string][]func(fsm.Answer, error)
}

// proposal is under way to the log.
type proposal struct {
	cmd   fsm.Command
	term  int
	gone  bool // taken over or lost at a change of leaders
	index int
}

var errDeposed = errors.New("not the leader any more")

func newGroup(w *world) *group {
	g := &group{w: w}
	for i := range 3 {
		g.nodes = append(g.nodes, &node{w: w, g: g, id: i, state: fsm.Planted(w.opts.fsmPlant), callers: map[string][]func(fsm.Answer, error){},
			results: map[int]fsm.Result{}})
	}
	return g
}

func (g *group) start() {
	g.commit(&fsm.Open{Table: table, Shape: g.w.store.shape(), Hash: fsm.HashOf(g.w.store.files[0]), Replace: -1})
	g.elect(g.nodes[0])
}

func (g *group) commit(c fsm.Command) int {
	g.log = append(g.log, fsm.Encode(c))
	return len(g.log) - 1
}

// elect makes n the leader. Of what the old leader had under way, a prefix is in the log of the new one.
func (g *group) elect(n *node) {
	if n.away() {
		return
	}
	old := g.leader
	g.term++
	g.leader = n
	g.w.logf("node %d leads term %d", n.id, g.term)
	if old != nil {
		keep := 0
		if len(old.inflight) > 0 {
			keep = g.w.rng.IntN(len(old.inflight) + 1)
		}
		for i, p := range old.inflight {
			p.gone = true
			if i < keep {
				g.commit(p.cmd)
			}
		}
		old.inflight = nil
		if term := old.term; old.machine != nil {
			old.after(g.w.between(0, 2000), func() { old.depose(term) }) // until it learns of it
		}
	}
	for _, p := range n.inflight { // of an earlier term of its own, after it was deposed
		p.gone = true
	}
	n.inflight = nil
	term := g.term
	n.after(g.w.between(1, 50), func() { n.lead(term) })
}

func (n *node) away() bool { return n.pausedUntil > n.w.now }

// after runs fn on the node: later if it is paused then, never if it was restarted.
func (n *node) after(d int64, fn func()) {
	life := n.life
	n.w.after(d, func() {
		switch {
		case n.life != life:
		case n.away():
			n.after(n.pausedUntil-n.w.now, fn)
		default:
			fn()
		}
	})
}

func (n *node) pause(d int64) {
	n.w.logf("node %d pauses for %d ms", n.id, d)
	n.pausedUntil = n.w.now + d
	n.skew = n.w.between(-3_600_000, 3_600_000)
}

// restart is kill -9 and a new process that has only the log, or a snapshot of a part of it.
func (n *node) restart() {
	n.w.logf("node %d restarts", n.id)
	n.life++
	n.machine, n.inflight, n.callers = nil, nil, map[string][]func(fsm.Answer, error){}
	n.results = map[int]fsm.Result{}
	if n.w.rng.IntN(2) == 0 {
		s := fsm.Planted(n.w.opts.fsmPlant)
		if err := s.Restore(n.state.Snapshot()); err != nil {
			n.w.fail("restore: %v", err)
		}
		n.state = s
	} else {
		n.state, n.applied = fsm.Planted(n.w.opts.fsmPlant), 0
	}
	for _, x := range n.g.nodes {
		if n.g.leader == n && x != n && !x.away() {
			n.g.elect(x)
		}
	}
}

// apply brings the node up to an index of the log.
func (n *node) apply(to int) {
	for ; n.applied < to; n.applied++ {
		c, err := fsm.Decode(n.g.log[n.applied])
		if err != nil {
			n.w.fail("decode: %v", err)
			return
		}
		res := n.state.Apply(c)
		n.results[n.applied] = res
		n.w.check.applied(n.applied, res)
	}
}

// view is what the machine sees of the state.
type view struct{ n *node }

func (v view) table() *fsm.Table { return v.n.state.Table(table) }
func (v view) Check(r *fsm.Request) fsm.Answer {
	return v.table().Check(r, v.n.w.opts.fsmPlant)
}
func (v view) Answer(id string) fsm.Answer { return v.table().Answer(id) }
func (v view) Pending() []*fsm.Version     { return v.table().Pending() }
func (v view) Version() (int64, string)    { return v.table().Version() }

// lead begins a term: all that is committed is applied first.
func (n *node) lead(term int) {
	if n.g.term != term {
		return
	}
	n.apply(len(n.g.log))
	w := n.w
	n.term = term
	n.machine = publish.New(publish.Config{
		Engine: "sim", NewID: func() string { return w.id("x") }, Linger: 2e6, MaxPending: 1 + w.rng.IntN(3), Plant: w.opts.publishPlan,
		Wall: func() int64 { return w.clock().UnixMilli() + n.skew },
	}, table, view{n})
	n.do(n.machine.Tick(w.clock()))
}

func (n *node) depose(term int) {
	if n.machine == nil || n.term != term || n.g.leader == n && n.g.term == term {
		return
	}
	n.machine = nil
	n.w.logf("node %d learns that its term %d is over", n.id, term)
	for _, id := range sortedKeys(n.callers) {
		n.answer(id, fsm.Answer{}, errDeposed)
	}
}

func (n *node) answer(id string, a fsm.Answer, err error) {
	callers := n.callers[id]
	delete(n.callers, id)
	for _, done := range callers {
		done(a, err)
	}
}

// submit is a request that reached the node.
func (n *node) submit(r fsm.Request, early bool, done func(fsm.Answer, error)) {
	if n.machine == nil {
		done(fsm.Answer{}, errDeposed)
		return
	}
	n.callers[r.ID] = append(n.callers[r.ID], done)
	n.do(n.machine.Submit(n.w.clock(), r, early))
}

// do carries the effects of the machine out.
func (n *node) do(effects []publish.Effect) {
	w, term := n.w, n.term
	back := func(fn func(m *publish.Machine) []publish.Effect) func() {
		return func() {
			if n.machine != nil && n.term == term {
				n.do(fn(n.machine))
			}
		}
	}
	for _, e := range effects {
		switch e := e.(type) {
		case publish.Propose:
			n.propose(e.Command, term)
		case publish.Put:
			w.store.putSlowly(e.Version, e.Data, func(err error) {
				n.after(0, back(func(m *publish.Machine) []publish.Effect { return m.PutDone(w.clock(), e.Version, err) }))
			})
		case publish.Get:
			w.store.getSlowly(e.Version, func(data []byte, err error) {
				n.after(0, back(func(m *publish.Machine) []publish.Effect { return m.GetDone(w.clock(), e.Version, data, err) }))
			})
		case publish.Load:
			w.store.loadSlowly(e.Staged.Key, func(data []byte, err error) {
				n.after(0, back(func(m *publish.Machine) []publish.Effect { return m.LoadDone(w.clock(), e.Version, data, err) }))
			})
		case publish.Unstage:
			w.after(w.between(0, 50), func() { delete(w.store.staged, e.Key) })
		case publish.Reply:
			n.answer(e.ID, e.Answer, e.Err)
		case publish.Wake:
			n.after(max(1, e.At.UnixMilli()-w.clock().UnixMilli()), back(func(m *publish.Machine) []publish.Effect { return m.Tick(w.clock()) }))
		case publish.Reopen:
			w.fail("node %d wants to open the table anew at version %d, which is in the store", n.id, e.Version)
		case publish.Stored:
		default:
			w.fail("unknown effect %T", e)
		}
	}
}

// propose sends a command to the log; proposals of a node arrive in their order.
func (n *node) propose(c fsm.Command, term int) {
	p := &proposal{cmd: c, term: term}
	n.inflight = append(n.inflight, p)
	n.after(n.w.between(1, 15), func() { n.arrive(p) })
}

// arrive commits the proposals up to p, or finds out that the node does not lead any more.
func (n *node) arrive(p *proposal) {
	switch leads := n.g.leader == n && n.g.term == p.term; {
	case leads && p.gone:
		return // committed with a later one
	case leads:
		for len(n.inflight) > 0 {
			first := n.inflight[0]
			n.inflight = n.inflight[1:]
			if first.term != p.term {
				continue // of the time between the election and its notice: it fails when it arrives
			}
			first.index, first.gone = n.g.commit(first.cmd), true
			n.reply(first, nil)
		}
	case p.index == 0:
		p.gone = true
		n.reply(p, errDeposed)
	}
	for _, x := range n.g.nodes {
		if x != n && !x.away() && n.w.rng.IntN(3) == 0 {
			x.apply(len(n.g.log))
		}
	}
}

func (n *node) reply(p *proposal, err error) {
	n.after(n.w.between(1, 15), func() {
		var res fsm.Result
		if err == nil {
			n.apply(p.index + 1)
			res = n.results[p.index]
			delete(n.results, p.index)
		}
		if n.machine != nil && n.term == p.term {
			n.w.logf("node %d: %T is decided: %+v %v", n.id, p.cmd, res, err)
			n.do(n.machine.Proposed(n.w.clock(), p.cmd, res, err))
		}
	})
}
