package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/record"
)

// world is what the coordinator is told of the topics.
type world map[string]broker.TopicInfo

func (w world) add(name string, partitions int32) {
	in := broker.TopicInfo{Name: name, Config: topicOf(partitions)}
	copy(in.ID[:], name)
	w[name] = in
}

// simMember is a client of the newer protocol that does as it is told, at its own pace.
type simMember struct {
	c        *coordinator
	w        world
	id       string
	instance string
	names    []string
	assignor string
	epoch    int32
	owned    partitionSet // what it works on
	code     int16        // of the last heartbeat
}

// beat sends a heartbeat; full says all that the member could say.
func (m *simMember) beat(full bool) *kmsg.ConsumerGroupHeartbeatResponse {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", m.id, m.epoch, -1
	if m.instance != "" {
		req.InstanceID = &m.instance
	}
	hb := &heartbeatRequest{ConsumerGroupHeartbeatRequest: req, version: 1, clientID: "c"}
	if full || m.epoch == epochJoin {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, m.names
		if m.assignor != "" {
			req.ServerAssignor = &m.assignor
		}
		hb.owned = partitionSet{}
		for tp := range m.owned {
			hb.owned[tp] = true
		}
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	m.code, _ = m.c.consumerHeartbeat(hb, m.w, resp)
	return resp
}

// take makes of the server's answer what the member owns.
func (m *simMember) take(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	if m.code == codeFencedMemberEpoch || m.code == codeUnknownMemberID {
		m.owned, m.epoch = partitionSet{}, epochJoin
		return
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	m.owned = partitionSet{}
	for _, t := range resp.Assignment.Topics {
		for name, in := range m.w {
			if in.ID == t.TopicID {
				for _, p := range t.Partitions {
					m.owned[record.TopicPartition{Topic: name, Partition: p}] = true
				}
			}
		}
	}
}

// wantShared fails when a partition has two owners, or, with complete, none.
func wantShared(t *testing.T, w world, members []*simMember, complete bool) {
	t.Helper()
	owner := map[record.TopicPartition]string{}
	for _, m := range members {
		for tp := range m.owned {
			if o, ok := owner[tp]; ok {
				t.Fatalf("%s is owned by %s and %s", tp, o, m.id)
			}
			owner[tp] = m.id
		}
	}
	if !complete {
		return
	}
	for name, in := range w {
		for p := range in.Config.Partitions {
			if tp := (record.TopicPartition{Topic: name, Partition: p}); owner[tp] == "" {
				t.Fatalf("%s is owned by nobody", tp)
			}
		}
	}
}

// Members come, go, die and get slow at random, and topics grow: at no moment does a partition have two owners,
// and in the end all are shared out evenly. Then all go, and nothing is left.
func TestConsumerGroupModel(t *testing.T) {
	seed := seedtest.New(t)
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(round)))
			c := testCoordinator(t)
			w := world{}
			w.add("a", 1+rng.Int32N(12))
			w.add("b", 1+rng.Int32N(5))
			assignor := []string{"", assignorUniform, assignorRange}[rng.IntN(3)]
			c.tuned = newTunedGroups(nil, &held{limit: 1 << 20})
			c.tuned.put("g", groupConfig{Assignment: []int64{0, 300, 2500}[rng.IntN(3)]})
			var members []*simMember
			join := func() {
				m := &simMember{c: c, w: w, id: fmt.Sprintf("m%d", rng.Uint64()), names: []string{"a", "b"}, assignor: assignor, owned: partitionSet{}}
				members = append(members, m)
			}
			join()
			for range 150 {
				i := rng.IntN(len(members))
				switch m := members[i]; {
				case rng.IntN(15) == 0 && len(members) < 8:
					join()
				case rng.IntN(25) == 0 && len(members) > 1: // leaves
					m.owned, m.epoch = nil, epochLeave
					m.beat(false)
					members = append(members[:i], members[i+1:]...)
				case rng.IntN(60) == 0 && len(members) > 1: // dies: the others live on until its session is over
					members = append(members[:i], members[i+1:]...)
					for range 16 {
						<-time.After(3 * time.Second)
						for _, o := range members {
							o.take(o.beat(true))
						}
					}
				case rng.IntN(60) == 0:
					w.add("a", w["a"].Config.Partitions+1)
				case rng.IntN(6) == 0:
					m.beat(true) // the answer is lost
				default:
					m.take(m.beat(rng.IntN(2) == 0))
				}
				wantShared(t, w, members, false)
				<-time.After(100 * time.Millisecond)
			}
			for range 20 {
				for _, m := range members {
					m.take(m.beat(true))
					wantShared(t, w, members, false)
				}
				<-time.After(2 * time.Second)
			}
			wantShared(t, w, members, true)
			if st := c.consumers["g"].state(); st != stateStable {
				t.Fatalf("the group is %s", st)
			}
			total, least, most := 0, 1000, 0
			for _, m := range members {
				total, least, most = total+len(m.owned), min(least, len(m.owned)), max(most, len(m.owned))
			}
			if most-least > 2 || assignor != assignorRange && most-least > 1 {
				t.Fatalf("%d partitions are shared out from %d to %d", total, least, most)
			}
			for _, m := range members {
				m.epoch = epochLeave
				m.beat(false)
			}
			if used := c.kept.used.Load(); len(c.consumers) != 0 || used != 0 {
				t.Fatalf("%d groups and %d bytes stay", len(c.consumers), used)
			}
		})
	}
}

