package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

func TestUntilEnd(t *testing.T) {
	r := newRig(t, 3)
	r.fill(1000, 70)
	r.log.append(t, 1, record.None, nil) // a tombstone is a row without payload
	s := r.mustRun()
	r.check()
	if s.Rows != 3001 || s.Records != 3001 || s.DeadLetters != 0 || s.Commits != 1 || s.Lag[0] != 0 {
		t.Errorf("stats = %+v", s)
	}
	got, snap := rows(t, r.store)
	row := got[place{2, 7}]
	if row["n"] != "7" || row["s"] != "p2 7" || row["_key"] != "key-7" || !strings.Contains(row["_headers"], "h") || row["_timestamp"] == "" {
		t.Errorf("row = %q", row)
	}
	if _, ok := got[place{1, 1000}]["n"]; ok {
		t.Errorf("the tombstone has a payload: %q", got[place{1, 1000}])
	}
	if snap.NumFiles() != 1 {
		t.Errorf("%d files, want one that the partitions share", snap.NumFiles())
	}
	if s := r.mustRun(); s.Commits != 0 { // nothing new: no version
		t.Errorf("an idle run made %d commits", s.Commits)
	}
	r.fill(10, 5)
	r.mustRun()
	r.check()
}

func TestSmallLimits(t *testing.T) {
	r := newRig(t, 4)
	r.fill(20_000, 200)
	r.cfg.MaxRows = 7000
	r.cfg.MemoryBudget = 1 << 20 // columns outgrow it: they are encoded early
	s := r.mustRun()
	r.check()
	if s.Commits < 3 {
		t.Errorf("%d commits, want several", s.Commits)
	}
	const oneBatch = 200 * 100
	if limit := r.cfg.MemoryBudget/2 + 4*oneBatch; s.PeakInFlight == 0 || s.PeakInFlight > limit {
		t.Errorf("%d bytes were in flight, want at most %d", s.PeakInFlight, limit)
	}
}

// Partitions of every size meet in one commit: columns, encoded rows that share a file, and files of their own.
func TestSizes(t *testing.T) {
	r := newRig(t, 6)
	pad := strings.Repeat("some text that stays as long as it is ", 30)
	for p, records := range []int{3000, 20, 9000, 0, 3500, 700} {
		for done := 0; done < records; {
			var values [][]byte
			for ; len(values) < 200 && done < records; done++ {
				values = append(values, fmt.Appendf(nil, `{"n":%d,"s":"p%d %d %s"}`, done, p, done, pad))
			}
			r.log.append(t, int32(p), record.Snappy, values...)
		}
	}
	s := r.mustRun()
	r.check()
	_, snap := rows(t, r.store)
	if s.Commits != 1 || snap.NumFiles() != 2 { // one for the large partition, one for all others
		t.Errorf("%d commits, %d files", s.Commits, snap.NumFiles())
	}
	r = newRig(t, 6)
	r.fill(20_000, 500)
	r.cfg.MemoryBudget = 1 << 20 // encoded rows outgrow it: files of their own
	r.mustRun()
	r.check()
}

func TestRaw(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte("not json"), []byte(`{"n":1}`), nil)
	r.cfg.Format = tiering.FormatRaw
	if s := r.mustRun(); s.Rows != 3 || s.DeadLetters != 0 {
		t.Errorf("stats = %+v", s)
	}
	r.check()
	if got, _ := rows(t, r.store); got[place{0, 1}]["n"] != "" {
		t.Errorf("raw values were decoded: %v", got)
	}
}

// TestTransactions proves that aborted and control records are holes, also at the end (I3).
func TestTransactions(t *testing.T) {
	r := newRig(t, 2)
	good := []byte(`{"n":1}`)
	r.log.append(t, 0, record.None, good)
	r.log.appendTxn(t, 0, 7, true, good, good)
	r.log.appendTxn(t, 0, 8, false, good)
	r.log.append(t, 0, record.None, good)
	r.log.appendTxn(t, 0, 7, true, good) // ends with an aborted record and its marker
	r.log.appendTxn(t, 1, 9, true, good) // nothing but holes
	s := r.mustRun()
	r.check()
	if s.Rows != 3 || s.Commits != 1 {
		t.Errorf("stats = %+v", s)
	}
	r.log.appendTxn(t, 1, 9, true, good)
	if s := r.mustRun(); s.Rows != 0 || s.Commits != 1 { // a commit without rows records the progress
		t.Errorf("stats over holes = %+v", s)
	}
	r.check()
}

