package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// ConsumerGroupHeartbeat, key 68, versions 0 to 1 (patterns, and ids made by the client, from 1).
//
// The newer group protocol (KIP-848): epoch 0 joins, -1 leaves, -2 leaves for a while (static members). The
// assignors are uniform and range. Patterns are matched against whole topic names. A group without members can
// change its protocol; one with members cannot, since classic and newer members cannot be together here.
func apiConsumerGroupHeartbeat() api {
	return api{key: 68, name: "ConsumerGroupHeartbeat", min: 0, max: 1, handle: (*Server).consumerGroupHeartbeat}
}

// heartbeatRequest is a heartbeat, free of the wire. owned is nil when the member does not say.
type heartbeatRequest struct {
	*kmsg.ConsumerGroupHeartbeatRequest
	version        int16
	clientID, host string
	pattern        *pattern
	owned          partitionSet
	sees           string // who sends it: members of one pattern may match different topics
	maySee         func(topic string) bool
}

func (s *Server) consumerGroupHeartbeat(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ConsumerGroupHeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	hb := heartbeatRequest{ConsumerGroupHeartbeatRequest: req, version: r.version, clientID: r.clientID, host: "/" + r.host}
	if s.access != nil {
		principal, host := r.proof.principal, r.host
		hb.sees = principal + "@" + host
		hb.maySee = func(topic string) bool {
			return s.access.set.Load().Allows(principal, host, acl.Describe, acl.Topic, topic)
		}
	}
	code, err := s.readHeartbeat(r, &hb)
	if err == nil {
		all, lookErr := s.topics.all(r.ctx)
		if lookErr != nil {
			code, err = codeCoordinatorNotAvailable, lookErr
		} else {
			code, err = s.groups.consumerHeartbeat(&hb, all, resp)
		}
	}
	resp.ErrorCode, resp.ErrorMessage = code, msgOf(err)
	if code != codeNone {
		resp.Assignment, resp.MemberEpoch = nil, 0
	}
	return resp, nil
}

// readHeartbeat checks what can be checked without the group.
func (s *Server) readHeartbeat(r *request, hb *heartbeatRequest) (int16, error) {
	if err := s.allowedGroup(r, acl.Read, hb.Group); err != nil {
		return codeOf(err), err
	}
	slices.Sort(hb.SubscribedTopicNames) // here, and not under the lock of all groups
	for _, t := range hb.SubscribedTopicNames {
		if err := s.allowedTopic(r, acl.Describe, t); err != nil {
			return codeOf(err), err
		}
	}
	joins := hb.MemberEpoch == epochJoin
	switch {
	case hb.Group == "":
		return codeInvalidRequest, errors.New("the group has no name")
	case hb.MemberID == "" && (!joins || hb.version >= 1):
		return codeInvalidRequest, errors.New("the member has no id")
	case hb.MemberEpoch < epochLeaveStatic:
		return codeInvalidRequest, fmt.Errorf("member epoch %d", hb.MemberEpoch)
	case hb.MemberEpoch == epochLeaveStatic && deref(hb.InstanceID) == "":
		return codeInvalidRequest, errors.New("only static members leave for a while")
	case joins && hb.RebalanceTimeoutMillis <= 0:
		return codeInvalidRequest, errors.New("a joining member says its rebalance timeout")
	case joins && len(hb.Topics) > 0:
		return codeInvalidRequest, errors.New("a joining member has no partitions")
	case joins && len(hb.SubscribedTopicNames) == 0 && deref(hb.SubscribedTopicRegex) == "":
		return codeInvalidRequest, errors.New("a joining member subscribes to something")
	case hb.ServerAssignor != nil && *hb.ServerAssignor != assignorUniform && *hb.ServerAssignor != assignorRange:
		return codeUnsupportedAssignor, fmt.Errorf("assignor %q: want %s or %s", *hb.ServerAssignor, assignorUniform, assignorRange)
	}
	if p := deref(hb.SubscribedTopicRegex); p != "" {
		var err error
		if hb.pattern, err = compilePattern(p); err != nil {
			return codeInvalidRegex, err
		}
	}
	if hb.Topics != nil || joins {
		hb.owned = partitionSet{}
		for _, t := range hb.Topics {
			name, _, err := s.topics.name(r.ctx, t.TopicID)
			if err != nil {
				return codeCoordinatorNotAvailable, err
			}
			for _, p := range t.Partitions {
				hb.owned[record.TopicPartition{Topic: name, Partition: p}] = true // no name: deleted meanwhile
			}
		}
	}
	return codeNone, nil
}

