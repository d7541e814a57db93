package fsm

import (
	"fmt"
	"maps"
	"slices"
)

// Table is what the group knows of one table.
type Table struct {
	name      string
	version   int64  // newest version known to be in the store
	hash      string // of its commit file; empty: not known
	shape     Shape
	stamp     int64            // newest in-commit timestamp
	positions map[string]int64 // app id -> next offset
	pending   []*Version       // decided, oldest first; versions follow the base without a hole
	epoch     int64            // newest that was given away or seen
	fences    map[string]int64 // app id -> epoch of its last commit
	moved     map[string]int64 // app id -> version that moved its position last; missing: one up to since
	rewritten int64            // newest version that did more than add files blindly; not above since at first
	removed   []removal        // oldest first
	since     int64            // removed holds everything of versions after this one
	reshaped  int64            // version that changed metadata or protocol last, as far as is known; not above since at first
	answers   map[string]Answer
	order     []string // ids in answers, oldest first
}

// Version is one that is decided.
type Version struct {
	Number   int64
	TxnID    string // of this content at this number: another number has another id
	Time     int64
	Stamp    int64 // in-commit timestamp; 0: none
	Engine   string
	Requests []Request
	open     bool // others may still come in: it must not be put
	rebased  int64
	moves    map[string]int64 // app id -> next offset
}

type removal struct {
	version int64
	file    Sum
}

// Open says whether requests may still come into the version: it must not be put yet.
func (v *Version) Open() bool { return v.open }

// Version gives the newest version that is known to be in the store, and the hash of its file.
func (t *Table) Version() (int64, string) { return t.version, t.hash }

// Shape gives the shape after all that is decided.
func (t *Table) Shape() Shape {
	for i := len(t.pending) - 1; i >= 0; i-- {
		for j := len(t.pending[i].Requests) - 1; j >= 0; j-- {
			if c := t.pending[i].Requests[j].Change; c != nil {
				return *c
			}
		}
	}
	return t.shape
}

// Pending gives the versions that are decided and not known to be published. They must not be changed, and they
// stay as they are: a rebase makes new ones.
func (t *Table) Pending() []*Version { return t.pending }

// Answer says what became of a request.
func (t *Table) Answer(id string) Answer { return t.answers[id] }

// Position gives the next offset of an application after all that is decided.
func (t *Table) Position(appID string) (int64, bool) {
	for i := len(t.pending) - 1; i >= 0; i-- {
		if at, ok := t.pending[i].moves[appID]; ok {
			return at, true
		}
	}
	at, ok := t.positions[appID]
	return at, ok
}

// Positions is the number of positions that the table has.
func (t *Table) Positions() int { return len(t.positions) }

// Check says what a request would be answered if it were decided now; Pending when it would be taken.
func (t *Table) Check(r *Request, plant Plant) Answer {
	if a := t.answers[r.ID]; a.Code != Unknown {
		return a
	}
	return t.admit(r, plant, false)
}

// admit decides about one request on top of all that is pending. A request that was admitted before is not held
// against the epochs again: what fenced it came after it.
func (t *Table) admit(r *Request, plant Plant, again bool) Answer {
	if a, ok := r.wellFormed(); !ok {
		return a
	}
	shape := t.Shape()
	if r.Incarnation != "" && r.Incarnation != shape.Incarnation {
		return Answer{Code: Incarnation, Text: shape.Incarnation}
	}
	for _, x := range r.Ranges {
		if fence := t.fences[AppID(r.App, x.Partition)]; x.Epoch < fence && !again && plant != NoEpochCheck {
			return Answer{Code: Stale, Partition: x.Partition, At: fence} // I5
		}
	}
	if a := t.checkRanges(r); a.Code != Unknown && plant != NoRangeCheck {
		return a
	}
	if r.Schema != "" && r.Schema != shape.Schema {
		return Answer{Code: Schema}
	}
	if newest := t.decided(); r.Planned && r.Read > newest && !again && !r.loose {
		return Answer{Code: Conflict, Text: fmt.Sprintf("it was planned on version %d, and the table stands at %d: plan it again", r.Read, newest)}
	}
	if a := t.checkPlan(r); a.Code != Unknown && plant != NoPlanCheck {
		return a
	}
	if r.Meta != shape.Meta || r.Proto != shape.Proto || r.Unread {
		return Answer{Code: Recheck}
	}
	return Answer{Code: Pending}
}

// decided is the newest version that requests can stand on.
func (t *Table) decided() int64 {
	n := t.version + int64(len(t.pending))
	if k := len(t.pending); k > 0 && len(t.pending[k-1].Requests) == 0 {
		n-- // the one that is being decided now
	}
	return n
}

// checkRanges refuses what does not continue where the table stands (I3). A partition that the table does not know
// may begin anywhere.
func (t *Table) checkRanges(r *Request) Answer {
	var fenced Answer
	for _, x := range r.Ranges {
		at, ok := t.Position(AppID(r.App, x.Partition))
		switch {
		case !ok || at == x.From:
		case at >= x.To:
			fenced = Answer{Code: Fenced, Partition: x.Partition, At: at}
		default:
			return Answer{Code: Misplaced, Partition: x.Partition, At: at}
		}
	}
	return fenced
}

