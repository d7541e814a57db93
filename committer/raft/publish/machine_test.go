package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/committer/raft/publish"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// rig holds a machine over a state machine whose log always says yes at once.
type rig struct {
	t     *testing.T
	state *fsm.State
	m     *publish.Machine
	now   time.Time
	ids   int
	sent  []publish.Effect // effects that the test carries out itself
	reply map[string]publish.Reply
	lose  bool // the log says nothing on what it is told of published versions
	lost  []*fsm.PublishedAt
}

func (r *rig) table() *fsm.Table                { return r.state.Table("t") }
func (r *rig) Check(q *fsm.Request) fsm.Answer  { return r.table().Check(q, fsm.NoPlant) }
func (r *rig) Answer(id string) fsm.Answer      { return r.table().Answer(id) }
func (r *rig) Pending() []*fsm.Version          { return r.table().Pending() }
func (r *rig) Version() (int64, string)         { return r.table().Version() }
func (r *rig) submit(id string, from, to int64) { r.submitTo(id, from, to, false) }
func (r *rig) submitTo(id string, from, to int64, early bool) {
	r.do(r.m.Submit(r.now, fsm.Request{ID: id, App: "a", Ranges: []fsm.Range{{From: from, To: to}}, Incarnation: "one", Meta: "m", Proto: "p"}, early))
}

func newRig(t *testing.T, cfg publish.Config) *rig {
	r := &rig{t: t, state: fsm.New(), now: time.UnixMilli(1_000_000), reply: map[string]publish.Reply{}}
	r.state.Apply(&fsm.Open{Table: "t", Version: 4, Hash: fsm.HashOf([]byte("four")), Replace: -1, Shape: fsm.Shape{Incarnation: "one", Meta: "m", Proto: "p"}})
	cfg.NewID = func() string { r.ids++; return fmt.Sprint("x", r.ids) }
	r.m = publish.New(cfg, "t", r)
	r.do(r.m.Tick(r.now))
	return r
}

func (r *rig) do(effects []publish.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case publish.Propose:
			if p, ok := e.Command.(*fsm.PublishedAt); ok && r.lose {
				r.lost = append(r.lost, p)
				continue
			}
			if _, ok := e.Command.(*fsm.Foreign); ok { // stands behind them in the log
				for _, p := range r.lost {
					r.state.Apply(p)
				}
			}
			r.do(r.m.Proposed(r.now, e.Command, r.state.Apply(e.Command), nil))
		case publish.Reply:
			r.reply[e.ID] = e
		case publish.Wake, publish.Stored:
		default:
			r.sent = append(r.sent, e)
		}
	}
}

// next gives the one effect that is to be carried out.
func next[E publish.Effect](r *rig) E {
	r.t.Helper()
	if len(r.sent) != 1 {
		r.t.Fatalf("%d effects wait: %+v", len(r.sent), r.sent)
	}
	e, ok := r.sent[0].(E)
	if !ok {
		r.t.Fatalf("the effect is %T", r.sent[0])
	}
	r.sent = nil
	return e
}

func (r *rig) want(id string, code fsm.Code, version int64) {
	r.t.Helper()
	if got, ok := r.reply[id]; !ok || got.Err != nil || got.Answer.Code != code || got.Answer.Version != version {
		r.t.Errorf("%s: %+v (answered: %v), want code %d, version %d", id, got, ok, code, version)
	}
}

// The first put of a term, and each after a pause, is preceded by a look at the base.
func (r *rig) verified() {
	r.t.Helper()
	if g := next[publish.Get](r); g.Version != 4 {
		r.t.Fatalf("looks at version %d", g.Version)
	}
	r.do(r.m.GetDone(r.now, 4, []byte("four"), nil))
}

// I3: requests that come while a version is on its way share the next one.
func TestRequestsAreMerged(t *testing.T) {
	r := newRig(t, publish.Config{MaxPending: 1})
	r.submit("a", 0, 1)
	r.verified()
	put := next[publish.Put](r)
	for i := int64(1); i < 30; i++ {
		r.submit(fmt.Sprint("b", i), i, i+1) // each follows the one before
	}
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want("a", fsm.Published, 5)
	put = next[publish.Put](r)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	for i := 1; i < 30; i++ {
		r.want(fmt.Sprint("b", i), fsm.Published, 6)
	}
	r.submit("b7", 7, 8)
	r.want("b7", fsm.Published, 6)
	r.submit("c", 3, 4)
	r.want("c", fsm.Fenced, 0)
}