func (c *coordinator) consumerHeartbeat(hb *heartbeatRequest, all map[string]broker.TopicInfo, resp *kmsg.ConsumerGroupHeartbeatResponse) (int16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return codeCoordinatorNotAvailable, errors.New("the server closes")
	}
	if c.isShare(hb.Group) {
		return codeGroupIDNotFound, errors.New("the group is a share group")
	}
	if old := c.groups[hb.Group]; old != nil {
		if len(old.members) > 0 || len(old.pending) > 0 {
			return codeGroupIDNotFound, errors.New("the group is a classic one and has members")
		}
		c.drop(old)
	}
	g := c.consumers[hb.Group]
	if g == nil {
		if hb.MemberEpoch != epochJoin {
			return codeUnknownMemberID, errors.New("the group has no such member")
		}
		if g = c.newConsumerGroup(hb.Group); g == nil {
			return codeCoordinatorNotAvailable, errNoMemory
		}
		defer c.reapConsumers(g)
	}
	if hb.MemberEpoch < 0 {
		return g.leave(hb, resp)
	}
	m, code, err := g.member(hb)
	if err != nil {
		return code, err
	}
	changed, err := g.subscribe(m, hb)
	if err != nil {
		return codeCoordinatorNotAvailable, err
	}
	g.refresh(all, changed)
	g.retarget()
	moved := g.reconcile(m, hb.owned)
	g.arm(m)
	resp.MemberID, resp.MemberEpoch = &m.id, m.epoch
	resp.HeartbeatIntervalMillis = int32(c.tuned.of(g.name).heartbeat(c.cfg).Milliseconds())
	full := hb.MemberEpoch == epochJoin || hb.owned != nil && hb.RebalanceTimeoutMillis >= 0 && (hb.SubscribedTopicNames != nil || hb.SubscribedTopicRegex != nil)
	if moved || full || hb.MemberEpoch < m.epoch {
		resp.Assignment = assignmentOf(m.has, all)
	}
	return codeNone, nil
}

func assignmentOf(has partitionSet, all map[string]broker.TopicInfo) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	by := map[string]*kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	out.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	for tp := range has {
		in, ok := all[tp.Topic]
		if !ok {
			continue // deleted meanwhile
		}
		if by[tp.Topic] == nil {
			t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			t.TopicID = in.ID
			by[tp.Topic] = &t
		}
		by[tp.Topic].Partitions = append(by[tp.Topic].Partitions, tp.Partition)
	}
	for _, t := range by {
		slices.Sort(t.Partitions)
		out.Topics = append(out.Topics, *t)
	}
	return &out
}

// leave takes a member out, or notes that a static one comes back.
func (g *consumerGroup) leave(hb *heartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) (int16, error) {
	m := g.members[hb.MemberID]
	if i := deref(hb.InstanceID); i != "" {
		switch id, ok := g.static[i]; {
		case !ok:
			return codeUnknownMemberID, errors.New("the group has no such instance")
		case id != hb.MemberID:
			return codeFencedInstanceID, errors.New("the instance has a newer member")
		}
	}
	if m == nil {
		return codeUnknownMemberID, errors.New("the group has no such member")
	}
	resp.MemberID, resp.MemberEpoch = &m.id, hb.MemberEpoch
	if hb.MemberEpoch == epochLeaveStatic {
		m.away = true
		return codeNone, nil
	}
	g.remove(m)
	return codeNone, nil
}

