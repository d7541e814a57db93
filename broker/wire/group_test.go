package wire

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/record"
)

// groupMember polls in the background and reports what it is assigned and reads.
type groupMember struct {
	cl       *kgo.Client
	assigned chan int
	records  chan *kgo.Record
}

func joinGroup(t *testing.T, ctx context.Context, s *Server, group, topic string, opts ...kgo.Opt) *groupMember {
	m := &groupMember{assigned: make(chan int, 100), records: make(chan *kgo.Record, 10000)}
	owned := map[int32]bool{}
	m.cl = client(t, s, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.SessionTimeout(30 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			for _, p := range got[topic] {
				owned[p] = true
			}
			m.assigned <- len(owned)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			for _, p := range lost[topic] {
				delete(owned, p)
			}
			m.assigned <- len(owned)
		}),
	}, opts...)...)
	go func() {
		for ctx.Err() == nil {
			fs := m.cl.PollFetches(ctx)
			if fs.IsClientClosed() {
				return
			}
			fs.EachRecord(func(r *kgo.Record) { m.records <- r })
		}
	}()
	return m
}

func (m *groupMember) waitOwned(t *testing.T, ctx context.Context, want int) {
	t.Helper()
	for last := -1; ; {
		select {
		case n := <-m.assigned:
			if last = n; n == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the member owns %d partitions, want %d", last, want)
		}
	}
}

func (m *groupMember) read(t *testing.T, ctx context.Context, n int) (out []*kgo.Record) {
	t.Helper()
	for len(out) < n {
		select {
		case r := <-m.records:
			out = append(out, r)
		case <-ctx.Done():
			t.Fatalf("%d records, want %d", len(out), n)
		}
	}
	return out
}

// Two members share the partitions, by both kinds of assignor; one that leaves gives its share back; positions
// survive a restart of the server.
func TestGroupRebalance(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"eager": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			log := newMemLog(t)
			s := start(t, log, func(c *Config) { c.DefaultPartitions = 4 })
			ctx := within(t, 30*time.Second)
			produce(t, ctx, client(t, s), "t", 400)

			one := joinGroup(t, ctx, s, "g", "t", kgo.Balancers(balancer))
			one.waitOwned(t, ctx, 4)
			one.read(t, ctx, 400)
			if err := one.cl.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatal(err)
			}
			two := joinGroup(t, ctx, s, "g", "t", kgo.Balancers(balancer))
			two.waitOwned(t, ctx, 2)
			one.waitOwned(t, ctx, 2)

			d, err := admin(t, s).DescribeGroups(ctx, "g")
			if err != nil || len(d["g"].Members) != 2 {
				t.Fatalf("describe: %+v %v", d, err)
			}
			two.cl.Close() // leaves
			one.waitOwned(t, ctx, 4)
			one.cl.Close()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			s = start(t, log, nil) // I1: what was committed is still there
			produce(t, ctx, client(t, s), "t", 100)
			three := joinGroup(t, ctx, s, "g", "t")
			for _, r := range three.read(t, ctx, 100) {
				if r.Offset < 20 {
					t.Fatalf("%d-%d came again", r.Partition, r.Offset)
				}
			}
		})
	}
}

// A member that dies without a word is removed after its session.
func TestGroupSessionTimeout(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 2 })
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 1)
	dead := rawMember(t, ctx, s, "g", "", 300*time.Millisecond)
	if dead.Generation != 1 {
		t.Fatalf("joined %+v", dead)
	}
	one := joinGroup(t, ctx, s, "g", "t", kgo.Balancers(kgo.RangeBalancer()))
	one.waitOwned(t, ctx, 2)
}

