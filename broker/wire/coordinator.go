package wire

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxGroupMembers = 5000
	maxGroups       = 100_000
	maxPending      = 50_000 // ids given and not used, in all groups
)

// coordinator holds all groups behind one lock. Nothing waits and nothing does I/O under it.
type coordinator struct {
	lg         *slog.Logger
	offsets    *offsetStore
	kept       *held
	joinDelay  time.Duration
	minSession time.Duration
	maxSession time.Duration

	cfg   Config       // with its defaults
	tuned *tunedGroups // nil: no group has settings of its own

	brokers *tunedBrokers // nil: the flags hold

	shared *shareStore // what share groups know

	mu        sync.Mutex
	groups    map[string]*group         // of the classic protocol
	consumers map[string]*consumerGroup // of the newer one; a name is in one of the three at most
	shares    map[string]*shareGroup
	given     int // pending ids of all groups
	closed    bool
}

func newCoordinator(cfg Config, offsets *offsetStore, kept *held) *coordinator {
	return &coordinator{
		lg: cfg.Logger, offsets: offsets, kept: kept, joinDelay: cfg.GroupJoinDelay,
		minSession: cfg.minSessionTimeout, maxSession: cfg.maxSessionTimeout,
		cfg:    cfg,
		groups: map[string]*group{}, consumers: map[string]*consumerGroup{}, shares: map[string]*shareGroup{}, shared: &shareStore{},
	}
}

// close answers everyone who waits and stops all timers.
func (c *coordinator) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, g := range c.consumers {
		for _, m := range g.members {
			m.stopTimers()
		}
	}
	for _, g := range c.shares {
		for _, m := range g.members {
			m.session.Stop()
		}
	}
	for _, g := range c.groups {
		g.stopTimer()
		for _, t := range g.pending {
			t.Stop()
		}
		for _, m := range g.members {
			m.disarm()
			m.answerJoin(joinResult{code: codeCoordinatorNotAvailable, member: m.id})
			m.answerSync(syncResult{code: codeCoordinatorNotAvailable})
		}
	}
}

// alive says whether a group has members.
func (c *coordinator) alive(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memberCount(name) > 0
}

// memberCount counts the members of a group of any kind.
func (c *coordinator) memberCount(name string) int {
	if g := c.groups[name]; g != nil {
		return len(g.members)
	}
	if g := c.consumers[name]; g != nil {
		return len(g.members)
	}
	if g := c.shares[name]; g != nil {
		return len(g.members)
	}
	return 0
}

// full says that there is no room for one more group.
func (c *coordinator) full() bool { return len(c.groups)+len(c.consumers)+len(c.shares) >= maxGroups }

// newGroup gives nil when there is no room for one more.
func (c *coordinator) newGroup(name string) *group {
	if c.full() || !c.kept.take(groupCost(name)) {
		return nil
	}
	g := &group{
		c: c, name: name, state: stateEmpty,
		members: map[string]*member{}, pending: map[string]*time.Timer{}, static: map[string]string{},
	}
	c.groups[name] = g
	return g
}

// reap forgets a group without members and positions.
func (c *coordinator) reap(g *group) {
	if g.state == stateEmpty && len(g.members) == 0 && len(g.pending) == 0 && !c.offsets.has(g.name) && c.groups[g.name] == g {
		c.drop(g)
	}
}

func (c *coordinator) drop(g *group) {
	g.stopTimer()
	delete(c.groups, g.name)
	c.kept.add(-groupCost(g.name))
}

// joinRequest is a JoinGroup, free of the wire.
type joinRequest struct {
	group, member, instance string
	clientID, host          string
	session, rebalance      time.Duration
	protocolType            string
	protocols               []protocol
	requireID               bool // version 4 and on: an id is given first (KIP-394)
	canSkip                 bool // version 9 and on: the leader can be told not to assign
}

