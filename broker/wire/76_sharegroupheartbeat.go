package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// ShareGroupHeartbeat, key 76, version 1.
//
// Members of a share group (KIP-932): epoch 0 joins, -1 leaves. A name that groups of other kinds use, or have positions
// under, is GROUP_ID_NOT_FOUND.
func apiShareGroupHeartbeat() api {
	return api{key: 76, name: "ShareGroupHeartbeat", min: 1, max: 1, handle: (*Server).shareGroupHeartbeat}
}

func (s *Server) shareGroupHeartbeat(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ShareGroupHeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	code, err := s.checkShareHeartbeat(r, req)
	if err == nil {
		all, lookErr := s.topics.all(r.ctx)
		if lookErr != nil {
			code, err = codeCoordinatorNotAvailable, lookErr
		} else {
			code, err = s.groups.shareHeartbeat(r, req, all, resp)
		}
	}
	resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
	return resp, nil
}

// checkShareHeartbeat checks what can be checked without the group.
func (s *Server) checkShareHeartbeat(r *request, req *kmsg.ShareGroupHeartbeatRequest) (int16, error) {
	if err := s.allowedGroup(r, acl.Read, req.GroupID); err != nil {
		return codeOf(err), err
	}
	slices.Sort(req.SubscribedTopicNames) // here, and not under the lock of all groups
	for _, t := range req.SubscribedTopicNames {
		if err := s.allowedTopic(r, acl.Describe, t); err != nil {
			return codeOf(err), err
		}
	}
	switch {
	case req.GroupID == "":
		return codeInvalidRequest, errors.New("the group has no name")
	case req.MemberID == "" || len(req.MemberID) > maxMemberID:
		return codeInvalidRequest, errors.New("the id of a member has 1 to 36 characters")
	case req.MemberEpoch < epochLeave:
		return codeInvalidRequest, fmt.Errorf("member epoch %d", req.MemberEpoch)
	case req.MemberEpoch == epochJoin && len(req.SubscribedTopicNames) == 0:
		return codeInvalidRequest, errors.New("a joining member subscribes to something")
	}
	return codeNone, nil
}

func (c *coordinator) shareHeartbeat(r *request, req *kmsg.ShareGroupHeartbeatRequest, all map[string]broker.TopicInfo, resp *kmsg.ShareGroupHeartbeatResponse) (int16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return codeCoordinatorNotAvailable, errors.New("the server closes")
	case c.notShare(req.GroupID):
		return codeGroupIDNotFound, errors.New("the group is not a share group")
	}
	if old := c.groups[req.GroupID]; old != nil {
		c.drop(old) // without members or positions
	}
	g := c.shares[req.GroupID]
	if g == nil {
		if req.MemberEpoch != epochJoin {
			return codeUnknownMemberID, errors.New("the group has no such member")
		}
		if g = c.newShareGroup(req.GroupID); g == nil {
			return codeCoordinatorNotAvailable, errNoMemory
		}
		defer c.reapShares(g)
	}
	m := g.members[req.MemberID]
	if code, err := g.mayBeat(m, req.MemberEpoch); err != nil {
		return code, err
	}
	resp.MemberID = &req.MemberID
	if req.MemberEpoch == epochLeave {
		resp.MemberEpoch = epochLeave
		g.remove(m)
		return codeNone, nil
	}
	m, changed := g.hear(m, r, req)
	if m == nil {
		return codeCoordinatorNotAvailable, errNoMemory
	}
	g.refresh(all, changed)
	g.arm(m)
	moved := m.epoch != g.epoch
	if moved {
		m.last, m.epoch = m.epoch, g.epoch
	}
	resp.MemberEpoch = m.epoch
	resp.HeartbeatIntervalMillis = int32(c.tuned.of(g.name).shareHeartbeat(c.cfg).Milliseconds())
	if moved || req.SubscribedTopicNames != nil || req.MemberEpoch < m.epoch {
		resp.Assignment = shareAssignment(m.has, all)
	}
	return codeNone, nil
}

// mayBeat says whether a heartbeat may come from a member, nil when there is none.
func (g *shareGroup) mayBeat(m *shareMember, epoch int32) (int16, error) {
	switch {
	case m == nil && epoch == epochJoin && len(g.members) >= maxGroupMembers:
		return codeGroupMaxSize, fmt.Errorf("the group has %d members already", maxGroupMembers)
	case m == nil && epoch != epochJoin:
		return codeUnknownMemberID, errors.New("the group has no such member")
	case epoch > 0 && epoch != m.epoch && epoch != m.last:
		return codeFencedMemberEpoch, fmt.Errorf("member epoch %d: it is %d", epoch, m.epoch)
	}
	return codeNone, nil
}

// hear takes what a member says of itself, and makes it when it is new; changed when the partitions are to be shared anew. It
// gives nil when there is no memory for it.
func (g *shareGroup) hear(was *shareMember, r *request, req *kmsg.ShareGroupHeartbeatRequest) (m *shareMember, changed bool) {
	next := shareMember{id: req.MemberID, has: partitionSet{}, last: -1}
	if was != nil {
		next = *was
	}
	next.clientID, next.host = r.clientID, "/"+r.host
	if req.RackID != nil {
		next.rack = *req.RackID
	}
	if req.SubscribedTopicNames != nil {
		next.names = slices.Compact(slices.Sorted(slices.Values(req.SubscribedTopicNames)))
	}
	weight := next.cost()
	if !g.c.kept.take(weight) {
		return nil, false
	}
	g.c.kept.add(-next.weight)
	next.weight = weight
	if was == nil {
		m = &next
		g.members[m.id] = m
		return m, true
	}
	changed = !slices.Equal(was.names, next.names)
	*was = next
	return was, changed
}

func shareAssignment(has partitionSet, all map[string]broker.TopicInfo) *kmsg.ShareGroupHeartbeatResponseAssignment {
	out := kmsg.NewShareGroupHeartbeatResponseAssignment()
	out.TopicPartitions = []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{}
	eachTopic(has, all, func(_ string, in broker.TopicInfo, partitions []int32) {
		t := kmsg.NewShareGroupHeartbeatResponseAssignmentTopicPartition()
		t.TopicID, t.Partitions = in.ID, partitions
		out.TopicPartitions = append(out.TopicPartitions, t)
	})
	return &out
}

// eachTopic gives the partitions of a set, topic by topic, of those topics that there are.
func eachTopic(set partitionSet, all map[string]broker.TopicInfo, each func(name string, in broker.TopicInfo, partitions []int32)) {
	by := map[string][]int32{}
	var names []string
	for tp := range set {
		if by[tp.Topic] == nil {
			names = append(names, tp.Topic)
		}
		by[tp.Topic] = append(by[tp.Topic], tp.Partition)
	}
	slices.Sort(names)
	for _, name := range names {
		if in, ok := all[name]; ok {
			slices.Sort(by[name])
			each(name, in, by[name])
		}
	}
}
