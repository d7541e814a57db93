package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// A topic gets more partitions, never fewer; producers and consumers see them.
func TestCreatePartitions(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 10*time.Second)
	adm := admin(t, s)
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	res, err := adm.UpdatePartitions(ctx, 5, "t", "none")
	if err != nil || res["t"].Err != nil || !errors.Is(res["none"].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("%+v %v", res, err)
	}
	if res, err = adm.UpdatePartitions(ctx, 5, "t", OffsetsTopic); err != nil || !errors.Is(res["t"].Err, kerr.InvalidPartitions) || !errors.Is(res[OffsetsTopic].Err, kerr.InvalidTopicException) {
		t.Fatalf("no growth: %+v %v", res, err)
	}
	md, err := adm.Metadata(ctx, "t")
	if err != nil || len(md.Topics["t"].Partitions) != 5 {
		t.Fatalf("%+v %v", md.Topics, err)
	}
}

// Single positions are removed, unless a member reads the topic.
func TestOffsetDelete(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 10*time.Second)
	produce(t, ctx, client(t, s), "t", 1)
	tp := record.TopicPartition{Topic: "t"}
	if err := s.offsets.commit(ctx, "g", map[record.TopicPartition]*committed{tp: {offset: 1}, {Topic: "t", Partition: 1}: {offset: 2}}); err != nil {
		t.Fatal(err)
	}
	adm := admin(t, s)
	set := kadm.TopicsSet{"t": {0: {}}}
	if res, err := adm.DeleteOffsets(ctx, "g", set); err != nil || res.Error() != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if has := s.offsets.of("g"); len(has) != 1 || has[record.TopicPartition{Topic: "t", Partition: 1}].offset != 2 {
		t.Fatalf("left: %+v", has)
	}
	if _, err := adm.DeleteOffsets(ctx, "none", set); !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatalf("an unknown group: %v", err)
	}
	rawMember(t, ctx, s, "g", "", time.Minute)
	res, err := adm.DeleteOffsets(ctx, "g", set)
	if err != nil || !errors.Is(res.Error(), kerr.GroupSubscribedToTopic) {
		t.Fatalf("beside a member: %+v %v", res, err)
	}
}

// AlterConfigs replaces all settings: what is not named is the default again.
func TestAlterConfigsReplaces(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 10*time.Second)
	adm := admin(t, s)
	size, hour := "2000", "3600000"
	if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"max.message.bytes": &size, "retention.ms": &hour}, "t"); err != nil {
		t.Fatal(err)
	}
	res, err := adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: ptr("7200000")}}, "t")
	if err != nil || res[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	topics, _ := log.Topics(ctx)
	if c := topics[0].Config; c.RetentionAge != 2*time.Hour || c.MaxMessageBytes != 0 || c.Partitions != 2 {
		t.Fatalf("%+v", c)
	}
	if res, err = adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "no.such", Value: ptr("1")}}, "t"); err != nil || !errors.Is(res[0].Err, kerr.InvalidConfig) {
		t.Fatalf("%+v %v", res, err)
	}
}

// What tools ask for that one node has one answer to.
func TestOneNodeAnswers(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	ctx := within(t, 10*time.Second)
	produce(t, ctx, client(t, s), "t", 3)
	adm := admin(t, s)
	el, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{"t": {0: {}, 7: {}}})
	if err != nil || !errors.Is(el["t"][0].Err, kerr.ElectionNotNeeded) || !errors.Is(el["t"][7].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("election: %+v %v", el, err)
	}
	if lr, err := adm.ListPartitionReassignments(ctx, nil); err != nil || len(lr) != 0 {
		t.Errorf("reassignments: %+v %v", lr, err)
	}
	if q, err := adm.DescribeClientQuotas(ctx, false, nil); err != nil || len(q) != 0 {
		t.Errorf("quotas: %+v %v", q, err)
	}
	acls, err := adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations())
	if err != nil || len(acls) == 0 || !errors.Is(acls[0].Err, kerr.SecurityDisabled) {
		t.Errorf("access rules: %+v %v", acls, err)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || dirs[1]["log"].Topics["t"][0].Size < 61 {
		t.Errorf("log dirs: %+v %v", dirs, err)
	}
	epoch := func(current, asked int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = current, asked
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
		return handle(t, s, s.offsetForLeaderEpoch, req, 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	}
	if p := epoch(-1, 0); p.EndOffset != 3 || p.LeaderEpoch != 0 || p.ErrorCode != 0 {
		t.Errorf("end of the epoch: %+v", p)
	}
	if p := epoch(0, 5); p.EndOffset != -1 || p.LeaderEpoch != -1 || p.ErrorCode != 0 {
		t.Errorf("an epoch that never was: %+v", p)
	}
	if p := epoch(3, 0); p.ErrorCode != codeUnknownLeaderEpoch {
		t.Errorf("a later epoch: %+v", p)
	}
}

// topicsRead counts how often all topics are read.
type topicsRead struct {
	*memLog
	n int
}

func (l *topicsRead) Topics(ctx context.Context) ([]broker.TopicInfo, error) {
	l.n++
	return l.memLog.Topics(ctx)
}

// I8: many unknown names or ids cost one look at all topics, not one each; a topic that others make is still found
// soon, and one that the server makes at once.
func TestUnknownTopicsAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &topicsRead{memLog: newMemLog(t)}
		c := &topicCache{log: log, maxAge: time.Second}
		for i := range 1000 {
			if _, err := c.get(t.Context(), fmt.Sprint(i)); !errors.Is(err, broker.ErrUnknownTopic) {
				t.Fatal(err)
			}
			if _, ok, err := c.name(t.Context(), [16]byte{byte(i), byte(i >> 8), 1}); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if log.n != 1 {
			t.Fatalf("all topics were read %d times", log.n)
		}
		for _, name := range []string{"others", "ours"} {
			if _, err := log.CreateTopic(t.Context(), name, topicOf(1)); err != nil {
				t.Fatal(err)
			}
			if name == "ours" {
				c.invalidate()
			} else {
				<-time.After(unknownAge)
			}
			in, err := c.get(t.Context(), name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, ok, err := c.name(t.Context(), in.ID); got != name || !ok || err != nil {
				t.Fatalf("%s by its id: %q %v %v", name, got, ok, err)
			}
		}
	})
}

// A request whose client has gone is not worked on to its end.
func TestMetadataOfGoneClient(t *testing.T) {
	log := &topicsRead{memLog: newMemLog(t)}
	s := start(t, log, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := kmsg.NewPtrMetadataRequest()
	name := "t"
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	before := log.n
	if _, err := s.metadata(&request{ctx: ctx, version: 8, body: req}); !errors.Is(err, context.Canceled) || log.n != before {
		t.Errorf("%v, %d looks at all topics", err, log.n-before)
	}
}