// join waits until the rebalance is complete. Its error is that of ctx.
func (c *coordinator) join(ctx context.Context, r joinRequest) (joinResult, error) {
	c.mu.Lock()
	res, m, g := c.joinLocked(r)
	if m == nil {
		if g := c.groups[r.group]; g != nil {
			c.reap(g) // it may have been made for this join alone
		}
		c.mu.Unlock()
		return res, nil
	}
	m.disarm() // the connection is its sign of life while it waits
	ch := make(chan joinResult, 1)
	m.answerJoin(joinResult{code: codeRebalanceInProgress, member: m.id}) // an older join of the same member
	m.join = ch
	if g.state != statePreparing {
		g.prepare()
	}
	g.tryComplete()
	c.mu.Unlock()
	return await(ctx, g, m, &m.join, ch)
}

// await waits for what comes through ch, which stands in slot. When ctx ends first the slot is free again, and
// the member's session runs.
func await[T any](ctx context.Context, g *group, m *member, slot *chan T, ch chan T) (res T, err error) {
	select {
	case res = <-ch:
		return res, nil
	case <-ctx.Done():
	}
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	if *slot == ch {
		*slot = nil
		if g.members[m.id] == m {
			g.arm(m)
		}
	}
	return res, errors.Join(errPollCut, context.Cause(ctx))
}

// joinLocked gives a result at once, or the member that has to wait.
func (c *coordinator) joinLocked(r joinRequest) (joinResult, *member, *group) {
	fail := func(code int16) (joinResult, *member, *group) {
		return joinResult{code: code, member: r.member}, nil, nil
	}
	switch {
	case c.closed:
		return fail(codeCoordinatorNotAvailable)
	case r.group == "":
		return fail(codeInvalidGroupID)
	case r.session < c.minSession || r.session > c.maxSession:
		return fail(codeInvalidSessionTimeout)
	case r.protocolType == "" || len(r.protocols) == 0:
		return fail(codeInconsistentProtocol)
	case c.consumers[r.group] != nil, c.isShare(r.group): // one without members is not kept
		return fail(codeInconsistentProtocol)
	}
	g := c.groups[r.group]
	if g == nil {
		if r.member != "" {
			return fail(codeUnknownMemberID)
		}
		if g = c.newGroup(r.group); g == nil {
			return fail(codeCoordinatorNotAvailable)
		}
	}
	if code := g.compatible(r); code != codeNone {
		return fail(code)
	}
	if len(g.members) >= maxGroupMembers && g.members[r.member] == nil {
		return fail(codeGroupMaxSize)
	}
	if r.member == "" {
		return g.joinNew(r)
	}
	if r.instance == "" && g.takePending(r.member) {
		return g.admit(r.member, r)
	}
	m, code := g.check(r.member, r.instance)
	if code != codeNone {
		return fail(code)
	}
	return g.rejoin(m, r)
}

// compatible says whether the member's protocols fit those of the others.
func (g *group) compatible(r joinRequest) int16 {
	others := len(g.members)
	if g.members[r.member] != nil {
		others--
	}
	if others == 0 {
		return codeNone
	}
	if g.protocolType != r.protocolType {
		return codeInconsistentProtocol
	}
	skip := r.member
	if skip == "" && r.instance != "" {
		skip = g.static[r.instance]
		if others == 1 && g.members[skip] != nil {
			return codeNone
		}
	}
	common := g.candidates(skip)
	for _, p := range r.protocols {
		if common[p.name] {
			return codeNone
		}
	}
	return codeInconsistentProtocol
}

// joinNew is for a member without an id.
func (g *group) joinNew(r joinRequest) (joinResult, *member, *group) {
	id := r.clientID + "-" + uuid.NewString()
	if r.instance != "" {
		if old := g.members[g.static[r.instance]]; old != nil {
			return g.replaceStatic(old, id, r)
		}
		return g.admit(id, r)
	}
	if !r.requireID {
		return g.admit(id, r)
	}
	if g.c.given >= maxPending || !g.c.kept.take(pendingCost(id)) {
		return joinResult{code: codeGroupMaxSize}, nil, nil
	}
	g.c.given++
	g.pending[id] = time.AfterFunc(r.session, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if !g.c.closed && g.takePending(id) {
			g.tryComplete()
			g.c.reap(g)
		}
	})
	return joinResult{code: codeMemberIDRequired, generation: -1, member: id}, nil, nil
}

