package wire

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
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
		var err error
		if resp.ErrorCode = coordinatorCode(s.allowedGroup(r, acl.Describe, req.Group)); resp.ErrorCode == codeNone {
			resp.Topics, err = s.offsetFetchOld(r, req)
		} else if r.version < 2 { // there is no code but those of partitions
			resp.Topics, err = s.offsetFetchRefused(r, req, resp.ErrorCode)
		}
		return resp, err
	}
	for _, rg := range req.Groups {
		og := kmsg.NewOffsetFetchResponseGroup()
		og.Group = rg.Group
		if og.ErrorCode = coordinatorCode(s.allowedGroup(r, acl.Describe, rg.Group)); og.ErrorCode == codeNone {
			og.ErrorCode = s.groups.mayFetch(rg.Group, deref(rg.MemberID), rg.MemberEpoch)
		}
		if og.ErrorCode == codeNone {
			if err := s.offsetFetchGroup(r, rg, &og); err != nil {
				return nil, err
			}
		}
		resp.Groups = append(resp.Groups, og)
	}
	return resp, nil
}

// offsetFetchGroup fills the answer for one group. Its error is that of the memory.
func (s *Server) offsetFetchGroup(r *request, rg kmsg.OffsetFetchRequestGroup, og *kmsg.OffsetFetchResponseGroup) (err error) {
	stable := r.body.(*kmsg.OffsetFetchRequest).RequireStable
	if rg.Topics == nil {
		og.Topics, err = s.allPositions(r, rg.Group, stable)
		if err != nil && !errors.Is(err, errAnswerMemory) {
			og.ErrorCode, err = coordinatorCode(err), nil
		}
		return err
	}
	for _, rt := range rg.Topics {
		ot := kmsg.NewOffsetFetchResponseGroupTopic()
		ot.Topic, ot.TopicID = rt.Topic, rt.TopicID
		name, err := s.resolveFor(r.ctx, r, acl.Describe, rt.Topic, rt.TopicID, r.version >= 10)
		var denied *deniedError
		if err != nil && !errors.Is(err, errUnknownTopicID) && !errors.As(err, &denied) {
			og.ErrorCode = coordinatorCode(err) // that of the group, which clients retry
		}
		for _, p := range rt.Partitions {
			op := noPosition(p)
			if op.ErrorCode = coordinatorCode(err); err == nil {
				op = s.position(rg.Group, record.TopicPartition{Topic: name, Partition: p}, stable)
			}
			if err := s.charge(r, positionBytes(op.Metadata)); err != nil {
				return err
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		og.Topics = append(og.Topics, ot)
	}
	return nil
}

func positionBytes(metadata *string) int { return 96 + len(deref(metadata)) }

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

func noPosition(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	op := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	op.Partition, op.Offset, op.LeaderEpoch, op.Metadata = partition, -1, -1, new(string)
	return op
}

func (s *Server) position(group string, tp record.TopicPartition, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	op := noPosition(tp.Partition)
	if stable && s.txns != nil && s.txns.unstable(group, tp) {
		op.ErrorCode = codeUnstableOffsetCommit
		return op
	}
	if c, ok := s.offsets.get(group, tp); ok {
		op.Offset, op.LeaderEpoch, op.Metadata = c.offset, c.epoch, &c.metadata
	}
	return op
}

// allPositions gives what a group has in the topics that the client may describe.
func (s *Server) allPositions(r *request, group string, stable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	var out []kmsg.OffsetFetchResponseGroupTopic
	tps := slices.SortedFunc(maps.Keys(s.offsets.of(group)), func(a, b record.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	last, skip := "", false
	for i, tp := range tps {
		if i == 0 || last != tp.Topic {
			last, skip = tp.Topic, s.allowedTopic(r, acl.Describe, tp.Topic) != nil
			ot := kmsg.NewOffsetFetchResponseGroupTopic()
			ot.Topic = tp.Topic
			if r.version >= 10 && !skip {
				in, err := s.topics.get(r.ctx, tp.Topic)
				if err != nil && !errors.Is(err, broker.ErrUnknownTopic) {
					return nil, err
				}
				skip = err != nil // deleted meanwhile: there is no id to name it by
				ot.TopicID = in.ID
			}
			if !skip {
				out = append(out, ot)
			}
		}
		if skip {
			continue
		}
		op := s.position(group, tp, stable)
		if err := s.charge(r, positionBytes(op.Metadata)); err != nil {
			return nil, err
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, op)
	}
	return out, nil
}

// offsetFetchRefused is an answer with a code at every partition that was asked for.
func (s *Server) offsetFetchRefused(r *request, req *kmsg.OffsetFetchRequest, code int16) ([]kmsg.OffsetFetchResponseTopic, error) {
	out := make([]kmsg.OffsetFetchResponseTopic, 0, len(req.Topics))
	for _, rt := range req.Topics {
		ot := kmsg.NewOffsetFetchResponseTopic()
		ot.Topic = rt.Topic
		for _, p := range rt.Partitions {
			if err := s.charge(r, positionBytes(nil)); err != nil {
				return nil, err
			}
			op := kmsg.NewOffsetFetchResponseTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch, op.Metadata, op.ErrorCode = p, -1, -1, new(string), code
			ot.Partitions = append(ot.Partitions, op)
		}
		out = append(out, ot)
	}
	return out, nil
}

func (s *Server) offsetFetchOld(r *request, req *kmsg.OffsetFetchRequest) ([]kmsg.OffsetFetchResponseTopic, error) {
	asked := req.Topics
	if asked == nil {
		by := map[string][]int32{}
		for tp := range s.offsets.of(req.Group) {
			if len(by[tp.Topic]) > 0 || s.allowedTopic(r, acl.Describe, tp.Topic) == nil {
				by[tp.Topic] = append(by[tp.Topic], tp.Partition)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(by)) {
			asked = append(asked, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: by[name]})
		}
	}
	out := make([]kmsg.OffsetFetchResponseTopic, 0, len(asked))
	for _, rt := range asked {
		ot := kmsg.NewOffsetFetchResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Describe, rt.Topic)
		for _, p := range rt.Partitions {
			c := noPosition(p)
			if c.ErrorCode = coordinatorCode(denied); denied == nil {
				c = s.position(req.Group, record.TopicPartition{Topic: rt.Topic, Partition: p}, req.RequireStable)
			}
			if err := s.charge(r, positionBytes(c.Metadata)); err != nil {
				return nil, err
			}
			op := kmsg.NewOffsetFetchResponseTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch, op.Metadata = c.Partition, c.Offset, c.LeaderEpoch, c.Metadata
			op.ErrorCode = c.ErrorCode
			ot.Partitions = append(ot.Partitions, op)
		}
		out = append(out, ot)
	}
	return out, nil
}
