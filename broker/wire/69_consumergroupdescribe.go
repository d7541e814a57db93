package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ConsumerGroupDescribe, key 69, versions 0 to 1.
//
// Groups of the newer protocol only; a classic one is GROUP_ID_NOT_FOUND, as in Kafka.
func apiConsumerGroupDescribe() api {
	return api{key: 69, name: "ConsumerGroupDescribe", min: 0, max: 1, handle: (*Server).consumerGroupDescribe}
}

func (s *Server) consumerGroupDescribe(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	all, err := s.topics.all(r.ctx)
	for _, name := range req.Groups {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		if denied := s.allowedGroup(r, acl.Describe, name); denied != nil {
			g.ErrorCode, g.ErrorMessage = codeOf(denied), msgOf(denied)
		} else if err == nil {
			if err := s.charge(r, s.groups.describedBytes(name)); err != nil {
				return nil, err
			}
			g = s.describeAllowed(r, s.groups.describeConsumers(name, all))
			if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = s.operations(r, acl.Group, name)
			}
		} else {
			g.ErrorCode, g.ErrorMessage = codeCoordinatorNotAvailable, msgOf(err)
		}
		g.Group = name
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func (c *coordinator) describeConsumers(name string, all map[string]broker.TopicInfo) kmsg.ConsumerGroupDescribeResponseGroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	g := c.consumers[name]
	if g == nil {
		out.ErrorCode, out.ErrorMessage = codeGroupIDNotFound, msgOf(fmt.Errorf("there is no consumer group %q", name))
		return out
	}
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = string(g.state()), g.epoch, g.assigned, g.assignor
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		om := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		om.MemberID, om.MemberEpoch, om.ClientID, om.ClientHost = m.id, m.epoch, m.clientID, m.host
		if m.instance != "" {
			om.InstanceID = &m.instance
		}
		if m.rack != "" {
			om.RackID = &m.rack
		}
		om.SubscribedTopics = slices.Clone(m.names)
		if m.pattern != nil {
			om.SubscribedTopicRegex = &m.pattern.text
		}
		om.MemberType = 1 // of the newer protocol
		om.Assignment, om.TargetAssignment = describeSet(m.has, all), describeSet(m.target, all)
		out.Members = append(out.Members, om)
	}
	return out
}

func describeSet(set partitionSet, all map[string]broker.TopicInfo) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, tp := range slices.SortedFunc(maps.Keys(set), comparePartitions) {
		if n := len(out.TopicPartitions); n == 0 || out.TopicPartitions[n-1].Topic != tp.Topic {
			t := kmsg.NewAssignmentTopicPartition()
			t.Topic, t.TopicID = tp.Topic, all[tp.Topic].ID
			out.TopicPartitions = append(out.TopicPartitions, t)
		}
		last := &out.TopicPartitions[len(out.TopicPartitions)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return out
}

// describeAllowed keeps a group whose members read topics that the client may not know to itself, as Kafka does.
func (s *Server) describeAllowed(r *request, g kmsg.ConsumerGroupDescribeResponseGroup) kmsg.ConsumerGroupDescribeResponseGroup {
	if s.access == nil {
		return g
	}
	topics := map[string]bool{}
	for _, m := range g.Members {
		for _, t := range m.SubscribedTopics {
			topics[t] = true
		}
		for _, a := range []kmsg.Assignment{m.Assignment, m.TargetAssignment} {
			for _, tp := range a.TopicPartitions {
				topics[tp.Topic] = true
			}
		}
	}
	for t := range topics {
		if err := s.allowedTopic(r, acl.Describe, t); err != nil {
			out := kmsg.NewConsumerGroupDescribeResponseGroup()
			out.ErrorCode, out.ErrorMessage = codeOf(err), msgOf(errors.New("the group reads topics that the client may not describe"))
			return out
		}
	}
	return g
}
