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

// assignorSimple is what assigns partitions to members of share groups, by Kafka's name for it.
const assignorSimple = "simple"

// ShareGroupDescribe, key 77, version 1.
//
// Share groups only; any other is GROUP_ID_NOT_FOUND. A group that reads topics which the client may not describe is kept to
// itself, as Kafka does.
func apiShareGroupDescribe() api {
	return api{key: 77, name: "ShareGroupDescribe", min: 1, max: 1, handle: (*Server).shareGroupDescribe}
}

func (s *Server) shareGroupDescribe(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ShareGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ShareGroupDescribeResponse)
	all, lookErr := s.topics.all(r.ctx)
	for _, name := range req.GroupIDs {
		g := kmsg.NewShareGroupDescribeResponseGroup()
		err := s.allowedGroup(r, acl.Describe, name)
		code := codeOf(err)
		if err == nil && lookErr != nil {
			code, err = codeCoordinatorNotAvailable, lookErr
		}
		if err == nil {
			if err := s.charge(r, s.groups.describedBytes(name)); err != nil {
				return nil, err
			}
			code, err = s.groups.describeShares(name, all, &g)
		}
		if err == nil {
			if denied := s.deniedShareTopic(r, &g); denied != nil {
				g = kmsg.NewShareGroupDescribeResponseGroup()
				code, err = codeOf(denied), errors.New("the group reads topics that the client may not describe")
			} else if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = s.operations(r, acl.Group, name)
			}
		}
		g.GroupID, g.ErrorCode, g.ErrorMessage = name, code, msgOf(err)
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func (c *coordinator) describeShares(name string, all map[string]broker.TopicInfo, out *kmsg.ShareGroupDescribeResponseGroup) (int16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isShare(name) {
		return codeGroupIDNotFound, fmt.Errorf("there is no share group %q", name)
	}
	out.GroupState, out.Assignor = string(stateEmpty), assignorSimple
	g := c.shares[name]
	if g == nil {
		return codeNone, nil
	}
	out.GroupState, out.GroupEpoch, out.AssignmentEpoch = string(stateStable), g.epoch, g.epoch
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		om := kmsg.NewShareGroupDescribeResponseGroupMember()
		om.MemberID, om.MemberEpoch, om.ClientID, om.ClientHost = m.id, m.epoch, m.clientID, m.host
		if m.rack != "" {
			om.RackID = &m.rack
		}
		om.SubscribedTopicNames = slices.Clone(m.names)
		eachTopic(m.has, all, func(topic string, in broker.TopicInfo, partitions []int32) {
			t := kmsg.NewShareGroupDescribeResponseGroupMemberAssignmentTopicPartition()
			t.Topic, t.TopicID, t.Partitions = topic, in.ID, partitions
			om.Assignment.TopicPartitions = append(om.Assignment.TopicPartitions, t)
		})
		out.Members = append(out.Members, om)
	}
	return codeNone, nil
}

// deniedShareTopic says that a group reads a topic that the client may not describe.
func (s *Server) deniedShareTopic(r *request, g *kmsg.ShareGroupDescribeResponseGroup) error {
	for _, m := range g.Members {
		for _, t := range m.SubscribedTopicNames {
			if err := s.allowedTopic(r, acl.Describe, t); err != nil {
				return err
			}
		}
	}
	return nil
}
