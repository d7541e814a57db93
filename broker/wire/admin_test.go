package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

func admin(t testing.TB, s *Server) *kadm.Client { return kadm.NewClient(client(t, s)) }

func ptr[T any](v T) *T { return &v }

func TestTopics(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 20*time.Second)
	adm := admin(t, s)

	res, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{
		"retention.ms": ptr("60000"), "retention.bytes": ptr("1000000"), "segment.bytes": ptr("65536"), "segment.ms": ptr("5000"),
		"max.message.bytes": ptr("2000000"), "cleanup.policy": ptr("compact,delete"), "delete.retention.ms": ptr("0"),
		"min.cleanable.dirty.ratio": ptr("0.25"), "min.compaction.lag.ms": ptr("7"), "message.timestamp.type": ptr("LogAppendTime"), "compression.type": ptr("lz4"),
	}, "made")
	if err != nil || res.NumPartitions != 2 {
		t.Fatalf("create: %+v %v", res, err)
	}
	want := broker.TopicConfig{
		Partitions: 2, RetentionAge: time.Minute, RetentionBytes: 1000000, SegmentBytes: 65536, SegmentAge: 5 * time.Second,
		MaxMessageBytes: 2000000, Compact: true, CompactDelete: true, DeleteRetention: -1, MinDirtyRatio: 0.25,
		MinCompactionLag: 7 * time.Millisecond, LogAppendTime: true, Compression: "lz4",
	}
	infos, _ := log.Topics(ctx)
	if len(infos) != 1 || infos[0].Config != want {
		t.Fatalf("the log has %+v, want %+v", infos, want)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, "made")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range configs[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["retention.ms"] != "60000" || got["cleanup.policy"] != "compact,delete" || got["delete.retention.ms"] != "0" || got["min.cleanable.dirty.ratio"] != "0.25" || got["segment.ms"] != "5000" || got["compression.type"] != "lz4" {
		t.Fatalf("described as %v", got)
	}

	for name, c := range map[string]struct {
		topic string
		parts int32
		rf    int16
		cfg   map[string]*string
		want  error
	}{
		"exists":      {"made", 1, 1, nil, kerr.TopicAlreadyExists},
		"name":        {"a b", 1, 1, nil, kerr.InvalidTopicException},
		"internal":    {OffsetsTopic, 1, 1, nil, kerr.InvalidTopicException},
		"replicas":    {"x", 1, 3, nil, kerr.InvalidReplicationFactor},
		"partitions":  {"x", 0, 1, nil, kerr.InvalidPartitions},
		"unknown key": {"x", 1, 1, map[string]*string{"no.such": ptr("1")}, kerr.InvalidConfig},
		"bad value":   {"x", 1, 1, map[string]*string{"retention.ms": ptr("soon")}, kerr.InvalidConfig},
		"null value":  {"x", 1, 1, map[string]*string{"retention.ms": nil}, kerr.InvalidConfig},
		"fixed":       {"x", 1, 1, map[string]*string{"min.insync.replicas": ptr("2")}, kerr.InvalidConfig},
		"codec":       {"x", 1, 1, map[string]*string{"compression.type": ptr("none")}, kerr.InvalidConfig},
	} {
		res, err := adm.CreateTopic(ctx, c.parts, c.rf, c.cfg, c.topic)
		if err == nil {
			err = res.Err
		}
		if err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}

	if md, err := adm.Metadata(ctx, "made"); err != nil || len(md.Topics["made"].Partitions) != 2 || md.Cluster != "ledgerlake" {
		t.Fatalf("metadata: %+v %v", md, err)
	}
	if del, err := adm.DeleteTopics(ctx, "made"); err != nil || del["made"].Err != nil {
		t.Fatalf("delete: %+v %v", del, err)
	}
	if del, err := adm.DeleteTopics(ctx, "made"); err != nil || del["made"].Err != kerr.UnknownTopicOrPartition {
		t.Fatalf("delete again: %+v %v", del, err)
	}
	bc, err := adm.DescribeBrokerConfigs(ctx, 1)
	if err != nil || len(bc) != 1 || len(bc[0].Configs) == 0 {
		t.Fatalf("broker configs: %+v %v", bc, err)
	}
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || len(brokers) != 1 || brokers[0].NodeID != 1 {
		t.Fatalf("brokers: %+v %v", brokers, err)
	}
	dc := kmsg.NewPtrDescribeClusterRequest()
	if resp, err := dc.RequestWith(ctx, client(t, s)); err != nil || resp.ClusterID != "ledgerlake" || len(resp.Brokers) != 1 {
		t.Fatalf("describe cluster: %+v %v", resp, err)
	}
}