// A static member that goes away for a while gets its partitions back under a new id; while it is there its
// instance cannot be taken.
func TestConsumerGroupStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		w := world{}
		w.add("a", 4)
		one := &simMember{c: c, w: w, id: "one", instance: "i", names: []string{"a"}, owned: partitionSet{}}
		two := &simMember{c: c, w: w, id: "two", names: []string{"a"}, owned: partitionSet{}}
		for range 4 {
			one.take(one.beat(true))
			two.take(two.beat(true))
		}
		if len(one.owned) != 2 || len(two.owned) != 2 {
			t.Fatalf("%v %v", one.owned, two.owned)
		}
		thief := &simMember{c: c, w: w, id: "thief", instance: "i", names: []string{"a"}}
		if thief.beat(true); thief.code != codeUnreleasedInstanceID {
			t.Fatalf("the instance of a living member: %d", thief.code)
		}
		had, epoch := one.owned, one.epoch
		one.epoch = epochLeaveStatic
		one.beat(false)
		back := &simMember{c: c, w: w, id: "back", instance: "i", names: []string{"a"}, owned: partitionSet{}}
		back.take(back.beat(true))
		if back.code != codeNone || back.epoch != epoch || len(back.owned.without(had)) > 0 || len(back.owned) != 2 {
			t.Fatalf("came back with %v in epoch %d, code %d; had %v in %d", back.owned, back.epoch, back.code, had, epoch)
		}
		one.epoch = epoch
		if one.beat(true); one.code != codeFencedInstanceID {
			t.Fatalf("the old id: %d", one.code)
		}
		if two.take(two.beat(true)); len(two.owned) != 2 || two.epoch != epoch {
			t.Fatalf("the other one was moved: %v in epoch %d", two.owned, two.epoch)
		}
	})
}

// A static member that went away before it gave up what it was told to, or while it waited for what another one
// was to give up, comes back to a group that gets on: all partitions are shared in the end.
func TestConsumerGroupStaticAmidMove(t *testing.T) {
	for _, first := range []string{"one", "two"} {
		t.Run(first+" had all", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := testCoordinator(t)
				w := world{}
				w.add("a", 4)
				one := &simMember{c: c, w: w, id: "one", instance: "i", names: []string{"a"}, owned: partitionSet{}}
				two := &simMember{c: c, w: w, id: "two", names: []string{"a"}, owned: partitionSet{}}
				order := []*simMember{one, two, one}
				if first == "two" {
					order = []*simMember{two, one}
				}
				for _, m := range order { // who came first has all, and then is to give up two
					m.take(m.beat(true))
				}
				one.epoch = epochLeaveStatic
				one.beat(false)
				back := &simMember{c: c, w: w, id: "back", instance: "i", names: []string{"a"}, owned: partitionSet{}}
				for range 8 {
					back.take(back.beat(true))
					two.take(two.beat(true))
					<-time.After(3 * time.Second)
				}
				wantShared(t, w, []*simMember{back, two}, true)
			})
		})
	}
}

