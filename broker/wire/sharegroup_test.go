package wire

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/wire/share"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// Every partition of a topic has a reader, nobody has one twice, and no reader has two more than another who wants the same.
func TestShareAssignment(t *testing.T) {
	seed := seedtest.New(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		g := &shareGroup{members: map[string]*shareMember{}, topics: map[string]int32{}}
		for _, topic := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
			g.topics[topic] = int32(1 + r.IntN(7))
		}
		for i := range 1 + r.IntN(6) {
			m := &shareMember{id: string(rune('k' + i))}
			for topic := range g.topics {
				m.names = append(m.names, topic)
			}
			slices.Sort(m.names)
			g.members[m.id] = m
		}
		g.assign()
		for topic, partitions := range g.topics {
			readers := make([]int, partitions)
			least, most := 100, 0
			for _, m := range g.members {
				n := 0
				for tp := range m.has {
					if tp.Topic == topic {
						readers[tp.Partition]++
						n++
					}
				}
				least, most = min(least, n), max(most, n)
			}
			if slices.Min(readers) < 1 || most-least > 1 || slices.Max(readers)-slices.Min(readers) > 1 || least == 0 && len(g.members) > int(partitions) {
				t.Fatalf("%d members of %s: partitions have %v readers, readers have %d to %d partitions", len(g.members), topic, readers, least, most)
			}
		}
	}
}

