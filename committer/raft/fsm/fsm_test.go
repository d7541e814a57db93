package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

var shape = fsm.Shape{Incarnation: "id-1", Schema: "s1", Meta: "m1", Proto: "p1"}

func opened(t *testing.T) *fsm.State {
	t.Helper()
	s := fsm.New()
	if r := s.Apply(&fsm.Open{Table: "t", Shape: shape, Replace: -1, Positions: map[string]int64{"app-0": 10}}); !r.Applied {
		t.Fatalf("open: %+v", r)
	}
	return s
}

func request(id string, p int32, from, to int64) fsm.Request {
	return fsm.Request{ID: id, App: "app", Ranges: []fsm.Range{{Partition: p, From: from, To: to}}, Incarnation: "id-1",
		Schema: "s1", Meta: "m1", Proto: "p1", Lines: []byte(`{"add":{"path":"` + id + `"}}` + "\n")}
}

func batch(s *fsm.State, txn string, reqs ...fsm.Request) []fsm.Answer {
	return s.Apply(&fsm.Batch{Table: "t", TxnID: txn, Time: 1, Requests: reqs}).Answers
}

func want(t *testing.T, what string, a fsm.Answer, code fsm.Code, version, at int64) {
	t.Helper()
	if a.Code != code || a.Version != version || a.At != at {
		t.Errorf("%s: answer %+v, want code %d, version %d, at %d", what, a, code, version, at)
	}
}

// I3: ranges follow each other, within a version, over pending versions, and over published ones.
func TestRanges(t *testing.T) {
	s := opened(t)
	a := batch(s, "x", request("a", 0, 10, 20), request("b", 0, 20, 30), request("c", 0, 31, 40), request("d", 1, 7, 9), request("e", 0, 25, 40))
	want(t, "continues the table", a[0], fsm.Pending, 1, 0)
	want(t, "continues the version", a[1], fsm.Pending, 1, 0)
	want(t, "gap", a[2], fsm.Misplaced, 0, 30)
	want(t, "a new partition", a[3], fsm.Pending, 1, 0)
	want(t, "overlap", a[4], fsm.Misplaced, 0, 30)
	a = batch(s, "y", request("f", 0, 30, 31), request("g", 0, 10, 20))
	want(t, "continues a pending version", a[0], fsm.Pending, 2, 0)
	want(t, "is there", a[1], fsm.Fenced, 0, 31)
	if !s.Apply(&fsm.PublishedAt{Table: "t", Version: 1, TxnID: "x", Hash: "h1"}).Applied {
		t.Error("version 1 is not taken as published")
	}
	if s.Apply(&fsm.PublishedAt{Table: "t", Version: 2, TxnID: "z"}).Applied {
		t.Error("another content is taken as published")
	}
	want(t, "published", s.Table("t").Answer("a"), fsm.Published, 1, 0)
	want(t, "not yet", s.Table("t").Answer("f"), fsm.Pending, 2, 0)
	a = batch(s, "z", request("a", 0, 10, 20), request("c", 0, 31, 40), request("h", 0, 31, 33))
	want(t, "a repeated request", a[0], fsm.Published, 1, 0)
	want(t, "a repeated refused one", a[1], fsm.Misplaced, 0, 30) // as before, though it would fit now
	want(t, "goes on", a[2], fsm.Pending, 3, 0)
}

