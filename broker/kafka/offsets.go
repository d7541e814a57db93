package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Timestamps that ListOffsets takes for the ends of a log.
const (
	latest   = -1
	earliest = -2
)

// Bounds asks the partition's leader. The three marks are read one beside the other, so that a busy partition
// may have moved between them; they are given in order all the same.
func (s *Source) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	var b broker.Bounds
	g, gctx := errgroup.WithContext(ctx)
	ask := func(dst *record.Offset, at int64, iso broker.Isolation) {
		g.Go(func() (err error) {
			*dst, err = s.listOffset(gctx, tp, at, iso)
			return err
		})
	}
	ask(&b.Start, earliest, broker.ReadUncommitted)
	ask(&b.Stable, latest, broker.ReadCommitted)
	ask(&b.End, latest, broker.ReadUncommitted)
	if err := g.Wait(); err != nil {
		return broker.Bounds{}, s.closedOr(fmt.Errorf("bounds of %s: %w", tp, err))
	}
	b.Stable = max(b.Stable, b.Start)
	b.End = max(b.End, b.Stable)
	return b, nil
}

// OffsetForTime gives the first offset whose timestamp is at or after ms; the end when there is none.
func (s *Source) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	if ms < 0 { // negative times have other meanings on the wire, and every record is at or after them
		ms = earliest
	}
	o, err := s.listOffset(ctx, tp, ms, broker.ReadUncommitted)
	if err == nil && o < 0 {
		o, err = s.listOffset(ctx, tp, latest, broker.ReadUncommitted)
	}
	if err != nil {
		return 0, s.closedOr(fmt.Errorf("offset of %s for a time: %w", tp, err))
	}
	return o, nil
}

// listOffset does one lookup, with retries. -1 when no record is that young.
func (s *Source) listOffset(ctx context.Context, tp record.TopicPartition, at int64, iso broker.Isolation) (record.Offset, error) {
	r := s.newRetry()
	for {
		o, err := s.tryListOffset(ctx, tp, at, iso, r.n > 0)
		if err == nil {
			return o, nil
		}
		if err := r.again(ctx, err); err != nil {
			return 0, err
		}
	}
}

func (s *Source) tryListOffset(ctx context.Context, tp record.TopicPartition, at int64, iso broker.Isolation, fresh bool) (record.Offset, error) {
	leader, err := s.findLeader(ctx, tp, fresh)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = int8(iso)
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = tp.Partition, at
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = tp.Topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)

	kresp, err := s.cl.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return 0, fromRequest(ctx, fmt.Errorf("list offsets: %w", err))
	}
	resp, ok := kresp.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("list offsets: the answer of broker %d does not fit the question", leader)
	}
	got := &resp.Topics[0].Partitions[0]
	if err := fromCode(got.ErrorCode); err != nil {
		return 0, fmt.Errorf("list offsets: %w", err)
	}
	return record.Offset(got.Offset), nil
}

// findLeader gives the leader from the cache, or from the cluster when the cache has none.
func (s *Source) findLeader(ctx context.Context, tp record.TopicPartition, fresh bool) (int32, error) {
	if err := s.learn(ctx, []string{tp.Topic}, fresh); err != nil {
		return -1, err
	}
	l, _, err := s.leader(tp)
	if err != nil && !fresh { // perhaps a partition that was added since
		if err := s.refresh(ctx, tp.Topic); err != nil {
			return -1, err
		}
		l, _, err = s.leader(tp)
	}
	return l, err
}
