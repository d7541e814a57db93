package wire

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

// gatewayListOffsets asks the cluster, and answers from the lake what lies before its log: the earliest offset, and the
// first one at or after a time. These have no leader epoch, since the cluster forgets the epochs of what it dropped.
func (s *Server) gatewayListOffsets(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	if err := r.up.ready(r.ctx); err != nil {
		return nil, err
	}
	req.ReplicaID = -1 // nobody is a follower here
	began := time.Now()
	mem, err := r.up.ask(r.ctx, req, resp, r.clientID)
	if err != nil {
		return nil, err
	}
	r.done = mem.release
	asked := map[sessionKey]int64{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked[sessionKey{topic: t.Topic, partition: p.Partition}] = p.Timestamp
		}
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k := sessionKey{topic: t.Topic, partition: p.Partition}
			at, ok := asked[k]
			if !ok || p.ErrorCode != codeNone || at != offsetEarliest && at < 0 {
				continue
			}
			if err := r.up.offsetInLake(r.ctx, k, at, p, began); errors.Is(err, errHistory) {
				s.lg.Error("list offsets from history", "topic", t.Topic, "partition", p.Partition, "err", err)
				p.ErrorCode = codeOf(err) // a later offset would hide what the lake has (I4)
			} else if err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}

// offsetInLake replaces what the cluster said of a partition where the lake has an earlier offset.
func (u *upstreamConn) offsetInLake(ctx context.Context, k sessionKey, at int64, p *kmsg.ListOffsetsResponseTopicPartition, began time.Time) error {
	j, err := u.seam(ctx, k, began)
	if err != nil {
		return err
	}
	if j.code != codeNone {
		p.ErrorCode = j.code
		return nil
	}
	if j.start() >= j.bounds.Start { // nothing before the log, or not all of it
		return nil
	}
	if at == offsetEarliest {
		if first := int64(j.start()); first < p.Offset {
			p.Offset, p.LeaderEpoch = first, -1
		}
		return nil
	}
	tp := record.TopicPartition{Topic: j.topic, Partition: k.partition}
	o, ok, err := u.g.up.Lake.OffsetForTime(ctx, tp, at)
	if err != nil || !ok || !j.holds(o) {
		return wrapHistory(err)
	}
	raw, _, err := u.g.up.Lake.Fetch(ctx, tp, o, 1)
	if err != nil {
		return wrapHistory(err)
	}
	first, ms, err := u.g.s.firstAtTime(ctx, raw, o, at)
	if err != nil || first < 0 {
		return wrapHistory(err)
	}
	p.Offset, p.Timestamp, p.LeaderEpoch = int64(first), ms, -1
	return nil
}

func wrapHistory(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(errHistory, err)
}
