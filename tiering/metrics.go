package tiering

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/record"
)

// collector shows the counters to Prometheus, under the labels topic, app and table.
func (t *Tierer) collector() prometheus.Collector { return (*collector)(t) }

type collector Tierer

// metric is one number of a topic, or of a partition.
type metric[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(Stats) T
}

const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue

func metrics() []metric[float64] {
	return []metric[float64]{
		{"records_total", "Records committed, dead letters included.", counter, func(s Stats) float64 { return float64(s.Records) }},
		{"rows_total", "Rows committed.", counter, func(s Stats) float64 { return float64(s.Rows) }},
		{"bytes_total", "Bytes of keys and values committed.", counter, func(s Stats) float64 { return float64(s.Bytes) }},
		{"dead_letters_total", "Records committed to the dead letter table.", counter, func(s Stats) float64 { return float64(s.DeadLetters) }},
		{"filtered_total", "Records that the filter left out.", counter, func(s Stats) float64 { return float64(s.Filtered) }},
		{"commits_total", "Commits.", counter, func(s Stats) float64 { return float64(s.Commits) }},
		{"commit_seconds_total", "Time spent in uploads and commits.", counter, func(s Stats) float64 { return s.CommitTime.Seconds() }},
		{"lost_offsets_total", "Offsets that retention dropped before they were tiered.", counter, func(s Stats) float64 { return float64(s.Lost) }},
		{"restarts_total", "Times that work began again from the table.", counter, func(s Stats) float64 { return float64(s.Restarts) }},
		{"conflicts_total", "Commits that came too late: another process, or a change of the table, was first.", counter, func(s Stats) float64 { return float64(s.Conflicts) }},
		{"retries_total", "Fetches and commits that failed and were tried again.", counter, func(s Stats) float64 { return float64(s.Retries) }},
		{"files_total", "Data files committed.", counter, func(s Stats) float64 { return float64(s.Files) }},
		{"file_bytes_total", "Bytes of the data files committed.", counter, func(s Stats) float64 { return float64(s.FileBytes) }},
		{"discarded_files_total", "Data files that were written and not committed, and are deleted.", counter, func(s Stats) float64 { return float64(s.Discarded) }},
		{"orphan_files_total", "Data files that may be left without a commit, until a vacuum.", counter, func(s Stats) float64 { return float64(s.Orphans) }},
		{"in_flight_bytes", "Bytes of batches between the log and the decoders.", gauge, func(s Stats) float64 { return float64(s.InFlight) }},
		{"budget_bytes", "The most that they may be; reading pauses there.", gauge, func(s Stats) float64 { return float64(s.Budget) }},
		{"table_version", "The version of the last commit; -1 before the first.", gauge, func(s Stats) float64 { return float64(s.Version) }},
	}
}

func partitionMetrics() []metric[map[int32]float64] {
	return []metric[map[int32]float64]{
		{"lag_offsets", "Offsets below the last stable one that are not in the table yet.", gauge, func(s Stats) map[int32]float64 {
			return floats(s.Lag, func(v int64) float64 { return float64(v) })
		}},
		{"lag_seconds", "Age of the newest record in the table, where there is a lag; else 0.", gauge, func(s Stats) map[int32]float64 {
			return floats(s.Behind, time.Duration.Seconds)
		}},
		{"lake_end_offset", "The first offset that is not in the table.", gauge, func(s Stats) map[int32]float64 {
			return floats(s.LakeEnd, func(v record.Offset) float64 { return float64(v) })
		}},
	}
}

func floats[V any](m map[int32]V, f func(V) float64) map[int32]float64 {
	out := make(map[int32]float64, len(m))
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}

// newHistograms makes the latencies, from a millisecond to two minutes.
func (c *counters) newHistograms(labels prometheus.Labels) {
	make := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: namespace + name, Help: help, ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18)})
	}
	c.uploads = make("upload_seconds", "Time from the first to the last data file of a commit.")
	c.commits = make("version_seconds", "Time from the data files to the version that has them.")
}

const namespace = "ledgerlake_tiering_"

func (c Config) labels() prometheus.Labels {
	return prometheus.Labels{"topic": c.Topic, "app": c.App, "table": c.Table.Store.URL()}
}

func (c *collector) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, labels, c.cfg.labels())
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics() {
		out <- c.desc(m.name, m.help)
	}
	for _, m := range partitionMetrics() {
		out <- c.desc(m.name, m.help, "partition")
	}
	c.stats.uploads.Describe(out)
	c.stats.commits.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := (*Tierer)(c).Stats()
	for _, m := range metrics() {
		out <- prometheus.MustNewConstMetric(c.desc(m.name, m.help), m.kind, m.value(s))
	}
	for _, m := range partitionMetrics() {
		for p, v := range m.value(s) {
			out <- prometheus.MustNewConstMetric(c.desc(m.name, m.help, "partition"), m.kind, v, strconv.Itoa(int(p)))
		}
	}
	c.stats.uploads.Collect(out)
	c.stats.commits.Collect(out)
}
