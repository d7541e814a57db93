package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// OffsetDelete, key 47, version 0.
//
// Removes single positions of a group. A topic that a member subscribes to is GROUP_SUBSCRIBED_TO_TOPIC; a group
// with members of another kind than consumers is NON_EMPTY_GROUP.
func apiOffsetDelete() api {
	return api{key: 47, name: "OffsetDelete", min: 0, max: 0, handle: (*Server).offsetDelete}
}

func (s *Server) offsetDelete(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if err := s.allowedGroup(r, acl.Delete, req.Group); err != nil {
		resp.ErrorCode = codeOf(err)
		return resp, nil
	}
	subscribed, code := s.groups.subscribed(req.Group)
	if code != codeNone {
		resp.ErrorCode = code
		return resp, nil
	}
	pos := map[record.TopicPartition]*committed{}
	for _, rt := range req.Topics {
		ot := kmsg.NewOffsetDeleteResponseTopic()
		ot.Topic = rt.Topic
		denied := s.allowedTopic(r, acl.Read, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewOffsetDeleteResponseTopicPartition()
			op.Partition = rp.Partition
			switch {
			case denied != nil:
				op.ErrorCode = codeOf(denied)
			case subscribed[rt.Topic]:
				op.ErrorCode = codeGroupSubscribed
			default:
				pos[record.TopicPartition{Topic: rt.Topic, Partition: rp.Partition}] = nil
			}
			ot.Partitions = append(ot.Partitions, op)
		}
		resp.Topics = append(resp.Topics, ot)
	}
	if err := s.offsets.commit(s.hardCtx, req.Group, pos); err != nil {
		s.lg.Error("delete positions", "group", req.Group, "err", err)
		resp.ErrorCode, resp.Topics = codeCoordinatorNotAvailable, nil
	}
	return resp, nil
}

// subscribed gives the topics that the members of a group read, of those that can be told.
func (c *coordinator) subscribed(name string) (map[string]bool, int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cg := c.consumers[name]; cg != nil {
		out := map[string]bool{}
		for t := range cg.topics {
			out[t] = true
		}
		return out, codeNone
	}
	g := c.groups[name]
	switch {
	case name == "":
		return nil, codeInvalidGroupID
	case g == nil && !c.offsets.has(name):
		return nil, codeGroupIDNotFound
	case g == nil || len(g.members) == 0:
		return nil, codeNone
	case g.protocolType != "consumer":
		return nil, codeNonEmptyGroup
	}
	out := map[string]bool{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			var meta kmsg.ConsumerMemberMetadata
			if err := meta.ReadFrom(slices.Clone(p.metadata)); err != nil {
				return nil, codeNonEmptyGroup // nobody can say what it reads
			}
			for _, t := range meta.Topics {
				out[t] = true
			}
		}
	}
	return out, codeNone
}