func TestRefusals(t *testing.T) {
	s, n := opened(t), 0
	change := func(f func(*fsm.Request)) fsm.Request {
		n++
		r := request(fmt.Sprint("r", n), 0, 10, 20)
		f(&r)
		return r
	}
	for name, c := range map[string]struct {
		r    fsm.Request
		code fsm.Code
	}{
		"made again":   {change(func(r *fsm.Request) { r.Incarnation = "id-0" }), fsm.Incarnation},
		"other schema": {change(func(r *fsm.Request) { r.Schema = "s0" }), fsm.Schema},
		"other meta":   {change(func(r *fsm.Request) { r.Meta = "m0" }), fsm.Recheck},
		"twice":        {change(func(r *fsm.Request) { r.Ranges = append(r.Ranges, r.Ranges[0]) }), fsm.Invalid},
		"no app":       {change(func(r *fsm.Request) { r.App = "" }), fsm.Invalid},
		"empty range":  {change(func(r *fsm.Request) { r.Ranges[0].To = 10 }), fsm.Invalid},
		"nothing":      {change(func(r *fsm.Request) { r.Ranges = nil }), fsm.Invalid},
		"long id":      {change(func(r *fsm.Request) { r.ID = strings.Repeat("x", 200) }), fsm.Invalid},
		"rejected":     {change(func(r *fsm.Request) { r.Reject = "why" }), fsm.Invalid},
		"old plan":     {change(func(r *fsm.Request) { r.Planned, r.Read, r.Removes = true, -1, []fsm.Sum{1} }), fsm.Conflict},
		"future plan":  {change(func(r *fsm.Request) { r.Planned, r.Read, r.Removes = true, 1, []fsm.Sum{1} }), fsm.Conflict},
		"unread":       {change(func(r *fsm.Request) { r.Unread = true }), fsm.Recheck},
		"unread gap":   {change(func(r *fsm.Request) { r.Unread, r.Ranges[0].From = true, 11 }), fsm.Misplaced},
		"no plan":      {change(func(r *fsm.Request) { r.Removes = []fsm.Sum{1} }), fsm.Invalid},
		"staged else":  {change(func(r *fsm.Request) { r.Lines, r.Staged = nil, fsm.Staged{Key: "events/x", Size: 1} }), fsm.Invalid},
		"staged much":  {change(func(r *fsm.Request) { r.Lines, r.Staged = nil, fsm.Staged{Key: fsm.StagedFolder + "x", Size: 1 << 40} }), fsm.Invalid},
	} {
		if a := batch(s, name, c.r)[0]; a.Code != c.code || a.Version != 0 {
			t.Errorf("%s: answer %+v, want code %d", name, a, c.code)
		}
	}
	if n := len(s.Table("t").Pending()); n != 0 {
		t.Errorf("%d versions are decided out of refused requests", n)
	}
}

// I5: the first commit of a new owner fences the old one, the lease alone does not.
func TestEpochs(t *testing.T) {
	s := opened(t)
	lease := func() int64 {
		return s.Apply(&fsm.Lease{Table: "t", App: "app", Partitions: []int32{0}}).Epoch
	}
	with := func(r fsm.Request, epoch int64) fsm.Request { r.Ranges[0].Epoch = epoch; return r }
	old, young := lease(), lease()
	if old >= young {
		t.Fatalf("epochs %d, %d", old, young)
	}
	a := batch(s, "x", with(request("a", 0, 10, 20), old), with(request("b", 0, 20, 30), young), with(request("c", 0, 30, 40), old),
		request("d", 0, 30, 40), with(request("e", 1, 0, 1), old))
	want(t, "old owner before", a[0], fsm.Pending, 1, 0)
	want(t, "new owner", a[1], fsm.Pending, 1, 0)
	want(t, "old owner after", a[2], fsm.Stale, 0, young)
	want(t, "no lease", a[3], fsm.Stale, 0, young)
	want(t, "another partition", a[4], fsm.Pending, 1, 0)
	// A group that was made again from the table alone: leases go above what old owners still hold.
	a = batch(s, "y", with(request("f", 0, 30, 40), 77))
	want(t, "epoch of an earlier group", a[0], fsm.Pending, 2, 0)
	if e := lease(); e <= 77 {
		t.Errorf("lease %d is not above 77", e)
	}
}

// A foreign version takes the place of a pending one: what still fits moves on, the rest is refused.
func TestForeign(t *testing.T) {
	s := opened(t)
	batch(s, "x", request("a", 0, 10, 20), request("b", 1, 0, 5))
	batch(s, "y", request("c", 0, 20, 30), request("d", 1, 5, 6))
	if s.Apply(&fsm.Foreign{Table: "t", Version: 2}).Applied {
		t.Error("a foreign version that does not follow the base is taken")
	}
	if !s.Apply(&fsm.Foreign{Table: "t", Version: 1, Hash: "f", Positions: map[string]int64{"app-0": 15}}).Applied {
		t.Fatal("the foreign version is not taken")
	}
	tab := s.Table("t")
	want(t, "overtaken", tab.Answer("a"), fsm.Misplaced, 0, 15)
	want(t, "behind an overtaken one", tab.Answer("c"), fsm.Misplaced, 0, 15)
	want(t, "moved", tab.Answer("b"), fsm.Pending, 2, 0)
	want(t, "moved too", tab.Answer("d"), fsm.Pending, 3, 0)
	p := tab.Pending()
	if len(p) != 2 || p[0].TxnID != "x.1" || p[1].TxnID != "y.1" {
		t.Fatalf("pending %+v", p)
	}
	s.Apply(&fsm.Foreign{Table: "t", Version: 2})
	if p = tab.Pending(); len(p) != 2 || p[0].TxnID != "x.2" || p[0].Number != 3 {
		t.Fatalf("pending %+v", p)
	}
	// A foreign change of the metadata: what is pending must be checked again, and is forgotten until then.
	s.Apply(&fsm.Foreign{Table: "t", Version: 3, Reshaped: true, Shape: fsm.Shape{Incarnation: "id-1", Schema: "s1", Meta: "m2"}})
	if a := tab.Answer("b"); a.Code != fsm.Unknown || len(tab.Pending()) != 0 {
		t.Errorf("after new metadata: %+v, %d pending", a, len(tab.Pending()))
	}
	if got := tab.Shape(); got.Meta != "m2" || got.Proto != "p1" {
		t.Errorf("shape %+v", got)
	}
	r := request("b", 1, 0, 5)
	r.Meta = "m2"
	want(t, "checked again", batch(s, "z", r)[0], fsm.Pending, 4, 0)
}