// TestFaults proves I3: whatever one store call fails or loses its answer, each record is in the table once.
func TestFaults(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for k := int64(1); ; k++ {
			r := newRig(t, 2)
			r.fill(60, 20)
			r.log.append(t, 0, record.None, []byte("bad"), []byte(`{"n":5}`))
			r.cfg.MaxRows = 50
			tr, done := r.open()
			first := r.store.Calls()
			hit := false
			hook := func(_ context.Context, c mem.Call) mem.Fault {
				err := fmt.Errorf("injected at call %d: %s %s", c.N, c.Op, c.Key)
				switch {
				case c.N != first+k:
					return mem.Fault{}
				case lose:
					hit = true
					return mem.Fault{After: err}
				}
				hit = true
				return mem.Fault{Before: err}
			}
			r.store.SetHook(hook)
			err := tr.Run(t.Context())
			done()
			r.store.SetHook(nil)
			if err != nil {
				t.Fatalf("call %d, lose %v: %v", k, lose, err)
			}
			r.check(place{0, 60})
			if t.Failed() {
				t.Fatalf("at call %d, lose %v", k, lose)
			}
			if !hit {
				if k < 5 {
					t.Errorf("only %d calls", k)
				}
				break
			}
		}
	}
}

// TestRestarts kills the tierer at random store calls, again and again, and loses answers on the way.
func TestRestarts(t *testing.T) {
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 15 {
		r := newRig(t, 3)
		r.fill(300, 25)
		bad := place{1, int64(r.log.parts[1].bounds.End)}
		r.log.append(t, 1, record.None, []byte(`{"n":"x"}`), []byte(`{"n":1}`))
		r.cfg.MaxRows = 40
		r.cfg.MemoryBudget = 1 << 20
		r.cfg.StopTimeout = time.Nanosecond // a crash, not a stop
		for range 6 {
			ctx, kill := context.WithCancel(t.Context())
			tr, done := r.open()
			var mu sync.Mutex
			left := 1 + rng.IntN(25)
			hook := func(context.Context, mem.Call) mem.Fault {
				mu.Lock()
				defer mu.Unlock()
				left--
				switch {
				case left > 0:
					return mem.Fault{}
				case left == 0:
					kill()
					return mem.Fault{After: errors.New("killed with the answer lost")}
				}
				return mem.Fault{Before: errors.New("killed")}
			}
			r.store.SetHook(hook)
			_ = tr.Run(ctx) // an error, or nil when it had ended before
			r.store.SetHook(nil)
			kill()
			done()
		}
		r.mustRun()
		r.check(bad)
		wantDead(t, r, bad)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestDeadLetterFaults proves I7: whatever one call of the dead letters' store fails or loses, each bad record is
// there once.
func TestDeadLetterFaults(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for k := int64(1); ; k++ {
			r := newRig(t, 1)
			r.log.append(t, 0, record.None, []byte("bad"), []byte(`{"n":5}`), []byte("bad"))
			var n int64 // the newest call
			var mu sync.Mutex
			r.dead.SetHook(func(context.Context, mem.Call) mem.Fault {
				mu.Lock()
				defer mu.Unlock()
				n++
				switch {
				case n != k:
					return mem.Fault{}
				case lose:
					return mem.Fault{After: errors.New("injected")}
				}
				return mem.Fault{Before: errors.New("injected")}
			})
			r.mustRun()
			r.dead.SetHook(nil)
			r.check(place{0, 0}, place{0, 2})
			wantDead(t, r, place{0, 0}, place{0, 2})
			if t.Failed() {
				t.Fatalf("at call %d, lose %v", k, lose)
			}
			if n < k {
				break
			}
		}
	}
}

// TestStopTimeout proves that a stop does not hang on a store that is gone, and says what it means.
func TestStopTimeout(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.UntilEnd, r.cfg.MaxAge, r.cfg.StopTimeout = false, time.Hour, 20*time.Millisecond
	r.fill(10, 5)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	eventually(t, func() bool { return tr.Stats().Rows == 10 })
	r.fill(10, 5)
	r.waitFetched(t)
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			return mem.Fault{Before: errors.New("gone")}
		}
		return mem.Fault{}
	})
	stop()
	if err := <-result; !errors.Is(err, tiering.ErrStopTimeout) || errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want ErrStopTimeout", err)
	}
	r.store.SetHook(nil)
	r.cfg.UntilEnd = true
	r.mustRun()
	r.check()
}

