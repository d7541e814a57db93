package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// writer sends requests, one at a time, again and again until each has its answer. Two writers may own the same
// partition at a time: each thinks that it is the owner until it is told.
type writer struct {
	w           *world
	id          int
	partition   int32
	epoch       int64
	pausedUntil int64
	left        int // requests to send
	cur         *fsm.Request
	adds        []string
	sent        int                // tries of the current request
	target      int                // node that is believed to lead
	early       bool               // the current request asks for an early answer
	staged      bool               // its actions lie in the store
	meta        *deltalog.Metadata // of the current request, when it changes it
	removes     []string           // of the current request
	ahead       int64              // where the partition stands by early answers
}

const app = "app"

func newWriter(w *world, id int) *writer {
	x := &writer{w: w, id: id, partition: int32(id), left: 3 + w.rng.IntN(12)}
	if id > 0 && w.rng.IntN(3) == 0 {
		x.partition = int32(w.rng.IntN(id)) // fights for one
	}
	return x
}

// begin takes a lease and then sends.
func (x *writer) begin() {
	w := x.w
	if w.group.leader.machine == nil || w.group.leader.away() || w.chance(w.faults) {
		w.after(w.between(10, 100), x.begin)
		return
	}
	// The lease is a command like others; it is taken at once, since losing it costs nothing but a number.
	idx := w.group.commit(&fsm.Lease{Table: table, App: app, Partitions: []int32{x.partition}})
	n := w.group.leader
	n.apply(idx + 1)
	x.epoch = n.results[idx].Epoch
	w.logf("writer %d owns partition %d with epoch %d", x.id, x.partition, x.epoch)
	x.next()
}

// next makes a new request out of what the table says now.
func (x *writer) next() {
	w := x.w
	if x.left == 0 || w.calm && w.now > faultyTime+calmTime/2 {
		x.cur = nil
		return
	}
	if w.chance(w.faults / 4) { // stops for longer than anybody waits, and wakes with what it believed before
		x.pausedUntil = w.now + w.between(500, 4000)
	}
	x.left--
	x.removes = nil
	x.sent, x.early, x.staged = 0, x.w.rng.IntN(5) == 0, x.w.rng.IntN(6) == 0
	switch kind := w.rng.IntN(16); {
	case kind < 2 && len(w.store.live) > 1:
		x.optimize()
	case kind == 2:
		x.alter()
	case kind == 3 && x.id > 0:
		x.restore()
	default:
		x.append()
	}
	w.after(w.between(0, 60), x.send)
}

// restore sets the partition back, as of what the table holds now: its file says from where to where.
func (x *writer) restore() {
	s, id := x.w.store, fsm.AppID(app, x.partition)
	was := s.positions[id]
	if was == 0 {
		x.append()
		return
	}
	to := x.w.rng.Int64N(was)
	x.cur = &fsm.Request{ID: x.w.id("r"), Operation: restoreOperation, Planned: true, Read: s.newest, Moves: map[string]int64{id: to},
		All: fsm.Extent(x.w.rng.IntN(3))}
	x.adds, x.ahead = []string{fmt.Sprintf("%s/%d/%d-%d/%s", x.cur.ID, x.partition, was, to, extents[x.cur.All])}, 0
}

const restoreOperation = "RESTORE"

var extents = []string{"files", "all-files", "all-commits"}

func (x *writer) append() {
	s := x.w.store
	from := max(s.positions[fsm.AppID(app, x.partition)], x.ahead)
	if x.w.chance(x.w.faults / 10) { // a writer with a fault of its own: it must be told
		from = max(0, from+x.w.between(-3, 3))
	}
	r := &fsm.Request{ID: x.w.id("r"), App: app, Ranges: []fsm.Range{{Partition: x.partition, From: from, To: from + x.w.between(1, 9), Epoch: x.epoch}},
		Incarnation: s.meta.ID, Schema: fsm.SchemaHash(s.meta.SchemaString)}
	x.adds = []string{fmt.Sprintf("%s/%d/%d-%d/%d", r.ID, x.partition, from, r.Ranges[0].To, x.epoch)}
	x.cur = r
}

// optimize rewrites two files into one.
func (x *writer) optimize() {
	s := x.w.store
	live := sortedKeys(s.live)
	i := x.w.rng.IntN(len(live) - 1)
	x.cur = &fsm.Request{ID: x.w.id("r"), Operation: "OPTIMIZE", Planned: true, Read: s.newest}
	x.removes = live[i : i+2 : i+2]
	for _, p := range x.removes {
		x.cur.Removes = append(x.cur.Removes, fsm.SumOf(p))
	}
	x.adds = []string{x.cur.ID + "/optimized"}
}

// alter changes the metadata: the new description tells which one it replaces.
func (x *writer) alter() {
	s := x.w.store
	m := *s.meta
	m.Description += x.w.id("+")
	x.adds = nil
	x.meta = &m
	x.cur = &fsm.Request{ID: x.w.id("r"), Operation: alterOperation, Planned: true, Read: s.newest}
}

const alterOperation = "SET TBLPROPERTIES"