// What was planned before metadata or protocol changed is refused, also when the change is pending or foreign; a request
// that was answered early gets an answer that stands (I3).
func TestPlans(t *testing.T) {
	s := opened(t)
	plan := func(id string, read int64) fsm.Request {
		return fsm.Request{ID: id, Operation: "OPTIMIZE", Planned: true, Read: read, Removes: []fsm.Sum{fsm.SumOf(id)}, Meta: "m1", Proto: "p1", Lines: []byte("{}\n")}
	}
	alter := plan("alter", 0)
	alter.Removes, alter.Change = nil, &fsm.Shape{Incarnation: "id-1", Schema: "s1", Meta: "m2", Proto: "p1"}
	want(t, "a change of the metadata", batch(s, "x", alter)[0], fsm.Pending, 1, 0)
	late := plan("late", 0)
	late.Meta = "m2"
	want(t, "a plan before it", batch(s, "y", late)[0], fsm.Reshaped, 0, 0)
	again := alter
	again.ID, again.Meta = "again", "m2"
	s.Apply(&fsm.PublishedAt{Table: "t", Version: 1, TxnID: "x"})
	for _, r := range []fsm.Request{late, again} {
		want(t, r.ID, batch(s, "z", r)[0], fsm.Reshaped, 0, 0)
	}
	fresh, early := plan("fresh", 1), request("early", 0, 10, 20)
	fresh.Meta, early.Meta, early.Early = "m2", "m2", true
	want(t, "a plan after it", batch(s, "w", fresh)[0], fsm.Pending, 2, 0)
	want(t, "an append", batch(s, "v", early)[0], fsm.Pending, 3, 0)
	s.Apply(&fsm.Foreign{Table: "t", Version: 2, Reshaped: true, Shape: fsm.Shape{Incarnation: "id-1", Schema: "s1", Meta: "m3"}})
	for _, id := range []string{"fresh", "early"} {
		want(t, id+" after a foreign change", s.Table("t").Answer(id), fsm.Reshaped, 0, 0)
	}
}

func TestRemoves(t *testing.T) {
	s := opened(t)
	optimize := func(id string, read int64, paths ...string) fsm.Request {
		return fsm.Request{ID: id, Operation: "OPTIMIZE", Planned: true, Read: read, Removes: sums(paths...), Meta: "m1", Proto: "p1", Lines: []byte("{}\n")}
	}
	want(t, "first", batch(s, "x", optimize("a", 0, "f1", "f2"))[0], fsm.Pending, 1, 0)
	want(t, "pending removes it", batch(s, "y", optimize("b", 0, "f2"))[0], fsm.Conflict, 0, 0)
	s.Apply(&fsm.PublishedAt{Table: "t", Version: 1, TxnID: "x"})
	want(t, "removed since", batch(s, "y", optimize("c", 0, "f2"))[0], fsm.Conflict, 0, 0)
	want(t, "another file", batch(s, "y", optimize("d", 0, "f3"))[0], fsm.Pending, 2, 0)
	s.Apply(&fsm.Foreign{Table: "t", Version: 2, Removed: sums("f3")})
	want(t, "a foreign writer was faster", s.Table("t").Answer("d"), fsm.Conflict, 0, 0)
	many := make([]fsm.Sum, fsm.MaxRemoved+1)
	for i := range many {
		many[i] = fsm.Sum(i)
	}
	s.Apply(&fsm.Foreign{Table: "t", Version: 3, Removed: many})
	want(t, "too long ago to tell", batch(s, "z", optimize("e", 2, "f9"))[0], fsm.Conflict, 0, 0)
}

