package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// alterBroker changes settings of the node or, where name is empty, of all.
func alterBroker(t *testing.T, ctx context.Context, cl *kgo.Client, name string, dry bool, ops ...configOp) (int16, string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = kmsg.ConfigResourceTypeBroker, name, ops
	req.Resources, req.ValidateOnly = append(req.Resources, res), dry
	resp, err := cl.Broker(1).Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	r := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	return r.ErrorCode, deref(r.ErrorMessage)
}

func setting(name, value string) configOp { return configOp{Name: name, Value: &value} }

func incompressible(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

func unset(name string) configOp {
	return configOp{Name: name, Op: kmsg.IncrementalAlterConfigOpDelete}
}

// said tells what DescribeConfigs says of a setting: all values with where they come from, what counts first.
func said(t *testing.T, ctx context.Context, cl *kgo.Client, kind kmsg.ConfigResourceType, name, setting string) string {
	t.Helper()
	c, ok := describeOne(t, ctx, cl, kind, name)[setting]
	if !ok {
		return "nothing"
	}
	var out []string
	for _, syn := range c.ConfigSynonyms {
		out = append(out, fmt.Sprintf("%s=%s %s", syn.Name, deref(syn.Value), strings.TrimSuffix(syn.Source.String(), "_CONFIG")))
	}
	if syn := c.ConfigSynonyms[0]; deref(c.Value) != deref(syn.Value) || c.Source != syn.Source || c.ReadOnly {
		t.Errorf("%s is %s of %s, read-only %v, and its first synonym %s", setting, deref(c.Value), c.Source, c.ReadOnly, out[0])
	}
	return strings.Join(out, ", ")
}

// Settings of the broker hold for topics that have none of their own, in Kafka's order: the topic's, the node's, all nodes', the flags', the default. The
// order and the answers are those of a Kafka 4.4.0, seen by the same requests. They are there after a loss of power (I1).
func TestBrokerSettingsAreChanged(t *testing.T) {
	mem := vfs.NewMem()
	cfg := local.Config{Dir: "/log", FS: mem, JournalBytes: 1 << 20, AwaitDefaults: true, DefaultTopic: broker.TopicConfig{MaxMessageBytes: 900_000}}
	ctx := within(t, 60*time.Second)
	var cl *kgo.Client
	begin := func() *local.Log {
		t.Helper()
		log, err := local.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		cl = client(t, start(t, log, nil))
		return log
	}
	log := begin()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	alter := func(name string, ops ...configOp) {
		t.Helper()
		if code, msg := alterBroker(t, ctx, cl, name, false, ops...); code != codeNone {
			t.Fatalf("broker %q: %d %s", name, code, msg)
		}
	}
	want := func(kind kmsg.ConfigResourceType, name, setting, want string) {
		t.Helper()
		if got := said(t, ctx, cl, kind, name, setting); got != want {
			t.Errorf("%s of %s %q: %s, want %s", setting, kind, name, got, want)
		}
	}
	const topic, node = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	holds := func(age time.Duration, message int32) {
		t.Helper()
		infos, err := log.Topics(ctx)
		for _, in := range infos {
			if in.Name == "t" && (in.Config.RetentionAge != age || in.Config.MaxMessageBytes != message) {
				t.Errorf("the topic has %+v", in.Config)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want(topic, "t", "max.message.bytes", "message.max.bytes=900000 STATIC_BROKER, message.max.bytes=1048588 DEFAULT")
	holds(0, 900_000)
	alter("1", setting("log.retention.ms", "3600000"))
	alter("", setting("log.retention.ms", "7200000"), setting("message.max.bytes", "1048588"))
	holds(time.Hour, 1<<20+12)
	age := "log.retention.ms=3600000 DYNAMIC_BROKER, log.retention.ms=7200000 DYNAMIC_DEFAULT_BROKER, log.retention.ms=-1 DEFAULT"
	size := "message.max.bytes=1048588 DYNAMIC_DEFAULT_BROKER, message.max.bytes=900000 STATIC_BROKER, message.max.bytes=1048588 DEFAULT"
	all := func() {
		t.Helper()
		want(node, "1", "log.retention.ms", age)
		want(topic, "t", "retention.ms", age)
		want(node, "1", "message.max.bytes", size)
		want(topic, "t", "max.message.bytes", size)
		want(node, "", "log.retention.ms", "log.retention.ms=7200000 DYNAMIC_DEFAULT_BROKER")
		want(node, "", "log.retention.bytes", "nothing")
	}
	all()

	cfg.FS = mem.Crash(rand.New(rand.NewPCG(1, 2)), vfs.KeepNothing)
	log = begin()
	adm = kadm.NewClient(cl)
	all()
	holds(time.Hour, 1<<20+12)

	if res, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: ptr("60000")}}, "t"); err != nil || res[0].Err != nil {
		t.Fatal(res, err)
	}
	holds(time.Minute, 1<<20+12)
	want(topic, "t", "retention.ms", "retention.ms=60000 DYNAMIC_TOPIC, "+age)
	if res, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "retention.ms"}}, "t"); err != nil || res[0].Err != nil {
		t.Fatal(res, err)
	}
	alter("1", unset("log.retention.ms"), unset("message.max.bytes"))
	holds(2*time.Hour, 1<<20+12)
	replace := kmsg.NewPtrAlterConfigsRequest() // what is not named is open again
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.Configs = node, []kmsg.AlterConfigsRequestResourceConfig{{Name: "message.max.bytes", Value: ptr("5000")}}
	replace.Resources = append(replace.Resources, res)
	if resp, err := replace.RequestWith(ctx, cl); err != nil || resp.Resources[0].ErrorCode != codeNone {
		t.Fatalf("%+v %v", resp, err)
	}
	holds(0, 5000)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: incompressible(9000)}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("9000 bytes where 5000 are allowed: %v", err)
	}
	alter("", unset("message.max.bytes"))
	holds(0, 900_000)
}