// prepare does what the leader does before it submits: it checks against the newest metadata.
func (x *writer) prepare() fsm.Request {
	r := *x.cur
	shape := x.w.store.shape()
	r.Meta, r.Proto, r.Early = shape.Meta, shape.Proto, x.early
	var out []byte
	line := func(kind string, v map[string]any) {
		b, _ := json.Marshal(map[string]any{kind: v})
		out = append(append(out, b...), '\n')
	}
	if r.Operation == alterOperation {
		line("metaData", map[string]any{"id": x.meta.ID, "schemaString": x.meta.SchemaString, "configuration": x.meta.Configuration,
			"description": x.meta.Description, "format": map[string]any{"provider": "parquet"}, "partitionColumns": []string{}})
		c, err := deltalog.ParseCommit(out, "alter")
		if err != nil {
			x.w.fail("parse: %v", err)
			return r
		}
		change, err := fsm.ShapeOf(c.Metadata, x.w.store.proto)
		if err != nil {
			x.w.fail("shape: %v", err)
		}
		r.Change = &change
		line("add", map[string]any{"path": r.ID + "/altered", "size": 1, "partitionValues": map[string]any{}, "modificationTime": 1, "dataChange": false})
	}
	for _, p := range x.removes {
		line("remove", map[string]any{"path": p, "dataChange": false})
	}
	for _, p := range x.adds {
		line("add", map[string]any{"path": p, "size": 1, "partitionValues": map[string]any{}, "modificationTime": 1, "dataChange": r.Plain()})
	}
	if x.w.rng.IntN(12) == 0 { // a leader that saw a reason to refuse it, which may be gone when it is decided
		r.Unread = true
		return r
	}
	if !x.staged {
		r.Lines = out
		return r
	}
	r.Staged = fsm.Staged{Hash: fsm.HashOf(out), Size: int64(len(out))}
	r.Staged.Key = fsm.StagedFolder + r.ID + "-" + r.Staged.Hash
	x.w.store.staged[r.Staged.Key] = out
	return r
}

// send tries the current request once more; a try whose answer does not come in time is given up by the writer,
// not by the group.
func (x *writer) send() {
	w := x.w
	if x.cur == nil {
		return
	}
	if x.pausedUntil > w.now {
		w.after(x.pausedUntil-w.now, x.send)
		return
	}
	x.sent++
	try, early, r := x.sent, x.early, x.prepare()
	w.logf("writer %d sends %s %v, try %d", x.id, r.ID, r.Ranges, try)
	deliver := func() {
		if w.chance(w.faults / 4) {
			return // lost
		}
		n := w.group.nodes[x.target]
		n.after(w.between(1, 10), func() {
			n.submit(r, early, func(a fsm.Answer, err error) {
				if w.chance(w.faults / 4) {
					return // the reply is lost
				}
				w.after(w.between(1, 10), func() { x.answered(r.ID, a, err) })
			})
		})
	}
	deliver()
	if w.chance(w.faults / 6) {
		w.after(w.between(1, 2000), deliver) // a second copy
	}
	sent, settled := w.now, w.now > faultyTime+settleTime
	w.after(w.between(300, 1500), func() {
		if x.cur != nil && x.cur.ID == r.ID && x.sent == try {
			if settled { // a later try must not be what wakes the group
				w.fail("request %s has no answer %d ms after its try %d, without any faults", r.ID, w.now-sent, try)
			}
			x.retry()
		}
	})
}

func (x *writer) retry() {
	x.target = x.w.rng.IntN(len(x.w.group.nodes))
	if x.w.rng.IntN(2) == 0 {
		x.target = x.w.group.leader.id
	}
	x.w.after(x.w.between(1, 50), x.send)
}

func (x *writer) answered(id string, a fsm.Answer, err error) {
	if err == nil {
		x.w.check.answered(id, a)
	}
	if x.cur == nil || x.cur.ID != id {
		return
	}
	x.w.logf("writer %d: %s is answered %+v %v", x.id, id, a, err)
	switch {
	case err != nil:
		x.retry()
	case a.Code == fsm.Recheck:
		x.w.after(x.w.between(1, 10), x.send)
	case a.Code == fsm.Stale:
		x.cur = nil
		x.w.after(x.w.between(1, 200), x.begin) // takes the partition back
	case a.Code == fsm.Pending && x.early:
		x.w.check.early[id] = true
		if len(x.cur.Ranges) > 0 {
			x.ahead = x.cur.Ranges[0].To
		}
		x.next()
	case !a.Code.Final():
		x.w.fail("%s has the answer %+v", id, a)
	default:
		if a.Code != fsm.Published {
			x.ahead = 0 // what was decided early may have been refused since
		}
		x.next()
	}
}

// foreign is a writer that does not know the group. It wins or loses by put-if-absent alone.
func (w *world) foreign() {
	if w.calm {
		return
	}
	s := w.store
	var actions []map[string]any
	switch kind := w.rng.IntN(6); {
	case kind == 0: // advances a partition as a direct committer does
		p := int32(w.rng.IntN(len(w.writers)))
		from := s.positions[fsm.AppID(app, p)]
		to := from + w.between(1, 5)
		actions = append(actions, map[string]any{"txn": map[string]any{"appId": fsm.AppID(app, p), "version": to - 1}},
			map[string]any{"add": map[string]any{"path": fmt.Sprintf("%s/%d/%d-%d/-1", w.id("f"), p, from, to), "size": 1, "modificationTime": 1, "dataChange": true}})
	case kind == 1 && len(s.live) > 0:
		live := sortedKeys(s.live)
		actions = append(actions, map[string]any{"remove": map[string]any{"path": live[w.rng.IntN(len(live))], "dataChange": true}})
	case kind == 2:
		m := *s.meta
		m.Description = w.id("changed-")
		if w.rng.IntN(3) == 0 {
			m.SchemaString = w.id("schema-")
		}
		actions = append(actions, map[string]any{"metaData": m})
	default:
		actions = append(actions, map[string]any{"add": map[string]any{"path": w.id("f") + "/foreign", "size": 1, "modificationTime": 1, "dataChange": true}})
	}
	data, v := s.lines(actions...), s.newest+1
	if w.faults > 0 && w.rng.IntN(2) == 0 {
		if s.put(v, data) == nil {
			w.logf("foreign writer: version %d", v)
		}
	}
	w.after(w.between(30, 900), w.foreign)
}
