package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// GroupConfig says what group to join and whom to tell.
type GroupConfig struct {
	Config
	Group      string
	Topics     []string
	InstanceID string // static membership; empty for none
	// SessionTimeout is how long the group waits for a member that died before others get its partitions; default 45 s.
	SessionTimeout time.Duration

	// The callbacks are called one at a time, with partitions ascending. A rebalance waits for OnRevoked, which
	// must finish within the group's rebalance timeout: flush, commit, return. OnLost is for partitions that
	// another member may own already. OnAssigned and OnRevoked are required; without OnLost, OnRevoked is called.
	OnAssigned func(ctx context.Context, topic string, partitions []int32)
	OnRevoked  func(ctx context.Context, topic string, partitions []int32)
	OnLost     func(ctx context.Context, topic string, partitions []int32)
	// OnError hears of faults of the group, such as a missing permission; the member goes on trying.
	OnError func(error)
}

// Group is a member of a consumer group that is told which partitions are its own and fetches none of them.
type Group struct {
	cl   *kgo.Client
	log  *slog.Logger
	cfg  GroupConfig
	stop context.CancelFunc
	done sync.WaitGroup
}

// JoinGroup joins in the background; the first OnAssigned says that it has happened.
func JoinGroup(ctx context.Context, cfg GroupConfig) (*Group, error) {
	cfg.Config = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	switch {
	case cfg.Group == "" || len(cfg.Topics) == 0:
		return nil, errors.New("kafka: a group needs a name and topics")
	case cfg.OnAssigned == nil || cfg.OnRevoked == nil:
		return nil, errors.New("kafka: a group needs OnAssigned and OnRevoked")
	}
	if cfg.OnLost == nil {
		cfg.OnLost = cfg.OnRevoked
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	opts := []kgo.Opt{
		kgo.ConsumerGroup(cfg.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(each(cfg.OnAssigned)),
		kgo.OnPartitionsRevoked(each(cfg.OnRevoked)),
		kgo.OnPartitionsLost(each(cfg.OnLost)),
	}
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	if cfg.SessionTimeout != 0 {
		opts = append(opts, kgo.SessionTimeout(cfg.SessionTimeout), kgo.HeartbeatInterval(cfg.SessionTimeout/10))
	}
	cl, err := cfg.newClient(life, opts...)
	if err != nil {
		stop()
		return nil, err
	}
	g := &Group{cl: cl, log: cfg.Logger, cfg: cfg, stop: stop}
	// Paused before they are known: not a byte is fetched.
	cl.PauseFetchTopics(cfg.Topics...)
	cl.AddConsumeTopics(cfg.Topics...)
	g.done.Go(func() { g.watch(life) })
	return g, nil
}

// each turns a callback over all topics into calls topic by topic.
func each(f func(context.Context, string, []int32)) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
		topics := make([]string, 0, len(parts))
		for t := range parts {
			topics = append(topics, t)
		}
		slices.Sort(topics)
		for _, t := range topics {
			if p := slices.Sorted(slices.Values(parts[t])); len(p) > 0 {
				f(ctx, t, p)
			}
		}
	}
}

// watch polls, which with all topics paused gives nothing but errors.
func (g *Group) watch(ctx context.Context) {
	for {
		fetches := g.cl.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			err = fmt.Errorf("group %s, %s-%d: %w", g.cfg.Group, topic, partition, err)
			g.log.Warn("kafka: group", "error", err)
			if g.cfg.OnError != nil {
				g.cfg.OnError(err)
			}
		})
	}
}

// Commit writes offsets, the first not yet decided of each partition, for those who watch the group's lag.
// Nothing is ever read back from them.
func (g *Group) Commit(ctx context.Context, offsets map[record.TopicPartition]record.Offset) error {
	if len(offsets) == 0 {
		return nil
	}
	req := make(map[string]map[int32]kgo.EpochOffset)
	for tp, o := range offsets {
		if req[tp.Topic] == nil {
			req[tp.Topic] = make(map[int32]kgo.EpochOffset)
		}
		req[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: int64(o)}
	}
	var err error
	g.cl.CommitOffsetsSync(ctx, req, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, e error) {
		if err = e; err != nil {
			return
		}
		for i := range resp.Topics {
			for _, p := range resp.Topics[i].Partitions {
				if e := kerr.ErrorForCode(p.ErrorCode); e != nil && err == nil {
					err = fmt.Errorf("%s-%d: %w", resp.Topics[i].Topic, p.Partition, e)
				}
			}
		}
	})
	if errors.Is(err, kgo.ErrClientClosed) {
		return broker.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// Close leaves the group, which calls OnRevoked for what it still owns, and closes the connections. When ctx
// ends first, the group learns of the departure by its session timeout.
func (g *Group) Close(ctx context.Context) error {
	err := g.cl.LeaveGroupContext(ctx)
	g.stop()
	g.cl.Close()
	g.done.Wait()
	if err != nil {
		return fmt.Errorf("leave group %s: %w", g.cfg.Group, err)
	}
	return nil
}
