package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// checker watches every version at the moment at which it gets into the store, and every answer.
type checker struct {
	w         *world
	in        map[string]int64 // request id -> version
	txns      map[string]int64 // txn id -> version
	positions map[int32]int64
	epochs    map[int32]int64
	answers   map[string]fsm.Answer
	early     map[string]bool // told before they were published
	results   map[int]string  // log index -> result, the same on every node
	rewritten int64           // version that removed files or changed metadata last
	acked     int
	refused   int
}

func newChecker(w *world) *checker {
	return &checker{w: w, in: map[string]int64{}, txns: map[string]int64{}, positions: map[int32]int64{}, epochs: map[int32]int64{},
		answers: map[string]fsm.Answer{}, early: map[string]bool{}, results: map[int]string{}}
}

// applied shows that the replicas decide the same (I5).
func (c *checker) applied(index int, r fsm.Result) {
	got := fmt.Sprint(r)
	if first, ok := c.results[index]; ok && first != got {
		c.w.fail("entry %d: one node gets %s, another %s", index, first, got)
	}
	c.results[index] = got
}

// version checks what a new version holds against all that was there before.
func (c *checker) version(v int64, x *deltalog.Content) {
	s := c.w.store
	if old, twice := c.txns[x.Info.TxnID]; twice {
		c.w.fail("content %s is version %d and version %d", x.Info.TxnID, old, v) // I5
	}
	c.txns[x.Info.TxnID] = v
	if s.meta != nil && s.meta.Configuration["delta.enableInCommitTimestamps"] == "true" {
		if x.Info.InCommitTimestamp == nil || *x.Info.InCommitTimestamp <= s.stamp {
			c.w.fail("version %d: the in-commit timestamp does not grow", v)
		}
	}
	for i := range x.Removes {
		if !s.live[x.Removes[i].Path] {
			c.w.fail("version %d removes %s, which is not in the table", v, x.Removes[i].Path)
		}
	}
	if x.Metadata != nil && x.Info.Operation == alterOperation {
		if rest, ok := strings.CutPrefix(x.Metadata.Description, s.meta.Description); !ok || strings.Count(rest, "+") != 1 {
			c.w.fail("version %d makes the description %q out of %q: a change between is lost", v, x.Metadata.Description, s.meta.Description)
		}
	}
	moved := map[int32]int64{}
	if x.Info.Operation == restoreOperation {
		c.restored(v, x)
		return
	}
	if len(x.Removes) > 0 || x.Metadata != nil {
		c.rewritten = v
	}
	for i := range x.Adds {
		c.add(v, &x.Adds[i], moved)
	}
	for _, t := range x.Txns {
		p, err := strconv.ParseInt(strings.TrimPrefix(t.AppID, app+"-"), 10, 32)
		if err != nil || moved[int32(p)] != t.Version+1 {
			c.w.fail("version %d moves %s to %d without its rows", v, t.AppID, t.Version) // I3
		}
		delete(moved, int32(p))
	}
	for p := range moved {
		c.w.fail("version %d has rows of partition %d and no position", v, p) // I3
	}
}

// restored checks a version that sets a position: it must be what it was when the restore was planned, and what the
// restore stands on must be as it was (I3).
func (c *checker) restored(v int64, x *deltalog.Content) {
	var p int32
	var was, to int64
	var all string
	id, rest, _ := strings.Cut(x.Adds[0].Path, "/")
	if _, err := fmt.Sscanf(rest, "%d/%d-%d/%s", &p, &was, &to, &all); err != nil || len(x.Txns) != 1 || x.Txns[0].Version != to-1 {
		c.w.fail("version %d restores %s with %+v", v, x.Adds[0].Path, x.Txns)
		return
	}
	if old, twice := c.in[id]; twice {
		c.w.fail("request %s is in version %d and in version %d", id, old, v)
	}
	c.in[id] = v
	if c.positions[p] != was {
		c.w.fail("version %d sets partition %d from %d to %d, and it stands at %d", v, p, was, to, c.positions[p])
	}
	c.positions[p] = to
	read := *x.Info.ReadVersion
	if all == extents[fsm.AllFiles] && c.rewritten > read || all == extents[fsm.AllCommits] && v != read+1 {
		c.w.fail("version %d stands on all of version %d (%s), and version %d changed it", v, read, all, c.rewritten)
	}
}

// add checks one file, whose path says which request it is of and which offsets it holds.
func (c *checker) add(v int64, a *deltalog.Add, moved map[int32]int64) {
	part := strings.Split(a.Path, "/")
	id := part[0]
	if old, twice := c.in[id]; twice {
		c.w.fail("request %s is in version %d and in version %d", id, old, v) // I3
	}
	c.in[id] = v
	if len(part) < 4 {
		return
	}
	p64, _ := strconv.ParseInt(part[1], 10, 32)
	var from, to int64
	_, _ = fmt.Sscanf(part[2], "%d-%d", &from, &to)
	epoch, _ := strconv.ParseInt(part[3], 10, 64)
	p := int32(p64)
	if at, known := c.positions[p]; known && at != from {
		c.w.fail("version %d: partition %d stands at %d, the file of %s holds [%d, %d)", v, p, at, id, from, to) // I3
	}
	c.positions[p], moved[p] = to, to
	if epoch < 0 {
		return // a foreign writer has none
	}
	if epoch < c.epochs[p] {
		c.w.fail("version %d: a fenced writer of epoch %d adds to partition %d after epoch %d", v, epoch, p, c.epochs[p]) // I5
	}
	c.epochs[p] = epoch
}

// answered checks that the answers to one request are one answer.
func (c *checker) answered(id string, a fsm.Answer) {
	if !a.Code.Final() {
		return
	}
	if old, ok := c.answers[id]; ok && old != a {
		c.w.fail("request %s was answered %+v and then %+v", id, old, a)
	}
	c.answers[id] = a
	if v, in := c.in[id]; a.Code == fsm.Published && (!in || v != a.Version) {
		c.w.fail("request %s is said to be in version %d, and is in %d (0: none)", id, a.Version, v)
	}
}

// end checks what must be true when all is quiet.
func (c *checker) end() {
	for _, id := range sortedKeys(c.answers) {
		a := c.answers[id]
		v, in := c.in[id]
		switch {
		case a.Code == fsm.Published && (!in || v != a.Version):
			c.w.fail("request %s was acknowledged for version %d, and is in %d (0: none)", id, a.Version, v) // I3
		case a.Code != fsm.Published && in:
			c.w.fail("request %s was refused with %+v, and is in version %d", id, a, v) // I3
		case in:
			c.acked++
		default:
			c.refused++
		}
	}
	for _, x := range c.w.writers {
		if x.cur != nil && x.left == 0 {
			c.w.fail("writer %d never got an answer to %s", x.id, x.cur.ID)
		}
		if x.left > 0 {
			c.w.fail("writer %d came to no end: %d requests are left", x.id, x.left)
		}
	}
	n := c.w.group.leader
	n.apply(len(n.g.log))
	for _, id := range sortedKeys(c.early) {
		a := n.state.Table(table).Answer(id)
		if v, in := c.in[id]; in != (a.Code == fsm.Published) || in && v != a.Version || !a.Code.Final() {
			c.w.fail("request %s was told early, the group says %+v, and it is in version %d (0: none)", id, a, v) // I3
		}
	}
	if p := n.state.Table(table).Pending(); len(p) > 0 {
		c.w.fail("version %d is decided and was never published", p[0].Number)
	}
}