func sums(paths ...string) []fsm.Sum {
	var out []fsm.Sum
	for _, p := range paths {
		out = append(out, fsm.SumOf(p))
	}
	return out
}

// I3: what sets positions, or stands on the whole table, is refused when these moved since it was planned.
func TestPlansOnPositionsAndTheWholeTable(t *testing.T) {
	restore := func(id string, read int64, all fsm.Extent, moves map[string]int64) fsm.Request {
		return fsm.Request{ID: id, Operation: "RESTORE", Planned: true, Read: read, Moves: moves, All: all, Meta: "m1", Proto: "p1", Lines: []byte("{}\n")}
	}
	back := map[string]int64{"app-0": 3}
	s := opened(t)
	want(t, "an append", batch(s, "x", request("a", 0, 10, 20))[0], fsm.Pending, 1, 0)
	want(t, "its position moved", batch(s, "y", restore("b", 0, fsm.Files, back))[0], fsm.Conflict, 0, 0)
	want(t, "another one's did", batch(s, "y", restore("c", 0, fsm.Files, map[string]int64{"app-7": 3}))[0], fsm.Pending, 2, 0)
	want(t, "an append is no matter, but what came behind is", batch(s, "z", restore("d", 0, fsm.AllFiles, nil))[0], fsm.Conflict, 0, 0)
	for v, txn := range []string{"x", "y"} {
		s.Apply(&fsm.PublishedAt{Table: "t", Version: int64(v) + 1, TxnID: txn})
	}
	want(t, "published since", batch(s, "z", restore("e", 1, fsm.AllFiles, nil))[0], fsm.Conflict, 0, 0)
	want(t, "an append behind", batch(s, "z", request("f", 0, 20, 30))[0], fsm.Pending, 3, 0)
	want(t, "does not mind", batch(s, "w", restore("g", 2, fsm.AllFiles, nil))[0], fsm.Pending, 4, 0)
	want(t, "minds everything", batch(s, "v", restore("h", 3, fsm.AllCommits, nil))[0], fsm.Conflict, 0, 0)
	want(t, "nothing came", batch(s, "v", restore("i", 4, fsm.AllCommits, back))[0], fsm.Pending, 5, 0)
	want(t, "behind the new position", batch(s, "u", request("j", 0, 30, 40))[0], fsm.Misplaced, 0, 3)
	want(t, "at the new position", batch(s, "u", request("k", 0, 3, 4))[0], fsm.Pending, 6, 0)
	s.Apply(&fsm.Foreign{Table: "t", Version: 3, Blind: true}) // each goes behind it
	want(t, "what minds nothing", s.Table("t").Answer("g"), fsm.Pending, 5, 0)
	want(t, "what minds everything", s.Table("t").Answer("i"), fsm.Conflict, 0, 0)
	want(t, "and what stood on it", s.Table("t").Answer("k"), fsm.Fenced, 0, 30)
}

