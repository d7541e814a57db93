package reprocess_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

// told is a log handler that is closed with the first word that a job was told something.
type told struct {
	slog.Handler
	once atomic.Bool
	ch   chan struct{}
}

func (h *told) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "the job is told" && h.once.CompareAndSwap(false, true) {
		close(h.ch)
	}
	return h.Handler.Handle(ctx, r)
}

func (h *told) Enabled(context.Context, slog.Level) bool { return true }

// A job that is paused reads nothing, also when it is started while it is, and goes on in all processes when it is told so.
func TestPauseAndResume(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	cfg := r.config(reprocess.Spec{})
	cfg.ControlEvery = time.Millisecond
	cfg.Schema = onlyN
	var calls atomic.Int64
	cfg.Transform = func() (reprocess.Transform, error) {
		return reprocess.Func(func(rec reprocess.Record) reprocess.Result {
			calls.Add(1)
			return reprocess.Result{Value: rec.Value}
		}), nil
	}
	if err := reprocess.SetControl(t.Context(), cfg.Sink, "better", reprocess.Control{Paused: true}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for i := range 2 {
		h := &told{Handler: slog.DiscardHandler, ch: make(chan struct{})}
		cfg.Logger = slog.New(h)
		j := r.open(cfg)
		go func() { done <- j.Run(t.Context(), reprocess.RunOptions{Index: i, Count: 2}) }()
		<-h.ch
		st, err := j.Status(t.Context())
		if err != nil || !st.Control.Paused {
			t.Errorf("status of a paused job: %+v, %v", st, err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("a paused job has read %d records", n)
	}
	if err := reprocess.SetControl(t.Context(), cfg.Sink, "better", reprocess.Control{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	same(t, "n", r.values(r.open(cfg).Sink(), "n"), r.want(asSent))
	if err := reprocess.SetControl(t.Context(), cfg.Sink, "better", reprocess.Control{MaxRate: "fast"}); !errors.Is(err, reprocess.ErrSpec) {
		t.Errorf("a rate that is none: %v", err)
	}
}

// A job that reads a record a second commits what it has all the same, and is let go while it waits.
func TestThrottleIsChangedLive(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	for n := 0; n < 10_000; n += 1000 { // more than one fetch at this rate
		r.sendTo(0, n, n+1000)
	}
	cfg := r.config(reprocess.Spec{MaxRate: "1"})
	cfg.Outlet, cfg.ControlEvery = c.outlet(), time.Millisecond
	j := r.open(cfg)
	done := make(chan error, 1)
	go func() { done <- j.Run(t.Context(), reprocess.RunOptions{}) }()
	for {
		st, err := j.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Decided == 10_000 {
			t.Fatal("the rate was not kept to")
		}
		if st.Decided > 0 {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the job ended: %v", err)
		default:
		}
	}
	if err := reprocess.SetControl(t.Context(), cfg.Sink, "better", reprocess.Control{MaxRate: "1000000"}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(c.records(sinkTopic, 0)); n != 10_000 {
		t.Errorf("%d records, want 10000", n)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(j.Collector())
	want := `
# HELP ledgerlake_reprocess_offsets_decided Offsets of the splits whose fate is committed.
# TYPE ledgerlake_reprocess_offsets_decided gauge
ledgerlake_reprocess_offsets_decided{job="better",topic="events"} 10000
# HELP ledgerlake_reprocess_results_total Records that the transform kept.
# TYPE ledgerlake_reprocess_results_total counter
ledgerlake_reprocess_results_total{job="better",topic="events"} 10000
# HELP ledgerlake_reprocess_splits_done Splits that are done, by whatever process.
# TYPE ledgerlake_reprocess_splits_done gauge
ledgerlake_reprocess_splits_done{job="better",topic="events"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "ledgerlake_reprocess_offsets_decided", "ledgerlake_reprocess_results_total", "ledgerlake_reprocess_splits_done"); err != nil {
		t.Error(err)
	}
}

// The metrics of a job are those that its page lists.
func TestMetricsAreThoseOfTheDocs(t *testing.T) {
	r := newRig(t)
	r.send(0, 10)
	j := r.open(r.config(reprocess.Spec{}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(j.Collector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var have, listed []string
	for _, f := range families {
		have = append(have, f.GetName())
	}
	page, err := os.ReadFile("../docs/reprocess.md")
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "ledgerlake_reprocess"
	_, text, found := strings.Cut(string(page), "`"+prefix)
	text, _, ended := strings.Cut("`"+text, "of all processes")
	if !found || !ended {
		t.Fatal("the page has no list of metrics")
	}
	for _, m := range regexp.MustCompile("`(_[a-z_]+)`").FindAllStringSubmatch(text, -1) {
		listed = append(listed, prefix+m[1])
	}
	slices.Sort(listed)
	if !slices.Equal(have, listed) { // families come sorted
		t.Errorf("gathered: %q, listed: %q", have, listed)
	}
}

// A dry run says what would be read and what would come out, and leaves no table behind.
func TestDryRun(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	r.send(300, 400)
	cfg := r.config(reprocess.Spec{Where: "n != 1", Columns: []reprocess.Column{{Name: "twice", Value: "n == 2 ? int('no') : n * 2"}}, SplitBytes: 1 << 10})
	p, err := reprocess.DryRun(t.Context(), cfg, 4)
	if err != nil {
		t.Fatal(err)
	}
	if p.Offsets != 400 || p.InLog != 100 || p.Bytes <= 0 || p.Splits < 2 || len(p.Ranges) != 2 || len(p.Samples) != 4 || strings.Join(p.Columns, ",") != "n int64,twice int64,word utf8" {
		t.Errorf("%+v", p)
	}
	byN := map[int]reprocess.Change{}
	for _, c := range p.Samples {
		byN[r.sent[place{c.Partition, c.Offset}]] = c
	}
	if !byN[1].Dropped || !strings.Contains(byN[2].Error, "column twice") || !strings.Contains(string(byN[3].Value), `"twice":6`) {
		t.Errorf("samples %+v", p.Samples)
	}
	if _, err := table.Open(t.Context(), cfg.Sink, table.Config{}); !errors.Is(err, deltalog.ErrNotTable) {
		t.Errorf("a dry run made a table: %v", err)
	}
}

// refusing is a sink whose commits fail.
type refusing struct{ got chan struct{} }

func (s refusing) Prepare(context.Context, reprocess.SourceTopic) (string, error) { return "", nil }

func (s refusing) Open(context.Context, reprocess.Work) (reprocess.Delivery, error) { return s, nil }

func (s refusing) Positions(context.Context) (map[int32]record.Offset, error) {
	return map[int32]record.Offset{}, nil
}

func (s refusing) Deliver(context.Context, []reprocess.Record, []reprocess.Result) error {
	s.got <- struct{}{}
	return nil
}

func (refusing) Commit(context.Context, map[int32]record.Offset) error { return errTrait }
func (refusing) Close() error                                          { return nil }

// A job that is told to stop and cannot commit does not say that it has (I3).
func TestStopWithoutACommit(t *testing.T) {
	r := newRig(t)
	for n := 0; n < 10_000; n += 1000 { // more than one fetch: the job waits for its rate behind the first
		r.sendTo(0, n, n+1000)
	}
	cfg := r.config(reprocess.Spec{MaxRate: "1"})
	cfg.Tiering.MaxAge, cfg.Tiering.MaxRows = time.Hour, 1_000_000 // the only commit is that of the end
	sink := refusing{make(chan struct{}, 1)}
	cfg.Outlet = sink
	j := r.open(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx, reprocess.RunOptions{}) }()
	<-sink.got
	cancel()
	if err := <-done; !errors.Is(err, errTrait) {
		t.Errorf("%v", err)
	}
	if st, err := j.Status(t.Context()); err != nil || st.Decided != 0 {
		t.Errorf("%+v %v", st, err)
	}
}
