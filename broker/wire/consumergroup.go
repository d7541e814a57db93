package wire

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// States of a consumer group and of its members.
const (
	stateAssigning   groupState = "Assigning"
	stateReconciling groupState = "Reconciling"

	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2 // a static member goes away and comes back
)

// consumerGroup is a group of the newer protocol (KIP-848): members send heartbeats only, and the server assigns.
// The coordinator's lock guards it.
//
// Whenever the members, their subscriptions or the topics change, the group's epoch grows and a target assignment is
// made for it. Each member comes to its target by its own heartbeats: first it gives up what it has to, then its
// epoch is the group's and it gets what others have given up. So no partition has two owners, and nobody
// waits for all.
type consumerGroup struct {
	c         *coordinator
	name      string
	epoch     int32
	assigned  int32 // epoch that the targets were made for
	assignor  string
	members   map[string]*consumer
	static    map[string]string // group.instance.id -> member id
	owners    map[record.TopicPartition]*consumer
	topics    map[string]int32 // subscribed ones and their partitions, when the epoch was made
	looked    time.Time        // when topics was compared with what there is
	shared    time.Time        // when the targets were made
	staleness time.Duration
}

// consumer is one member.
type consumer struct {
	id, instance, rack string
	clientID, host     string
	rebalance          time.Duration
	names              []string // sorted: a client may name a million, and they are searched for each topic under the lock of all groups
	pattern            *pattern
	sees               string // whom the access rules know, where there are any
	maySee             func(topic string) bool
	assignor           string

	epoch, last int32 // last: the one before, for a heartbeat whose answer was lost
	has         partitionSet
	revoking    partitionSet // what it has to give up before it goes on
	target      partitionSet
	waits       bool // for what others still have
	away        bool // a static member that said it would come back

	weight   int64
	session  *time.Timer
	overdue  *time.Timer // runs while it has to give something up
	timerGen int
}

type partitionSet map[record.TopicPartition]bool

func (s partitionSet) without(o partitionSet) partitionSet {
	out := partitionSet{}
	for tp := range s {
		if !o[tp] {
			out[tp] = true
		}
	}
	return out
}

func (s partitionSet) meets(o partitionSet) bool {
	for tp := range s {
		if o[tp] {
			return true
		}
	}
	return false
}

func (c *coordinator) newConsumerGroup(name string) *consumerGroup {
	if c.full() || !c.kept.take(groupCost(name)) {
		return nil
	}
	g := &consumerGroup{
		c: c, name: name, members: map[string]*consumer{}, static: map[string]string{}, owners: map[record.TopicPartition]*consumer{},
		staleness: time.Second,
	}
	c.consumers[name] = g
	return g
}

// reapConsumers forgets a group without members. Its positions stay.
func (c *coordinator) reapConsumers(g *consumerGroup) {
	if len(g.members) == 0 && c.consumers[g.name] == g {
		delete(c.consumers, g.name)
		c.kept.add(-groupCost(g.name))
	}
}

// subscribes says whether a member wants a topic.
func (m *consumer) subscribes(topic string) bool {
	_, named := slices.BinarySearch(m.names, topic)
	return named || m.matches(topic)
}

// matches says whether a topic is one of the member's pattern, and one that it may see.
func (m *consumer) matches(topic string) bool {
	return m.pattern.matches(topic) && (m.maySee == nil || m.maySee(topic))
}

// addNamed adds the topics that there are among sorted names, of which a member may have any number (I8).
func addNamed(topics map[string]int32, names []string, all map[string]broker.TopicInfo) {
	if len(names) <= len(all) {
		for _, t := range names {
			if in, ok := all[t]; ok {
				topics[t] = in.Config.Partitions
			}
		}
		return
	}
	for t, in := range all {
		if _, ok := slices.BinarySearch(names, t); ok {
			topics[t] = in.Config.Partitions
		}
	}
}

// refresh compares the topics that the group reads with those that there are; where they differ the epoch grows.
func (g *consumerGroup) refresh(all map[string]broker.TopicInfo, now bool) {
	if !now && time.Since(g.looked) < g.staleness {
		return
	}
	g.looked = time.Now()
	topics := map[string]int32{}
	patterns := map[[2]string]*consumer{} // one member for all with the same pattern and rights
	for _, m := range g.members {
		addNamed(topics, m.names, all)
		if m.pattern != nil {
			patterns[[2]string{m.pattern.String(), m.sees}] = m
		}
	}
	for _, m := range patterns {
		for t, in := range all {
			if m.matches(t) {
				topics[t] = in.Config.Partitions
			}
		}
	}
	if !maps.Equal(topics, g.topics) {
		g.topics = topics
		g.epoch++
	}
}

// assignmentInterval is the least time between two assignments of a group: its own, or the broker's.
func (c *coordinator) assignmentInterval(group string) time.Duration {
	return c.tuned.of(group).assignment(c.brokers.inForce().Assignment)
}

