package reprocess_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/tiering"
)

const sinkTopic = "clean"

// cluster is a served log with the topics of a sink.
type cluster struct {
	t   *testing.T
	log *local.Log
	cfg kafka.Config
	src *kafka.Source
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var err error
	if c.log, err = local.Open(t.Context(), local.Config{Dir: "/log", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.log.Close() })
	s, err := wire.Open(t.Context(), wire.Config{Listen: "127.0.0.1:0", Log: c.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c.cfg = kafka.Config{Brokers: []string{s.Addr().String()}}
	if c.src, err = kafka.Open(t.Context(), c.cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.src.Close() })
	return c
}

func (c *cluster) outlet() *reprocess.TopicOutlet {
	return &reprocess.TopicOutlet{Topic: sinkTopic, Log: c.src,
		Producer: func(ctx context.Context, id string) (reprocess.Producer, error) {
			return kafka.OpenTxn(ctx, kafka.TxnConfig{Config: c.cfg, ID: id})
		},
		Create: func(ctx context.Context, topic string, partitions int32, settings map[string]string) error {
			return kafka.CreateTopic(ctx, c.cfg, topic, partitions, settings)
		}}
}

// records gives the committed records of a partition, in order.
func (c *cluster) records(topic string, partition int32) (out []record.Record) {
	c.t.Helper()
	tp := record.TopicPartition{Topic: topic, Partition: partition}
	b, err := c.log.Bounds(c.t.Context(), tp)
	if err != nil {
		c.t.Fatal(err)
	}
	for next := b.Start; next < b.Stable; {
		got, err := c.log.Fetch(c.t.Context(), []broker.FetchRange{{TP: tp, From: next}}, broker.FetchOptions{Isolation: broker.ReadCommitted})
		if err != nil || got[0].Err != nil {
			c.t.Fatal(err, got[0].Err)
		}
		var filter record.AbortFilter
		filter.Reset(got[0].Aborted)
		for rest := got[0].Batches; len(rest) > 0; {
			batch, err := record.ReadBatch(rest)
			if err != nil {
				c.t.Fatal(err)
			}
			rest, next = rest[batch.Size():], batch.LastOffset()+1
			if !filter.Keep(batch) {
				continue
			}
			var it record.Iterator
			if err := it.Reset(batch); err != nil {
				c.t.Fatal(err)
			}
			for it.Next() {
				rec := *it.Record()
				rec.Headers = append([]record.Header(nil), rec.Headers...)
				out = append(out, rec)
			}
			if it.Err() != nil {
				c.t.Fatal(it.Err())
			}
		}
	}
	return out
}

func header(rec *record.Record, key string) string {
	for _, h := range rec.Headers {
		if string(h.Key) == key {
			return string(h.Value)
		}
	}
	return ""
}

// inTopic checks that the sink has one record for each that f keeps, with what f gives, in the order of the source.
func (r *rig) inTopic(c *cluster, f func(n int) (int64, bool)) {
	r.t.Helper()
	want := r.want(f)
	for p := range int32(2) {
		last := int64(-1)
		for _, rec := range c.records(sinkTopic, p) {
			offset, err := strconv.ParseInt(header(&rec, reprocess.HeaderOffset), 10, 64)
			from := place{p, offset}
			n, known := want[from]
			if err != nil || !known || offset <= last || !strings.Contains(string(rec.Value), fmt.Sprintf(`"n":%d`, n)) ||
				string(rec.Key) != fmt.Sprintf("k%d", r.sent[from]) || rec.Timestamp != int64(1_700_000_000_000+r.sent[from]) {
				r.t.Fatalf("partition %d: %s = %s at %d, of offset %d behind %d: twice, out of order, or want n = %d (%v)", p, rec.Key, rec.Value, rec.Timestamp, offset, last, n, known)
			}
			delete(want, from)
			last = offset
		}
	}
	if len(want) > 0 {
		r.t.Fatalf("%d records are missing in the sink", len(want))
	}
}

// A topic as a sink gets the records of table and log in order, with key, time and origin, and goes on behind the plan.
// What the transform refuses is in the topic of dead letters (I3, I4, I7).
func TestTopicSink(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 500)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	r.cut()
	r.send(500, 700)
	cfg := r.config(reprocess.Spec{Where: "n % 3 != 0", Columns: []reprocess.Column{{Name: "n", Value: "n == 50 ? int('no') : n * 2"}}})
	outlet := c.outlet()
	outlet.Origin = true
	cfg.Outlet = outlet
	j := r.open(cfg)
	if n := len(j.Plan().Splits); n != 2 {
		t.Errorf("%d splits, want one a partition: records stay in order", n)
	}
	ended := follow(t, j)
	doubled := func(n int) (int64, bool) { return int64(2 * n), n%3 != 0 && n != 50 }
	caughtUp(t, j, ended)
	r.inTopic(c, doubled)
	r.send(700, 800)
	caughtUp(t, j, ended)
	r.inTopic(c, doubled)
	dead := c.records(reprocess.DeadLettersTopic(sinkTopic), 0)
	if len(dead) != 1 || string(dead[0].Key) != "k50" || !strings.Contains(string(dead[0].Value), `"n":50,`) || !strings.Contains(header(&dead[0], reprocess.HeaderError), "column n") {
		t.Errorf("dead letters %+v", dead)
	}
	if _, err := j.Verify(t.Context(), r.live, nil); !errors.Is(err, reprocess.ErrSpec) {
		t.Errorf("verify: %v", err)
	}
	if _, err := j.Swap(t.Context(), r.live, true); !errors.Is(err, reprocess.ErrSpec) {
		t.Errorf("swap: %v", err)
	}
	if err := c.log.DeleteTopic(t.Context(), sinkTopic); err != nil {
		t.Fatal(err)
	}
	fresh, err := kafka.Open(t.Context(), c.cfg) // as of another process: the old one has an error of its own
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	outlet.Log = fresh
	if _, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrOtherJob) || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("a sink that was deleted: %v", err)
	}
	if parts, err := c.log.Partitions(t.Context(), sinkTopic); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("a job that is refused made the sink again: %v, %v", parts, err)
	}
	if err := kafka.CreateTopic(t.Context(), c.cfg, sinkTopic, 2, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := reprocess.Open(t.Context(), cfg); !errors.Is(err, reprocess.ErrOtherJob) || !strings.Contains(err.Error(), "made again") {
		t.Errorf("a sink that was made again: %v", err)
	}
}