// A member that lives and does not give up what it has to is removed after its rebalance time; positions of
// members in an old epoch are refused; the two protocols do not mix.
func TestConsumerGroupFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		w := world{}
		w.add("a", 4)
		slow := &simMember{c: c, w: w, id: "slow", names: []string{"a"}, owned: partitionSet{}}
		slow.take(slow.beat(true))
		next := &simMember{c: c, w: w, id: "next", names: []string{"a"}, owned: partitionSet{}}
		old := slow.epoch
		for range 24 {
			resp := slow.beat(false) // never says that it has given anything up
			if slow.code != codeNone {
				break
			}
			slow.epoch = resp.MemberEpoch
			next.take(next.beat(true))
			wantShared(t, w, []*simMember{slow, next}, false)
			<-time.After(3 * time.Second)
		}
		if slow.code != codeUnknownMemberID {
			t.Fatalf("the member that gives nothing up: %d", slow.code)
		}
		slow.owned = nil // a client that is told so stops
		next.take(next.beat(true))
		wantShared(t, w, []*simMember{next}, true)
		if next.epoch <= old {
			t.Fatalf("epoch %d, was %d", next.epoch, old)
		}
		for _, x := range []struct {
			id    string
			epoch int32
			want  int16
		}{{"next", next.epoch, codeNone}, {"next", next.epoch - 1, codeStaleMemberEpoch}, {"slow", old, codeUnknownMemberID}, {"", -1, codeUnknownMemberID}} {
			if code := c.mayCommit("g", x.id, nil, x.epoch); code != x.want {
				t.Errorf("commit of %q in epoch %d: %d, want %d", x.id, x.epoch, code, x.want)
			}
		}
		if code := c.mayFetch("g", "next", next.epoch-1); code != codeStaleMemberEpoch {
			t.Errorf("positions for an old epoch: %d", code)
		}
		if code := c.mayCommitTxn("g", "next", nil, next.epoch-1); code != codeIllegalGeneration {
			t.Errorf("positions in a transaction of an old epoch: %d", code)
		}
		if res, err := c.join(t.Context(), joinOf("")); err != nil || res.code != codeInconsistentProtocol {
			t.Errorf("a classic member: %+v %v", res, err)
		}
		classic := joinOf("")
		classic.group = "other"
		<-goJoin(t, c, classic)
		stranger := &simMember{c: c, w: w, id: "s", names: []string{"a"}}
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.SubscribedTopicNames = "other", "s", 1000, []string{"a"}
		hb := &heartbeatRequest{ConsumerGroupHeartbeatRequest: req, version: 1, owned: partitionSet{}}
		if code, _ := stranger.c.consumerHeartbeat(hb, w, kmsg.NewPtrConsumerGroupHeartbeatResponse()); code != codeGroupIDNotFound {
			t.Errorf("a newer member in a classic group: %d", code)
		}
	})
}

// The assignors give every partition of a topic to one of its subscribers, evenly, and move no more than they must.
func TestAssignors(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	for range 300 {
		topics := map[string]int32{}
		for i := range 1 + rng.IntN(4) {
			topics[fmt.Sprintf("t%d", i)] = rng.Int32N(20)
		}
		var members []*consumer
		same := rng.IntN(2) == 0
		for i := range 1 + rng.IntN(6) {
			m := &consumer{id: fmt.Sprintf("m%d", i)}
			for name := range topics {
				if same || rng.IntN(2) == 0 {
					m.names = append(m.names, name)
				}
			}
			slices.Sort(m.names)
			members = append(members, m)
		}
		for name, assign := range map[string]func([]*consumer, map[string]int32) []partitionSet{"range": assignRange, "uniform": assignUniform} {
			sets := assign(members, topics)
			checkAssignment(t, name, members, topics, sets)
			if name == "range" {
				continue
			}
			most, least := 0, 1000
			for i, m := range members {
				m.target = sets[i]
				most, least = max(most, len(sets[i])), min(least, len(sets[i]))
			}
			if same && most-least > 1 {
				t.Fatalf("uniform: from %d to %d", least, most)
			}
			again := assign(members, topics)
			for i := range sets {
				if len(sets[i].without(again[i]))+len(again[i].without(sets[i])) > 0 {
					t.Fatalf("uniform: moved without a reason: %v to %v", sets[i], again[i])
				}
			}
			moved := 0
			joined := append(members, &consumer{id: "new", names: members[0].names})
			for i, set := range assign(joined, topics)[:len(members)] {
				moved += len(sets[i].without(set))
			}
			if same && moved > most {
				t.Fatalf("uniform: %d partitions moved for one new member, at most %d each", moved, most)
			}
		}
	}
}

