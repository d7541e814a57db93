package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

const (
	// workersCase names the case of scenario replay that a stream job's reprocessing is: five partitions of
	// Config.Records messages each, which are in the table alone.
	workersCase       = "workers"
	workersPartitions = 5
	// The talk on Samza's reprocessing tells of 5 partitions of 10 million messages, and of 40 minutes. It is of other
	// machines, and its job worked on the messages too.
	talkRecords = 10_000_000 // a partition
	talkSeconds = 40 * 60
	// talkWanted is what "seconds" is taken for: no more than a minute.
	talkWanted = 60
	// fillChunk is how many messages are in memory at a time while the log is filled.
	fillChunk = 100_000
)

// runWorkers measures how a replay of whole messages (key, value, time and place) grows with the workers that share the
// partitions, each with a table and a cursor of its own and no read-ahead over cores, beside one reader that has it.
func runWorkers(ctx context.Context, cfg Config) (r *Report, err error) {
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	c := &replayCase{path: filepath.Join(scratch, "table")}
	if err := c.fillPartitions(ctx, cfg, filepath.Join(scratch, "log"), produceBatches); err != nil {
		return nil, err
	}
	r = &Report{Scenario: "replay", Machine: Machine(), Time: time.Now().UTC()}
	all := make([]int32, workersPartitions)
	for p := range all {
		all[p] = int32(p)
	}
	sides := []struct {
		name   string
		ahead  int
		shares [][]int32
	}{
		{"1 worker", 1, [][]int32{all}},
		{"2 workers", 1, [][]int32{all[:3], all[3:]}},
		{"5 workers", 1, [][]int32{all[:1], all[1:2], all[2:3], all[3:4], all[4:]}},
		{"1 reader with read-ahead", 0, [][]int32{all}},
	}
	for round := range cfg.Rounds {
		for _, side := range sides {
			s, err := measure(side.name, round, func() (int64, int64, error) {
				rows, err := c.share(ctx, side.shares, side.ahead)
				return rows, c.bytes, err
			})
			if err == nil && s.Records != c.records {
				err = fmt.Errorf("wrong result: %s gave %d messages of %d", s.Case, s.Records, c.records)
			}
			if err != nil {
				return r, err
			}
			r.Samples = append(r.Samples, s)
		}
	}
	rate := func(s Sample) float64 { return float64(s.Records) / max(s.Seconds, 1e-9) }
	one, two := r.median("1 worker", rate), r.median("2 workers", rate)
	r.atLeast("2 workers / 1 worker, messages a second", 1.5, two/one)
	talkGoal(r, "2 workers", cfg.Records, two)
	return r, nil
}

// talkGoal states the seconds for the talk's messages at a rate, measured with a number of messages a partition.
func talkGoal(r *Report, what string, records int, rate float64) {
	name := what + ": seconds for 5 x 10 million messages"
	if records != talkRecords {
		name += fmt.Sprintf(" at the rate of 5 x %s", short(float64(records)))
	}
	r.atMost(name, talkWanted, workersPartitions*talkRecords/rate)
}

// fillPartitions makes the table of what messages gives, some of a partition at a time; the log is gone afterwards.
func (c *replayCase) fillPartitions(ctx context.Context, cfg Config, at string, messages func(Config) ([][]byte, int64, int64, error)) (err error) {
	log, err := local.Open(ctx, local.Config{Dir: at, FS: vfs.OS(), Durability: local.DurabilityNone})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close(), os.RemoveAll(at)) }()
	if _, err := log.CreateTopic(ctx, logTopic, broker.TopicConfig{Partitions: workersPartitions}); err != nil {
		return err
	}
	for left := cfg.Records; left > 0; left -= fillChunk {
		for p := range int32(workersPartitions) {
			part := cfg
			part.Records, part.Seed = min(left, fillChunk), cfg.Seed+uint64(left)*workersPartitions+uint64(p)
			batches, records, size, err := messages(part)
			if err != nil {
				return err
			}
			for _, b := range batches {
				if _, err := log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: p}, bytes.Clone(b)); err != nil {
					return err
				}
			}
			c.records, c.bytes = c.records+records, c.bytes+size
		}
	}
	_, payload, err := tiering.Infer(ctx, log, logTopic, tiering.SampleConfig{})
	if err != nil {
		return err
	}
	rows, err := drain(ctx, log, c.path, payload)
	if err == nil && rows != c.records {
		err = fmt.Errorf("%d rows in the table, want %d", rows, c.records)
	}
	return err
}

// share reads all messages, each worker those of its partitions, in their order.
func (c *replayCase) share(ctx context.Context, shares [][]int32, ahead int) (int64, error) {
	rows := make([]int64, len(shares))
	g, ctx := errgroup.WithContext(ctx)
	for i, parts := range shares {
		g.Go(func() (err error) {
			t, err := c.open(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, t.Close()) }()
			n := t.Names
			cur, err := reader.Open(ctx, reader.Config{Table: t, Topic: logTopic, Partitions: parts, ReadAhead: ahead,
				Columns: []string{n.Partition, n.Offset, n.Timestamp, n.Key, n.Value}})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, cur.Close()) }()
			rows[i], err = countRows(ctx, cur, func(arrow.RecordBatch) {})
			return err
		})
	}
	err := g.Wait()
	sum := int64(0)
	for _, n := range rows {
		sum += n
	}
	return sum, err
}
