package wire

import (
	"context"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// alterGroup sends one change of a group's settings, by key 44 or, as a replacement, by key 33.
func alterGroup(t *testing.T, ctx context.Context, cl *kgo.Client, group string, dry, replace bool, ops ...configOp) (int16, string) {
	t.Helper()
	if replace {
		req := kmsg.NewPtrAlterConfigsRequest()
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		for _, op := range ops {
			res.Configs = append(res.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: op.Name, Value: op.Value})
		}
		req.Resources, req.ValidateOnly = append(req.Resources, res), dry
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Resources[0].ErrorCode, deref(resp.Resources[0].ErrorMessage)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = kmsg.ConfigResourceTypeGroupConfig, group, ops
	req.Resources, req.ValidateOnly = append(req.Resources, res), dry
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Resources[0].ErrorCode, deref(resp.Resources[0].ErrorMessage)
}

// groupSettings gives the settings of a group of the newer protocol, with a star behind those that are its own.
func groupSettings(t *testing.T, ctx context.Context, cl *kgo.Client, group string) map[string]string {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("describe group %s: %+v %v", group, resp, err)
	}
	out := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		v := deref(c.Value)
		if c.Source == kmsg.ConfigSourceGroupConfig {
			v += "*"
		}
		if name, ok := strings.CutPrefix(c.Name, "consumer."); ok {
			out[name] = v
		}
	}
	return out
}

// Settings of groups are changed within Kafka's limits, whether the group is there or not, and stay over a restart.
func TestGroupSettingsAreKept(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 20*time.Second)
	cl := client(t, s)
	op := func(name, value string) configOp { return configOp{Name: "consumer." + name, Value: &value} }
	wantSettings := func(assignment, heartbeat, session string) {
		t.Helper()
		want := map[string]string{"assignment.interval.ms": assignment, "heartbeat.interval.ms": heartbeat, "session.timeout.ms": session}
		if got := groupSettings(t, ctx, cl, "g"); !maps.Equal(got, want) {
			t.Fatalf("settings %v, want %v", got, want)
		}
	}
	wantSettings("0", "3000", "45000")
	if code, msg := alterGroup(t, ctx, cl, "g", true, false, op("session.timeout.ms", "50000")); code != 0 {
		t.Fatal(code, msg)
	}
	wantSettings("0", "3000", "45000") // it was only looked at
	if code, msg := alterGroup(t, ctx, cl, "g", false, false, op("session.timeout.ms", "50000"), op("assignment.interval.ms", "1000")); code != 0 {
		t.Fatal(code, msg)
	}
	wantSettings("1000*", "3000", "50000*")

	for _, bad := range []struct {
		want int16
		ops  []configOp
	}{
		{codeInvalidConfig, []configOp{op("session.timeout.ms", "44999")}},
		{codeInvalidConfig, []configOp{op("session.timeout.ms", "60001")}},
		{codeInvalidConfig, []configOp{op("session.timeout.ms", "soon")}},
		{codeInvalidConfig, []configOp{op("heartbeat.interval.ms", "2999")}},
		{codeInvalidConfig, []configOp{op("heartbeat.interval.ms", "15001")}},
		{codeInvalidConfig, []configOp{op("assignment.interval.ms", "-1")}},
		{codeInvalidConfig, []configOp{op("no.such", "1")}},
		{codeInvalidConfig, []configOp{op("heartbeat.interval.ms", "9000"), op("no.such", "1")}}, // all or nothing
		{codeInvalidRequest, []configOp{op("heartbeat.interval.ms", "9000"), op("heartbeat.interval.ms", "9001")}},
	} {
		if code, msg := alterGroup(t, ctx, cl, "g", false, false, bad.ops...); code != bad.want || msg == "" {
			t.Errorf("%s=%s: code %d (%s), want %d", bad.ops[0].Name, deref(bad.ops[0].Value), code, msg, bad.want)
		}
	}
	if code, _ := alterGroup(t, ctx, cl, "", false, false, op("heartbeat.interval.ms", "9000")); code != codeInvalidRequest {
		t.Errorf("a group without a name: code %d", code)
	}
	wantSettings("1000*", "3000", "50000*")

	s = start(t, log, nil) // what the first one keeps in memory it does not have
	cl = client(t, s)
	wantSettings("1000*", "3000", "50000*")
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
	resp, err := list.RequestWith(ctx, cl)
	if err != nil || len(resp.ConfigResources) != 1 || resp.ConfigResources[0].Name != "g" {
		t.Fatalf("groups with settings: %+v %v", resp, err)
	}
	if code, msg := alterGroup(t, ctx, cl, "g", false, true, op("heartbeat.interval.ms", "6000")); code != 0 {
		t.Fatal(code, msg)
	}
	wantSettings("0", "6000*", "45000") // replaced
	if code, msg := alterGroup(t, ctx, cl, "g", false, false, configOp{Name: "consumer.heartbeat.interval.ms", Op: kmsg.IncrementalAlterConfigOpDelete}); code != 0 {
		t.Fatal(code, msg)
	}
	wantSettings("0", "3000", "45000")
	if n := len(s.tuned.names()); n != 0 {
		t.Fatalf("%d groups have settings", n)
	}
}