// shareBeat sends a heartbeat of a member of a share group.
func shareBeat(t *testing.T, s *Server, group, id string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatResponse {
	t.Helper()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = group, id, epoch, topics
	resp, err := req.RequestWith(within(t, time.Minute), client(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Members join, share, beat and leave; a group without members stays while it knows something, and can be moved and deleted.
func TestShareGroupMembers(t *testing.T) {
	s := shared(t, newMemLog(t), 3, map[string]groupConfig{"g": {}})
	ctx := within(t, time.Minute)
	cl := client(t, s)
	adm := kadm.NewClient(cl)
	if resp := shareBeat(t, s, "g", "a", 5); resp.ErrorCode != codeUnknownMemberID {
		t.Errorf("a member that never joined: %d", resp.ErrorCode)
	}
	a := shareBeat(t, s, "g", "a", 0, "t")
	if a.ErrorCode != 0 || a.MemberEpoch < 1 || a.Assignment == nil || len(a.Assignment.TopicPartitions) != 1 {
		t.Fatalf("join: %+v", a)
	}
	b := shareBeat(t, s, "g", "b", 0, "t")
	if again := shareBeat(t, s, "g", "a", a.MemberEpoch); again.MemberEpoch != b.MemberEpoch || again.Assignment == nil {
		t.Errorf("a's heartbeat after b joined: %+v, want epoch %d and what it reads", again, b.MemberEpoch)
	}
	if resp := shareBeat(t, s, "g", "a", b.MemberEpoch+1); resp.ErrorCode != codeFencedMemberEpoch {
		t.Errorf("an epoch that never was: %d", resp.ErrorCode)
	}
	describe := func() kmsg.ShareGroupDescribeResponseGroup {
		req := kmsg.NewPtrShareGroupDescribeRequest()
		req.GroupIDs = []string{"g"}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Groups[0]
	}
	if g := describe(); g.GroupState != "Stable" || len(g.Members) != 2 || g.Members[1].Assignment.TopicPartitions[0].Topic != "t" {
		t.Errorf("described: %+v", g)
	}
	move := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	move.GroupID = "g"
	move.Topics = []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{StartOffset: 2}}}}
	moved := func() int16 {
		resp, err := move.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		if resp.ErrorCode != 0 {
			return resp.ErrorCode
		}
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	if code := moved(); code != codeNonEmptyGroup {
		t.Errorf("a group with members is moved: %d", code)
	}
	if _, err := adm.DeleteGroup(ctx, "g"); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("a group with members is deleted: %v", err)
	}
	for _, id := range []string{"a", "b"} {
		if resp := shareBeat(t, s, "g", id, epochLeave); resp.ErrorCode != 0 || resp.MemberEpoch != epochLeave {
			t.Errorf("%s leaves: %+v", id, resp)
		}
	}
	if code := moved(); code != 0 {
		t.Fatalf("move: %d", code)
	}
	sharerOf(t, s, "g", "c").gets(given(2, 2, 1), 20, 0)
	if g := describe(); g.GroupState != "Empty" || g.ErrorCode != 0 {
		t.Errorf("described without members: %+v", g)
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"Share"}
	if resp, err := list.RequestWith(ctx, cl); err != nil || len(resp.Groups) != 1 || resp.Groups[0].Group != "g" || resp.Groups[0].GroupState != "Empty" {
		t.Errorf("listed: %+v %v", resp, err)
	}
	if resp, err := adm.DeleteGroup(ctx, "g"); err != nil || resp.Err != nil {
		t.Errorf("delete: %+v %v", resp, err)
	}
	if start, _ := shareOffsets(t, ctx, cl, "g"); start != -1 {
		t.Errorf("a deleted group is at %d", start)
	}
	if g := describe(); g.ErrorCode != codeGroupIDNotFound {
		t.Errorf("a deleted group: %+v", g)
	}
}

// A name has groups of one kind.
func TestShareGroupNames(t *testing.T) {
	s := shared(t, newMemLog(t), 1, map[string]groupConfig{"shared": {}})
	ctx := within(t, time.Minute)
	classic := client(t, s, kgo.ConsumerGroup("classic"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, ctx, classic, 1)
	if resp := shareBeat(t, s, "classic", "a", 0, "t"); resp.ErrorCode != codeGroupIDNotFound {
		t.Errorf("a share group of the name of a classic one: %d", resp.ErrorCode)
	}
	if m := sharerOf(t, s, "classic", "a"); m.fetch(1, 0).ErrorCode != 0 || m.code != codeGroupIDNotFound {
		t.Errorf("a share fetch for a classic group: %d", m.code)
	}
	sharerOf(t, s, "shared", "a").gets(given(0, 0, 1), 1, 0)
	adm := kadm.NewClient(client(t, s))
	var offs kadm.Offsets
	offs.AddOffset("t", 0, 1, -1)
	resp, err := adm.CommitOffsets(ctx, "shared", offs)
	if err == nil {
		err = resp.Error()
	}
	if err == nil || !strings.Contains(err.Error(), "GROUP_ID_NOT_FOUND") {
		t.Errorf("a commit for a share group: %v", err)
	}
	if code := s.groups.mayCommitTxn("shared", "", nil, -1); code != codeGroupIDNotFound {
		t.Errorf("a commit in a transaction for a share group: %d", code)
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "shared", 10_000, 10_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	if resp, err := join.RequestWith(ctx, client(t, s)); err != nil || resp.ErrorCode != codeInconsistentProtocol {
		t.Errorf("a classic member of a share group: %+v %v", resp, err)
	}
}

// A group that begins before 1970 begins with the first record.
func TestShareResetBeforeTime(t *testing.T) {
	s := shared(t, newMemLog(t), 1, map[string]groupConfig{"old": {ShareReset: "by_duration:P25000D"}})
	sharerOf(t, s, "old", "a").gets(given(0, 0, 1), 1, 0)
}

// However many topics a member names, those that there are are found.
func TestAddNamed(t *testing.T) {
	all := map[string]broker.TopicInfo{}
	for i, name := range []string{"a", "b", "c"} {
		all[name] = broker.TopicInfo{Config: broker.TopicConfig{Partitions: int32(i + 1)}}
	}
	for _, names := range [][]string{{"a", "c"}, {"0", "a", "aa", "c", "d", "e"}} {
		got := map[string]int32{}
		if addNamed(got, names, all); !maps.Equal(got, map[string]int32{"a": 1, "c": 3}) {
			t.Errorf("of %q: %v", names, got)
		}
	}
}

// Kafka's durations are read, and nothing else.
func TestISODurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"PT1H": time.Hour, "P1DT2H30M1.5S": 26*time.Hour + 30*time.Minute + 1500*time.Millisecond, "P2D": 48 * time.Hour} {
		if got, err := parseISODuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1DT", "1h", "-PT1H", "P999999999D"} {
		if got, err := parseISODuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// A member needs Read on the group and on the topic: without the one nothing is answered, without the other the partition is refused, and
// what it had is not acknowledged either.
func TestShareRights(t *testing.T) {
	s := guardedServer(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	s.tuned.put("g", groupConfig{ShareReset: resetEarliest})
	produce(t, within(t, time.Minute), as(t, s, "root"), "t", 3)
	m := sharerOf(t, s, "g", "m")
	m.cl = as(t, s, "ann")
	if m.fetch(9, 0); m.code != codeGroupAuthorization {
		t.Errorf("without any rule: %d", m.code)
	}
	grant(t, s, allow("ann", acl.Read, acl.Group, "g"))
	if p := m.fetch(9, 0); m.code != 0 || p.ErrorCode != codeTopicAuthorization || len(p.AcquiredRecords) > 0 {
		t.Errorf("with Read on the group: %d, %+v", m.code, p)
	}
	topic := allow("ann", acl.Read, acl.Topic, "t")
	grant(t, s, topic)
	m.gets(given(0, 2, 1), 9, 0)
	if err := s.access.change(t.Context(), func(*acl.Set) ([]acl.Rule, []acl.Rule) { return nil, []acl.Rule{topic} }); err != nil {
		t.Fatal(err)
	}
	if code := m.acknowledge(false, say(0, 2, share.Accept)); code != codeTopicAuthorization {
		t.Errorf("an acknowledgement without Read on the topic: %d", code)
	}
	grant(t, s, topic)
	m.takes(say(0, 2, share.Accept))
}
