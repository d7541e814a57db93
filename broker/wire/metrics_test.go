package wire

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// shown gives what a server shows to Prometheus: counters and gauges by name and label, of histograms the count.
func shown(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(s.Collector())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// What a gateway shows goes with what went through it: records to the cluster, and history from the lake.
func TestGatewayMetrics(t *testing.T) {
	lake := &fakeLake{}
	c, s := throughGateway(t, lake, nil)
	ctx := within(t, patience)
	cl := client(t, s, onlyOurs(t, c), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	const n = 40
	sendEach(t, ctx, cl, 0, n)
	before := shown(t, s)
	lake.end.Store(n / 2)
	cutAt(t, ctx, cl, n/2)
	wantEach(t, ctx, client(t, s, onlyOurs(t, c), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), n)
	after := shown(t, s)
	if got := before["ledgerlake_kafka_requests_total/Produce"]; got < 3 || got > 2*3*n { // one for each, and some again on a slow machine
		t.Errorf("%v Produce requests for %d records", got, 3*n)
	}
	if before["ledgerlake_kafka_history_bytes_total"] != 0 || after["ledgerlake_kafka_history_bytes_total"] == 0 {
		t.Errorf("bytes of history: %v, then %v", before["ledgerlake_kafka_history_bytes_total"], after["ledgerlake_kafka_history_bytes_total"])
	}
	for _, name := range []string{"kafka_request_bytes_total", "kafka_answer_bytes_total", "kafka_requests_total/Fetch", "gateway_upstream_seconds"} {
		if name = "ledgerlake_" + name; after[name] <= before[name] {
			t.Errorf("%s: %v, then %v", name, before[name], after[name])
		}
	}
	if got := after["ledgerlake_kafka_connections"]; got < 1 {
		t.Errorf("%v connections", got)
	}
	c.Close()
	_ = client(t, s, kgo.RequestRetries(0)).Ping(ctx) // fails or not: connections to the cluster that were open end
	until(t, ctx, "failures of the cluster are counted", func() bool {
		_ = client(t, s, kgo.RequestRetries(0), kgo.ClientID("p")).Ping(ctx)
		return shown(t, s)["ledgerlake_gateway_upstream_failures_total"] > 0
	})
}
