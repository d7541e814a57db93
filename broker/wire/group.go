package wire

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type groupState string

// States of a group, as DescribeGroups names them.
const (
	stateEmpty      groupState = "Empty"
	statePreparing  groupState = "PreparingRebalance"
	stateCompleting groupState = "CompletingRebalance"
	stateStable     groupState = "Stable"
	stateDead       groupState = "Dead"
)

// group is one classic consumer group. The coordinator's lock guards it.
//
// Empty -> Preparing (members join) -> Completing (the leader assigns) -> Stable, and back to Preparing
// whenever membership or subscriptions change. What members subscribe to and are assigned is opaque here, so
// eager and cooperative assignors both work.
type group struct {
	c            *coordinator
	name         string
	state        groupState
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      map[string]*member
	pending      map[string]*time.Timer // ids given with MEMBER_ID_REQUIRED and not yet used
	static       map[string]string      // group.instance.id -> member id
	joinDelay    bool                   // an empty group waits for more members

	timer    *time.Timer
	timerGen int
}

type protocol struct {
	name     string
	metadata []byte
}

type member struct {
	id, instance   string
	clientID, host string
	session        time.Duration
	rebalance      time.Duration
	protocols      []protocol
	assignment     []byte
	synced         bool
	weight         int64 // of what it keeps, without the assignment

	join chan joinResult // not nil while a JoinGroup waits; takes one result without blocking
	sync chan syncResult

	timer    *time.Timer
	timerGen int
}

type joinResult struct {
	code         int16
	generation   int32
	protocolType string
	protocol     string
	leader       string
	member       string
	members      []kmsg.JoinGroupResponseMember
	skip         bool
}

type syncResult struct {
	code         int16
	protocolType string
	protocol     string
	assignment   []byte
}

// after runs fn under the coordinator's lock unless the group's timer was set anew or stopped meanwhile.
func (g *group) after(d time.Duration, fn func()) {
	g.stopTimer()
	gen := g.timerGen
	g.timer = time.AfterFunc(d, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if g.timerGen == gen && !g.c.closed {
			fn()
			g.c.reap(g)
		}
	})
}

func (g *group) stopTimer() {
	g.timerGen++
	if g.timer != nil {
		g.timer.Stop()
	}
}

// arm starts the member's session anew: without a sign of life it is removed after it.
func (g *group) arm(m *member) {
	m.disarm()
	if g.c.closed {
		return
	}
	gen := m.timerGen
	m.timer = time.AfterFunc(m.session, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if m.timerGen == gen && g.members[m.id] == m && !g.c.closed {
			g.c.lg.Info("group member expired", "group", g.name, "member", m.id)
			g.remove(m)
			g.c.reap(g)
		}
	})
}

func (m *member) disarm() {
	m.timerGen++
	if m.timer != nil {
		m.timer.Stop()
	}
}

func (m *member) answerJoin(r joinResult) {
	if m.join != nil {
		m.join <- r
		m.join = nil
	}
}

func (m *member) answerSync(r syncResult) {
	if m.sync != nil {
		m.sync <- r
		m.sync = nil
	}
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

// check finds a member by id and, for static members, sees to it that the id is the newest of its instance.
func (g *group) check(id, instance string) (*member, int16) {
	if instance != "" {
		owner, ok := g.static[instance]
		if !ok {
			return nil, codeUnknownMemberID
		}
		if owner != id {
			return nil, codeFencedInstanceID
		}
	}
	m, ok := g.members[id]
	if !ok {
		return nil, codeUnknownMemberID
	}
	return m, codeNone
}

// candidates gives the protocols that every member except skip supports; nil means any.
func (g *group) candidates(skip string) map[string]bool {
	var common map[string]bool
	for id, m := range g.members {
		if id == skip {
			continue
		}
		mine := map[string]bool{}
		for _, p := range m.protocols {
			if common == nil || common[p.name] {
				mine[p.name] = true
			}
		}
		common = mine
	}
	return common
}

// vote picks the protocol that most members like best among those that all support.
func (g *group) vote() string {
	common := g.candidates("")
	votes := map[string]int{}
	best := ""
	for _, m := range g.members {
		for _, p := range m.protocols {
			if common[p.name] {
				votes[p.name]++
				break
			}
		}
	}
	for name, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && name < best {
			best = name
		}
	}
	return best
}

func (g *group) maxRebalance() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return max(d, time.Millisecond)
}

