package wire

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeOne gives the settings of one resource with their sources.
func describeOne(t *testing.T, ctx context.Context, cl *kgo.Client, kind kmsg.ConfigResourceType, name string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	req.Resources, req.IncludeSynonyms = append(req.Resources, res), true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("describe %s: %+v %v", name, resp, err)
	}
	out := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range resp.Resources[0].Configs {
		out[c.Name] = c
	}
	return out
}

// Resources of one request are each changed or refused: what librdkafka's test of both keys sends, with the setting of
// a broker refused, which nobody knows here.
func TestAlterConfigsAtOnce(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	cl := client(t, s)
	if _, err := admin(t, s).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
		ops  []configOp
		want int16
	}
	set := func(name, value string) configOp { return configOp{Name: name, Value: &value} }
	all := []resource{
		{kmsg.ConfigResourceTypeTopic, "t", []configOp{set("compression.type", "gzip"), set("flush.ms", "12345678"), set("flush.messages", "77"), set("retention.ms", "0"),
			set("max.compaction.lag.ms", "1000")}, codeNone},
		{kmsg.ConfigResourceTypeBroker, "1", []configOp{set("sasl.kerberos.min.time.before.relogin", "58000")}, codeInvalidConfig},
		{kmsg.ConfigResourceTypeTopic, "none", []configOp{set("compression.type", "lz4"), set("max.compaction.lag.ms", "3600000")}, codeUnknownTopicOrPartition},
		{kmsg.ConfigResourceTypeGroupConfig, "my-group", []configOp{set("consumer.session.timeout.ms", "50000")}, codeNone},
		{kmsg.ConfigResourceTypeClientMetrics, "m", []configOp{set("interval.ms", "1000")}, codeInvalidRequest},
	}
	incremental, replace := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrAlterConfigsRequest()
	for _, r := range all {
		a, b := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewAlterConfigsRequestResource()
		a.ResourceType, a.ResourceName, a.Configs = r.kind, r.name, r.ops
		b.ResourceType, b.ResourceName = r.kind, r.name
		for _, op := range r.ops {
			b.Configs = append(b.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: op.Name, Value: op.Value})
		}
		incremental.Resources, replace.Resources = append(incremental.Resources, a), append(replace.Resources, b)
	}
	for _, req := range []kmsg.Request{incremental, replace} {
		got := map[string]int16{}
		kresp, err := cl.Broker(1).Request(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		switch resp := kresp.(type) {
		case *kmsg.IncrementalAlterConfigsResponse:
			for _, r := range resp.Resources {
				got[r.ResourceName] = r.ErrorCode
			}
		case *kmsg.AlterConfigsResponse:
			for _, r := range resp.Resources {
				got[r.ResourceName] = r.ErrorCode
			}
		}
		want := map[string]int16{}
		for _, r := range all {
			want[r.name] = r.want
		}
		if !maps.Equal(got, want) {
			t.Errorf("key %d: codes %v, want %v", req.Key(), got, want)
		}
	}
	topic := describeOne(t, ctx, cl, kmsg.ConfigResourceTypeTopic, "t")
	for name, want := range map[string]string{"compression.type": "gzip", "flush.ms": "12345678", "flush.messages": "77", "retention.ms": "0",
		"max.compaction.lag.ms": "1000", "max.message.bytes": "1048588"} {
		c := topic[name]
		if deref(c.Value) != want || (c.Source == kmsg.ConfigSourceDefaultConfig) != (name == "max.message.bytes") {
			t.Errorf("%s is %s, source %s", name, deref(c.Value), c.Source)
		}
	}
	if syn := topic["flush.ms"].ConfigSynonyms; len(syn) != 2 || syn[1].Name != "log.flush.interval.ms" || deref(syn[1].Value) != "9223372036854775807" {
		t.Errorf("synonyms of flush.ms: %+v", syn)
	}
	incremental.Resources = append(incremental.Resources[:1], incremental.Resources[0])
	resp, err := incremental.RequestWith(ctx, cl)
	if err != nil || resp.Resources[0].ErrorCode != codeInvalidRequest {
		t.Errorf("a topic that stands twice: %+v %v", resp, err)
	}
}

// What holds at a server is described under Kafka's names, with where it comes from; what Kafka has fixed is read-only.
func TestBrokerSettings(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.MaxConnections, c.OffsetsRetention = 77, 2*time.Hour })
	got := describeOne(t, within(t, 20*time.Second), client(t, s), kmsg.ConfigResourceTypeBroker, "1")
	for name, want := range map[string]string{"max.connections": "77", "offsets.retention.minutes": "120", "num.partitions": "3", "node.id": "1",
		"message.max.bytes": "1048588", "log.retention.ms": "-1", "group.consumer.session.timeout.ms": "45000", "transaction.max.timeout.ms": "900000"} {
		c, ok := got[name]
		static := name != "message.max.bytes" && name != "log.retention.ms" && name != "group.consumer.session.timeout.ms" && name != "transaction.max.timeout.ms"
		changeable := name == "message.max.bytes" || name == "log.retention.ms" || name == "max.connections"
		if !ok || deref(c.Value) != want || c.ReadOnly == changeable || static != (c.Source == kmsg.ConfigSourceStaticBrokerConfig) {
			t.Errorf("%s is %q, source %s, read-only %v; want %s", name, deref(c.Value), c.Source, c.ReadOnly, want)
		}
	}
}

// What tools send beside what is honoured: Kafka's defaults spelled out, a setting deleted that nobody knows, records deleted
// of a topic that is only compacted.
func TestSettingsAsToolsSendThem(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	cl, adm := client(t, s), admin(t, s)
	spelled := map[string]*string{"preallocate": ptr("false"), "segment.jitter.ms": ptr("0"), "unclean.leader.election.enable": ptr("false"),
		"index.interval.bytes": ptr("4096"), "message.timestamp.after.max.ms": ptr("3600000"), "message.timestamp.before.max.ms": ptr("9223372036854775807"),
		"cleanup.policy": ptr("compact")}
	if _, err := adm.CreateTopic(ctx, 1, 1, spelled, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"unclean.leader.election.enable": ptr("true")}, "u"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("a setting that nothing keeps to: %v", err)
	}
	res, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "no.such"}}, "t")
	if err != nil || res[0].Err != nil {
		t.Errorf("delete a setting that nobody knows: %+v %v", res, err)
	}
	produce(t, ctx, cl, "t", 3)
	var off kadm.Offsets
	off.Add(kadm.Offset{Topic: "t", Partition: 0, At: 1})
	if got, err := adm.DeleteRecords(ctx, off); err != nil || !errors.Is(got["t"][0].Err, kerr.PolicyViolation) {
		t.Errorf("delete records of a compacted topic: %+v %v", got, err)
	}
	if res, err := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}}, 1); err != nil || res[0].Err != nil {
		t.Errorf("delete a setting of a broker: %+v %v", res, err)
	}
	if syn := describeOne(t, ctx, cl, kmsg.ConfigResourceTypeGroupConfig, "g")["consumer.session.timeout.ms"].ConfigSynonyms; len(syn) != 1 || syn[0].Name != "group.consumer.session.timeout.ms" {
		t.Errorf("synonyms of a group's setting: %+v", syn)
	}
}
