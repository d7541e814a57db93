package wire

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// OffsetFetch, key 9, versions 1 to 10 (many groups from 8, topic ids from 10).
//
// A partition without a position has offset -1 and no error. No topics (null, from version 2 on) means all
// that the group has. With RequireStable a partition whose position an open transaction is about to
// change is UNSTABLE_OFFSET_COMMIT (KIP-447).
func apiOffsetFetch() api {
	return api{key: 9, name: "OffsetFetch", min: 1, max: 10, handle: (*Server).offsetFetch}
}

func (s *Server) offsetFetch(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if r.version < 8 {
		resp.Topics = s.offsetFetchOld(req)
		return resp, nil
	}
	for _, rg := range req.Groups {
		og := kmsg.NewOffsetFetchResponseGroup()
		og.Group = rg.Group
		if og.ErrorCode = s.groups.mayFetch(rg.Group, deref(rg.MemberID), rg.MemberEpoch); og.ErrorCode != codeNone {
			resp.Groups = append(resp.Groups, og)
			continue
		}
		if rg.Topics == nil {
			var err error
			if og.Topics, err = s.allPositions(r, rg.Group, req.RequireStable); err != nil {
				og.ErrorCode = coordinatorCode(err)
			}
		}
		for _, rt := range rg.Topics {
			ot := kmsg.NewOffsetFetchResponseGroupTopic()
			ot.Topic, ot.TopicID = rt.Topic, rt.TopicID
			name, err := s.resolve(r.ctx, rt.Topic, rt.TopicID, r.version >= 10)
			if err != nil && !errors.Is(err, errUnknownTopicID) {
				og.ErrorCode = coordinatorCode(err) // that of the group, which clients retry
			}
			for _, p := range rt.Partitions {
				op := s.position(rg.Group, record.TopicPartition{Topic: name, Partition: p}, req.RequireStable)
				if err != nil {
					op.ErrorCode = coordinatorCode(err)
				}
				ot.Partitions = append(ot.Partitions, op)
			}
			og.Topics = append(og.Topics, ot)
		}
		resp.Groups = append(resp.Groups, og)
	}
	return resp, nil
}

// mayFetch refuses a member of the newer protocol that is not in its present epoch.
func (c *coordinator) mayFetch(group, id string, epoch int32) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	cg := c.consumers[group]
	if cg == nil || id == "" && epoch < 0 {
		return codeNone
	}
	return cg.check(id, epoch)
}

func (s *Server) position(group string, tp record.TopicPartition, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	op := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	op.Partition, op.Offset, op.LeaderEpoch, op.Metadata = tp.Partition, -1, -1, new(string)
	if stable && s.txns != nil && s.txns.unstable(group, tp) {
		op.ErrorCode = codeUnstableOffsetCommit
		return op
	}
	if c, ok := s.offsets.get(group, tp); ok {
		op.Offset, op.LeaderEpoch, op.Metadata = c.offset, c.epoch, &c.metadata
	}
	return op
}

func (s *Server) allPositions(r *request, group string, stable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	var out []kmsg.OffsetFetchResponseGroupTopic
	tps := slices.SortedFunc(maps.Keys(s.offsets.of(group)), func(a, b record.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	last := ""
	for _, tp := range tps {
		if len(out) == 0 || last != tp.Topic {
			ot := kmsg.NewOffsetFetchResponseGroupTopic()
			ot.Topic = tp.Topic
			if r.version >= 10 {
				in, err := s.topics.get(r.ctx, tp.Topic)
				if errors.Is(err, broker.ErrUnknownTopic) {
					continue // deleted meanwhile: there is no id to name it by
				}
				if err != nil {
					return nil, err
				}
				ot.TopicID = in.ID
			}
			out, last = append(out, ot), tp.Topic
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, s.position(group, tp, stable))
	}
	return out, nil
}

func (s *Server) offsetFetchOld(req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchResponseTopic {
	asked := req.Topics
	if asked == nil {
		by := map[string][]int32{}
		for tp := range s.offsets.of(req.Group) {
			by[tp.Topic] = append(by[tp.Topic], tp.Partition)
		}
		for _, name := range slices.Sorted(maps.Keys(by)) {
			asked = append(asked, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: by[name]})
		}
	}
	out := make([]kmsg.OffsetFetchResponseTopic, 0, len(asked))
	for _, rt := range asked {
		ot := kmsg.NewOffsetFetchResponseTopic()
		ot.Topic = rt.Topic
		for _, p := range rt.Partitions {
			c := s.position(req.Group, record.TopicPartition{Topic: rt.Topic, Partition: p}, req.RequireStable)
			op := kmsg.NewOffsetFetchResponseTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch, op.Metadata = c.Partition, c.Offset, c.LeaderEpoch, c.Metadata
			op.ErrorCode = c.ErrorCode
			ot.Partitions = append(ot.Partitions, op)
		}
		out = append(out, ot)
	}
	return out
}
