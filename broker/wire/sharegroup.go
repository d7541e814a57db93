package wire

import (
	"maps"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// kindShare is the type and the protocol of a share group in answers.
const kindShare = "share"

// shareGroup are the members of a share group (KIP-932), who send heartbeats only; the server tells each which partitions it
// reads. A partition may have many readers: who has which record is the shareStore's. The coordinator's lock guards it.
type shareGroup struct {
	c       *coordinator
	name    string
	epoch   int32
	members map[string]*shareMember
	topics  map[string]int32 // subscribed ones and their partitions, when the epoch was made
	looked  time.Time        // when topics was compared with what there is
}

// shareMember is one member.
type shareMember struct {
	id, rack       string
	clientID, host string
	names          []string
	epoch, last    int32 // last: the one before, for a heartbeat whose answer was lost
	has            partitionSet
	weight         int64
	session        *time.Timer
	beats          int // tells a timer that came too late
}

// isShare says whether a name is that of a share group: one with members, or one that knows something.
func (c *coordinator) isShare(name string) bool { return c.shares[name] != nil || c.shared.has(name) }

// otherKind says whether a name is that of a group of another kind than a share group.
func (c *coordinator) otherKind(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notShare(name)
}

func (c *coordinator) notShare(name string) bool {
	g := c.groups[name]
	return g != nil && len(g.members)+len(g.pending) > 0 || c.consumers[name] != nil || c.offsets.has(name)
}

func (c *coordinator) newShareGroup(name string) *shareGroup {
	if c.full() || !c.kept.take(groupCost(name)) {
		return nil
	}
	g := &shareGroup{c: c, name: name, members: map[string]*shareMember{}}
	c.shares[name] = g
	return g
}

// reapShares forgets a group without members. What it knows stays.
func (c *coordinator) reapShares(g *shareGroup) {
	if len(g.members) == 0 && c.shares[g.name] == g {
		delete(c.shares, g.name)
		c.kept.add(-groupCost(g.name))
	}
}

// refresh compares the topics that the group reads with those that there are, and shares them anew where they, or the
// members, have changed.
func (g *shareGroup) refresh(all map[string]broker.TopicInfo, changed bool) {
	if !changed && time.Since(g.looked) < time.Second {
		return
	}
	g.looked = time.Now()
	topics := map[string]int32{}
	for _, m := range g.members {
		addNamed(topics, m.names, all)
	}
	if !changed && maps.Equal(topics, g.topics) {
		return
	}
	g.topics = topics
	g.epoch++
	g.assign()
}

// assign gives every partition to as many members as it needs so that each member has some: to one where there are enough
// partitions for all who want the topic, else the members share them evenly.
func (g *shareGroup) assign() {
	ids := slices.Sorted(maps.Keys(g.members))
	for _, id := range ids {
		g.members[id].has = partitionSet{}
	}
	turn := 0 // so that what is left over of each topic does not go to the same ones
	for _, topic := range slices.Sorted(maps.Keys(g.topics)) {
		var readers []*shareMember
		for _, id := range ids {
			if _, ok := slices.BinarySearch(g.members[id].names, topic); ok {
				readers = append(readers, g.members[id])
			}
		}
		partitions := int(g.topics[topic])
		for i := range max(len(readers), partitions) {
			tp := record.TopicPartition{Topic: topic, Partition: int32(i % partitions)}
			readers[(i+turn)%len(readers)].has[tp] = true
		}
		turn += partitions
	}
}

// remove takes a member out; the others share what it read. What it has of records is not the group's to say.
func (g *shareGroup) remove(m *shareMember) {
	m.beats++
	m.session.Stop()
	delete(g.members, m.id)
	g.c.kept.add(-m.weight)
	g.looked, g.topics = time.Time{}, nil // the next heartbeat shares anew
	g.c.reapShares(g)
}

// arm starts a member's session anew.
func (g *shareGroup) arm(m *shareMember) {
	if m.session != nil {
		m.session.Stop()
	}
	m.beats++
	beats := m.beats
	m.session = time.AfterFunc(g.c.tuned.of(g.name).shareSession(g.c.cfg), func() {
		g.c.mu.Lock()
		defer g.c.mu.Unlock()
		if m.beats == beats && !g.c.closed {
			g.c.lg.Info("group member expired", "group", g.name, "member", m.id, "time", "session")
			g.remove(m)
		}
	})
}

func (m *shareMember) cost() int64 {
	n := 1024 + 3*len(m.id) + len(m.rack) + len(m.clientID) + len(m.host)
	for _, t := range m.names {
		n += 32 + len(t)
	}
	return int64(n)
}