// I5: a table that was dropped and made again gets nothing of what was decided for the old one.
func TestTableMadeAgain(t *testing.T) {
	for name, found := range map[string]struct {
		data []byte
		err  error
	}{"as long": {[]byte("other four"), nil}, "shorter": {nil, objstore.ErrNotFound}} {
		r := newRig(t, publish.Config{})
		r.submit("a", 0, 1)
		g := next[publish.Get](r)
		r.do(r.m.GetDone(r.now, g.Version, found.data, found.err))
		re := next[publish.Reopen](r)
		res := r.state.Apply(&fsm.Open{Table: "t", Version: 1, Hash: fsm.HashOf([]byte("new one")), Replace: re.Version, ReplaceHash: re.Hash,
			Shape: fsm.Shape{Incarnation: "two", Meta: "m", Proto: "p"}})
		if !res.Applied {
			t.Fatalf("%s: %+v", name, res)
		}
		r.do(r.m.Reopened(r.now, nil))
		r.want("a", fsm.Lost, 0)
		r.submit("b", 0, 1)                                                            // still for the old one
		r.do(r.m.GetDone(r.now, next[publish.Get](r).Version, []byte("new one"), nil)) // made again once more? no
		if g := next[publish.Get](r); g.Version != 2 {
			t.Fatalf("%s: looks at version %d", name, g.Version)
		}
		r.do(r.m.GetDone(r.now, 2, nil, objstore.ErrNotFound)) // any foreign version? no
		r.want("b", fsm.Incarnation, 0)
	}
}

// A gap may be there because a foreign writer filled it: the store is asked before anybody is refused.
func TestForeignVersionsAreTakenInBeforeARefusal(t *testing.T) {
	r := newRig(t, publish.Config{})
	r.submit("first", 0, 10)
	r.verified()
	r.do(r.m.PutDone(r.now, next[publish.Put](r).Version, nil))
	r.submit("a", 20, 30)
	g := next[publish.Get](r)
	if g.Version != 6 {
		t.Fatalf("looks at version %d", g.Version)
	}
	foreign := []byte(`{"commitInfo":{"txnId":"else"}}` + "\n" + `{"txn":{"appId":"a-0","version":19}}` + "\n")
	r.do(r.m.GetDone(r.now, 6, foreign, nil))
	put := next[publish.Put](r)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want("a", fsm.Published, 7)
	r.submit("b", 50, 60)
	r.do(r.m.GetDone(r.now, next[publish.Get](r).Version, nil, objstore.ErrNotFound))
	r.want("b", fsm.Misplaced, 0)
}

func TestEarlyAnswers(t *testing.T) {
	r := newRig(t, publish.Config{})
	r.submitTo("a", 0, 1, true)
	r.want("a", fsm.Pending, 5)
	r.verified()
	r.do(r.m.PutDone(r.now, next[publish.Put](r).Version, nil))
	r.submitTo("a", 0, 1, true)
	r.want("a", fsm.Published, 5)
}

// Early answers do not wait for the store: what comes while a put is under way is decided into one open version, which is
// closed and put when its turn comes (I5), with those who wait for the store too.
func TestEarlyAnswersWhileTheStoreIsBusy(t *testing.T) {
	r := newRig(t, publish.Config{})
	r.submitTo("a", 0, 1, true)
	r.verified()
	put := next[publish.Put](r)
	for i := int64(1); i < 100; i++ {
		r.submitTo(fmt.Sprint("b", i), i, i+1, true)
		r.want(fmt.Sprint("b", i), fsm.Pending, 6)
	}
	r.submitTo("c", 100, 101, false)
	if len(r.sent) > 0 {
		t.Fatalf("the open version is put: %+v", r.sent)
	}
	r.do(r.m.PutDone(r.now, put.Version, nil))
	put = next[publish.Put](r)
	r.submitTo("d", 101, 102, true) // behind it: what is being put is closed
	r.want("d", fsm.Pending, 7)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want("c", fsm.Published, 6)
	if c, err := deltalog.ParseCommit(put.Data, "6"); err != nil || c.Txns[0].Version != 100 {
		t.Errorf("version 6: %+v, %v", c, err)
	}
	if put = next[publish.Put](r); put.Version != 7 {
		t.Errorf("then version %d", put.Version)
	}
}

// A store that stands still: early answers end with the open version, and what does not go into it waits (I8).
func TestOpenVersionIsBounded(t *testing.T) {
	r := newRig(t, publish.Config{})
	r.submitTo("a", 0, 1, true)
	r.verified()
	put := next[publish.Put](r)
	n := int64(fsm.MaxBatchSize) + 10
	for i := int64(1); i <= n; i++ {
		r.submitTo(fmt.Sprint("b", i), i, i+1, true)
	}
	if got := int64(len(r.reply)) - 1; got != fsm.MaxBatchSize {
		t.Errorf("%d early answers while the store stands still", got)
	}
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want(fmt.Sprint("b", n), fsm.Pending, 7) // the store is asked for version 6, which makes room
	next[publish.Put](r)
}