// I5: an open version takes what comes until it is closed; whoever holds it sees what it was, and what cannot go into it
// closes it.
func TestOpenVersions(t *testing.T) {
	s := opened(t)
	add := func(open bool, requests ...fsm.Request) []fsm.Answer {
		return s.Apply(&fsm.Batch{Table: "t", TxnID: fmt.Sprint("x", rand.Int()), Engine: "e", Requests: requests, Open: open}).Answers
	}
	pending := func(i int) *fsm.Version { return s.Table("t").Pending()[i] }
	want(t, "first", add(true, request("a", 0, 10, 20))[0], fsm.Pending, 1, 0)
	held := pending(0)
	want(t, "second", add(true, request("b", 0, 20, 30))[0], fsm.Pending, 1, 0)
	want(t, "misplaced", add(true, request("c", 0, 20, 30))[0], fsm.Fenced, 0, 30)
	if v := pending(0); len(held.Requests) != 1 || len(v.Requests) != 2 || !v.Open() || v.TxnID != held.TxnID {
		t.Fatalf("held %+v, now %+v", held, v)
	}
	add(false)
	if v := pending(0); v.Open() || len(v.Requests) != 2 {
		t.Fatalf("not closed: %+v", v)
	}
	want(t, "behind", add(true, request("d", 0, 30, 40))[0], fsm.Pending, 2, 0)
	optimize := fsm.Request{ID: "e", Operation: "OPTIMIZE", Planned: true, Read: 0, Removes: sums("f"), Meta: "m1", Proto: "p1", Lines: []byte("{}\n")}
	want(t, "not with others", add(false, optimize)[0], fsm.Pending, 3, 0)
	if pending(1).Open() {
		t.Fatal("a version behind an open one")
	}
	want(t, "open again", add(true, request("g", 1, 0, 10))[0], fsm.Pending, 4, 0)
	s.Apply(&fsm.Foreign{Table: "t", Version: 1})
	if v := pending(3); v.Number != 5 || !v.Open() {
		t.Fatalf("after a foreign version %+v", v)
	}
	want(t, "goes on", add(false, request("h", 1, 10, 11))[0], fsm.Pending, 5, 0)
	many := make([]fsm.Request, fsm.MaxBatchSize)
	for i := range many {
		many[i] = request(fmt.Sprint("m", i), int32(i)+5, 0, 1)
	}
	add(true, many...)
	want(t, "full", add(true, request("i", 1, 11, 12))[0], fsm.Pending, 7, 0)
}

func TestReplaced(t *testing.T) {
	s := opened(t)
	batch(s, "x", request("a", 0, 10, 20))
	again := &fsm.Open{Table: "t", Shape: fsm.Shape{Incarnation: "id-2", Meta: "m1", Proto: "p1"}, Replace: 3}
	if s.Apply(again).Applied {
		t.Error("a table was replaced on top of a base that it does not have")
	}
	again.Replace = 0
	if !s.Apply(again).Applied {
		t.Fatal("not replaced")
	}
	want(t, "what was pending", s.Table("t").Answer("a"), fsm.Lost, 0, 0)
	want(t, "for the old table", batch(s, "y", request("b", 0, 10, 20))[0], fsm.Incarnation, 0, 0)
}

// Ids are bounded, and one that is forgotten is refused by its range: never a second time in the table (I3, I8).
func TestBoundedIDs(t *testing.T) {
	s := opened(t)
	at := int64(10)
	for i := range fsm.MaxIDs + 100 {
		txn := fmt.Sprint("x", i)
		want(t, txn, batch(s, txn, request(txn, 0, at, at+1))[0], fsm.Pending, int64(i)+1, 0)
		s.Apply(&fsm.PublishedAt{Table: "t", Version: int64(i) + 1, TxnID: txn})
		at++
	}
	want(t, "forgotten", batch(s, "y", request("x0", 0, 10, 11))[0], fsm.Fenced, 0, at)
	want(t, "known", batch(s, "y", request("x500", 0, 510, 511))[0], fsm.Published, 501, 0)
	if n := len(s.Snapshot()); n > 64*fsm.MaxIDs {
		t.Errorf("the snapshot has %d bytes", n)
	}
}

func TestContent(t *testing.T) {
	s := opened(t)
	a, b := request("a", 0, 10, 20), request("b", 3, 0, 7)
	a.Parameters, b.Parameters = map[string]string{"k": "1"}, map[string]string{"k": "2"}
	batch(s, "x", a, b, request("c", 0, 20, 21))
	data, err := s.Table("t").Pending()[0].Content(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := deltalog.ParseCommit(data, "1")
	if err != nil {
		t.Fatal(err)
	}
	if c.Info.TxnID != "x" || len(c.Adds) != 3 || len(c.Txns) != 2 || c.Txns[0].Version != 20 || c.Txns[1].AppID != "app-3" {
		t.Errorf("content %s", data)
	}
	if got := string(c.Info.OperationParameters["k"]); got != `"\"1 2\""` {
		t.Errorf("parameter %s", got)
	}
}

// Random commands: a replica that gets them encoded, and one that is restored from a snapshot in between, end in
// the same bytes as the first (I5).
func TestReplicasAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	for range 50 {
		a, b := fsm.New(), fsm.New()
		for i := range 100 {
			c := randomCommand(rng, a, i)
			decoded, err := fsm.Decode(fsm.Encode(c))
			if err != nil {
				t.Fatal(err)
			}
			ra, rb := a.Apply(c), b.Apply(decoded)
			if fmt.Sprint(ra) != fmt.Sprint(rb) {
				t.Fatalf("%T: %+v and %+v", c, ra, rb)
			}
			if rng.IntN(5) == 0 {
				restored := fsm.New()
				if err := restored.Restore(b.Snapshot()); err != nil {
					t.Fatal(err)
				}
				b = restored
			}
			if !bytes.Equal(a.Snapshot(), b.Snapshot()) {
				t.Fatalf("after %T the states differ", c)
			}
		}
	}
}