// checkPlan refuses what was planned on something that has changed since: the shape of the table, or a file that
// the request removes.
func (t *Table) checkPlan(r *Request) Answer {
	if !r.Planned {
		return Answer{}
	}
	if r.Read < t.since {
		return Answer{Code: Conflict, Text: fmt.Sprintf("it was planned on version %d, and what was removed is known only since %d: plan it again", r.Read, t.since)}
	}
	if v := t.reshapedAt(); r.Read < v {
		return Answer{Code: Reshaped, Text: fmt.Sprintf("it was planned on version %d, and version %d changed metadata or protocol: plan it again", r.Read, v)}
	}
	if v := t.changedAt(r.All); r.Read < v {
		return conflict("it stands on the whole table as of version %d, which version %d changed: plan it again", r.Read, v)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Moves)) {
		if v := t.movedAt(id); r.Read < v {
			return conflict("it was planned on version %d, and version %d moved the position of %s: plan it again", r.Read, v, id)
		}
	}
	return t.checkRemoves(r)
}

func conflict(format string, args ...any) Answer {
	return Answer{Code: Conflict, Text: clip(fmt.Sprintf(format, args...))}
}

// checkRemoves refuses to remove a file that another version removes.
func (t *Table) checkRemoves(r *Request) Answer {
	mine := make(map[Sum]bool, len(r.Removes))
	for _, p := range r.Removes {
		mine[p] = true
	}
	for _, x := range t.removed {
		if x.version > r.Read && mine[x.file] {
			return conflict("version %d removed one of its files: plan it again", x.version)
		}
	}
	for _, v := range t.pending {
		for i := range v.Requests {
			for _, p := range v.Requests[i].Removes {
				if mine[p] {
					return conflict("version %d removes one of its files: plan it again", v.Number)
				}
			}
		}
	}
	return Answer{}
}

// changedAt is the newest version that a request of this extent has to know.
func (t *Table) changedAt(all Extent) int64 {
	switch all {
	case AllCommits:
		return t.decided()
	case AllFiles:
		for i := len(t.pending) - 1; i >= 0; i-- {
			if slices.ContainsFunc(t.pending[i].Requests, func(r Request) bool { return !r.blind() }) {
				return t.pending[i].Number
			}
		}
		return t.rewritten
	}
	return -1
}

// movedAt is the newest version that moved a position.
func (t *Table) movedAt(appID string) int64 {
	for i := len(t.pending) - 1; i >= 0; i-- {
		if _, ok := t.pending[i].moves[appID]; ok {
			return t.pending[i].Number
		}
	}
	return t.moved[appID]
}

// reshapedAt is the newest version that changed metadata or protocol.
func (t *Table) reshapedAt() int64 {
	for i := len(t.pending) - 1; i >= 0; i-- {
		for j := range t.pending[i].Requests {
			if t.pending[i].Requests[j].Change != nil {
				return t.pending[i].Number
			}
		}
	}
	return t.reshaped
}

// batch decides requests: into the open version when there is one and they go in, else into a new one.
func (t *Table) batch(c *Batch, plant Plant) []Answer {
	v := t.reopened(c)
	if v == nil {
		v = &Version{TxnID: c.TxnID, Time: c.Time, Engine: c.Engine}
	}
	v.open = c.Open
	return t.decide(v, c.Requests, plant, false)
}

// reopened takes the open version off the queue, as a copy, if the requests go into it; others close it. Versions do
// not change: who holds the old one sees what it was.
func (t *Table) reopened(c *Batch) *Version {
	if len(t.pending) == 0 || !t.pending[len(t.pending)-1].open {
		return nil
	}
	last := len(t.pending) - 1
	v := *t.pending[last]
	v.open = false
	if !v.Fits(c.Requests) {
		t.pending = append(slices.Clone(t.pending[:last]), &v)
		return nil
	}
	t.pending = slices.Clone(t.pending[:last])
	v.Requests, v.moves, v.Time = slices.Clone(v.Requests), maps.Clone(v.moves), max(v.Time, c.Time)
	return &v
}

// Fits says whether more requests go into a version without passing the limits of one.
func (v *Version) Fits(more []Request) bool {
	size := 0
	for _, list := range [][]Request{v.Requests, more} {
		for i := range list {
			if !list[i].Plain() {
				return false
			}
			size += list[i].Size()
		}
	}
	return len(v.Requests)+len(more) <= MaxBatchSize && size <= MaxBatch
}

