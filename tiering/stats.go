package tiering

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// Stats are the counters of a Tierer. They count what is committed.
type Stats struct {
	Records      int64 // rows and dead letters
	Rows         int64
	Bytes        int64 // of keys and values
	DeadLetters  int64
	Commits      int64
	Lost         int64            // offsets that retention dropped before they were tiered
	Restarts     int64            // sessions that ended early
	PeakInFlight int64            // the most bytes of batches between source and decoders, of sessions that have ended
	CommitTime   time.Duration    // upload and commit, of all commits
	Version      deltalog.Version // of the last commit; -1 when there was none
	Lag          map[int32]int64  // offsets below the last stable one that are not in the table yet
	LakeEnd      map[int32]record.Offset
}

type counters struct {
	mu     sync.Mutex
	s      Stats
	stable map[int32]record.Offset
}

func newCounters() *counters {
	return &counters{s: Stats{Version: -1, LakeEnd: map[int32]record.Offset{}}, stable: map[int32]record.Offset{}}
}

func (c *counters) joined(partition int32, next record.Offset, b broker.Bounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.LakeEnd[partition] = next
	c.stable[partition] = b.Stable
}

func (c *counters) bounds(partition int32, b broker.Bounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stable[partition] = b.Stable
}

func (c *counters) lost(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Lost += n
}

func (c *counters) inFlight(peak int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.PeakInFlight = max(c.s.PeakInFlight, peak)
}

func (c *counters) restarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Restarts++
}

func (c *counters) committed(o *output, v deltalog.Version, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Commits++
	c.s.Records += o.records
	c.s.Rows += o.rows
	c.s.Bytes += o.bytes
	c.s.DeadLetters += int64(len(o.dead))
	c.s.CommitTime += took
	c.s.Version = max(c.s.Version, v)
	for _, r := range o.ranges {
		c.s.LakeEnd[r.Partition] = r.To
	}
}

// Stats gives the counters as they are now.
func (t *Tierer) Stats() Stats {
	c := t.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	s.LakeEnd = maps.Clone(c.s.LakeEnd)
	s.Lag = make(map[int32]int64, len(s.LakeEnd))
	for p, end := range s.LakeEnd {
		s.Lag[p] = max(0, int64(c.stable[p]-end))
	}
	return s
}

// collector shows the counters to Prometheus.
func (t *Tierer) collector() prometheus.Collector { return (*collector)(t) }

type collector Tierer

// metric is one counter of a topic.
type metric struct {
	name, help string
	value      func(Stats) float64
}

func metrics() []metric {
	return []metric{
		{"records_total", "Records committed, dead letters included.", func(s Stats) float64 { return float64(s.Records) }},
		{"rows_total", "Rows committed.", func(s Stats) float64 { return float64(s.Rows) }},
		{"bytes_total", "Bytes of keys and values committed.", func(s Stats) float64 { return float64(s.Bytes) }},
		{"dead_letters_total", "Records committed to the dead letter table.", func(s Stats) float64 { return float64(s.DeadLetters) }},
		{"commits_total", "Commits.", func(s Stats) float64 { return float64(s.Commits) }},
		{"commit_seconds_total", "Time spent in uploads and commits.", func(s Stats) float64 { return s.CommitTime.Seconds() }},
		{"lost_offsets_total", "Offsets that retention dropped before they were tiered.", func(s Stats) float64 { return float64(s.Lost) }},
		{"restarts_total", "Times that work began again from the table.", func(s Stats) float64 { return float64(s.Restarts) }},
	}
}

func (c *collector) desc(m metric, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ledgerlake_tiering_"+m.name, m.help, labels, prometheus.Labels{"topic": c.cfg.Topic, "app": c.cfg.App})
}

func lagMetric() metric {
	return metric{name: "lag_offsets", help: "Offsets below the last stable one that are not in the table yet."}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics() {
		out <- c.desc(m)
	}
	out <- c.desc(lagMetric(), "partition")
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := (*Tierer)(c).Stats()
	for _, m := range metrics() {
		out <- prometheus.MustNewConstMetric(c.desc(m), prometheus.CounterValue, m.value(s))
	}
	for p, lag := range s.Lag {
		out <- prometheus.MustNewConstMetric(c.desc(lagMetric(), "partition"), prometheus.GaugeValue, float64(lag), strconv.Itoa(int(p)))
	}
}