// retarget makes the target assignment of a new epoch, unless the last one is younger than the group wants: then the
// next heartbeat looks again.
func (g *consumerGroup) retarget() {
	if g.assigned == g.epoch {
		return
	}
	interval := g.c.assignmentInterval(g.name)
	if interval > 0 && g.assigned > 0 && time.Since(g.shared) < interval {
		return
	}
	g.shared = time.Now()
	votes := map[string]int{}
	for _, m := range g.members {
		votes[m.assignor]++
	}
	g.assignor = assignorUniform
	if votes[assignorRange] > votes[assignorUniform]+votes[""] {
		g.assignor = assignorRange
	}
	members := slices.SortedFunc(maps.Values(g.members), func(a, b *consumer) int {
		return strings.Compare(a.instance+"\x00"+a.id, b.instance+"\x00"+b.id)
	})
	var targets []partitionSet
	if g.assignor == assignorRange {
		targets = assignRange(members, g.topics)
	} else {
		targets = assignUniform(members, g.topics)
	}
	for i, m := range members {
		m.target = targets[i]
	}
	g.assigned = g.epoch
}

// reconcile brings a member one step nearer to its target. owned is what it says that it has, nil when it says
// nothing. It gives true when what it may have has changed.
func (g *consumerGroup) reconcile(m *consumer, owned partitionSet) bool {
	if len(m.revoking) > 0 {
		if owned == nil || owned.meets(m.revoking) {
			return false // it is not there yet
		}
		for tp := range m.revoking {
			g.release(m, tp)
		}
		m.revoking = nil
		m.stopOverdue()
	} else if m.epoch == g.assigned && !m.waits {
		return false
	}
	lose := m.has.without(m.target)
	keep := m.has.without(lose)
	changed := len(lose) > 0
	if len(lose) > 0 && (owned == nil || owned.meets(lose)) {
		m.has, m.revoking = keep, lose
		g.startOverdue(m)
		return true
	}
	for tp := range lose {
		g.release(m, tp)
	}
	m.has, m.waits = keep, false
	for tp := range m.target.without(keep) {
		if o := g.owners[tp]; o != nil && o != m {
			m.waits = true
			continue
		}
		g.owners[tp] = m
		m.has[tp] = true
		changed = true
	}
	if m.epoch != g.assigned {
		m.last, m.epoch = m.epoch, g.assigned
	}
	return changed
}

func (g *consumerGroup) release(m *consumer, tp record.TopicPartition) {
	if g.owners[tp] == m {
		delete(g.owners, tp)
	}
}

// remove takes a member out; the others share what it had.
func (g *consumerGroup) remove(m *consumer) {
	m.timerGen++
	m.stopTimers()
	delete(g.members, m.id)
	if m.instance != "" && g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	for tp, o := range g.owners {
		if o == m {
			delete(g.owners, tp)
		}
	}
	g.c.kept.add(-m.weight)
	m.weight = 0
	g.epoch++
	g.looked = time.Time{}
	g.c.reapConsumers(g)
}

func (m *consumer) stopTimers() {
	if m.session != nil {
		m.session.Stop()
	}
	m.stopOverdue()
}

func (m *consumer) stopOverdue() {
	if m.overdue != nil {
		m.overdue.Stop()
		m.overdue = nil
	}
}

// arm starts a member's session anew.
func (g *consumerGroup) arm(m *consumer) {
	if m.session != nil {
		m.session.Stop()
	}
	m.timerGen++
	m.session = g.after(m, g.c.tuned.of(g.name).session(g.c.cfg), m.timerGen, "session")
}

// startOverdue gives a member its rebalance time to give partitions up.
func (g *consumerGroup) startOverdue(m *consumer) {
	m.stopOverdue()
	m.overdue = g.after(m, m.rebalance, -1, "rebalance")
}

// after removes a member when its time is over; gen -1 asks that it still has something to give up.
func (g *consumerGroup) after(m *consumer, d time.Duration, gen int, what string) *time.Timer {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		stale := gen >= 0 && m.timerGen != gen || gen < 0 && m.overdue != timer
		if stale || g.c.closed || g.members[m.id] != m {
			return
		}
		g.c.lg.Info("group member expired", "group", g.name, "member", m.id, "time", what)
		g.remove(m)
	})
	return timer
}

// check says whether a request comes from a member in its present epoch.
func (g *consumerGroup) check(id string, epoch int32) int16 {
	m := g.members[id]
	switch {
	case m == nil:
		return codeUnknownMemberID
	case m.epoch != epoch:
		return codeStaleMemberEpoch
	}
	return codeNone
}

func (g *consumerGroup) state() groupState {
	switch {
	case len(g.members) == 0:
		return stateEmpty
	case g.assigned != g.epoch:
		return stateAssigning
	}
	for _, m := range g.members {
		if m.epoch != g.assigned || m.waits || len(m.revoking) > 0 {
			return stateReconciling
		}
	}
	return stateStable
}

func (m *consumer) cost() int64 {
	n := 2048 + 3*len(m.id) + 2*len(m.instance) + len(m.rack) + len(m.clientID) + len(m.host)
	for _, t := range m.names {
		n += 32 + len(t)
	}
	if m.pattern != nil {
		n += int(m.pattern.size)
	}
	return int64(n)
}