func wantDead(t *testing.T, r *rig, want ...place) map[place]map[string]string {
	t.Helper()
	got, _ := rows(t, r.dead)
	if len(got) != len(want) {
		t.Errorf("%d dead letters, want %d: %v", len(got), len(want), got)
	}
	for _, at := range want {
		if got[at] == nil {
			t.Errorf("dead letter %+v is missing", at)
		}
	}
	return got
}

// TestTwoTierers proves I5: two processes on the same partitions never add a record twice.
func TestTwoTierers(t *testing.T) {
	r := newRig(t, 3)
	r.fill(2000, 50)
	r.cfg.MaxRows = 300
	r.cfg.MemoryBudget = 1 << 20
	var wg sync.WaitGroup
	for range 3 {
		tr, done := r.open()
		wg.Go(func() {
			defer done()
			if err := tr.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.check()
}

// TestDeadLetters proves I7: bad records are kept with their coordinates, and hold up nothing.
func TestDeadLetters(t *testing.T) {
	r := newRig(t, 2)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"n":"x"}`), []byte(`{"n":3}`))
	r.log.append(t, 1, record.Zstd, []byte(`[1]`), []byte(``))
	s := r.mustRun()
	bad := []place{{0, 1}, {1, 0}, {1, 1}}
	r.check(bad...)
	if s.DeadLetters != 3 || s.Rows != 2 || s.Records != 5 {
		t.Errorf("stats = %+v", s)
	}
	got := wantDead(t, r, bad...)
	d := got[place{0, 1}]
	if d["_topic"] != "orders" || d["_field"] != "n" || d["_reason"] == "" || d["_key"] != "key-1" || d["_value"] != `{"n":"x"}` ||
		!strings.Contains(d["_headers"], "h") || d["_at"] == "" || d["_timestamp"] == "" {
		t.Errorf("dead letter = %q", d)
	}
	r.log.append(t, 0, record.None, []byte(`bad again`))
	r.mustRun()
	r.check(append(bad, place{0, 3})...)
	wantDead(t, r, append(bad, place{0, 3})...)
}

// TestDeadLettersOnce fails the main commit after the dead letters were committed: a new run adds no second one.
func TestDeadLettersOnce(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`bad`), []byte(`{"n":3}`))
	r.cfg.StopTimeout = time.Nanosecond
	ctx, kill := context.WithCancel(t.Context())
	tr, done := r.open()
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent {
			kill()
			return mem.Fault{Before: errors.New("killed")}
		}
		return mem.Fault{}
	})
	if err := tr.Run(ctx); err == nil {
		t.Error("Run = nil, want an error: the last commit was not made")
	}
	r.store.SetHook(nil)
	done()
	wantDead(t, r, place{0, 1})
	r.mustRun()
	r.check(place{0, 1})
	wantDead(t, r, place{0, 1})
}

// TestCorruptBatch proves I7 and I8: a damaged batch is kept as it is, and the records after it go on.
func TestCorruptBatch(t *testing.T) {
	r := newRig(t, 1)
	r.log.append(t, 0, record.None, []byte(`{"n":1}`))
	r.log.append(t, 0, record.None, []byte(`{"n":2}`), []byte(`{"n":3}`))
	r.log.append(t, 0, record.None, []byte(`{"n":4}`))
	raw := r.log.parts[0].batches[1]
	raw[len(raw)-20] ^= 1
	s := r.mustRun()
	if s.Rows != 2 || s.DeadLetters != 1 || s.Restarts != 1 {
		t.Errorf("stats = %+v", s)
	}
	got := wantDead(t, r, place{0, 1})
	if d := got[place{0, 1}]; d["_value"] != string(raw) || !strings.Contains(d["_reason"], "offsets 1 to 2") {
		t.Errorf("dead letter = %q", d)
	}
	if got, _ := rows(t, r.store); len(got) != 2 || got[place{0, 3}] == nil {
		t.Errorf("rows = %v", got)
	}
}

func TestGap(t *testing.T) {
	r := newRig(t, 1)
	r.fill(10, 5)
	r.mustRun()
	r.fill(20, 5)
	r.log.update(0, func(p *fakePartition) { p.bounds.Start = 20; p.batches = p.batches[4:] })
	_, err := r.run(t.Context())
	var gap *tiering.GapError
	if !errors.As(err, &gap) || gap.LakeEnd != 10 || gap.LogStart != 20 {
		t.Fatalf("Run = %v, want a GapError from 10 to 20", err)
	}
	r.cfg.OnGap = tiering.GapEarliest
	if s := r.mustRun(); s.Lost != 10 || s.Rows != 10 {
		t.Errorf("stats = %+v", s)
	}
	got, snap := rows(t, r.store)
	if len(got) != 20 || got[place{0, 20}] == nil {
		t.Errorf("%d rows", len(got))
	}
	if lost, err := table.Lost(snap, "orders", 0); err != nil || fmt.Sprint(lost) != fmt.Sprint([]table.Range{{From: 10, To: 20}}) { // I3
		t.Errorf("the table records %v as lost, %v", lost, err)
	}
	commit, err := r.store.Get(t.Context(), "_delta_log/00000000000000000002.json")
	if err != nil || !strings.Contains(string(commit), "0:[10,20)") { // the hole has its reason in the history
		t.Errorf("the commit does not record what was lost: %s, %v", commit, err)
	}
	r.log.update(0, func(p *fakePartition) { p.bounds.Start, p.bounds.Stable, p.bounds.End = 0, 5, 5 })
	var ahead *tiering.AheadError
	if _, err := r.run(t.Context()); !errors.As(err, &ahead) {
		t.Errorf("Run on a topic that was made again = %v, want an AheadError", err)
	}
}

func TestFetchErrorsPass(t *testing.T) {
	r := newRig(t, 2)
	r.fill(100, 10)
	r.log.update(1, func(p *fakePartition) { p.errs = []error{errors.New("no leader"), errors.New("no leader")} })
	r.mustRun()
	r.check()
}

// TestStop proves that the end of Run's context commits what is buffered.
func TestStop(t *testing.T) {
	r := newRig(t, 2)
	r.cfg.UntilEnd = false
	r.cfg.MaxAge = time.Hour
	r.fill(500, 50)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	eventually(t, func() bool { return tr.Stats().Rows == 1000 })
	r.fill(100, 50)
	r.waitFetched(t)
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if s := tr.Stats(); s.Rows != 1200 || s.Commits != 2 {
		t.Errorf("stats = %+v", s)
	}
	r.check()
}

// TestCaughtUp: what the log had when its partitions were joined is committed when it is read, in one commit; what comes
// later waits for one of the limits.
func TestCaughtUp(t *testing.T) {
	r := newRig(t, 3)
	r.cfg.UntilEnd, r.cfg.MaxAge = false, time.Hour
	for i := range 40 {
		r.log.append(t, int32(i%2), record.None, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	eventually(t, func() bool { return tr.Stats().Rows == 40 })
	for i := range 9 {
		r.log.append(t, int32(i%3), record.None, fmt.Appendf(nil, `{"n":%d}`, i))
		r.waitFetched(t)
	}
	if s := tr.Stats(); s.Commits != 1 {
		t.Errorf("%d commits while nothing was due: %+v", s.Commits, s)
	}
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if s := tr.Stats(); s.Rows != 49 || s.Commits != 2 {
		t.Errorf("stats = %+v", s)
	}
	r.check()
}

// waitFetched returns when the tierer asks for more than there is: all was handed to the pipeline.
func (r *rig) waitFetched(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		r.log.mu.Lock()
		defer r.log.mu.Unlock()
		for p, part := range r.log.parts {
			if r.log.asked[int32(p)] < part.bounds.Stable {
				return false
			}
		}
		return true
	})
}

// eventually polls a condition that another goroutine brings about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not happen")
		}
	}
}

// TestFollow commits by age while the log grows.
func TestFollow(t *testing.T) {
	r := newRig(t, 2)
	r.cfg.UntilEnd = false
	r.cfg.MaxAge = 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tr, done := r.open()
	defer done()
	result := make(chan error, 1)
	go func() { result <- tr.Run(ctx) }()
	for i := range 5 {
		r.log.append(t, int32(i%2), record.None, fmt.Appendf(nil, `{"n":%d}`, i))
		eventually(t, func() bool { return tr.Stats().Rows == int64(i+1) })
	}
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	r.check()
}

// TestGroup moves partitions between two tierers.
func TestGroup(t *testing.T) {
	r := newRig(t, 4)
	r.cfg.UntilEnd, r.cfg.Manual, r.cfg.MaxAge = false, true, time.Hour
	r.fill(100, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a, doneA := r.open()
	defer doneA()
	b, doneB := r.open()
	defer doneB()
	result := make(chan error, 2)
	go func() { result <- a.Run(ctx) }()
	go func() { result <- b.Run(ctx) }()
	a.Assign(ctx, []int32{0, 1, 2, 3})
	r.waitFetched(t)
	a.Revoke(ctx, []int32{2, 3}) // commits them, and what is buffered of the others with them
	committed := a.Stats().Rows
	_, snap := rows(t, r.store)
	for _, p := range []int32{2, 3} {
		if end, ok := table.LakeEnd(snap, "orders", p); !ok || end == 0 {
			t.Errorf("partition %d was revoked and not committed: %+v", p, a.Stats())
		}
		if _, shown := a.Stats().Lag[p]; shown {
			t.Errorf("partition %d is another process's, and its lag is still shown", p)
		}
	}
	b.Assign(ctx, []int32{2, 3})
	r.fill(50, 10)
	a.Lose(ctx, []int32{1})
	b.Assign(ctx, []int32{1})
	done := func() bool {
		a.Revoke(ctx, []int32{0})
		a.Assign(ctx, []int32{0})
		b.Revoke(ctx, []int32{1, 2, 3})
		b.Assign(ctx, []int32{1, 2, 3})
		return a.Stats().Rows+b.Stats().Rows == 600
	}
	eventually(t, done)
	stop()
	for range 2 {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	r.check()
	if committed == 0 || a.Stats().Rows < 100 { // the positions are checked above; whose they were at the stop is chance
		t.Errorf("a: %+v", a.Stats())
	}
}

func TestConfigErrors(t *testing.T) {
	r := newRig(t, 1)
	tab, err := table.Open(t.Context(), r.store, tableConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for want, change := range map[string]func(*tiering.Config){
		"source":      func(c *tiering.Config) { c.Source = nil },
		"topic":       func(c *tiering.Config) { c.Topic = "" },
		"format":      func(c *tiering.Config) { c.Format = "avro" },
		"gap policy":  func(c *tiering.Config) { c.OnGap = "skip" },
		"table":       func(c *tiering.Config) { c.Table = nil },
		"dead letter": func(c *tiering.Config) { c.DeadLetterStore = nil },
		"budget":      func(c *tiering.Config) { c.MemoryBudget = 1 },
		"bounded":     func(c *tiering.Config) { c.Manual = true },
	} {
		cfg := r.cfg
		cfg.Table = tab
		change(&cfg)
		if _, err := tiering.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, want an error about %s", err, want)
		}
	}
}
