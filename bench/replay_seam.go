package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// seam measures the pause between the last rows of the table and the first ones of the log. The log gets a tail first
// that the table does not have.
func (c *replayCase) seam(ctx context.Context, cfg Config, r *Report, log *local.Log) (err error) {
	tail := cfg
	tail.Records = max(1000, cfg.Records/10)
	batches, records, _, err := produceBatches(tail)
	if err != nil {
		return err
	}
	for i, b := range batches {
		if _, err := log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: int32(i % logPartitions)}, b); err != nil {
			return err
		}
	}
	t, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	const name = "pause at the seam"
	for round := range cfg.Rounds {
		cur, err := reader.Open(ctx, reader.Config{Table: t, Source: log, Topic: logTopic})
		if err != nil {
			return err
		}
		rows, pause, err := pauseAtSeam(ctx, cur)
		if err = errors.Join(err, cur.Close()); err != nil {
			return err
		}
		if rows != c.records+records {
			return fmt.Errorf("wrong result: %d rows over the seam, want %d", rows, c.records+records)
		}
		r.Samples = append(r.Samples, Sample{Case: name, Round: round, Records: rows, Seconds: pause.Seconds()})
	}
	r.atMost("pause at the seam, ms", 100, r.median(name, func(s Sample) float64 { return s.Seconds * 1000 }))
	return nil
}

// pauseAtSeam reads to the end, and gives the longest time that the first rows behind the seam took to come.
func pauseAtSeam(ctx context.Context, cur *reader.Cursor) (rows int64, pause time.Duration, err error) {
	for lake := true; ; {
		begin := time.Now()
		rb, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return rows, pause, nil
		}
		if err != nil {
			return rows, pause, err
		}
		rows += rb.NumRows()
		if lake && !cur.InLake() {
			pause, lake = time.Since(begin), false
		}
	}
}