func randomCommand(rng *rand.Rand, s *fsm.State, i int) fsm.Command {
	name := fmt.Sprint("t", rng.IntN(2))
	tab := s.Table(name)
	if tab == nil {
		return &fsm.Open{Table: name, Shape: shape, Replace: -1, Positions: map[string]int64{"app-1": 5, "app-0": 0}}
	}
	v, hash := tab.Version()
	switch rng.IntN(8) {
	case 0:
		return &fsm.Lease{Table: name, App: "app", Partitions: []int32{rng.Int32N(3)}, Owner: "me"}
	case 1:
		c := &fsm.Foreign{Table: name, Version: v + 1, Hash: fmt.Sprint(i), Stamp: rng.Int64N(100)}
		if rng.IntN(2) == 0 {
			c.Positions = map[string]int64{"app-0": rng.Int64N(50)}
			c.Removed, c.Blind = sums(fmt.Sprint("f", rng.IntN(5))), rng.IntN(2) == 0
		}
		if rng.IntN(4) == 0 {
			c.Reshaped, c.Shape = true, fsm.Shape{Incarnation: "id-1", Schema: "s1", Meta: fmt.Sprint("m", rng.IntN(2)), Stamped: rng.IntN(2) == 0}
		}
		return c
	case 2:
		if rng.IntN(10) == 0 {
			return &fsm.Open{Table: name, Version: rng.Int64N(5), Shape: shape, Replace: v, ReplaceHash: hash}
		}
	case 3, 4:
		if p := tab.Pending(); len(p) > 0 {
			return &fsm.PublishedAt{Table: name, Version: p[0].Number, TxnID: p[0].TxnID, Hash: fmt.Sprint(i)}
		}
	}
	b := &fsm.Batch{Table: name, TxnID: fmt.Sprint("x", i), Time: rng.Int64N(1000), Engine: "e"}
	b.Open = rng.IntN(3) == 0
	if p := tab.Pending(); len(p) > 0 && rng.IntN(3) == 0 {
		b.Done = &fsm.PublishedAt{Table: name, Version: p[0].Number, TxnID: p[0].TxnID, Hash: fmt.Sprint(i)}
	}
	for j := range rng.IntN(4) {
		p := rng.Int32N(3)
		at, _ := tab.Position(fsm.AppID("app", p))
		r := request(fmt.Sprint("r", i, "-", j), p, at, at+1+rng.Int64N(5))
		r.Meta, r.Ranges[0].Epoch, r.Unread = tab.Shape().Meta, rng.Int64N(4), rng.IntN(10) == 0
		if rng.IntN(6) == 0 {
			r = fsm.Request{ID: r.ID, Operation: "OPTIMIZE", Planned: true, Read: v, Removes: sums(fmt.Sprint("f", rng.IntN(5))), Meta: r.Meta, Proto: "p1",
				Change: &fsm.Shape{Incarnation: "id-1", Meta: "m1", Proto: "p1"}}
			if rng.IntN(2) == 0 {
				r.Moves, r.All = map[string]int64{"app-1": rng.Int64N(9)}, fsm.Extent(rng.IntN(3))
			}
		}
		b.Requests = append(b.Requests, r)
	}
	return b
}

// I8: no bytes make decoding panic or reserve more than they can fill.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := fsm.New()
	for i := range 60 {
		c := randomCommand(rng, s, i)
		s.Apply(c)
		f.Add(fsm.Encode(c))
		if i%10 == 0 {
			f.Add(s.Snapshot())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := fsm.Decode(b); err == nil {
			if again, err := fsm.Decode(fsm.Encode(c)); err != nil || !bytes.Equal(fsm.Encode(again), fsm.Encode(c)) {
				t.Errorf("%T does not survive: %v", c, err)
			}
			fsm.New().Apply(c)
		}
		s := fsm.New()
		if err := s.Restore(b); err == nil {
			if err := fsm.New().Restore(s.Snapshot()); err != nil {
				t.Error(err)
			}
		}
	})
}