// decide puts the requests that fit into a version v, behind all others, and gives each its answer.
func (t *Table) decide(v *Version, requests []Request, plant Plant, again bool) []Answer {
	v.Number = t.version + int64(len(t.pending)) + 1
	if v.moves == nil {
		v.moves = map[string]int64{}
	}
	t.pending = append(t.pending, v)
	answers := make([]Answer, len(requests))
	for i := range requests {
		r := &requests[i]
		if known := t.answers[r.ID]; known.Code != Unknown && !again {
			answers[i] = known
			continue
		}
		a := t.admit(r, plant, again)
		if a.Code == Recheck && again && r.Early {
			a = Answer{Code: Reshaped, Text: fmt.Sprintf("version %d changed metadata or protocol before it was published", t.version)}
		}
		if a.Code == Pending {
			a.Version = v.Number
			t.take(v, r)
		}
		t.remember(r.ID, a)
		answers[i] = a
	}
	if len(v.Requests) == 0 {
		t.pending = t.pending[:len(t.pending)-1]
	} else if t.Shape().Stamped {
		t.stamp = max(v.Time, t.stamp+1)
		v.Stamp = t.stamp
	}
	return answers
}

// take adds an admitted request to a version. The first commit of a new owner fences the old one here.
func (t *Table) take(v *Version, r *Request) {
	for _, x := range r.Ranges {
		id := AppID(r.App, x.Partition)
		v.moves[id] = x.To
		t.fences[id] = max(t.fences[id], x.Epoch)
		t.epoch = max(t.epoch, x.Epoch)
		if t.fences[id] == 0 {
			delete(t.fences, id)
		}
	}
	for id, at := range r.Moves {
		v.moves[id] = at
	}
	v.Requests = append(v.Requests, *r)
}

// remember keeps the answer for a repeated request. A Recheck is no answer.
func (t *Table) remember(id string, a Answer) {
	if a.Code == Recheck || a.Code == Unknown {
		if _, known := t.answers[id]; known {
			delete(t.answers, id)
			t.order = slices.DeleteFunc(t.order, func(x string) bool { return x == id })
		}
		return
	}
	if id == "" || len(id) > MaxIDLen {
		return
	}
	if _, known := t.answers[id]; !known {
		t.order = append(t.order, id)
	}
	t.answers[id] = a
	for tries := len(t.order); len(t.order) > MaxIDs && tries > 0; tries-- {
		old := t.order[0]
		t.order = t.order[1:]
		if t.answers[old].Code == Pending {
			t.order = append(t.order, old)
			continue
		}
		delete(t.answers, old)
	}
}

// published moves the first pending version into the base.
func (t *Table) published(c *PublishedAt) bool {
	if len(t.pending) == 0 || t.pending[0].Number != c.Version || t.pending[0].TxnID != c.TxnID {
		return false
	}
	v := t.pending[0]
	t.pending = t.pending[1:]
	t.version, t.hash = v.Number, c.Hash
	for id, at := range v.moves {
		t.positions[id], t.moved[id] = at, v.Number
	}
	for i := range v.Requests {
		r := &v.Requests[i]
		if r.Change != nil {
			t.shape, t.reshaped = *r.Change, v.Number
		}
		if !r.blind() {
			t.rewritten = v.Number
		}
		t.remove(v.Number, r.Removes)
		t.remember(r.ID, Answer{Code: Published, Version: v.Number})
	}
	return true
}

func (t *Table) remove(version int64, files []Sum) {
	for _, p := range files {
		t.removed = append(t.removed, removal{version, p})
	}
	for len(t.removed) > MaxRemoved {
		t.since = t.removed[len(t.removed)-MaxRemoved-1].version
		i := 0
		for i < len(t.removed) && t.removed[i].version <= t.since {
			i++
		}
		t.removed = append([]removal(nil), t.removed[i:]...)
	}
}

// foreign takes another writer's version into the base and decides the pending requests anew on top of it.
func (t *Table) foreign(c *Foreign, plant Plant) bool {
	if c.Version != t.version+1 {
		return false
	}
	t.version, t.hash = c.Version, c.Hash
	t.stamp = max(t.stamp, c.Stamp)
	for id, at := range c.Positions {
		t.positions[id], t.moved[id] = at, c.Version
	}
	if !c.Blind {
		t.rewritten = c.Version
	}
	t.remove(c.Version, c.Removed)
	if c.Reshaped {
		t.shape, t.reshaped = c.Shape.over(t.shape), c.Version
	}
	old := t.pending
	t.pending = nil
	for _, v := range old {
		// The content can be another one, so it gets another id: whoever finds it knows which one it is.
		n := &Version{TxnID: fmt.Sprintf("%s.%d", baseID(v), v.rebased+1), Time: v.Time, Engine: v.Engine, open: v.open, rebased: v.rebased + 1}
		t.decide(n, v.Requests, plant, true)
	}
	return true
}

func baseID(v *Version) string {
	if v.rebased == 0 {
		return v.TxnID
	}
	return v.TxnID[:len(v.TxnID)-len(fmt.Sprintf(".%d", v.rebased))]
}

// over gives s with what it leaves open taken from old.
func (s Shape) over(old Shape) Shape {
	if s.Meta == "" { // the protocol alone changed
		return Shape{Incarnation: old.Incarnation, Schema: old.Schema, Meta: old.Meta, Stamped: old.Stamped, Proto: s.Proto}
	}
	if s.Proto == "" {
		s.Proto = old.Proto
	}
	return s
}