// A new leader closes and publishes the version that the one before left open.
func TestOpenVersionOfAnOldLeader(t *testing.T) {
	old := newRig(t, publish.Config{})
	old.submitTo("a", 0, 1, true)
	old.verified()
	old.submitTo("b", 1, 2, true)
	old.want("b", fsm.Pending, 6)
	r := &rig{t: t, state: old.state, now: old.now, ids: 100, reply: map[string]publish.Reply{}}
	r.m = publish.New(publish.Config{NewID: func() string { return "y" }}, "t", r)
	r.do(r.m.Tick(r.now))
	r.verified()
	for v := int64(5); v <= 6; v++ {
		put := next[publish.Put](r)
		if put.Version != v {
			t.Fatalf("puts version %d, want %d", put.Version, v)
		}
		r.do(r.m.PutDone(r.now, v, nil))
	}
	r.submitTo("b", 1, 2, false)
	r.want("b", fsm.Published, 6)
}

// I3: what the log was told of version 5 seems lost while version 6, which is ours too, is being read back: it is no
// foreign version for that, though the log did take what it was told.
func TestOwnVersionBehindALostOne(t *testing.T) {
	r := newRig(t, publish.Config{})
	r.submit("a", 0, 1)
	r.verified()
	r.lose = true
	first := next[publish.Put](r)
	r.do(r.m.PutDone(r.now, first.Version, nil))
	r.submit("b", 1, 2)
	put := next[publish.Put](r)
	content := map[int64][]byte{5: first.Data, 6: put.Data}
	r.do(r.m.PutDone(r.now, 6, objstore.ErrUnknownOutcome))
	next[publish.Get](r)
	r.do(r.m.Proposed(r.now, r.lost[0], fsm.Result{}, errors.New("leadership lost")))
	r.lose = false
	r.do(r.m.GetDone(r.now, 6, put.Data, nil))
	for len(r.sent) > 0 {
		switch e := r.sent[0].(type) {
		case publish.Put:
			r.sent = nil
			r.do(r.m.PutDone(r.now, e.Version, objstore.ErrExists))
		case publish.Get:
			r.sent = nil
			r.do(r.m.GetDone(r.now, e.Version, content[e.Version], nil))
		default:
			t.Fatalf("%T", e)
		}
	}
	r.want("b", fsm.Published, 6)
}

// I8: waiting requests are bounded; a repeated id takes no second place.
func TestTooManyWait(t *testing.T) {
	r := newRig(t, publish.Config{MaxWaiting: 2})
	r.submit("a", 0, 1)
	r.submit("b", 1, 2)
	r.submit("b", 1, 2)
	r.submit("c", 2, 3)
	if got := r.reply["c"]; !errors.Is(got.Err, publish.ErrBusy) {
		t.Errorf("c: %+v", got)
	}
	if s := r.m.Status(); s.Waiting != 2 || s.Version != 4 {
		t.Errorf("status %+v", s)
	}
}

// The store fails again and again: the same content is tried with growing pauses, and the reason is shown.
func TestStoreIsDown(t *testing.T) {
	r := newRig(t, publish.Config{RetryBase: time.Second, RetryMax: 4 * time.Second})
	r.submit("a", 0, 1)
	r.verified()
	down := errors.New("503")
	first := next[publish.Put](r)
	for i := range 4 {
		r.do(r.m.PutDone(r.now, 5, down))
		next[publish.Get](r)
		r.do(r.m.GetDone(r.now, 5, nil, objstore.ErrNotFound))
		if len(r.sent) > 0 || !errors.Is(r.m.Status().Err, down) {
			t.Fatalf("no pause: %+v, %+v", r.sent, r.m.Status())
		}
		r.now = r.now.Add(time.Second << min(i, 2))
		r.do(r.m.Tick(r.now))
		if g, ok := r.sent[0].(publish.Get); ok { // a look at the base after a long pause
			r.sent = nil
			r.do(r.m.GetDone(r.now, g.Version, []byte("four"), nil))
		}
		if again := next[publish.Put](r); string(again.Data) != string(first.Data) { // I5
			t.Fatal("the content changed")
		}
	}
	r.do(r.m.PutDone(r.now, 5, nil))
	r.want("a", fsm.Published, 5)
	if err := r.m.Status().Err; err != nil {
		t.Errorf("still %v", err)
	}
}