// member finds the member of a heartbeat, or makes it.
func (g *consumerGroup) member(hb *heartbeatRequest) (*consumer, int16, error) {
	instance := deref(hb.InstanceID)
	owner, known := g.static[instance]
	if hb.MemberEpoch == epochJoin {
		if instance != "" && known && owner != hb.MemberID {
			return g.returned(g.members[owner], hb)
		}
		if m := g.members[hb.MemberID]; m != nil {
			return m, codeNone, nil // it joins again: its answer was lost, or it was fenced and has given all up
		}
		return g.join(hb)
	}
	m := g.members[hb.MemberID]
	switch {
	case instance != "" && !known, m == nil && instance == "":
		return nil, codeUnknownMemberID, errors.New("the group has no such member")
	case instance != "" && owner != hb.MemberID:
		return nil, codeFencedInstanceID, errors.New("the instance has a newer member")
	case m == nil:
		return nil, codeUnknownMemberID, errors.New("the group has no such member")
	case hb.MemberEpoch > m.epoch,
		hb.MemberEpoch < m.epoch && (hb.MemberEpoch != m.last || hb.owned == nil || len(hb.owned.without(m.has)) > 0):
		return nil, codeFencedMemberEpoch, fmt.Errorf("member epoch %d: it is %d", hb.MemberEpoch, m.epoch)
	}
	return m, codeNone, nil
}

// returned lets a static member that went away for a while take its place again under a new id.
func (g *consumerGroup) returned(old *consumer, hb *heartbeatRequest) (*consumer, int16, error) {
	if !old.away {
		return nil, codeUnreleasedInstanceID, errors.New("the instance is still a member under another id")
	}
	epoch := g.epoch // nothing changes for the others
	m, code, err := g.join(hb)
	if err != nil {
		return nil, code, err
	}
	for tp := range old.revoking { // who comes back has given it up
		g.release(old, tp)
	}
	m.waits = old.waits || len(old.revoking) > 0
	m.target, m.has, m.names, m.pattern, m.assignor = old.target, old.has, old.names, old.pattern, old.assignor
	for tp, o := range g.owners {
		if o == old {
			g.owners[tp] = m
		}
	}
	g.remove(old)
	g.epoch, m.epoch, m.last = epoch, old.epoch, old.last
	return m, codeNone, nil
}

func (g *consumerGroup) join(hb *heartbeatRequest) (*consumer, int16, error) {
	if len(g.members) >= maxGroupMembers {
		return nil, codeGroupMaxSize, fmt.Errorf("the group has %d members already", maxGroupMembers)
	}
	m := &consumer{id: hb.MemberID, instance: deref(hb.InstanceID), clientID: hb.clientID, host: hb.host, has: partitionSet{}, target: partitionSet{}}
	if m.id == "" {
		m.id = uuid.NewString()
	}
	m.weight = m.cost()
	if !g.c.kept.take(m.weight) {
		return nil, codeCoordinatorNotAvailable, errNoMemory
	}
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	m.last = -1
	g.epoch++
	return m, codeNone, nil
}

// subscribe takes what the member says of itself; true when the group has to assign anew.
func (g *consumerGroup) subscribe(m *consumer, hb *heartbeatRequest) (changed bool, err error) {
	next := *m
	if hb.RackID != nil {
		next.rack = *hb.RackID
	}
	if hb.RebalanceTimeoutMillis > 0 {
		next.rebalance = time.Duration(hb.RebalanceTimeoutMillis) * time.Millisecond
	}
	if hb.SubscribedTopicNames != nil {
		next.names = slices.Sorted(slices.Values(hb.SubscribedTopicNames))
	}
	if hb.SubscribedTopicRegex != nil {
		next.pattern = hb.pattern
	}
	if hb.ServerAssignor != nil {
		next.assignor = *hb.ServerAssignor
	}
	weight := next.cost()
	if !g.c.kept.take(weight) {
		return false, errNoMemory
	}
	g.c.kept.add(-m.weight)
	changed = !slices.Equal(m.names, next.names) || m.pattern.String() != next.pattern.String() || m.assignor != next.assignor
	m.sees, m.maySee = hb.sees, hb.maySee
	m.rack, m.rebalance, m.names, m.pattern, m.assignor, m.weight, m.away = next.rack, next.rebalance, next.names, next.pattern, next.assignor, weight, false
	if changed {
		g.epoch++
	}
	return changed, nil
}