// What cannot be changed is refused with Kafka's codes, and nothing of the request is done.
func TestBrokerSettingsRefused(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	cl := client(t, s)
	add := func(name, value string) configOp {
		return configOp{Name: name, Value: &value, Op: kmsg.IncrementalAlterConfigOpAppend}
	}
	good := setting("log.retention.bytes", "12345")
	for _, c := range []struct {
		name string
		want int16
		text string
		ops  []configOp
	}{
		{"1", codeInvalidRequest, "cannot update these configs dynamically: [group.max.size, node.id]", []configOp{good, setting("node.id", "2"), setting("group.max.size", "10")}},
		{"", codeInvalidRequest, "cannot update these configs dynamically: [min.insync.replicas]", []configOp{good, setting("min.insync.replicas", "2")}},
		{"1", codeInvalidConfig, "no.such", []configOp{good, setting("no.such", "1")}},
		{"1", codeInvalidRequest, "soon", []configOp{good, setting("log.retention.ms", "soon")}},
		{"1", codeInvalidRequest, "null", []configOp{good, {Name: "log.retention.ms"}}},
		{"1", codeInvalidRequest, "twice", []configOp{good, good}},
		{"1", codeInvalidRequest, "segments of 1 bytes", []configOp{good, setting("log.segment.bytes", "1")}},
		{"1", codeInvalidRequest, "compaction lag", []configOp{good, setting("log.cleaner.min.compaction.lag.ms", "1000"), setting("log.cleaner.max.compaction.lag.ms", "10")}},
		{"1", codeInvalidConfig, "no list", []configOp{good, add("log.retention.ms", "7")}},
		{"1", codeInvalidRequest, "max.connections", []configOp{good, setting("max.connections", "9")}},
		{"7", codeInvalidRequest, "this node is 1", []configOp{good}},
		{"x", codeInvalidRequest, "this node is 1", []configOp{good}},
	} {
		if code, msg := alterBroker(t, ctx, cl, c.name, false, c.ops...); code != c.want || !strings.Contains(msg, c.text) {
			t.Errorf("broker %q, %+v: %d %q, want %d and %q", c.name, c.ops, code, msg, c.want, c.text)
		}
	}
	if code, msg := alterBroker(t, ctx, cl, "1", true, good); code != codeNone {
		t.Errorf("only checked: %d %s", code, msg)
	}
	if code, msg := alterBroker(t, ctx, cl, "1", false, unset("node.id"), unset("no.such")); code != codeNone {
		t.Errorf("what is not set is deleted: %d %s", code, msg)
	}
	if node, all := s.brokers.levels(); node != (brokerTuning{}) || all != (brokerTuning{}) {
		t.Fatalf("set are %+v and %+v", node, all)
	}
	if code, msg := alterBroker(t, ctx, cl, "1", false, add("log.cleanup.policy", "compact")); code != codeNone {
		t.Errorf("added to a list: %d %s", code, msg)
	}
	if got := said(t, ctx, cl, kmsg.ConfigResourceTypeBroker, "1", "log.cleanup.policy"); !strings.HasPrefix(got, "log.cleanup.policy=compact,delete DYNAMIC_BROKER, ") {
		t.Error(got)
	}
}

