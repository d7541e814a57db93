package wire

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func entity(pairs ...string) kadm.ClientQuotaEntity {
	var e kadm.ClientQuotaEntity
	for i := 0; i < len(pairs); i += 2 {
		c := kadm.ClientQuotaEntityComponent{Type: pairs[i]}
		if pairs[i+1] != "*" {
			c.Name = &pairs[i+1]
		}
		e = append(e, c)
	}
	return e
}

func setQuota(t *testing.T, adm *kadm.Client, name string, rate float64, pairs ...string) error {
	t.Helper()
	res, err := adm.AlterClientQuotas(within(t, 10*time.Second), []kadm.AlterClientQuotaEntry{{
		Entity: entity(pairs...), Ops: []kadm.AlterClientQuotaOp{{Key: name, Value: rate, Remove: rate < 0}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return res[0].Err
}

// The most particular quota binds, in Kafka's order; a bucket fills and drains by its rate, for each client alone.
func TestQuotaOrder(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	adm := kadm.NewClient(client(t, s))
	now := time.Now()
	s.quotas.now = func() time.Time { return now }
	wait := func(user, clientID string, bytes int) time.Duration {
		s.quotas.mu.Lock()
		clear(s.quotas.meters)
		s.quotas.mu.Unlock()
		return s.quotas.charge(&request{proof: &proof{principal: "User:" + user}, clientID: clientID}, produceQuota, bytes)
	}
	if d := wait("ann", "c", 1<<30); d != 0 {
		t.Fatalf("without a quota: %s", d)
	}
	for i, pairs := range [][]string{ // from the least particular on
		{quotaClient, "*"}, {quotaClient, "c"}, {quotaUser, "*"}, {quotaUser, "*", quotaClient, "*"}, {quotaUser, "*", quotaClient, "c"},
		{quotaUser, "ann"}, {quotaUser, "ann", quotaClient, "*"}, {quotaUser, "ann", quotaClient, "c"},
	} {
		rate := float64(1000 * (i + 1))
		if err := setQuota(t, adm, produceQuota, rate, pairs...); err != nil {
			t.Fatal(err)
		}
		if d := wait("ann", "c", int(2*rate)); d != time.Second {
			t.Errorf("%v: %s, want a second", pairs, d)
		}
		if d := wait("ann", "c", int(rate)); d != 0 {
			t.Errorf("%v: within the rate and %s", pairs, d)
		}
	}
	r := &request{proof: &proof{principal: "User:ann"}, clientID: "c"}
	clear(s.quotas.meters)
	s.quotas.charge(r, produceQuota, 16_000)
	if d := s.quotas.charge(&request{proof: &proof{principal: "User:ann"}, clientID: "other"}, produceQuota, 1000); d != 0 {
		t.Errorf("another client waits %s for the first", d)
	}
	now = now.Add(2 * time.Second)
	if d := s.quotas.charge(r, produceQuota, 8000); d != 0 {
		t.Errorf("after two seconds of rest: %s", d)
	}
	if d := s.quotas.charge(r, produceQuota, 1<<40); d != maxThrottle {
		t.Errorf("throttled for %s, want at most %s", d, maxThrottle)
	}
	for i := range 2 * maxMeters { // I8: names are the clients' own, and cost memory
		s.quotas.charge(&request{proof: &proof{principal: "User:ann"}, clientID: fmt.Sprint("x", i)}, produceQuota, 1)
	}
	if n := len(s.quotas.meters); n > maxMeters+1 {
		t.Errorf("%d meters, want at most %d", n, maxMeters)
	}
}

// Clients with long names of their own fill the memory of meters, and nothing else; who is idle makes room for others (I8).
func TestMetersHaveMemoryOfTheirOwn(t *testing.T) {
	kept, metered := &held{limit: 1 << 20}, &held{limit: 256 << 10}
	q := newQuotas(nil, kept, metered)
	now := time.Now()
	q.now = func() time.Time { return now }
	q.set[quotaEntity{Client: quotaName{Rest: true}}] = map[string]float64{produceQuota: 1000}
	charge := func(i int) {
		q.charge(&request{proof: &proof{principal: "User:ann"}, clientID: fmt.Sprintf("%d%032000d", i, 0)}, produceQuota, 1)
	}
	for round := range 3 {
		for i := range 100 {
			charge(100*round + i)
		}
		if n, used := len(q.meters), metered.used.Load(); n < 7 || n > 9 || used > metered.limit+1<<10 || kept.used.Load() != 0 {
			t.Fatalf("round %d: %d meters of %d bytes, %d bytes of what is kept", round, n, used, kept.used.Load())
		}
		now = now.Add(2 * maxThrottle)
		charge(1000 + round)
		if n := len(q.meters); n > 8 {
			charge(2000 + round) // only a full memory makes room
		}
		if own := q.meters[meterKey{client: fmt.Sprintf("%d%032000d", 1000+round, 0), of: quotaEntity{Client: quotaName{Rest: true}}, quota: produceQuota}]; own == nil {
			t.Fatalf("round %d: a new client shares its meter beside idle ones", round)
		}
	}
}

// A producer and a consumer over their quota are slowed down, told so, and lose nothing; what is set is described,
// kept over a restart, and removed.
func TestQuotas(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, nil)
	ctx := within(t, 60*time.Second)
	adm := kadm.NewClient(client(t, s))
	for name, c := range map[string]struct {
		quota string
		rate  float64
		pairs []string
	}{
		"unknown quota": {"request_percentage", 50, []string{quotaUser, "*"}},
		"addresses":     {produceQuota, 1e6, []string{"ip", "*"}},
		"no rate":       {produceQuota, 0, []string{quotaUser, "*"}},
		"nobody":        {produceQuota, 1, nil},
	} {
		if err := setQuota(t, adm, c.quota, c.rate, c.pairs...); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := setQuota(t, adm, produceQuota, 100_000, quotaClient, "greedy"); err != nil {
		t.Fatal(err)
	}
	if err := setQuota(t, adm, fetchQuota, 100_000, quotaUser, "*"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, log, nil)
	adm = kadm.NewClient(client(t, s))
	got, err := adm.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: quotaClient, MatchName: ptr("greedy"), MatchType: kmsg.QuotasMatchTypeExact}})
	if err != nil || len(got) != 1 || got[0].Values[0].Key != produceQuota || got[0].Values[0].Value != 100_000 {
		t.Fatalf("after a restart: %+v %v", got, err)
	}
	if all, err := adm.DescribeClientQuotas(ctx, false, nil); err != nil || len(all) != 2 {
		t.Fatalf("all: %+v %v", all, err)
	}

	greedy, modest := client(t, s, kgo.ClientID("greedy")), client(t, s, kgo.ClientID("modest"))
	value := make([]byte, 100_000)
	_, _ = rand.Read(value) // which nobody compresses
	send := func(cl *kgo.Client) time.Duration {
		begin := time.Now()
		for range 3 {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begin)
	}
	if d := send(greedy); d < 800*time.Millisecond {
		t.Errorf("300 kB at 100 kB a second took %s", d)
	}
	send(modest)
	for k := range s.quotas.meters {
		if k.client != "greedy" {
			t.Errorf("%+v is measured, and has no quota", k)
		}
	}
	cl := client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(150_000), kgo.FetchMaxPartitionBytes(150_000))
	begin := time.Now()
	if got := consume(t, ctx, cl, 6); len(got) != 6 {
		t.Fatalf("%d records", len(got))
	}
	if d := time.Since(begin); d < 2*time.Second {
		t.Errorf("600 kB at 100 kB a second were read in %s", d)
	}
	if err := setQuota(t, adm, produceQuota, -1, quotaClient, "greedy"); err != nil {
		t.Fatal(err)
	}
	if all, err := adm.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: quotaUser, MatchType: kmsg.QuotasMatchTypeAny}}); err != nil || len(all) != 1 {
		t.Fatalf("strictly users: %+v %v", all, err)
	}
	if all, err := adm.DescribeClientQuotas(ctx, false, nil); err != nil || len(all) != 1 {
		t.Fatalf("after the removal: %+v %v", all, err)
	}
}