// takePending ends the waiting for the first use of an id, false when the id is not waited for.
func (g *group) takePending(id string) bool {
	t, ok := g.pending[id]
	if ok {
		t.Stop()
		delete(g.pending, id)
		g.c.given--
		g.c.kept.add(-pendingCost(id))
	}
	return ok
}

// admit adds a member that then has to wait, when there is memory for it.
func (g *group) admit(id string, r joinRequest) (joinResult, *member, *group) {
	m := g.add(id, r)
	if m == nil {
		return joinResult{code: codeCoordinatorNotAvailable, member: r.member}, nil, nil
	}
	return joinResult{}, m, g
}

// add gives nil, and changes nothing, when there is no memory for one more member.
func (g *group) add(id string, r joinRequest) *member {
	m := &member{id: id, instance: r.instance, clientID: r.clientID, host: r.host}
	if !g.update(m, r) {
		return nil
	}
	g.members[id] = m
	if r.instance != "" {
		g.static[r.instance] = id
	}
	g.protocolType = r.protocolType
	return m
}

// update takes what the member says of itself, false when there is no memory for it.
func (g *group) update(m *member, r joinRequest) bool {
	weight := m.cost(r.protocols)
	if !g.c.kept.take(weight) {
		g.c.lg.Warn("join refused", "group", g.name, "err", errNoMemory)
		return false
	}
	g.c.kept.add(-m.weight)
	m.session, m.rebalance, m.protocols, m.weight = r.session, r.rebalance, r.protocols, weight
	return true
}

func (m *member) sameProtocols(ps []protocol) bool {
	if len(m.protocols) != len(ps) {
		return false
	}
	for i, p := range ps {
		if p.name != m.protocols[i].name || !bytes.Equal(p.metadata, m.protocols[i].metadata) {
			return false
		}
	}
	return true
}

// rejoin is for a member that is known. Where nothing changed it gets the present generation, without a rebalance.
func (g *group) rejoin(m *member, r joinRequest) (joinResult, *member, *group) {
	same := m.sameProtocols(r.protocols)
	if !g.update(m, r) {
		return joinResult{code: codeCoordinatorNotAvailable, member: m.id}, nil, nil
	}
	if same && (g.state == stateCompleting || g.state == stateStable && m.id != g.leader) {
		g.arm(m)
		return g.joined(m), nil, nil
	}
	return joinResult{}, m, g
}

// replaceStatic gives a static member that came back without its id a new one, and fences the old (KIP-345).
func (g *group) replaceStatic(old *member, id string, r joinRequest) (joinResult, *member, *group) {
	same := old.sameProtocols(r.protocols)
	wasLeader := g.leader == old.id
	assignment := old.assignment
	m := g.add(id, r)
	if m == nil {
		return joinResult{code: codeCoordinatorNotAvailable}, nil, nil
	}
	g.forget(old)
	old.answerJoin(joinResult{code: codeFencedInstanceID, member: old.id})
	old.answerSync(syncResult{code: codeFencedInstanceID})
	if g.state != stateStable || !same {
		if wasLeader {
			g.leader = ""
		}
		return joinResult{}, m, g
	}
	g.setAssignment(m, assignment)
	m.synced = true
	res := joinResult{generation: g.generation, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader, member: id}
	if wasLeader {
		g.leader = id
		if r.canSkip {
			res.leader, res.skip, res.members = id, true, g.roster()
		} // else the old id stays as the leader's, so that this one does not assign anew
	}
	g.arm(m)
	return res, nil, nil
}

// sync waits for the leader's assignment, and drops the request before it does. Its error is that of ctx.
func (c *coordinator) sync(ctx context.Context, r *kmsg.SyncGroupRequest, drop func()) (syncResult, error) {
	c.mu.Lock()
	res, m, g := c.syncLocked(r)
	if m == nil {
		c.mu.Unlock()
		return res, nil
	}
	ch := make(chan syncResult, 1)
	m.answerSync(syncResult{code: codeRebalanceInProgress})
	m.sync = ch
	m.disarm()
	if m.id == g.leader {
		as := make(map[string][]byte, len(r.GroupAssignment))
		for _, a := range r.GroupAssignment {
			if g.members[a.MemberID] != nil {
				as[a.MemberID] = bytes.Clone(a.MemberAssignment)
			}
		}
		g.assign(as)
	}
	c.mu.Unlock()
	r.GroupAssignment = nil
	drop()
	return await(ctx, g, m, &m.sync, ch)
}

