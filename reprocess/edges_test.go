package reprocess_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
)

// sendTo adds the records n = from..to-1 to one partition, as one batch.
func (r *rig) sendTo(partition int32, from, to int) {
	r.t.Helper()
	b := record.NewBuilder(record.None)
	for n := from; n < to; n++ {
		b.Append(int64(1_700_000_000_000+n), []byte("k"), fmt.Appendf(nil, `{"n":%d}`, n), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := r.log.Append(r.t.Context(), record.TopicPartition{Topic: topic, Partition: partition}, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range to - from {
		r.sent[place{partition, int64(got.Base) + int64(i)}] = from + i
	}
}

func asSent(n int) (int64, bool) { return int64(n), true }

// Splits in a stretch of offsets that nobody has records of are done, not asked for again and again.
func TestSplitsInAHoleAreDone(t *testing.T) {
	r := newRig(t)
	for p := range int32(2) {
		r.sendTo(p, 0, 500)
		if err := r.log.Hold(t.Context(), record.TopicPartition{Topic: topic, Partition: p}, 500); err != nil {
			t.Fatal(err)
		}
	}
	r.cut() // the table begins with what comes now
	clear(r.sent)
	r.sendTo(0, 500, 600)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{SplitBytes: 1 << 10}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if st, err := j.Status(t.Context()); err != nil || st.Done != st.Splits || st.Splits < 2 {
		t.Fatalf("%+v %v", st, err)
	}
	same(t, "n", r.values(j.Sink(), "n"), r.want(asSent))
}

// A partition that only the job has seen is not tiered again from its start behind a swap (I3).
func TestSwapWithAPartitionThatTheOldTableLacks(t *testing.T) {
	r := newRig(t)
	r.sendTo(0, 0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{Name: "first", Where: "true"})
	r.replaced = filepath.Join(filepath.Dir(r.dir), "derived")
	cfg.Sink = r.store(r.replaced)
	first := r.open(cfg)
	if err := first.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r.sendTo(1, 100, 150)

	cfg = r.config(reprocess.Spec{Name: "second", Where: "true"})
	second := r.open(cfg)
	if err := second.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Swap(t.Context(), first.Sink(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Swap(t.Context(), first.Sink(), false); !errors.Is(err, reprocess.ErrSwapped) {
		t.Errorf("a second swap: %v", err)
	}
	cfg.Sink, cfg.Spec.Sink = r.store(r.replaced), r.replaced
	on := r.open(cfg)
	if err := on.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(first.Sink(), "n"), r.want(asSent))

	r.replaced = r.dir // and the table of the topic: it waits for its tiering
	ahead := r.open(r.config(reprocess.Spec{Name: "ahead"}))
	if err := ahead.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ahead.Swap(t.Context(), r.live, false); !errors.Is(err, reprocess.ErrNotSwappable) {
		t.Errorf("a swap ahead of tiering: %v", err)
	}
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	if _, err := ahead.Swap(t.Context(), r.live, false); err != nil {
		t.Fatal(err)
	}
	r.send(150, 200)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	same(t, "the topic's table", r.values(r.live, "n"), r.want(asSent))
}

// A schema that records do not fit makes dead letters of them. The history of a topic is not replaced by it (I4, I7).
func TestSwapThatWouldLoseRowsIsRefused(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{})
	cfg.Schema = arrow.NewSchema([]arrow.Field{{Name: "word", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Swap(t.Context(), r.live, false); !errors.Is(err, reprocess.ErrNotSwappable) {
		t.Errorf("%v", err)
	}
	same(t, "n", r.values(r.live, "n"), r.want(asSent))
}

// The source's table is restored to an older version under an open job: what left it is read from the log (I4).
func TestSourceIsRestoredUnderAJob(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	snap, err := r.live.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.send(300, 600)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{}))
	if _, err := maintenance.Restore(t.Context(), r.live, maintenance.RestoreOptions{Version: snap.Version(), HasVersion: true}); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(j.Sink(), "n"), r.want(asSent))
}

// A job of some partitions does not follow the others.
func TestFollowKeepsToTheNamedPartitions(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{From: "0:0"}))
	ended := follow(t, j)
	r.send(100, 200)
	for n := 0; n < len(r.want(asSent)); {
		st, err := j.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Behind) == 1 && st.Behind[0] == 0 {
			break
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	for p := range r.values(j.Sink(), "n") {
		if p.partition != 0 {
			t.Fatalf("a row of partition %d", p.partition)
		}
	}
}

// The topic's id stands in the plan, once, and a topic that was made again is another one: the job is not opened on it.
func TestTopicMadeAgain(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(reprocess.Spec{SplitBytes: 1 << 9})
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	snap, err := j.Sink().Refresh(t.Context())
	if err != nil || j.Plan().TopicID == "" {
		t.Fatalf("plan %+v, %v", j.Plan(), err)
	}
	for key := range snap.Metadata().Configuration {
		if strings.HasPrefix(key, "ledgerlake.topic-id.") {
			t.Errorf("a split has recorded %s", key)
		}
	}
	if err := r.log.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := r.log.CreateTopic(t.Context(), topic, broker.TopicConfig{Partitions: 2, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrOtherJob) {
		t.Errorf("%v", err)
	}
}

// Fields that no column replaces keep every digit.
func TestExpressionsKeepDigits(t *testing.T) {
	e, err := reprocess.CompileExpressions("true", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{`{"d":12345678901234567.89}`, `{"u":18446744073709551615}`, `{"x":1.0}`, `{"deep":{"a":[1.10]}}`} {
		out, err := e.Apply(t.Context(), []reprocess.Record{{Record: record.Record{Value: []byte(v)}}})
		if err != nil || string(out[0].Value) != v {
			t.Errorf("%s became %s, %v", v, out[0].Value, err)
		}
	}
}

func someRecords(n int) (in []reprocess.Record) {
	for o := range n {
		in = append(in, reprocess.Record{Record: record.Record{Offset: record.Offset(o), Value: fmt.Appendf(nil, `{"n":%d,"p":"%s"}`, o, strings.Repeat("x", 100))}})
	}
	return in
}

// Commands that do not keep to one line a record are found out, whatever they do, and no value is at another
// record's offset (I3).
func TestCommandsOutOfStep(t *testing.T) {
	for name, script := range map[string]string{
		"two lines a record": `while read -r l; do echo "$l"; echo "$l"; done`,
		"a banner":           `echo '{"_offset":0,"n":-1}'; exec cat`,
		"a banner of text":   `echo loading; exec cat`,
		"no offset":          `while read -r l; do echo '{"n":1}'; done`,
		"another offset":     `while read -r l; do echo '{"_offset":77777,"n":1}'; done`,
		"too many at once":   `yes '{"n":1}'`,
		"dies":               `read x; exit 3`,
		"says nothing":       `exit 0`,
	} {
		c, err := reprocess.StartCommand([]string{"sh", "-c", script})
		if err != nil {
			t.Fatal(err)
		}
		in := someRecords(2000)
		out, err := c.Apply(t.Context(), in)
		if err == nil {
			for i, r := range out {
				if want := string(in[i].Value); r.Err == nil && string(r.Value) != want && !strings.Contains(string(r.Value), fmt.Sprintf(`"n":%d,`, i)) {
					t.Fatalf("%s: record %d became %s", name, i, r.Value)
				}
			}
		}
		if err != nil && !errors.Is(err, broker.ErrGiveUp) {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close() // killed or not
	}
}

// A record that ends the command is a dead letter; the others have their rows (I7).
func TestRecordThatEndsTheCommand(t *testing.T) {
	c, err := reprocess.StartCommand([]string{"sh", "-c", `while read -r l; do case "$l" in *'"n":13,'*) exit 1;; esac; echo "$l"; done`})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Apply(t.Context(), someRecords(40))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		if (r.Err != nil) != (i == 13) || i != 13 && !strings.Contains(string(r.Value), fmt.Sprintf(`"n":%d,`, i)) {
			t.Errorf("record %d: %s, %v", i, r.Value, r.Err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A command that ends once at each of some records of a batch, as one does that fails at random, costs none of them
// its row (I7).
func TestCommandThatEndsOnce(t *testing.T) {
	script := `while read -r l; do for n in 5 6 21; do case "$l" in *'"n":'$n','*) mkdir ` + t.TempDir() + `/$n 2>/dev/null && exit 1;; esac; done; echo "$l"; done`
	c, err := reprocess.StartCommand([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Apply(t.Context(), someRecords(40))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		if r.Err != nil || !strings.Contains(string(r.Value), fmt.Sprintf(`"n":%d,`, i)) {
			t.Errorf("record %d: %s, %v", i, r.Value, r.Err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A call that is given up ends soon, also when a child of the command holds its output open.
func TestCommandThatDoesNotAnswer(t *testing.T) {
	c, err := reprocess.StartCommand([]string{"sh", "-c", "sleep 100 & sleep 100"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Apply(ctx, someRecords(5000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A job keeps to its rate, all its splits together, and gives the same rows as one without; a rate that is none is
// refused before anything starts.
func TestJobRate(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	if _, err := reprocess.ParseSpec([]byte("{name: a, source: b, sink: c, maxRate: fast}")); !errors.Is(err, reprocess.ErrSpec) {
		t.Errorf("maxRate: fast gives %v", err)
	}
	cfg := r.config(reprocess.Spec{Name: "slow", MaxRate: "1000", SplitBytes: 3000}) // some splits
	cfg.Workers = 1
	begin := time.Now()
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, took := len(j.Plan().Splits), time.Since(begin); n < 2 || took < 100*time.Millisecond { // the last fetch costs no time
		t.Errorf("300 records at 1000 a second, in %d splits, took %v", n, took)
	}
	if got := r.values(j.Sink(), "n"); len(got) != 300 {
		t.Errorf("%d rows, want 300", len(got))
	}
}

// A job whose file was changed is told so, and its new table stays as it is; one that is the same goes on.
func TestJobThatWasChanged(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	spec := reprocess.Spec{Where: "n > 5", Keep: []string{"n"}}
	j := r.open(r.config(spec))
	r.open(r.config(spec))
	for name, change := range map[string]func(*reprocess.Spec){
		"where":   func(s *reprocess.Spec) { s.Where = "n > 6" },
		"keep":    func(s *reprocess.Spec) { s.Keep = nil },
		"columns": func(s *reprocess.Spec) { s.Columns = []reprocess.Column{{Name: "n", Value: "n"}} },
		"from":    func(s *reprocess.Spec) { s.From = "0:3,1:0" },
		"command": func(s *reprocess.Spec) { s.Where, s.Keep, s.Command = "", nil, []string{"cat"} },
	} {
		other := spec
		change(&other)
		if _, err := reprocess.Open(t.Context(), r.config(other)); !errors.Is(err, reprocess.ErrChanged) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	into := r.config(spec)
	into.Outlet = &reprocess.CommandOutlet{Argv: []string{"false"}}
	if _, err := reprocess.Open(t.Context(), into); !errors.Is(err, reprocess.ErrChanged) || !strings.Contains(err.Error(), "was a table, and is now a command") {
		t.Errorf("a command in the place of the table: %v", err)
	}
	cfg := r.config(spec)
	cfg.Schema = arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	if _, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrChanged) || !strings.Contains(err.Error(), "n int64") {
		t.Errorf("another schema: %v", err)
	}
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(j.Sink(), "n"), r.want(func(n int) (int64, bool) { return int64(n), n > 5 }))
}

// A job of a program whose file then says that it fills a table, in the same place, has no rows there: it is refused, and not
// swapped in as an empty table (I3).
func TestStateOfAProgramIsNoTable(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv(helper, "sink:"+dir)
	cfg := r.config(reprocess.Spec{})
	cfg.Outlet = &reprocess.CommandOutlet{Argv: []string{os.Args[0]}}
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg.Outlet = nil
	if j, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrChanged) || !strings.Contains(err.Error(), "was a command, and is now a table") {
		t.Errorf("%v, %v", j, err)
	}
}