func checkAssignment(t *testing.T, name string, members []*consumer, topics map[string]int32, sets []partitionSet) {
	t.Helper()
	owner := map[record.TopicPartition]int{}
	for i, set := range sets {
		for tp := range set {
			if _, twice := owner[tp]; twice || !members[i].subscribes(tp.Topic) || tp.Partition >= topics[tp.Topic] {
				t.Fatalf("%s: %s is given to member %d wrongly", name, tp, i)
			}
			owner[tp] = i
		}
	}
	for topic, n := range topics {
		wanted := false
		for _, m := range members {
			wanted = wanted || m.subscribes(topic)
		}
		for p := range n {
			if _, ok := owner[record.TopicPartition{Topic: topic, Partition: p}]; ok != wanted {
				t.Fatalf("%s: %s-%d is given %v, wanted %v", name, topic, p, ok, wanted)
			}
		}
	}
}

// The newer protocol over the wire: two members share, commit, and are described; one leaves.
func TestConsumerGroupOverTheWire(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 4; c.ConsumerHeartbeat = 50 * time.Millisecond })
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 400)
	one := joinGroup(t, ctx, s, "g", "t", kgo.ServerSideBalancer())
	one.waitOwned(t, ctx, 4)
	one.read(t, ctx, 400)
	if err := one.cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	two := joinGroup(t, ctx, s, "g", "t", kgo.ServerSideBalancer())
	two.waitOwned(t, ctx, 2)
	one.waitOwned(t, ctx, 2)
	adm := admin(t, s)
	d, err := adm.DescribeConsumerGroups(ctx, "g", "none")
	if err != nil || len(d["g"].Members) != 2 || d["none"].Err == nil {
		t.Fatalf("described: %+v %v", d, err)
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil || len(groups) != 1 || groups["g"].ProtocolType != "consumer" {
		t.Fatalf("listed: %+v %v", groups, err)
	}
	if res, err := adm.DeleteGroups(ctx, "g"); err != nil || res["g"].Err == nil {
		t.Fatalf("a group with members is deleted: %+v %v", res, err)
	}
	two.cl.Close()
	one.waitOwned(t, ctx, 4)
	one.cl.Close()
	if c, ok := s.offsets.get("g", tp0); !ok || c.offset == 0 {
		t.Fatalf("position %+v %v", c, ok)
	}
}

// I8: a pattern that is wrong or would take much memory is refused; the others match whole names.
func TestPatterns(t *testing.T) {
	for _, bad := range []string{"(", strings.Repeat("a{1000}", 200), strings.Repeat("x", 5000), "a{5000}"} {
		if p, err := compilePattern(bad); err == nil {
			t.Errorf("%.20s of %d bytes is taken: %d bytes", bad, len(bad), p.size)
		}
	}
	p, err := compilePattern("a|b.*")
	if err != nil || !p.matches("a") || !p.matches("bcd") || p.matches("ab") || p.matches("xa") || p.size > 10_000 {
		t.Fatalf("%+v %v", p, err)
	}
}

// A large group is assigned anew in little time when one member joins.
func BenchmarkAssignUniform(b *testing.B) {
	var members []*consumer
	for i := range 100 {
		members = append(members, &consumer{id: strconv.Itoa(i), names: []string{"t"}})
	}
	topics := map[string]int32{"t": 20_000}
	for i, set := range assignUniform(members, topics) {
		members[i].target = set
	}
	members = append(members, &consumer{id: "new", names: []string{"t"}})
	for b.Loop() {
		assignUniform(members, topics)
	}
}