// I8: however far a client overdraws its quota it waits, and what it owes is bounded.
func TestOverdrawnQuota(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	adm := kadm.NewClient(client(t, s))
	if err := setQuota(t, adm, fetchQuota, 1, quotaClient, "c"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.quotas.now = func() time.Time { return now }
	r := &request{proof: &proof{principal: "User:ann"}, clientID: "c"}
	for _, bytes := range []int{64 << 20, 1 << 40, 1 << 62, math.MaxInt} {
		for range 300 {
			if d := s.quotas.charge(r, fetchQuota, bytes); d != maxThrottle {
				t.Fatalf("%d bytes more at 1 byte a second: %s, want %s", bytes, d, maxThrottle)
			}
		}
	}
	now = now.Add(maxDebt - time.Minute)
	if d := s.quotas.charge(r, fetchQuota, 1); d != maxThrottle {
		t.Errorf("a minute before all is paid: %s", d)
	}
	now = now.Add(2 * time.Minute)
	if d := s.quotas.charge(r, fetchQuota, 1); d != 0 {
		t.Errorf("after %s: %s", maxDebt, d)
	}
}

// I8: the number of quotas is bounded, and at the bound they can be changed, removed and replaced; what is above it is
// refused with a code that says so, and changes nothing.
func TestFullQuotas(t *testing.T) {
	s := start(t, newMemLog(t), nil)
	user := func(i int, rate float64) quotaChange {
		return quotaChange{quotaEntity{User: quotaName{Name: fmt.Sprint(i), Set: true}}, map[string]float64{produceQuota: rate}}
	}
	var fill []quotaChange
	for i := range maxQuotas {
		fill = append(fill, user(i, 10))
	}
	if err := s.quotas.change(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(client(t, s))
	if err := setQuota(t, adm, produceQuota, 10, quotaUser, "new"); !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("one more than %d: %v", maxQuotas, err)
	}
	if err := setQuota(t, adm, produceQuota, 20, quotaUser, "6"); err != nil {
		t.Errorf("change one of %d: %v", maxQuotas, err)
	}
	if err := setQuota(t, adm, fetchQuota, 20, quotaUser, "6"); err != nil {
		t.Errorf("another quota of one of %d: %v", maxQuotas, err)
	}
	if err := s.quotas.change(t.Context(), []quotaChange{user(maxQuotas, 10), user(7, math.NaN())}); err != nil {
		t.Errorf("one for another: %v", err)
	}
	if err := s.quotas.change(t.Context(), []quotaChange{user(-1, 10), user(-2, 10), user(8, math.NaN())}); err == nil {
		t.Error("two for one were taken")
	}
	if err := setQuota(t, adm, produceQuota, -1, quotaUser, "5"); err != nil {
		t.Errorf("remove one of %d: %v", maxQuotas, err)
	}
	if err := setQuota(t, adm, produceQuota, 10, quotaUser, "new"); err != nil {
		t.Errorf("one where there is room: %v", err)
	}
	if n := len(s.quotas.all()); n != maxQuotas {
		t.Errorf("%d quotas, want %d", n, maxQuotas)
	}
}
