package pulsar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// Source reads topics of a Pulsar. Make one with Open.
type Source struct {
	cfg    Config
	feed   Feed
	client *wire.Client // of a living Pulsar, for Hold; nil: there is none
	quiet  time.Duration
	news   news // something came for one of the streams

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	parts map[record.TopicPartition]*partition
	count map[string]int // partitions of topics; 0: a topic without
}

var _ broker.Counter = (*Source)(nil)

// Open makes a Source. It fails when no broker answers.
func Open(ctx context.Context, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	client, err := wire.New(wire.Config{Service: cfg.Service, TLS: cfg.TLS, Auth: cfg.Auth, Timeout: cfg.Timeout, Window: cfg.Window})
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("connect to pulsar at %s: %w", cfg.Service, err)
	}
	s := newSource(ctx, cfg, living{client})
	s.client = client
	return s, nil
}

// OpenFeed makes a Source of something else than a living Pulsar. Of cfg, what says how to reach one does not count,
// and nothing is held. Close closes the feed.
func OpenFeed(ctx context.Context, cfg Config, feed Feed) *Source {
	cfg.Subscription, cfg.SealedOnly = "", false
	return newSource(ctx, cfg.withDefaults(), feed)
}

func newSource(ctx context.Context, cfg Config, feed Feed) *Source {
	s := &Source{cfg: cfg, feed: feed, quiet: quiet, parts: map[record.TopicPartition]*partition{}, count: map[string]int{}}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Close ends all calls under way, which return broker.ErrClosed, and the connections.
func (s *Source) Close() error {
	s.stop()
	s.feed.Close()
	s.news.tell()
	return nil
}

// Partitions gives the partition numbers of a topic; a topic without partitions has number 0.
func (s *Source) Partitions(ctx context.Context, topic string) ([]int32, error) {
	n := 0
	err := s.retry(ctx, func() (err error) {
		n, err = s.partitions(ctx, topic)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]int32, max(n, 1))
	for i := range out {
		out[i] = int32(i)
	}
	return out, nil
}

func (s *Source) partitions(ctx context.Context, topic string) (int, error) {
	n, err := s.feed.Partitions(ctx, "persistent://"+topic)
	if err != nil {
		return 0, s.known(err)
	}
	if n == 0 { // one without partitions, or none at all
		there, err := s.feed.Topics(ctx, topic[:strings.LastIndexByte(topic, '/')], "^"+regexp.QuoteMeta("persistent://"+topic)+"$")
		if err != nil {
			return 0, s.known(err)
		}
		if len(there) == 0 {
			return 0, fmt.Errorf("topic %s: %w", topic, broker.ErrUnknownTopic)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[topic] = n
	return n, nil
}

// Topics gives the topics of a namespace (TENANT/NAMESPACE) whose whole name TENANT/NAMESPACE/TOPIC matches a pattern.
func (s *Source) Topics(ctx context.Context, namespace string, pattern *regexp.Regexp) ([]string, error) {
	all, err := s.feed.Topics(ctx, namespace, "")
	if err != nil {
		return nil, s.known(err)
	}
	seen := map[string]bool{}
	var out []string
	for _, t := range all {
		t = strings.TrimPrefix(t, "persistent://")
		if i := strings.LastIndex(t, "-partition-"); i > 0 {
			t = t[:i]
		}
		if !seen[t] && pattern.MatchString(t) && !strings.Contains(t, "/__") {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out, nil
}

// partition gives the state of a partition.
func (s *Source) partition(ctx context.Context, tp record.TopicPartition) (*partition, error) {
	s.mu.Lock()
	p, n, known := s.parts[tp], s.count[tp.Topic], false
	_, known = s.count[tp.Topic]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	if !known || int(tp.Partition) >= max(n, 1) {
		var err error
		if n, err = s.partitions(ctx, tp.Topic); err != nil {
			return nil, err
		}
	}
	if tp.Partition < 0 || int(tp.Partition) >= max(n, 1) {
		return nil, fmt.Errorf("partition %s: %w", tp, broker.ErrUnknownTopic)
	}
	name := "persistent://" + tp.Topic
	if n > 0 {
		name = fmt.Sprintf("%s-partition-%d", name, tp.Partition)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.parts[tp]; p == nil {
		p = &partition{s: s, tp: tp, topic: name}
		s.parts[tp] = p
	}
	return p, nil
}

// leastShare is what a range may have at least, however many share a Fetch.
const leastShare = 64 << 10

// Fetch answers from the streams that stand at the offsets asked for, and opens those that are missing.
func (s *Source) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	out := make([]broker.Fetched, len(ranges))
	for i, r := range ranges {
		out[i].TP = r.TP
	}
	deadline := time.Now().Add(opts.MaxWait)
	for {
		news := s.news.channel() // before the look, so that nothing that comes during it is slept over
		var g errgroup.Group
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i, r := range ranges {
			if out[i].Err == nil && len(out[i].Batches) == 0 {
				if share := max(opts.MaxBytes/len(ranges), leastShare); opts.MaxBytes > 0 && (r.MaxBytes <= 0 || r.MaxBytes > share) {
					r.MaxBytes = share // all are read at once
				}
				g.Go(func() error {
					s.fetchOne(ctx, r, &out[i])
					return nil
				})
			}
		}
		_ = g.Wait() // faults stand in the answers
		if s.ctx.Err() != nil {
			return nil, broker.ErrClosed
		}
		size, failed := 0, false
		for i := range out {
			size += len(out[i].Batches)
			failed = failed || out[i].Err != nil
		}
		wait := time.Until(deadline)
		if size >= max(opts.MinBytes, 1) || failed || wait <= 0 {
			return out, nil
		}
		const look = 200 * time.Millisecond // streams that could not be opened are tried again
		timer := time.NewTimer(min(wait, look))
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
	}
}

func (s *Source) fetchOne(ctx context.Context, r broker.FetchRange, out *broker.Fetched) {
	var p *partition
	err := s.retry(ctx, func() (err error) {
		p, err = s.partition(ctx, r.TP)
		return err
	})
	if err != nil {
		out.Err = err
		return
	}
	limit := r.MaxBytes
	if limit <= 0 {
		limit = 4 << 20
	}
	out.Batches, out.Bounds, out.Err = p.fetch(ctx, r.From, limit)
}

// Bounds gives what is known without reading: Start is the first offset that is in no table, and End is what was read
// so far. CountEnd says where the end is.
func (s *Source) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	var b broker.Bounds
	err := s.retry(ctx, func() error {
		p, err := s.partition(ctx, tp)
		if err == nil {
			b, err = p.bounds(ctx)
		}
		return err
	})
	return b, err
}

// CountEnd reads on to the end as it is now and gives its offset.
func (s *Source) CountEnd(ctx context.Context, tp record.TopicPartition) (end record.Offset, err error) {
	err = s.retry(ctx, func() error {
		p, err := s.partition(ctx, tp)
		if err == nil {
			end, err = p.countEnd(ctx)
		}
		return err
	})
	return end, err
}

// EndBehind says where the end of a partition is for one who reads at from and has got nothing: there, when nothing more is to
// come; below, when from is beyond. False when there is something to come, or nobody can say.
func (s *Source) EndBehind(ctx context.Context, tp record.TopicPartition, from record.Offset) (record.Offset, bool) {
	p, err := s.partition(ctx, tp)
	if err != nil {
		return 0, false
	}
	return p.endBehind(ctx, from)
}

// OffsetForTime gives the offset of the first message that was published at or after ms, of those that are in no table;
// the end when there is none.
func (s *Source) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	return s.seek(ctx, tp, func(d *wire.Delivery) bool { return d.Corrupt == nil && d.Entry.PublishTime >= ms })
}

// OffsetOf gives the offset of the first message at or behind an id, of those that are in no table; the end when there
// is none.
func (s *Source) OffsetOf(ctx context.Context, tp record.TopicPartition, id MessageID) (record.Offset, error) {
	o, err := s.seek(ctx, tp, func(d *wire.Delivery) bool {
		return d.ID.Ledger > id.Ledger || d.ID.Ledger == id.Ledger && d.ID.Entry >= id.Entry
	})
	return o + record.Offset(max(id.Batch, 0)), err
}

func (s *Source) seek(ctx context.Context, tp record.TopicPartition, at func(*wire.Delivery) bool) (o record.Offset, err error) {
	err = s.retry(ctx, func() error {
		p, err := s.partition(ctx, tp)
		if err == nil {
			o, err = p.seek(ctx, at)
		}
		return err
	})
	return o, err
}

// Hold acknowledges what lies before the last message below lakeEnd, which is one that Config.Index gives: counting goes on from it.
// With lakeEnd 0 nothing is acknowledged, and all that comes from now on is held.
func (s *Source) Hold(ctx context.Context, tp record.TopicPartition, lakeEnd record.Offset) error {
	if s.cfg.Subscription == "" {
		return broker.ErrNoHold
	}
	return s.retry(ctx, func() error {
		p, err := s.partition(ctx, tp)
		if err == nil {
			err = p.hold(ctx, lakeEnd)
		}
		return err
	})
}

// known turns the protocol's errors into those of the contract.
func (s *Source) known(err error) error {
	var refused *wire.ServerError
	switch {
	case err == nil, errors.Is(err, broker.ErrGiveUp), errors.Is(err, broker.ErrUnknownTopic): // it is one already
		return err
	case s.ctx.Err() != nil || errors.Is(err, wire.ErrClosed):
		return broker.ErrClosed
	case errors.As(err, &refused) && refused.Code == wire.CodeTopicNotFound:
		return fmt.Errorf("%w: %w", broker.ErrUnknownTopic, err)
	case errors.As(err, &refused) && (refused.Code == wire.CodeAuthentication || refused.Code == wire.CodeAuthorization):
		return fmt.Errorf("%w: %w", broker.ErrGiveUp, err)
	}
	return err
}

// passing says whether an error may go away by trying again.
func passing(err error) bool {
	var refused *wire.ServerError
	// What was taken once may be taken again: a token that ran out is renewed in its file, a moment later perhaps.
	return errors.Is(err, wire.ErrLost) || errors.As(err, &refused) && (refused.Passing() || refused.Code == wire.CodeAuthentication)
}

// retry calls f until it succeeds, or fails for good, or has had its time.
func (s *Source) retry(ctx context.Context, f func() error) error {
	begin := time.Now()
	for n := 0; ; n++ {
		err := f()
		if err == nil || ctx.Err() != nil || s.ctx.Err() != nil || !passing(err) {
			return s.known(err)
		}
		pause := pauseOf(n)
		if time.Since(begin)+pause > s.cfg.RetryTimeout {
			return s.known(err)
		}
		s.cfg.Logger.Debug("pulsar: try again", "attempt", n, "pause", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func pauseOf(n int) time.Duration {
	const first, most = 20 * time.Millisecond, time.Second
	pause := min(first<<min(n, 10), most)
	return pause/2 + rand.N(pause/2+1)
}

// news wakes all that wait for something to come.
type news struct {
	mu sync.Mutex
	ch chan struct{}
}

func (n *news) channel() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