// prepare begins a rebalance: members are told by their next heartbeat, or by the answer to their sync.
func (g *group) prepare() {
	if g.state == statePreparing {
		return
	}
	wasEmpty := g.state == stateEmpty
	g.state = statePreparing
	for _, m := range g.members {
		g.setAssignment(m, nil)
		m.synced = false
		if m.sync != nil {
			m.answerSync(syncResult{code: codeRebalanceInProgress})
			g.arm(m)
		}
	}
	if !wasEmpty {
		g.after(g.maxRebalance(), g.completeJoin)
		return
	}
	g.joinDelay = true
	g.after(g.c.joinDelay, func() {
		g.joinDelay = false
		g.after(g.maxRebalance(), g.completeJoin)
		g.tryComplete()
	})
}

func (g *group) tryComplete() {
	if g.state != statePreparing || g.joinDelay && len(g.members) > 0 || len(g.pending) > 0 && len(g.members) > 0 {
		return
	}
	for _, m := range g.members {
		if m.join == nil {
			return
		}
	}
	g.completeJoin()
}

// completeJoin ends the join phase with who is there. Static members keep their place until their session ends.
func (g *group) completeJoin() {
	joined := 0
	for _, m := range g.members {
		switch {
		case m.join != nil:
			joined++
		case m.instance == "":
			g.forget(m)
		}
	}
	g.joinDelay = false
	if len(g.members) == 0 {
		g.stopTimer()
		g.generation++
		g.state, g.protocol, g.leader = stateEmpty, "", ""
		return
	}
	if joined == 0 { // only static members, all away
		g.after(g.maxRebalance(), g.completeJoin)
		return
	}
	g.generation++
	g.state = stateCompleting
	g.protocol = g.vote()
	if m := g.members[g.leader]; m == nil || m.join == nil {
		g.leader = ""
		for id, m := range g.members {
			if m.join != nil && (g.leader == "" || id < g.leader) {
				g.leader = id
			}
		}
	}
	for _, m := range g.members {
		g.setAssignment(m, nil)
		m.synced = false
		if m.join != nil {
			m.answerJoin(g.joined(m))
			g.arm(m)
		}
	}
	g.after(g.maxRebalance(), g.syncOverdue)
}

// joined is the answer that tells a member the present generation.
func (g *group) joined(m *member) joinResult {
	r := joinResult{generation: g.generation, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader, member: m.id}
	if m.id == g.leader {
		r.members = g.roster()
	}
	return r
}

func (g *group) roster() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.members {
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.ProtocolMetadata = m.id, m.metadata(g.protocol)
		if m.instance != "" {
			jm.InstanceID = &m.instance
		}
		out = append(out, jm)
	}
	return out
}

// syncOverdue removes members that joined and never came for their assignment.
func (g *group) syncOverdue() {
	if g.state != stateCompleting {
		return
	}
	for _, m := range g.members {
		if m.sync == nil && m.instance == "" {
			g.c.lg.Info("group member did not sync in time", "group", g.name, "member", m.id)
			g.drop(m)
		}
	}
	g.prepare()
	g.tryComplete()
}

// assign takes the leader's assignment and makes the group stable.
func (g *group) assign(as map[string][]byte) {
	g.stopTimer()
	g.state = stateStable
	for id, m := range g.members {
		g.setAssignment(m, as[id])
		if m.sync != nil {
			m.answerSync(g.assigned(m))
			g.arm(m)
		}
	}
}

func (g *group) assigned(m *member) syncResult {
	m.synced = true
	return syncResult{protocolType: g.protocolType, protocol: g.protocol, assignment: m.assignment}
}

// forget takes a member off the list and gives its memory back.
func (g *group) forget(m *member) {
	m.disarm()
	delete(g.members, m.id)
	g.setAssignment(m, nil)
	g.c.kept.add(-m.weight)
	m.weight = 0
}

func (g *group) setAssignment(m *member, b []byte) {
	g.c.kept.add(int64(len(b) - len(m.assignment)))
	m.assignment = b
}

// drop takes a member out without a rebalance.
func (g *group) drop(m *member) {
	g.forget(m)
	if m.instance != "" && g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
	}
	m.answerJoin(joinResult{code: codeUnknownMemberID, member: m.id})
	m.answerSync(syncResult{code: codeUnknownMemberID})
}

// remove takes a member out and lets the others rebalance.
func (g *group) remove(m *member) {
	g.drop(m)
	if g.state == stateStable || g.state == stateCompleting {
		g.prepare()
	}
	g.tryComplete()
}
