package reprocess_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

// helper makes the test binary a command of a job.
const helper = "LEDGERLAKE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if path, ok := strings.CutPrefix(os.Getenv(helper), "sink:"); ok {
		loader(path)
		return
	}
	if os.Getenv(helper) != "" {
		command()
		return
	}
	os.Exit(m.Run())
}

// command multiplies n by 10, drops what 3 divides, and refuses n = 50.
func command() {
	in := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var r map[string]any
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			panic(err)
		}
		n := int(r["n"].(float64))
		switch {
		case n == 50:
			fmt.Fprintf(out, "{\"_offset\":%v,\"_error\":\"fifty is not liked\"}\n", r["_offset"])
		case n%3 == 0:
			fmt.Fprintln(out, "null")
		default:
			r["n"], r["class"] = n*10, n%2
			raw, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(out, string(raw))
		}
		if n%10 == 9 || in.Err() != nil {
			out.Flush()
		}
		out.Flush()
	}
}

// A job reads what only the table has and what only the log has, filters and adds a column (I3, I4).
func TestExpressions(t *testing.T) {
	r := newRig(t)
	r.send(0, 900)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	r.cut()
	r.send(900, 1200)
	j := r.open(r.config(reprocess.Spec{Where: `n % 3 != 0 && word != "w4"`, Keep: []string{"n"}, Columns: []reprocess.Column{{Name: "twice", Value: "n * 2"}}, SplitBytes: 4 << 10}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Plan().Splits); n < 4 {
		t.Errorf("only %d splits", n)
	}
	same(t, "twice", r.values(j.Sink(), "twice"), r.want(func(n int) (int64, bool) { return int64(2 * n), n%3 != 0 && n%5 != 4 }))
	st, err := j.Status(t.Context())
	if err != nil || st.Done != st.Splits || st.Decided != 1200 || st.Behind[0] != 0 || len(st.Behind) != 2 {
		t.Errorf("status %+v, %v", st, err)
	}
	if found, err := j.Sink().Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
}

// A command of any language changes values; what it refuses is a dead letter with its reason (I7).
func TestCommand(t *testing.T) {
	r := newRig(t)
	r.send(0, 400)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(helper, "1")
	j := r.open(r.config(reprocess.Spec{Command: []string{os.Args[0]}}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(j.Sink(), "n"), r.want(func(n int) (int64, bool) { return int64(10 * n), n%3 != 0 && n != 50 }))
	same(t, "class", r.values(j.Sink(), "class"), r.want(func(n int) (int64, bool) { return int64(n % 2), n%3 != 0 && n != 50 }))
	dead, err := table.Open(t.Context(), r.store(reprocess.ShadowPath(r.dir, "better")+"_dead_letters"), table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := dead.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for rb, err := range dead.Scan(t.Context(), snap, table.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows += int(rb.NumRows())
		if text := fmt.Sprint(rb); !strings.Contains(text, "fifty is not liked") || strings.Contains(text, "reprocess-failed") {
			t.Errorf("dead letter: %s", text)
		}
	}
	if rows != 1 {
		t.Errorf("%d dead letters, want 1", rows)
	}
}

// A call that is given up leaves answers behind. They are not taken for those of the next records (I3).
func TestLateAnswersAreNotTakenForOthers(t *testing.T) {
	t.Setenv(helper, "1")
	c, err := reprocess.StartCommand([]string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	records := func(from, to int) (out []reprocess.Record) {
		for n := from; n < to; n++ {
			out = append(out, reprocess.Record{Record: record.Record{Offset: record.Offset(n), Value: fmt.Appendf(nil, `{"n":%d}`, n)}})
		}
		return out
	}
	for round := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if round%2 == 0 {
			cancel() // before, or while the answers come
		} else {
			time.AfterFunc(time.Duration(round)*100*time.Microsecond, cancel)
		}
		_, _ = c.Apply(ctx, records(1000, 3000))
		cancel()
		in := records(100*round+1, 100*round+40)
		out, err := c.Apply(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range out {
			n := 100*round + 1 + i
			want := fmt.Sprintf(`{"class":%d,"n":%d}`, n%2, 10*n)
			if n%3 == 0 || n == 50 {
				want = ""
			}
			if string(r.Value) != want {
				t.Fatalf("round %d: record %d became %s (%v), want %s", round, n, r.Value, r.Err, want)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// Workers fail at random, are stopped at random, several run at once, and the result is that of an undisturbed
// run: the failure traits of a job's test.
func TestDisturbedRunsGiveTheSame(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	rng := random(t)
	for range rounds {
		r := newRig(t)
		r.send(0, 600)
		if err := r.tier(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			r.cut()
		}
		r.send(600, 600+rng.IntN(300))
		cfg := r.config(reprocess.Spec{SplitBytes: 1 << 10})
		cfg.Schema = onlyN // a sample would have to be taken of a model that may not be there
		var calls atomic.Int64
		every := int64(2 + rng.IntN(6))
		cfg.Transform = func() (reprocess.Transform, error) { return flaky{&calls, every}, nil }
		stop := 1 + rng.Int64N(30)
		for try := 0; ; try++ {
			ctx, cancel := context.WithCancel(t.Context())
			a, b := r.open(cfg), r.open(cfg)
			limit := calls.Load() + stop
			if try > 6 {
				limit = 1 << 60
			}
			done := make(chan error, 2)
			for i, j := range []*reprocess.Job{a, b} {
				go func() { done <- j.Run(ctx, reprocess.RunOptions{Index: i, Count: 2}) }()
			}
			go func() {
				for ctx.Err() == nil && calls.Load() < limit {
					runtime.Gosched()
				}
				cancel()
			}()
			err := errors.Join(<-done, <-done)
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			st, err := a.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st.Done == st.Splits {
				break
			}
		}
		j := r.open(cfg)
		if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil { // finishes; has nothing else to do
			t.Fatal(err)
		}
		same(t, "n", r.values(j.Sink(), "n"), r.want(func(n int) (int64, bool) { return int64(n + 1), true }))
	}
}

var onlyN = arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)

// flaky adds 1 to n, and fails every so many calls.
type flaky struct {
	calls *atomic.Int64
	every int64
}

func (f flaky) Apply(_ context.Context, in []reprocess.Record) ([]reprocess.Result, error) {
	if f.calls.Add(1)%f.every == 0 {
		return nil, errors.New("a model that is not there now")
	}
	out := make([]reprocess.Result, len(in))
	for i := range in {
		var v struct{ N int }
		if err := json.Unmarshal(in[i].Value, &v); err != nil {
			return nil, err
		}
		out[i].Value = fmt.Appendf(nil, `{"n":%d}`, v.N+1)
	}
	return out, nil
}

func (flaky) Close() error { return nil }

// A new table that differs is told apart from the old one, column by column.
// Verify sees a record whose key, headers or time is another one, although its columns are the same.
func TestVerifySeesTheRecord(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := j.Verify(t.Context(), r.live, nil); err != nil || !c.Same() || c.Rows != 100 {
		t.Fatalf("a copy: %s, %v", c, err)
	}
	other := newRig(t) // the same values under other keys, at other times
	for n := range 100 {
		b := record.NewBuilder(record.None)
		b.Append(1_600_000_000_000, []byte("another key"), fmt.Appendf(nil, `{"n":%d,"word":"w%d"}`, n, n%5), nil)
		raw, err := b.Build(0)
		if err == nil {
			_, err = other.log.Append(t.Context(), record.TopicPartition{Topic: topic, Partition: int32(firstPlace(r, n).partition)}, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.tier(); err != nil {
		t.Fatal(err)
	}
	c, err := j.Verify(t.Context(), other.live, nil)
	if err != nil || c.Different != 100 || c.Columns["_key"] != 100 || c.Columns["_timestamp"] != 100 || c.Columns["n"] != 0 || c.Columns["_value"] != 0 {
		t.Errorf("other keys and times: %s, %v", c, err)
	}
}

// firstPlace finds where a record went.
func firstPlace(r *rig, n int) place {
	for p, m := range r.sent {
		if m == n {
			return p
		}
	}
	r.t.Fatalf("record %d was not sent", n)
	return place{}
}

func TestVerify(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{Where: "n != 7", Columns: []reprocess.Column{{Name: "n", Value: "n == 11 ? 12 : n"}, {Name: "more", Value: "1"}}})
	j := r.open(cfg)
	c, err := j.Verify(t.Context(), r.live, nil)
	if err != nil || len(c.Undecided) != 2 || c.Rows != 0 {
		t.Fatalf("before the run: %+v %v", c, err)
	}
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err = j.Verify(t.Context(), r.live, nil)
	if err != nil || c.Rows != 299 || c.OnlyOld != 1 || c.OnlyNew != 0 || c.Different != 1 || c.Columns["n"] != 1 || c.Same() ||
		strings.Join(c.Added, ",") != "more,word" || len(c.Undecided) != 0 || len(c.Samples) != 2 {
		t.Fatalf("%+v %v", c, err)
	}
	if c, err = j.Verify(t.Context(), r.live, []string{"n"}); err != nil || c.Different != 0 || !strings.Contains(c.String(), "299 rows are in both") {
		t.Errorf("%s %v", c, err)
	}
}

// A table that one job fills, and goes on filling, is replaced by that of a better job in one commit, at exactly
// the offset where the old one stands. The old job is told so, the new one goes on; restore brings the old content
// back, and the old job with it (I3).
func TestSwapAndUndo(t *testing.T) {
	r := newRig(t)
	r.send(0, 500)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	plus := func(k int) func(n int) (int64, bool) { return func(n int) (int64, bool) { return int64(n + k), true } }
	add := func(k int) []reprocess.Column { return []reprocess.Column{{Name: "n", Value: fmt.Sprint("n + ", k)}} }
	cfg := r.config(reprocess.Spec{Name: "first", Columns: add(100)})
	r.replaced = filepath.Join(filepath.Dir(r.dir), "classified")
	cfg.Sink = r.store(r.replaced)
	first := r.open(cfg)
	live := first.Sink()
	old := follow(t, first)

	cfg = r.config(reprocess.Spec{Name: "second", Columns: add(1000)})
	second := r.open(cfg)
	if _, err := second.Swap(t.Context(), live, false); !errors.Is(err, reprocess.ErrUnfinished) {
		t.Fatalf("swap before the run: %v", err)
	}
	if _, err := second.Swap(t.Context(), r.live, false); !errors.Is(err, reprocess.ErrNotShadow) {
		t.Fatalf("swap into the table of the topic: %v", err)
	}
	if err := second.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r.send(500, 700) // the old job goes on, and the new one does not know of it
	caughtUp(t, first, old)
	if _, err := second.Swap(t.Context(), live, true); err != nil {
		t.Fatalf("dry run: %v", err)
	}
	same(t, "after a dry run", r.values(live, "n"), r.want(plus(100)))
	report, err := second.Swap(t.Context(), live, false)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after the swap", r.values(live, "n"), r.want(plus(1000)))
	if found, err := live.Check(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("check: %v %v", found, err)
	}

	// The old job would add rows that the new one did not make: it ends.
	r.send(700, 750)
	var filled *committer.FilledByError
	if err := <-old; !errors.As(err, &filled) || filled.FilledBy != "second" {
		t.Fatalf("the old job behind the swap: %v", err)
	}
	// The new one goes on with the table itself.
	cfg.Sink, cfg.Spec.Sink = r.store(r.replaced), r.replaced
	on := r.open(cfg)
	ended := follow(t, on)
	caughtUp(t, on, ended)
	same(t, "after going on", r.values(live, "n"), r.want(plus(1000)))

	// Undo: rows, positions and the old job; it does what came since.
	if _, err := maintenance.Restore(t.Context(), live, maintenance.RestoreOptions{Version: report.From, HasVersion: true}); err != nil {
		t.Fatal(err)
	}
	r.send(750, 760)
	if err := <-ended; err == nil {
		t.Fatal("the new job goes on behind the undo")
	}
	again := follow(t, first)
	caughtUp(t, first, again)
	same(t, "after the undo", r.values(live, "n"), r.want(plus(100)))
}

// follow runs a job until the test ends.
func follow(t *testing.T, j *reprocess.Job) <-chan error {
	ctx, cancel := context.WithCancel(t.Context())
	done, ended := make(chan error, 1), make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		done <- j.Run(ctx, reprocess.RunOptions{Follow: true})
	}()
	return done
}

// caughtUp waits until a job that follows has everything.
func caughtUp(t *testing.T, j *reprocess.Job, ended <-chan error) {
	t.Helper()
	for {
		st, err := j.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Behind) == 2 && st.Behind[0]+st.Behind[1] == 0 {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("the job ended: %v", err)
		default:
		}
	}
}

// The table of a topic is what its consumers read: a job that changes values cannot take its place.
func TestHistoryOfATopicIsNotReplacedByOtherValues(t *testing.T) {
	r := newRig(t)
	r.send(0, 20)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{Where: "n > 5"}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Swap(t.Context(), r.live, false); !errors.Is(err, reprocess.ErrNotSwappable) {
		t.Errorf("%v", err)
	}
	same(t, "n", r.values(r.live, "n"), r.want(func(n int) (int64, bool) { return int64(n), true }))
}

// A job that only adds a column to the schema hands over to tiering, which goes on.
func TestSwapOfSchemaAlone(t *testing.T) {
	r := newRig(t)
	r.send(0, 200)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{Name: "wider"})
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}},{"name":"word","type":"string","nullable":true,"metadata":{}}]}`)
	if err == nil {
		cfg.Schema, err = deltalog.ToArrow(schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := j.Verify(t.Context(), r.live, nil)
	if err != nil || !c.Same() || c.Rows != 200 || strings.Join(c.Added, ",") != "word" {
		t.Fatalf("%+v %v", c, err)
	}
	if _, err := reprocess.Retire(t.Context(), r.live, cfg.Sink, "wider", false); err == nil {
		t.Fatal("a new table that was not swapped in was retired")
	}
	if _, err := j.Swap(t.Context(), r.live, false); err != nil {
		t.Fatal(err)
	}
	r.send(200, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(r.live, "n"), r.want(func(n int) (int64, bool) { return int64(n), true }))
	if n, err := reprocess.Retire(t.Context(), r.live, cfg.Sink, "wider", false); err != nil || n == 0 {
		t.Fatalf("retire: %d files, %v", n, err)
	}
	same(t, "n after retire", r.values(r.live, "n"), r.want(func(n int) (int64, bool) { return int64(n), true }))
	payload, err := r.live.PayloadSchema()
	if err != nil || !payload.HasField("word") {
		t.Errorf("columns %v, %v", payload, err)
	}
}

func TestSpecRefusals(t *testing.T) {
	for text, says := range map[string]string{
		"name: a\nsource: x\nsink: y\nwhat: 1\n":                                                 "line 4: there is no key \"what\"",
		"name: a\nsource: x\nsink: y\nsplitbytes: 1\n":                                           "did you mean \"splitBytes\"",
		"source: x\nsink: y\n":                                                                   "name",
		"name: a/b\nsource: x\nsink: y\n":                                                        "name",
		"name: a\nsink: y\n":                                                                     "source",
		"name: a\nsource: x\n":                                                                   "sink",
		"name: a\nsource: x\nsink: mysql://h/t\n":                                                "a job fills tables",
		"name: a\nsource: x\nsink: y\nwhere: n\ncommand: [c]\n":                                  "either a command",
		"name: a\nsource: x\nsink: y\ncolumns: [{name: b}]\n":                                    "expression",
		"name: a\nsource: x\nhistory: h\nsink: y\n":                                              "history",
		"name: a\nsource: x\nsink: y\nsplitBytes: -1\n":                                          "splitBytes",
		"name: a\nsource: x\nsink: y\ncolumns: [{name: b, value: '1'}, {name: b, value: '2'}]\n": "own",
		"[": "",
	} {
		if _, err := reprocess.ParseSpec([]byte(text)); !errors.Is(err, reprocess.ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for _, where := range []string{"n +", "1", "unknown("} {
		if _, err := reprocess.CompileExpressions(where, nil, nil); !errors.Is(err, reprocess.ErrSpec) {
			t.Errorf("where %q: %v", where, err)
		}
	}
}

func TestOtherJobsTableIsRefused(t *testing.T) {
	r := newRig(t)
	r.send(0, 10)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{Where: "true"})
	r.open(cfg)
	cfg.Spec.Name = "another"
	if _, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrOtherJob) {
		t.Errorf("%v", err)
	}
	cfg.Sink = r.store(r.dir)
	if _, err := reprocess.Open(t.Context(), cfg); err == nil {
		t.Error("the live table was taken for a new one")
	}
}
