package ingest

import (
	"context"
	"log/slog"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/statsd"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// OldMetrics sends the counters of a stream to statsd under the names of kafka-delta-ingest. That program sends three
// packets a message; this sends sums now and then. Times are milliseconds, which that program meant to send.
type OldMetrics struct {
	Addr   string
	Prefix string // default kafka_delta_ingest
	Tags   bool   // DogStatsD: topic, app and table as tags
	Every  time.Duration
	Logger *slog.Logger
}

// Run sends until ctx ends, then once more.
func (o OldMetrics) Run(ctx context.Context, topic, app, table string, stats func() tiering.Stats) error {
	if o.Prefix == "" {
		o.Prefix = "kafka_delta_ingest"
	}
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	var tags []string
	if o.Tags {
		tags = []string{"topic:" + topic, "app:" + app, "table:" + table}
	}
	c, err := statsd.Dial(o.Addr, o.Prefix, tags...)
	if err != nil {
		return err
	}
	var last tiering.Stats
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			o.send(c, &last, stats())
			return c.Close()
		case <-tick.C:
			o.send(c, &last, stats())
		}
	}
}

func (o OldMetrics) send(c *statsd.Client, last *tiering.Stats, now tiering.Stats) {
	rows, dead, commits := now.Rows-last.Rows, now.DeadLetters-last.DeadLetters, now.Commits-last.Commits
	for _, x := range []struct {
		name string
		n    int64
	}{
		{"messages.deserialization.completed", rows}, {"messages.deserialization.failed", dead},
		{"messages.transform.completed", rows}, {"recordbatch.started", commits}, {"recordbatch.completed", commits},
		{"delta.write.started", commits + now.Conflicts - last.Conflicts}, {"delta.write.completed", commits}, {"delta.write.failed", now.Conflicts - last.Conflicts},
	} {
		_ = c.Count(x.name, x.n) // UDP: an error says that nobody listens, and comes once more from Flush
	}
	if commits > 0 {
		_ = c.Timing("delta.write.duration", (now.CommitTime-last.CommitTime)/time.Duration(commits))
		_ = c.Timing("recordbatch.write_duration", (now.UploadTime-last.UploadTime)/time.Duration(commits))
		_ = c.Gauge("delta.add.size", (now.FileBytes-last.FileBytes)/max(1, now.Files-last.Files))
	}
	if n := now.Records - last.Records; n > 0 {
		_ = c.Gauge("messages.size", (now.Bytes-last.Bytes)/n)
	}
	var total, most int64
	least := int64(-1)
	for _, lag := range now.Lag {
		total, most = total+lag, max(most, lag)
		if least < 0 || lag < least {
			least = lag
		}
	}
	for _, prefix := range []string{"buffer.lag.", "delta.write.lag."} {
		_ = c.Gauge(prefix+"num_partitions", int64(len(now.Lag)))
		_ = c.Gauge(prefix+"total", total)
		_ = c.Gauge(prefix+"max", most)
		_ = c.Gauge(prefix+"min", max(0, least))
	}
	if err := c.Flush(); err != nil {
		o.Logger.Debug("statsd does not take metrics", "address", o.Addr, "error", err)
	}
	*last = now
}