// When the topic of positions was deleted nobody knows what the sink has: the job says so, and sends nothing (I4).
func TestTopicSinkWithoutItsPositions(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 100)
	cfg := r.config(reprocess.Spec{})
	cfg.Outlet = c.outlet()
	j := r.open(cfg)
	ended := follow(t, j)
	caughtUp(t, j, ended)
	r.send(100, 200)
	caughtUp(t, j, ended)
	if err := c.log.DeleteTopic(t.Context(), reprocess.PositionsTopic(sinkTopic)); err != nil {
		t.Fatal(err)
	}
	fresh, err := kafka.Open(t.Context(), c.cfg) // as of another process
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	outlet := c.outlet()
	outlet.Log, cfg.Outlet = fresh, outlet
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{Follow: true}); !errors.Is(err, broker.ErrGiveUp) || !strings.Contains(err.Error(), "positions were deleted") {
		t.Errorf("%v", err)
	}
	if n := len(c.records(sinkTopic, 0)) + len(c.records(sinkTopic, 1)); n != 200 {
		t.Errorf("%d records, want 200", n)
	}
}

// late tells of the bounds of the topic of positions as they were before something else was done, once.
type late struct {
	*kafka.Source
	since func()
	once  sync.Once
}

func (l *late) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	b, err := l.Source.Bounds(ctx, tp)
	if tp.Topic == reprocess.PositionsTopic(sinkTopic) {
		l.once.Do(l.since)
	}
	return b, err
}

// Who is overtaken between its look at the sink and that at the job's table takes no position for deleted (I4).
func TestOvertakenBetweenTwoLooks(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 400)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	outlet, cfg := c.outlet(), r.config(reprocess.Spec{})
	outlet.Origin, cfg.Outlet = true, outlet
	other := r.open(cfg)
	behind := c.outlet()
	behind.Origin, cfg.Outlet = true, behind
	overtaken := false
	behind.Log = &late{Source: c.src, since: func() {
		overtaken = true
		if err := other.Run(t.Context(), reprocess.RunOptions{}); err != nil {
			t.Error(err)
		}
	}}
	// It does one of the two splits: with the other it would overtake in its turn.
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{Index: 0, Count: 2}); err != nil && !errors.Is(err, broker.ErrProducerFenced) {
		t.Error(err)
	}
	if !overtaken {
		t.Error("the positions were not looked at")
	}
	r.inTopic(c, func(n int) (int64, bool) { return int64(n), true })
}

// A sink that was deleted and made again between the plan and the stream behind it is another one: whoever follows gives it
// nothing (I3, I4).
func TestSinkMadeAgainBeforeItIsFollowed(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 100)
	cfg := r.config(reprocess.Spec{})
	cfg.Outlet = c.outlet()
	j := r.open(cfg)
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r.send(100, 200)
	if err := c.log.DeleteTopic(t.Context(), sinkTopic); err != nil {
		t.Fatal(err)
	}
	if err := kafka.CreateTopic(t.Context(), c.cfg, sinkTopic, 2, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), reprocess.RunOptions{Follow: true}); err == nil || !strings.Contains(err.Error(), "made again") {
		t.Errorf("%v", err)
	}
	if n := len(c.records(sinkTopic, 0)) + len(c.records(sinkTopic, 1)); n != 0 {
		t.Errorf("%d records in a topic that the job does not know", n)
	}
}