// rawMember joins by hand, through the two steps of KIP-394.
func rawMember(t *testing.T, ctx context.Context, s *Server, group, instance string, session time.Duration) *kmsg.JoinGroupResponse {
	t.Helper()
	cl := client(t, s)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis = group, "consumer", int32(session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(session.Milliseconds())
	if instance != "" {
		req.InstanceID = &instance
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	p.Metadata = meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	for {
		req.MemberID = ""
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		if instance == "" {
			if kerr.ErrorForCode(resp.ErrorCode) != kerr.MemberIDRequired || resp.MemberID == "" {
				t.Fatalf("first join: %+v", resp)
			}
			req.MemberID = resp.MemberID
			if resp, err = req.RequestWith(ctx, cl); err != nil {
				t.Fatal(err)
			}
			if kerr.ErrorForCode(resp.ErrorCode) == kerr.UnknownMemberID { // a machine so busy that the session was over before
				continue
			}
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			t.Fatal(err)
		}
		return resp
	}
}

// A static member comes back under a new id without a rebalance, and its old id is fenced.
func TestGroupStaticMember(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 1)
	cl := client(t, s)
	first := rawMember(t, ctx, s, "g", "i1", time.Minute)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.InstanceID = "g", first.MemberID, first.Generation, ptr("i1")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: first.MemberID, MemberAssignment: []byte("mine")}}
	if resp, err := sync.RequestWith(ctx, cl); err != nil || resp.ErrorCode != 0 || string(resp.MemberAssignment) != "mine" {
		t.Fatalf("sync: %+v %v", resp, err)
	}
	second := rawMember(t, ctx, s, "g", "i1", time.Minute)
	if second.Generation != first.Generation || second.MemberID == first.MemberID || !second.SkipAssignment {
		t.Fatalf("came back as %+v, was %+v", second, first)
	}
	hb := kmsg.NewPtrHeartbeatRequest()
	hb.Group, hb.MemberID, hb.Generation, hb.InstanceID = "g", first.MemberID, first.Generation, ptr("i1")
	if resp, err := hb.RequestWith(ctx, cl); err != nil || kerr.ErrorForCode(resp.ErrorCode) != kerr.FencedInstanceID {
		t.Fatalf("heartbeat of the old id: %+v %v", resp, err)
	}
	sync.MemberID, sync.GroupAssignment = second.MemberID, nil
	if resp, err := sync.RequestWith(ctx, cl); err != nil || string(resp.MemberAssignment) != "mine" {
		t.Fatalf("sync after: %+v %v", resp, err)
	}
	lv, err := admin(t, s).LeaveGroup(ctx, kadm.LeaveGroup("g").InstanceIDs("i1"))
	if err != nil || lv.Error() != nil {
		t.Fatalf("leave by instance: %+v %v", lv, err)
	}
}

// Commits of members that are not in the group are refused; simple clients commit while it is empty.
func TestOffsetCommitChecks(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 1)
	adm := admin(t, s)
	off := kadm.Offsets{}
	off.Add(kadm.Offset{Topic: "t", Partition: 1, At: 7, Metadata: "m", LeaderEpoch: -1})
	if res, err := adm.CommitOffsets(ctx, "g", off); err != nil || res.Error() != nil {
		t.Fatalf("commit: %+v %v", res, err)
	}
	bad := kadm.Offsets{}
	bad.Add(kadm.Offset{Topic: "t", Partition: 99, At: 7})
	if res, err := adm.CommitOffsets(ctx, "g", bad); err != nil || res.Error() != kerr.UnknownTopicOrPartition && res.Error() != kerr.UnknownTopicID {
		t.Fatalf("commit for an unknown partition: %+v %v", res, err)
	}
	rawMember(t, ctx, s, "g", "", time.Minute)
	if res, err := adm.CommitOffsets(ctx, "g", off); err != nil || res.Error() != kerr.UnknownMemberID {
		t.Fatalf("commit beside members: %+v %v", res, err)
	}
	got, err := adm.FetchOffsets(ctx, "g")
	if o, ok := got.Lookup("t", 1); err != nil || !ok || o.At != 7 || o.Metadata != "m" {
		t.Fatalf("fetched %+v %v", got, err)
	}
	many := adm.FetchManyOffsets(ctx, "g", "h")
	if err := many.Error(); err != nil || len(many["h"].Fetched) != 0 {
		t.Fatalf("fetch many: %+v %v", many, err)
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil || len(groups) != 1 || groups["g"].State == "" {
		t.Fatalf("list: %+v %v", groups, err)
	}
	if res, err := adm.DeleteGroups(ctx, "g"); err != nil || res["g"].Err != kerr.NonEmptyGroup {
		t.Fatalf("delete: %+v %v", res, err)
	}
	if res, err := adm.DeleteGroups(ctx, "h"); err != nil || res["h"].Err != kerr.GroupIDNotFound {
		t.Fatalf("delete an unknown one: %+v %v", res, err)
	}
}

// Internal topics are marked for clients; a deleted topic takes its positions with it.
func TestOffsetsTopic(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	produce(t, ctx, client(t, s), "t", 1)
	tp := record.TopicPartition{Topic: "t"}
	if err := s.offsets.commit(ctx, "g", map[record.TopicPartition]*committed{tp: {offset: 1}}); err != nil {
		t.Fatal(err)
	}
	s.topics.invalidate() // what was known a second ago does for clients
	for _, names := range [][]string{nil, {OffsetsTopic}} {
		md, err := admin(t, s).Metadata(ctx, names...)
		if err != nil || !md.Topics[OffsetsTopic].IsInternal {
			t.Fatalf("the internal topic: %+v %v", md.Topics, err)
		}
	}
	if del, err := admin(t, s).DeleteTopics(ctx, "t"); err != nil || del.Error() != nil {
		t.Fatal(del, err)
	}
	if names := s.offsets.names(); len(names) != 0 {
		t.Fatalf("positions in a deleted topic stay: %v", names)
	}
}