// Changing the settings of a group needs AlterConfigs on it, looking at them DescribeConfigs.
func TestRightsOfGroupSettings(t *testing.T) {
	s := guardedServer(t, newMemLog(t), nil)
	ctx := within(t, 20*time.Second)
	ann, session := as(t, s, "ann"), "50000"
	change := func() int16 {
		code, _ := alterGroup(t, ctx, ann, "g", false, false, configOp{Name: "consumer.session.timeout.ms", Value: &session})
		return code
	}
	grant(t, s, allow("ann", acl.AlterConfigs, acl.Cluster, acl.ClusterName), allow("ann", acl.AlterConfigs, acl.Group, "other"))
	if code := change(); code != codeGroupAuthorization {
		t.Fatalf("without a rule: code %d", code)
	}
	grant(t, s, allow("ann", acl.AlterConfigs, acl.Group, "g"))
	if code := change(); code != codeNone {
		t.Fatalf("with a rule: code %d", code)
	}
	if got := groupSettings(t, ctx, ann, "g")["session.timeout.ms"]; got != "50000*" {
		t.Fatalf("session %s", got)
	}
}

// The coordinator keeps to a group's settings: what members are told, when they are removed, and how soon others share.
func TestGroupSettingsAreHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testCoordinator(t)
		c.tuned = newTunedGroups(nil, &held{limit: 1 << 20})
		w := world{}
		w.add("a", 4)
		member := func(id string) *simMember {
			return &simMember{c: c, w: w, id: id, names: []string{"a"}, owned: partitionSet{}}
		}
		first, second := member("1"), member("2")
		members := func() int {
			c.mu.Lock() // timers of sessions run beside
			defer c.mu.Unlock()
			return c.memberCount("g")
		}
		beat := func(m *simMember) int32 {
			resp := m.beat(true)
			m.take(resp)
			return resp.HeartbeatIntervalMillis
		}
		if ms := beat(first); ms != 3000 {
			t.Fatalf("a heartbeat every %d ms, want 3000", ms)
		}
		c.tuned.put("g", groupConfig{Session: 50_000, Heartbeat: 7000, Assignment: 10_000})
		if ms := beat(first); ms != 7000 {
			t.Fatalf("a heartbeat every %d ms, want 7000", ms)
		}
		for range 4 { // the last assignment is younger than ten seconds
			beat(second)
			beat(first)
			if len(first.owned) != 4 || len(second.owned) != 0 {
				t.Fatalf("%d and %d partitions before the interval is over", len(first.owned), len(second.owned))
			}
			<-time.After(2 * time.Second)
		}
		<-time.After(3 * time.Second)
		for range 3 {
			beat(first)
			beat(second)
		}
		wantShared(t, w, []*simMember{first, second}, true)
		if len(first.owned) != 2 {
			t.Fatalf("%d partitions, want 2", len(first.owned))
		}
		<-time.After(49 * time.Second)
		if n := members(); n != 2 {
			t.Fatalf("%d members after 49 s, want 2", n)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := members(); n != 0 {
			t.Fatalf("%d members after 51 s, want none", n)
		}
	})
}

// What quotas and SCRAM users take in memory counts in the budget of the Kafka port, and is given back (I8).
func TestSettingsAreInTheBudget(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 20*time.Second)
	used := s.quotas.kept.used.Load()
	e := quotaEntity{Client: quotaName{Name: strings.Repeat("c", 1000), Set: true}}
	if err := s.quotas.change(ctx, []quotaChange{{e, map[string]float64{produceQuota: 1000}}}); err != nil {
		t.Fatal(err)
	}
	if more := s.quotas.kept.used.Load() - used; more < 1000 {
		t.Fatalf("a quota counts %d bytes", more)
	}
	if again := start(t, log, nil); again.quotas.kept.used.Load() != s.quotas.kept.used.Load() {
		t.Fatalf("%d bytes after a restart, %d before", again.quotas.kept.used.Load(), s.quotas.kept.used.Load())
	}
	s.quotas.kept.limit = s.quotas.kept.used.Load()
	other := quotaEntity{Client: quotaName{Name: "other", Set: true}}
	if err := s.quotas.change(ctx, []quotaChange{{other, map[string]float64{produceQuota: 1000}}}); codeOf(err) != codePolicyViolation {
		t.Fatalf("a quota without room: %v", err)
	}
	r := &request{clientID: e.Client.Name, proof: &proof{principal: anonymous}}
	s.quotas.charge(r, produceQuota, 10) // measured all the same, with those who have no meter of their own
	if err := s.quotas.change(ctx, []quotaChange{{e, map[string]float64{produceQuota: math.NaN()}}}); err != nil {
		t.Fatal(err)
	}
	if n := s.quotas.kept.used.Load() - used; n > 4096 {
		t.Fatalf("%d bytes are left", n)
	}
}