// Without transactions records are there at least once: none is missing. With keys, each key has one partition. A Kafka that has no
// transactions is named with its remedy.
func TestTopicSinkAtLeastOnce(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 300)
	cfg := r.config(reprocess.Spec{})
	outlet := c.outlet()
	x := &traits{of: outlet.Producer, rng: random(t)}
	outlet.Producer, outlet.AtLeastOnce, outlet.ByKey, outlet.Origin = x.open, true, true, true
	cfg.Outlet, cfg.Tiering = outlet, tiering.Config{MaxRows: 40, RetryBase: time.Microsecond, RetryMax: time.Millisecond}
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, end := range x.end {
			end()
		}
	})
	seen, at := map[string]bool{}, map[string]int32{}
	for p := range int32(2) {
		for _, rec := range c.records(sinkTopic, p) {
			seen[header(&rec, reprocess.HeaderPartition)+"/"+header(&rec, reprocess.HeaderOffset)] = true
			if before, ok := at[string(rec.Key)]; ok && before != p {
				t.Fatalf("key %s is in partitions %d and %d", rec.Key, before, p)
			}
			at[string(rec.Key)] = p
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d records came, want 300", len(seen))
	}
	if len(c.records(sinkTopic, 0)) == 0 || len(c.records(sinkTopic, 1)) == 0 {
		t.Error("keys are all in one partition")
	}
	refused := c.outlet()
	refused.Producer = func(context.Context, string) (reprocess.Producer, error) {
		return nil, fmt.Errorf("open: %w", broker.ErrNoTransactions)
	}
	cfg = r.config(reprocess.Spec{Name: "refused"})
	cfg.Outlet = refused
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{}); !errors.Is(err, broker.ErrGiveUp) || !strings.Contains(err.Error(), "delivery: at-least-once") {
		t.Errorf("a Kafka without transactions: %v", err)
	}
}

// traits disturb the producers of a sink: calls fail before or behind what they do, and producers vanish as those of a
// killed process do, with a transaction open and records under way.
type traits struct {
	of  func(context.Context, string) (reprocess.Producer, error)
	mu  sync.Mutex
	rng *rand.Rand
	off bool
	end []func() // of those that vanished
}

var errTrait = errors.New("a failure of the test's")

func (x *traits) hits(of int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.off && x.rng.IntN(of) == 0
}

func (x *traits) open(ctx context.Context, id string) (reprocess.Producer, error) {
	p, err := x.of(ctx, id)
	if err != nil {
		return nil, err
	}
	if x.hits(8) {
		p.Close()
		return nil, errTrait
	}
	return &disturbed{p, x}, nil
}

type disturbed struct {
	reprocess.Producer
	x *traits
}

func (d *disturbed) Send(ctx context.Context, topic string, partition int32, rec *record.Record) error {
	if d.x.hits(400) {
		return errTrait
	}
	return d.Producer.Send(ctx, topic, partition, rec)
}

func (d *disturbed) Commit(ctx context.Context) error {
	if d.x.hits(4) {
		return errTrait
	}
	err := d.Producer.Commit(ctx)
	if err == nil && d.x.hits(4) {
		return errTrait // it is in, and nobody knows
	}
	return err
}

func (d *disturbed) Close() {
	if d.x.hits(2) {
		d.x.mu.Lock()
		defer d.x.mu.Unlock()
		d.x.end = append(d.x.end, d.Producer.Close)
		return
	}
	d.Producer.Close()
}