// Changing settings of a broker needs AlterConfigs on the cluster.
func TestRightsOfBrokerSettings(t *testing.T) {
	s := guardedServer(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	ann := as(t, s, "ann")
	grant(t, s, allow("ann", acl.DescribeConfigs, acl.Cluster, acl.ClusterName))
	if code, _ := alterBroker(t, ctx, ann, "", false, setting("log.retention.ms", "1")); code != codeClusterAuthorization {
		t.Fatalf("without a rule: code %d", code)
	}
	grant(t, s, allow("ann", acl.AlterConfigs, acl.Cluster, acl.ClusterName))
	if code, msg := alterBroker(t, ctx, ann, "", false, setting("log.retention.ms", "1")); code != codeNone {
		t.Fatalf("with a rule: %d %s", code, msg)
	}
}

// max.connections counts for who comes next.
func TestMaxConnectionsIsChanged(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	cl := client(t, s)
	if code, msg := alterBroker(t, ctx, cl, "1", false, setting("max.connections", "10")); code != codeNone {
		t.Fatal(code, msg)
	}
	var c net.Conn
	for range 10 { // and the client has one
		var err error
		if c, err = net.Dial("tcp", s.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetReadDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one more connection than there may be: %v", err)
	}
	if code, msg := alterBroker(t, ctx, cl, "1", false, unset("max.connections")); code != codeNone {
		t.Fatal(code, msg)
	}
	if err := client(t, s).Ping(ctx); err != nil {
		t.Errorf("there may be many again: %v", err)
	}
}

// Groups without a least time between assignments of their own have the broker's; a group's own 0 is 0.
func TestAssignmentIntervalOfBroker(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	cl := client(t, s)
	interval := func() time.Duration { return s.groups.assignmentInterval("g") }
	if code, msg := alterBroker(t, ctx, cl, "", false, setting("group.consumer.assignment.interval.ms", "2000")); code != codeNone || interval() != 2*time.Second {
		t.Fatal(code, msg, interval())
	}
	const own = "consumer.assignment.interval.ms"
	want := "group." + own + "=2000 DYNAMIC_DEFAULT_BROKER, group." + own + "=0 DEFAULT"
	if got := said(t, ctx, cl, kmsg.ConfigResourceTypeGroupConfig, "g", own); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if code, msg := alterGroup(t, ctx, cl, "g", false, false, setting(own, "0")); code != codeNone || interval() != 0 {
		t.Fatal(code, msg, interval())
	}
	if got := said(t, ctx, cl, kmsg.ConfigResourceTypeGroupConfig, "g", own); got != own+"=0 GROUP, "+want {
		t.Errorf("%s, want 0 over %s", got, want)
	}
}