func (c *coordinator) syncLocked(r *kmsg.SyncGroupRequest) (syncResult, *member, *group) {
	if c.closed {
		return syncResult{code: codeCoordinatorNotAvailable}, nil, nil
	}
	g, m, code := c.find(r.Group, r.MemberID, r.InstanceID, r.Generation)
	if code != codeNone {
		return syncResult{code: code}, nil, nil
	}
	if r.ProtocolType != nil && *r.ProtocolType != g.protocolType || r.Protocol != nil && *r.Protocol != g.protocol {
		return syncResult{code: codeInconsistentProtocol}, nil, nil
	}
	switch g.state {
	case stateCompleting:
		if m.id == g.leader && !c.kept.room(assignmentBytes(r)) {
			c.lg.Warn("assignment refused", "group", g.name, "err", errNoMemory)
			g.arm(m)
			return syncResult{code: codeCoordinatorNotAvailable}, nil, nil
		}
		return syncResult{}, m, g
	case stateStable:
		g.arm(m)
		return g.assigned(m), nil, nil
	case statePreparing:
		g.arm(m)
		return syncResult{code: codeRebalanceInProgress}, nil, nil
	}
	return syncResult{code: codeUnknownMemberID}, nil, nil
}

// find gives the member that a request names, when its generation is the present one.
func (c *coordinator) find(groupName, id string, instance *string, generation int32) (*group, *member, int16) {
	if groupName == "" {
		return nil, nil, codeInvalidGroupID
	}
	g := c.groups[groupName]
	if g == nil {
		return nil, nil, codeUnknownMemberID
	}
	m, code := g.check(id, deref(instance))
	if code == codeNone && generation != g.generation {
		code = codeIllegalGeneration
	}
	return g, m, code
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (c *coordinator) heartbeat(r *kmsg.HeartbeatRequest) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return codeCoordinatorNotAvailable
	}
	g, m, code := c.find(r.Group, r.MemberID, r.InstanceID, r.Generation)
	if code != codeNone {
		return code
	}
	if m.join == nil && m.sync == nil {
		g.arm(m)
	}
	if g.state == statePreparing {
		return codeRebalanceInProgress
	}
	return codeNone
}

// leave removes one member, named by id or, for a static one, by its instance alone.
func (c *coordinator) leave(groupName, id, instance string) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[groupName]
	switch {
	case groupName == "":
		return codeInvalidGroupID
	case g == nil:
		return codeUnknownMemberID
	}
	if instance != "" && id == "" {
		id = g.static[instance]
	}
	if g.takePending(id) {
		g.tryComplete()
		c.reap(g)
		return codeNone
	}
	m, code := g.check(id, instance)
	if code != codeNone {
		return code
	}
	g.remove(m)
	c.reap(g)
	return codeNone
}

// mayCommit says whether a member, or a client outside the group protocol (generation below 0), may commit.
func (c *coordinator) mayCommit(groupName, id string, instance *string, generation int32) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return codeCoordinatorNotAvailable
	}
	if generation < 0 && c.memberCount(groupName) == 0 && !c.isShare(groupName) {
		return codeNone
	}
	if c.isShare(groupName) {
		return codeGroupIDNotFound
	}
	if cg := c.consumers[groupName]; cg != nil {
		return cg.check(id, generation)
	}
	g := c.groups[groupName]
	if g == nil {
		return codeIllegalGeneration
	}
	_, m, code := c.find(groupName, id, instance, generation)
	if code != codeNone {
		return code
	}
	if g.state == stateCompleting {
		return codeRebalanceInProgress
	}
	if m.join == nil && m.sync == nil {
		g.arm(m)
	}
	return codeNone
}