// A job into a topic that fails everywhere, is stopped at random and run by two processes at once, which take each
// other's work over, leaves in it what an undisturbed one does (I3, I4).
func TestDisturbedTopicSink(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	rng := random(t)
	for range rounds {
		r, c := newRig(t), newCluster(t)
		r.send(0, 400)
		if err := r.tier(); err != nil {
			t.Fatal(err)
		}
		r.send(400, 600)
		x := &traits{rng: rand.New(rand.NewPCG(rng.Uint64(), 7))} // of its own: jobs use it beside us
		t.Cleanup(func() {
			for _, end := range x.end {
				end()
			}
		})
		outlet := c.outlet()
		x.of, outlet.Producer, outlet.Origin = outlet.Producer, x.open, true
		cfg := r.config(reprocess.Spec{Columns: []reprocess.Column{{Name: "n", Value: "n + 1"}}})
		cfg.Outlet = outlet
		cfg.Tiering = tiering.Config{MaxRows: 40, RetryBase: time.Microsecond, RetryMax: time.Millisecond}
		for try := 0; try < 5; try++ {
			ctx, cancel := context.WithCancel(t.Context())
			jobs := []*reprocess.Job{r.open(cfg), r.open(cfg)}
			done := make(chan error, len(jobs))
			for _, j := range jobs {
				go func() { done <- j.Run(ctx, reprocess.RunOptions{}) }()
			}
			if stop := rng.IntN(3); stop > 0 {
				time.AfterFunc(time.Duration(rng.IntN(20*stop))*time.Millisecond, cancel)
			}
			for range jobs {
				err := <-done
				allowed := errors.Is(err, broker.ErrProducerFenced) || ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, errTrait))
				if err != nil && !allowed {
					t.Fatal(err)
				}
			}
			cancel()
		}
		x.mu.Lock()
		x.off = true
		x.mu.Unlock()
		j := r.open(cfg)
		if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		if st, err := j.Status(t.Context()); err != nil || st.Done != st.Splits || st.Decided != 600 {
			t.Fatalf("%+v %v", st, err)
		}
		r.inTopic(c, func(n int) (int64, bool) { return int64(n + 1), true })
	}
}

// watched tells what a producer does.
type watched struct {
	reprocess.Producer
	sent, commit func()
}

func (w *watched) Send(ctx context.Context, topic string, partition int32, rec *record.Record) error {
	w.sent()
	return w.Producer.Send(ctx, topic, partition, rec)
}

func (w *watched) Commit(ctx context.Context) error {
	w.commit()
	return w.Producer.Commit(ctx)
}

// patient is a transform that is at work until what was delivered before has been committed.
type patient struct {
	delivered *atomic.Bool
	committed chan struct{}
}

func (p *patient) Apply(ctx context.Context, in []reprocess.Record) ([]reprocess.Result, error) {
	if p.delivered.Load() {
		select {
		case <-p.committed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := make([]reprocess.Result, len(in))
	for i := range in {
		out[i].Value = in[i].Value
	}
	return out, nil
}

func (p *patient) Close() error { return nil }

// A transaction does not stay open while the transform is at work, however long that takes (I3).
func TestTopicSinkBesideASlowTransform(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 500)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	r.cut()
	r.send(500, 700) // the log's come with another fetch than the table's
	slow := &patient{delivered: new(atomic.Bool), committed: make(chan struct{})}
	var once sync.Once
	cfg, outlet := r.config(reprocess.Spec{}), c.outlet()
	open := outlet.Producer
	outlet.Origin, outlet.Producer = true, func(ctx context.Context, id string) (reprocess.Producer, error) {
		p, err := open(ctx, id)
		return &watched{p, func() { slow.delivered.Store(true) }, func() { once.Do(func() { close(slow.committed) }) }}, err
	}
	cfg.Outlet, cfg.Transform = outlet, func() (reprocess.Transform, error) { return slow, nil }
	cfg.Tiering.MaxRows, cfg.Tiering.MaxAge = 1_000_000, 300*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := r.open(cfg).Run(ctx, reprocess.RunOptions{}); err != nil || ctx.Err() != nil {
		t.Fatalf("the transaction waits for the transform: %v %v", err, ctx.Err())
	}
	r.inTopic(c, func(n int) (int64, bool) { return int64(n), true })
}

// A transaction that the cluster aborted since its owner was suspended is no other owner: the job looks where the sink
// stands, and goes on (I3, I4).
func TestTopicSinkAfterItsTransactionExpired(t *testing.T) {
	r, c := newRig(t), newCluster(t)
	r.send(0, 200)
	var once sync.Once
	expire := func() { // waits for the marker of the abort
		tp := record.TopicPartition{Topic: reprocess.PositionsTopic(sinkTopic)}
		for {
			b, err := c.log.Bounds(t.Context(), tp)
			if err == nil && b.Start < b.End && b.Stable == b.End {
				return
			}
			if err == nil {
				_, err = c.log.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: b.End}}, broker.FetchOptions{MinBytes: 1, MaxWait: time.Second})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
	cfg, outlet := r.config(reprocess.Spec{}), c.outlet()
	outlet.Origin, outlet.Producer = true, func(ctx context.Context, id string) (reprocess.Producer, error) {
		p, err := kafka.OpenTxn(ctx, kafka.TxnConfig{Config: c.cfg, ID: id, Timeout: time.Second})
		return &watched{p, func() {}, func() { once.Do(expire) }}, err
	}
	cfg.Outlet = outlet
	if err := r.open(cfg).Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r.inTopic(c, func(n int) (int64, bool) { return int64(n), true })
}
