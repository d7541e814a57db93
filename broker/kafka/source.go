package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Source reads topics of an external Kafka. Make one with Open.
type Source struct {
	cfg    Config
	cl     *kgo.Client // everything but fetches
	meta   metadata
	fetch  pool
	byName pool // fetches without topic ids, for clusters that have none
	turn   rotation

	ctx  context.Context // ends with Close
	stop context.CancelFunc
}

var _ broker.Source = (*Source)(nil)

// Open connects to a Kafka. It fails when no broker answers.
func Open(ctx context.Context, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	cl, err := cfg.newClient(life)
	if err != nil {
		stop()
		return nil, err
	}
	if err := cl.Ping(ctx); err != nil {
		stop()
		cl.Close()
		return nil, connectError(cfg.Brokers, err)
	}
	s := &Source{cfg: cfg, cl: cl, ctx: life, stop: stop}
	s.meta.init()
	s.fetch.init(cfg.FetchClients, func() (*kgo.Client, error) { return cfg.newClient(life) })
	s.byName.init(cfg.FetchClients, func() (*kgo.Client, error) { return cfg.newClient(life, withoutTopicIDs()) })
	return s, nil
}

// Close ends all calls under way, which return broker.ErrClosed, and the connections.
func (s *Source) Close() error {
	s.stop()
	s.cl.Close()
	s.fetch.close()
	s.byName.close()
	return nil
}

// Hold returns broker.ErrNoHold: Kafka's retention cannot be told to wait. Watch the lag instead.
func (s *Source) Hold(context.Context, record.TopicPartition, record.Offset) error {
	if s.ctx.Err() != nil {
		return broker.ErrClosed
	}
	return broker.ErrNoHold
}

// Partitions gives the partition numbers of a topic, ascending, as the cluster has them now.
func (s *Source) Partitions(ctx context.Context, topic string) ([]int32, error) {
	t, err := s.freshTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	return t.partitions(), nil
}

// TopicID gives the id that the cluster has for a topic now. A topic that is deleted and made again gets
// another one. All zero when the cluster has no topic ids (before Kafka 2.8).
func (s *Source) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	t, err := s.freshTopic(ctx, topic)
	var again *RecreatedError
	if errors.As(err, &again) {
		return again.Is, nil
	}
	if err != nil {
		return [16]byte{}, err
	}
	return t.id, nil
}

// Rebind accepts that a topic was made again: after it, calls read the topic that now has the name.
func (s *Source) Rebind(topic string) { s.meta.forget(topic) }

// freshTopic asks the cluster, again while the answer may change by waiting.
func (s *Source) freshTopic(ctx context.Context, topic string) (*topicMeta, error) {
	r := s.newRetry()
	for {
		err := s.refresh(ctx, topic)
		if err == nil {
			t := s.meta.get(topic)
			if err = t.err; err == nil {
				return t, nil
			}
		}
		if err := r.again(ctx, err); err != nil {
			return nil, s.closedOr(err)
		}
	}
}

// closedOr turns the many errors of a closed client into the one that callers know.
func (s *Source) closedOr(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return broker.ErrClosed
	}
	return err
}

// joined ends with ctx or with Close, whichever is first.
func (s *Source) joined(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { unhook(); cancel() }
}

// retry is the state of one call's attempts.
type retry struct {
	s     *Source
	begin time.Time
	n     int
}

func (s *Source) newRetry() *retry { return &retry{s: s, begin: time.Now()} }

// again waits before the next attempt. It returns err when that cannot pass or has had its time.
func (r *retry) again(ctx context.Context, err error) error {
	var t *transientError
	if !errors.As(err, &t) {
		return err
	}
	budget := r.s.cfg.RetryTimeout
	if t.grace > 0 {
		budget = min(budget, t.grace)
	}
	const first, most = 20 * time.Millisecond, time.Second
	pause := min(first<<min(r.n, 10), most)
	pause = pause/2 + rand.N(pause/2+1)
	if time.Since(r.begin)+pause > budget {
		return t.err
	}
	r.n++
	r.s.cfg.Logger.Debug("kafka: try again", "attempt", r.n, "pause", pause, "error", t.err)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.s.ctx.Done():
		return broker.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w (last: %w)", ctx.Err(), t.err)
	}
}

// Topics gives the names of all topics that the cluster shows us, sorted.
func (s *Source) Topics(ctx context.Context) ([]string, error) {
	r := s.newRetry()
	for {
		names, err := s.listTopics(ctx)
		if err == nil {
			return names, nil
		}
		if err := r.again(ctx, err); err != nil {
			return nil, s.closedOr(err)
		}
	}
}

func (s *Source) listTopics(ctx context.Context) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest() // no topics named: all
	req.AllowAutoTopicCreation = false
	kresp, err := s.cl.Request(ctx, req)
	if err != nil {
		return nil, fromRequest(ctx, fmt.Errorf("list topics: %w", err))
	}
	resp, ok := kresp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, fmt.Errorf("list topics: answer of type %T", kresp)
	}
	var names []string
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil && t.ErrorCode == 0 {
			names = append(names, *t.Topic)
		}
	}
	slices.Sort(names)
	return names, nil
}
