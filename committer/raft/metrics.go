package raft

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
)

// metrics are what a node counts. Those of work are of the time in which it leads.
type metrics struct {
	requests *prometheus.CounterVec // by answer
	versions *prometheus.CounterVec // own and foreign
	failures *prometheus.CounterVec // of the store, by call
	answer   prometheus.Histogram
	decide   prometheus.Histogram
	put      prometheus.Histogram
	size     prometheus.Histogram
}

const metricPrefix = "ledgerlake_committer_"

func newMetrics() *metrics {
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, []string{label})
	}
	return &metrics{
		requests: counter("requests_total", "Requests that were answered, by the kind of the answer.", "answer"),
		versions: counter("versions_total", "Versions that this node put, or took over from other writers.", "kind"),
		failures: counter("store_failures_total", "Calls to stores that failed, by call.", "call"),
		answer:   seconds("answer_seconds", "Time from a request to its answer."),
		decide:   seconds("decide_seconds", "Time until a majority has an entry on disk and it is applied here."),
		put:      seconds("put_seconds", "Time of a put of a version."),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "version_requests", Help: "Requests that shared a version.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
	}
}

// register shows the metrics of a node; nil shows them nowhere.
func (m *metrics) register(r prometheus.Registerer, n *Node) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.versions, m.failures, m.answer, m.decide, m.put, m.size, &nodeCollector{n}} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) answered(c fsm.Code, since time.Time) {
	m.requests.WithLabelValues(c.String()).Inc()
	m.answer.Observe(time.Since(since).Seconds())
}

// nodeCollector shows the state of a node.
type nodeCollector struct{ n *Node }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
}

var (
	leaderDesc    = desc("leader", "1 while this node leads the group.")
	termDesc      = desc("term", "Raft term.")
	committedDesc = desc("committed_index", "Newest committed entry of the group's log that the node knows.")
	appliedDesc   = desc("applied_index", "Newest entry that the node has applied.")
	versionDesc   = desc("table_version", "Newest version that is known to be in the store.", "table")
	pendingDesc   = desc("table_pending", "Versions that are decided and not known to be in the store.", "table")
	waitingDesc   = desc("table_waiting", "Requests that wait for an answer.", "table")
)

// Describe implements prometheus.Collector.
func (*nodeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, termDesc, committedDesc, appliedDesc, versionDesc, pendingDesc, waitingDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	leads := 0.0
	if c.n.leading() != nil {
		leads = 1
	}
	gauge(leaderDesc, leads)
	gauge(termDesc, float64(c.n.raft.CurrentTerm()))
	gauge(committedDesc, float64(c.n.raft.CommitIndex()))
	gauge(appliedDesc, float64(c.n.raft.AppliedIndex()))
	for _, t := range c.n.tables() {
		gauge(versionDesc, float64(t.Version), t.Table)
		gauge(pendingDesc, float64(t.Pending), t.Table)
		gauge(waitingDesc, float64(t.Waiting), t.Table)
	}
}
