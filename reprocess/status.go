package reprocess

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Status says how far a job is.
type Status struct {
	Job     string                  `json:"job"`
	Splits  int                     `json:"splits"`
	Done    int                     `json:"done"`    // splits
	Offsets int64                   `json:"offsets"` // of all splits
	Decided int64                   `json:"decided"` // of them: rows, dead letters, and what was dropped
	Version deltalog.Version        `json:"version"` // of the new table
	Behind  map[int32]record.Offset `json:"behind"`  // offsets from the job's position to the end of the stream, once it can follow
	Control Control                 `json:"control"` // what it was told
	// PerSecond is how many offsets all processes have decided since this one began to look, and Left how long what is
	// missing of the splits will take at this rate; zero when that cannot be told yet.
	PerSecond float64       `json:"perSecond,omitempty"`
	Left      time.Duration `json:"leftNanoseconds,omitempty"`
}

// Status looks into the new table.
func (j *Job) Status(ctx context.Context) (Status, error) {
	snap, err := j.sink.Log.Snapshot(ctx)
	if err != nil {
		return Status{}, err
	}
	st := Status{Job: j.plan.Job, Splits: len(j.plan.Splits), Version: snap.Version(), Behind: map[int32]record.Offset{}}
	finished, err := j.finished(ctx)
	if err != nil {
		return st, err
	}
	for i, s := range j.plan.Splits {
		st.Offsets += int64(s.To - s.From)
		if finished {
			st.Done, st.Decided = i+1, st.Offsets
			continue
		}
		end, ok := table.LakeEnd(snap, j.plan.app(i), s.Partition)
		if !ok {
			continue
		}
		st.Decided += int64(min(end, s.To) - s.From)
		if end >= s.To {
			st.Done++
		}
	}
	if st.Control, err = ReadControl(ctx, j.cfg.Sink, j.plan.Job); err != nil {
		return st, err
	}
	st.PerSecond, st.Left = j.seen.rate(st.Decided, st.Offsets, time.Now())
	return st, j.behind(ctx, snap, finished, st.Behind)
}

// behind tells how far the job is from the end of the stream in each partition, also in those that came behind the plan once
// it may follow them.
func (j *Job) behind(ctx context.Context, snap *deltalog.Snapshot, finished bool, out map[int32]record.Offset) error {
	planned := map[int32]bool{}
	for _, r := range j.plan.Ranges {
		planned[r.Partition] = true
	}
	parts := slices.Collect(maps.Keys(planned))
	if finished && !j.plan.Named {
		later, err := j.stream.Partitions(ctx, j.cfg.Topic)
		if err != nil {
			return err
		}
		parts = append(parts, slices.DeleteFunc(later, func(p int32) bool { return planned[p] })...)
	}
	for _, p := range parts {
		end, known := table.LakeEnd(snap, j.plan.Job, p)
		if !known && planned[p] {
			continue
		}
		b, err := j.stream.Bounds(ctx, record.TopicPartition{Topic: j.cfg.Topic, Partition: p})
		if err != nil {
			return err
		}
		if !known {
			end = b.Start
		}
		out[p] = max(0, b.Stable-end)
	}
	return nil
}

// counters are what one process of a job has done. They count work, also what was done again after a failure.
type counters struct {
	records, bytes        atomic.Int64 // read
	kept, dropped, failed atomic.Int64 // of the records

	mu    sync.Mutex
	first int64 // offsets decided when it began to look
	since time.Time
}

func (c *counters) read(records, bytes int) {
	c.records.Add(int64(records))
	c.bytes.Add(int64(bytes))
}

func (c *counters) made(results []Result) {
	var kept, dropped, failed int64
	for i := range results {
		switch {
		case results[i].Err != nil:
			failed++
		case results[i].Drop:
			dropped++
		default:
			kept++
		}
	}
	c.kept.Add(kept)
	c.dropped.Add(dropped)
	c.failed.Add(failed)
}

// rate tells how fast all processes decide offsets, as this one sees it since its first look.
func (c *counters) rate(decided, all int64, now time.Time) (perSecond float64, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.first, c.since = decided, now
		return 0, 0
	}
	seconds := now.Sub(c.since).Seconds()
	if seconds <= 0 || decided <= c.first {
		return 0, 0
	}
	perSecond = float64(decided-c.first) / seconds
	return perSecond, time.Duration(float64(all-decided) / perSecond * float64(time.Second))
}

// collectTime bounds what a scrape may cost.
const collectTime = 5 * time.Second

// Collector shows a job to Prometheus, under the labels job and topic: its own work, and how far all processes are.
func (j *Job) Collector() prometheus.Collector { return (*collector)(j) }

type collector Job

const namespace = "ledgerlake_reprocess_"

type metric struct {
	name, help string
	kind       prometheus.ValueType
}

func (c *collector) desc(m metric) *prometheus.Desc {
	return prometheus.NewDesc(namespace+m.name, m.help, nil, prometheus.Labels{"job": c.plan.Job, "topic": c.cfg.Topic})
}

var (
	metricRecords = metric{"records_total", "Records read by this process, also again after a failure.", prometheus.CounterValue}
	metricBytes   = metric{"bytes_total", "Bytes of record batches read by this process.", prometheus.CounterValue}
	metricKept    = metric{"results_total", "Records that the transform kept.", prometheus.CounterValue}
	metricDropped = metric{"dropped_total", "Records that the transform dropped.", prometheus.CounterValue}
	metricRefused = metric{"refused_total", "Records that the transform refused: they become dead letters.", prometheus.CounterValue}
	metricSplits  = metric{"splits", "Splits of the job.", prometheus.GaugeValue}
	metricDone    = metric{"splits_done", "Splits that are done, by whatever process.", prometheus.GaugeValue}
	metricOffsets = metric{"offsets", "Offsets of all splits.", prometheus.GaugeValue}
	metricDecided = metric{"offsets_decided", "Offsets of the splits whose fate is committed.", prometheus.GaugeValue}
	metricLag     = metric{"lag_offsets", "Offsets between the job and the end of the stream: of the splits, then behind them.", prometheus.GaugeValue}
	metricLeft    = metric{"left_seconds", "Time that the rest of the splits will take at the rate so far; 0 when done or not known.", prometheus.GaugeValue}
	metricPaused  = metric{"paused", "1 while the job is paused.", prometheus.GaugeValue}
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range []metric{metricRecords, metricBytes, metricKept, metricDropped, metricRefused, metricSplits, metricDone, metricOffsets, metricDecided,
		metricLag, metricLeft, metricPaused} {
		out <- c.desc(m)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	give := func(m metric, v float64) { out <- prometheus.MustNewConstMetric(c.desc(m), m.kind, v) }
	give(metricRecords, float64(c.seen.records.Load()))
	give(metricBytes, float64(c.seen.bytes.Load()))
	give(metricKept, float64(c.seen.kept.Load()))
	give(metricDropped, float64(c.seen.dropped.Load()))
	give(metricRefused, float64(c.seen.failed.Load()))
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	st, err := (*Job)(c).Status(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.desc(metricDecided), err)
		return
	}
	lag, paused := st.Offsets-st.Decided, 0.0
	for _, n := range st.Behind {
		lag += int64(n)
	}
	if st.Control.Paused {
		paused = 1
	}
	give(metricSplits, float64(st.Splits))
	give(metricDone, float64(st.Done))
	give(metricOffsets, float64(st.Offsets))
	give(metricDecided, float64(st.Decided))
	give(metricLag, float64(lag))
	give(metricLeft, st.Left.Seconds())
	give(metricPaused, paused)
}