// I5: what lies in the store is put only when it is what the log names, is looked for no more when an earlier leader has
// put the version, and is given up only after the log knows that the version is there.
func TestStagedActions(t *testing.T) {
	const key = fsm.StagedFolder + "x"
	lines := []byte("{\"add\":{\"path\":\"x\"}}\n")
	begin := func() (*rig, publish.Load) {
		r := newRig(t, publish.Config{})
		r.do(r.m.Submit(r.now, fsm.Request{ID: "a", App: "a", Ranges: []fsm.Range{{From: 0, To: 1}}, Meta: "m", Proto: "p",
			Staged: fsm.Staged{Key: key, Hash: fsm.HashOf(lines), Size: int64(len(lines))}}, false))
		r.verified()
		return r, next[publish.Load](r)
	}
	r, load := begin()
	if load.Version != 5 || load.Staged.Key != key {
		t.Fatalf("%+v", load)
	}
	r.do(r.m.LoadDone(r.now, 5, []byte("something else"), nil))
	next[publish.Get](r)
	r.do(r.m.GetDone(r.now, 5, nil, objstore.ErrNotFound)) // not put by anybody: again, after a pause
	r.now = r.now.Add(time.Minute)
	r.do(r.m.Tick(r.now))
	r.verified()
	next[publish.Load](r)
	r.do(r.m.LoadDone(r.now, 5, lines, nil))
	put := next[publish.Put](r)
	if !strings.HasSuffix(string(put.Data), string(lines)) {
		t.Errorf("version 5 is %s", put.Data)
	}
	r.do(r.m.PutDone(r.now, 5, nil))
	r.want("a", fsm.Published, 5)
	if u := next[publish.Unstage](r); u.Key != key {
		t.Errorf("%+v", u)
	}

	old, _ := begin()
	old.do(old.m.LoadDone(old.now, 5, nil, objstore.ErrNotFound))
	next[publish.Get](old)
	content, err := old.table().Pending()[0].Content(lines)
	if err != nil {
		t.Fatal(err)
	}
	old.do(old.m.GetDone(old.now, 5, content, nil)) // the leader before us was here
	old.want("a", fsm.Published, 5)
}

// Writers that commit one after the other share each version: those that came during a put wait for those who are answered
// by it, as long as they keep coming and a part of the put at most.
func TestOneCrowd(t *testing.T) {
	r := newRig(t, publish.Config{Linger: 2 * time.Millisecond})
	r.submitTo("a", 0, 1, false)
	r.now = r.now.Add(10 * time.Millisecond)
	r.do(r.m.Tick(r.now))
	r.verified()
	put := next[publish.Put](r)
	r.submitTo("b", 1, 2, false)
	r.now = r.now.Add(40 * time.Millisecond)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want("a", fsm.Published, 5)
	if len(r.sent) > 0 {
		t.Fatalf("b does not wait: %+v", r.sent)
	}
	r.submitTo("c", 2, 3, false) // all are there again
	put = next[publish.Put](r)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	r.want("b", fsm.Published, 6)
	r.want("c", fsm.Published, 6)
	r.submitTo("d", 3, 4, false)
	r.now = r.now.Add(10 * time.Millisecond) // the other is not coming back
	r.do(r.m.Tick(r.now))
	next[publish.Put](r)
}

// They are waited for as long as they keep coming, and not for longer than half a put.
func TestGathering(t *testing.T) {
	r := newRig(t, publish.Config{Linger: 2 * time.Millisecond})
	at := int64(0)
	come := func(after time.Duration) {
		r.now = r.now.Add(after)
		r.submitTo(fmt.Sprint("r", at), at, at+1, false)
		at++
	}
	come(0)
	r.verified()
	for range 20 {
		come(0)
	}
	r.now = r.now.Add(80 * time.Millisecond)
	r.do(r.m.PutDone(r.now, next[publish.Put](r).Version, nil))
	come(0)
	put := next[publish.Put](r) // all are there
	r.now = r.now.Add(80 * time.Millisecond)
	r.do(r.m.PutDone(r.now, put.Version, nil))
	for range 8 { // of 21; the clock runs from the first of them on
		come(5 * time.Millisecond)
	}
	if len(r.sent) > 0 {
		t.Fatalf("they keep coming, and it does not wait: %+v", r.sent)
	}
	r.now = r.now.Add(5 * time.Millisecond)
	r.do(r.m.Tick(r.now))
	put = next[publish.Put](r) // half a put is over
	if c, err := deltalog.ParseCommit(put.Data, "7"); err != nil || c.Txns[0].Version != 29 {
		t.Errorf("version 7: %+v, %v", c, err)
	}
}