func TestListOffsetsAndDeleteRecords(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	cl, adm := client(t, s, kgo.ProducerLinger(0)), admin(t, s)
	for i := range 10 {
		ts := time.UnixMilli(int64(1000 + 100*i))
		if i == 6 {
			ts = time.UnixMilli(9999) // the largest is not the last
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v"), Timestamp: ts}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	list := func(ms int64) (int64, int64) {
		t.Helper()
		req := kmsg.NewPtrListOffsetsRequest()
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = ms
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		p := resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("list %d: %v", ms, err)
		}
		return p.Offset, p.Timestamp
	}
	check := func(ms, off, ts int64) {
		t.Helper()
		if o, at := list(ms); o != off || at != ts {
			t.Errorf("list %d: offset %d time %d, want %d %d", ms, o, at, off, ts)
		}
	}
	check(-1, 10, -1)
	check(-2, 0, -1)
	check(-3, 6, 9999)
	check(-4, 0, -1)
	check(-5, -1, -1)
	check(-6, -1, -1)
	check(0, 0, 1000)
	check(1250, 3, 1300)
	check(5000, 6, 9999)
	check(10000, -1, -1)

	off := kadm.Offsets{}
	off.Add(kadm.Offset{Topic: "t", Partition: 0, At: 4})
	if res, err := adm.DeleteRecords(ctx, off); err != nil || res.Error() != nil || res["t"][0].LowWatermark != 4 {
		t.Fatalf("delete records: %+v %v", res, err)
	}
	check(-2, 4, -1)
	over := kadm.Offsets{}
	over.Add(kadm.Offset{Topic: "t", Partition: 0, At: 400})
	if res, err := adm.DeleteRecords(ctx, over); err != nil || res["t"][0].Err != kerr.OffsetOutOfRange {
		t.Fatalf("delete over the end: %+v %v", res, err)
	}
	got := consume(t, ctx, client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 6)
	if got[0].Offset != 4 {
		t.Fatalf("first offset %d, want 4", got[0].Offset)
	}
}

// Unknown topics and offsets out of range are said, not healed.
func TestUnknownTopicAndRange(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.AutoCreateTopics = false })
	ctx := within(t, 20*time.Second)
	cl := client(t, s, kgo.UnknownTopicRetries(0))
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "none", Value: []byte("v")}).FirstErr(); err != kerr.UnknownTopicOrPartition {
		t.Fatalf("produce: %v", err)
	}
	adm := admin(t, s)
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, ctx, cl, "t", 3)
	c2 := client(t, s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(50)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	fs := c2.PollFetches(ctx)
	if errs := fs.Errors(); len(errs) != 1 || errs[0].Err != kerr.OffsetOutOfRange {
		t.Fatalf("fetch past the end: %v", errs)
	}
}

// A topic may ask for replicas that one node cannot give only where the server is told to take it.
func TestAnyReplication(t *testing.T) {
	for _, any := range []bool{false, true} {
		s := start(t, newMemLog(t), func(c *Config) { c.AnyReplication = any })
		for rf, fine := range map[int16]bool{-1: true, 1: true, 3: any, 0: false, -2: false} {
			got, err := admin(t, s).CreateTopic(within(t, 10*time.Second), 1, rf, nil, "topic"+string(rune('c'+rf)))
			if (err == nil) != fine || err == nil && got.ReplicationFactor != 1 || err != nil && !errors.Is(err, kerr.InvalidReplicationFactor) {
				t.Errorf("any %v, factor %d: %+v %v", any, rf, got, err)
			}
		}
	}
}
