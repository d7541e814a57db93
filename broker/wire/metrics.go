package wire

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metricKeys bounds the API keys that are counted apart.
const metricKeys = 128

// counters are what a server shows of itself.
type counters struct {
	requests [metricKeys]atomic.Int64
	in, out  atomic.Int64 // bytes
	history  atomic.Int64 // bytes of batches that came from the history
	refused  atomic.Int64 // connections

	upstream prometheus.Histogram // seconds, of what does not wait
	failures atomic.Int64         // of the cluster behind a gateway
}

func newCounters() *counters {
	return &counters{upstream: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ledgerlake_gateway_upstream_seconds", Help: "Time from a request to the cluster to its answer, of requests that do not wait for something to happen.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18)})}
}

func (c *counters) request(key int16) {
	if key >= 0 && key < metricKeys {
		c.requests[key].Add(1)
	}
}

func (c *counters) took(began time.Time) { c.upstream.Observe(time.Since(began).Seconds()) }

// number is one counter, or gauge, of a server.
type number struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Server) float64
}

var (
	requestsDesc = prometheus.NewDesc("ledgerlake_kafka_requests_total", "Requests that came to the Kafka port.", []string{"api"}, nil)

	numbers = []number{
		total("kafka_request_bytes_total", "Bytes of requests that came to the Kafka port.", func(c *counters) *atomic.Int64 { return &c.in }),
		total("kafka_answer_bytes_total", "Bytes of answers that the Kafka port sent.", func(c *counters) *atomic.Int64 { return &c.out }),
		total("kafka_history_bytes_total", "Bytes of batches that came from tables, for offsets below the log.", func(c *counters) *atomic.Int64 { return &c.history }),
		total("kafka_refused_connections_total", "Connections that were closed at once because there were too many.", func(c *counters) *atomic.Int64 { return &c.refused }),
		{prometheus.NewDesc("ledgerlake_kafka_connections", "Connections of clients that are open.", nil, nil), prometheus.GaugeValue, (*Server).connections},
	}
	gatewayNumbers = []number{
		total("gateway_upstream_failures_total", "Times that a node of the cluster did not connect or answer as it should.", func(c *counters) *atomic.Int64 { return &c.failures }),
	}
)

func total(name, help string, of func(*counters) *atomic.Int64) number {
	return number{prometheus.NewDesc("ledgerlake_"+name, help, nil, nil), prometheus.CounterValue,
		func(s *Server) float64 { return float64(of(s.metrics).Load()) }}
}

func (s *Server) connections() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.conns))
}

// Collector shows the server to Prometheus, also after Close.
func (s *Server) Collector() prometheus.Collector { return (*collector)(s) }

type collector Server

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- requestsDesc
	for _, n := range c.numbers() {
		out <- n.desc
	}
	if c.gateway != nil {
		c.metrics.upstream.Describe(out)
	}
}

func (c *collector) numbers() []number {
	if c.gateway == nil {
		return numbers
	}
	return append(numbers[:len(numbers):len(numbers)], gatewayNumbers...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for key := range c.metrics.requests {
		if n := c.metrics.requests[key].Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), keyName(int16(key)))
		}
	}
	for _, n := range c.numbers() {
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value((*Server)(c)))
	}
	if c.gateway != nil {
		c.metrics.upstream.Collect(out)
	}
}

func keyName(key int16) string {
	if name := kmsg.NameForKey(key); name != "Unknown" {
		return name
	}
	return strconv.Itoa(int(key))
}
