package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
)

// options say what a run is about.
type options struct {
	seed        uint64
	fsmPlant    fsm.Plant
	publishPlan publish.Plant
}

// event happens at a time; events of one time happen in the order in which they were made.
type event struct {
	at  int64 // ms
	seq int
	run func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// world is one run.
type world struct {
	opts    options
	rng     *rand.Rand
	now     int64
	seq     int
	queue   events
	steps   int
	ids     int
	calm    bool // no more faults: all must come to an end
	failed  error
	trace   bool
	store   *store
	group   *group
	writers []*writer
	check   *checker
	faults  float64 // how often things fail, of this run
}

const table = "t"

func newWorld(o options) *world {
	w := &world{opts: o, rng: rand.New(rand.NewPCG(o.seed, 7)), trace: os.Getenv("LEDGERLAKE_SIM_TRACE") == "1"}
	w.faults = []float64{0, 0.05, 0.2, 0.4}[w.rng.IntN(4)]
	w.check = newChecker(w)
	newStore(w)
	w.group = newGroup(w)
	for i := range 2 + w.rng.IntN(4) {
		w.writers = append(w.writers, newWriter(w, i))
	}
	return w
}

// after runs fn in d ms.
func (w *world) after(d int64, fn func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.seq, fn})
}

func (w *world) between(lo, hi int64) int64 { return lo + w.rng.Int64N(hi-lo+1) }

// chance is true with probability p while there are faults.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p && !w.calm }

func (w *world) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s%d", prefix, w.ids)
}

func (w *world) clock() time.Time { return time.UnixMilli(1_000_000_000 + w.now) }

func (w *world) logf(format string, args ...any) {
	if w.trace {
		fmt.Printf("%6d "+format+"\n", append([]any{w.now}, args...)...)
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf("at %d ms: "+format, append([]any{w.now}, args...)...)
		w.logf("FAILED: %v", w.failed)
	}
}

const (
	faultyTime = 6_000  // ms with faults
	calmTime   = 60_000 // ms in which all must come to an end afterwards
	settleTime = 2_500  // ms after the faults, when the last old leader knows that it is none: every try is answered from then on
	maxSteps   = 100_000
)

// run plays the whole run and gives what is wrong.
func (w *world) run() error {
	w.group.start()
	for _, x := range w.writers {
		w.after(w.between(0, 50), x.begin)
	}
	w.after(w.between(50, 500), w.trouble)
	w.after(w.between(50, 800), w.foreign)
	w.after(faultyTime, w.heal)
	for w.failed == nil && len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		if w.steps++; w.steps > maxSteps {
			w.fail("the run does not come to an end")
		}
		if w.now > faultyTime+calmTime {
			break
		}
		e.run()
	}
	if w.failed == nil {
		w.check.end()
	}
	if w.failed != nil {
		return fmt.Errorf("seed %d: %w", w.opts.seed, w.failed)
	}
	return nil
}

// trouble moves leadership, pauses and restarts nodes, until the calm.
func (w *world) trouble() {
	if w.calm {
		return
	}
	n := w.group.nodes[w.rng.IntN(len(w.group.nodes))]
	switch {
	case !w.chance(min(1, w.faults*3)):
	case w.rng.IntN(3) == 0:
		n.pause(w.between(10, 3000))
	case w.rng.IntN(2) == 0:
		n.restart()
	default:
		w.group.elect(n)
	}
	if l := w.group.leader; l.away() { // a quorum does not wait for a leader that is away
		for _, x := range w.group.nodes {
			if !x.away() && w.rng.IntN(2) == 0 {
				w.group.elect(x)
				break
			}
		}
	}
	w.after(w.between(20, 700), w.trouble)
}

// heal ends the faults. A last leader is elected, so that nothing hangs on one that is gone.
func (w *world) heal() {
	w.calm = true
	for _, n := range w.group.nodes {
		n.pausedUntil = 0
	}
	w.group.elect(w.group.nodes[w.rng.IntN(len(w.group.nodes))])
	for _, x := range w.writers {
		x.pausedUntil = 0
	}
}
