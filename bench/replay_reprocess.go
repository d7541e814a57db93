package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

// reprocessCase names the case of scenario replay in which jobs of package reprocess make new tables of five partitions of
// Config.Records small messages each: all of what the talk tells of, reading, working on each message, and writing.
const reprocessCase = "reprocess"

// The job of the case: a message becomes a row if it cost enough, with a column that it had not.
const (
	orderWhere = "amount > 1000"
	orderTotal = "amount * quantity"
)

// orders makes small messages, the same for the same seed, and keeps what a job must make of them.
type orders struct {
	kept  int64 // messages for which orderWhere is true
	total int64 // sum of orderTotal of these
	sum   int64 // of the amounts of all messages
}

// batches makes the next messages as uncompressed batches.
func (o *orders) batches(cfg Config) (batches [][]byte, records, bytes int64, err error) {
	rng := rand.New(rand.NewPCG(cfg.Seed, 3))
	b := record.NewBuilder(record.None)
	var key, value []byte
	for range cfg.Records {
		user, amount, quantity := rng.Int64N(100_000), rng.Int64N(50_000), 1+rng.Int64N(9)
		o.sum += amount
		if amount > 1000 {
			o.kept, o.total = o.kept+1, o.total+amount*quantity
		}
		key = strconv.AppendInt(append(key[:0], "user-"...), user, 10)
		value = fmt.Appendf(value[:0], `{"user":"%s","kind":%q,"amount":%d,"quantity":%d}`, key, eventKinds[rng.IntN(len(eventKinds))], amount, quantity)
		b.Append(start().UnixMilli()+records, key, value, nil)
		records, bytes = records+1, bytes+int64(len(value))
		if b.Bytes() < produceBytes && records < int64(cfg.Records) {
			continue
		}
		raw, err := b.Build(0)
		if err != nil {
			return nil, 0, 0, err
		}
		batches = append(batches, raw)
	}
	return batches, records, bytes, nil
}

// runReprocess measures jobs from a table to a new table, with a worker for each core: one that copies, one that filters and
// adds a column. What they made is read again and compared.
func runReprocess(ctx context.Context, cfg Config) (r *Report, err error) {
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	c, made := &replayCase{path: filepath.Join(scratch, "table")}, &orders{}
	if err := c.fillPartitions(ctx, cfg, filepath.Join(scratch, "log"), made.batches); err != nil {
		return nil, err
	}
	r = &Report{Scenario: "replay", Machine: Machine(), Time: time.Now().UTC()}
	jobs := []struct {
		name string
		spec reprocess.Spec
		kept int64
		read string // the column that is read again, and its sum
		sum  int64
	}{
		{"a copy", reprocess.Spec{}, c.records, "amount", made.sum},
		{"a filter and a column", reprocess.Spec{Where: orderWhere, Columns: []reprocess.Column{{Name: "total", Value: orderTotal}}}, made.kept, "total", made.total},
	}
	for round := range cfg.Rounds {
		for _, job := range jobs {
			sink := filepath.Join(scratch, "sink")
			s, err := measure("reprocess: "+job.name, round, func() (int64, int64, error) { return c.records, c.bytes, c.reprocess(ctx, job.spec, sink) })
			if err == nil {
				err = checkOrders(ctx, sink, job.kept, job.read, job.sum)
			}
			if err = errors.Join(err, os.RemoveAll(sink)); err != nil {
				return r, err
			}
			r.Samples = append(r.Samples, s)
		}
	}
	for _, job := range jobs {
		rate := r.median("reprocess: "+job.name, func(s Sample) float64 { return float64(s.Records) / max(s.Seconds, 1e-9) })
		talkGoal(r, "reprocess, "+job.name, cfg.Records, rate)
	}
	return r, nil
}

// reprocess runs a job over the whole table.
func (c *replayCase) reprocess(ctx context.Context, spec reprocess.Spec, sink string) (err error) {
	t, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	spec.Name, spec.Source, spec.Sink = "bench", c.path, sink
	to, err := openStore(sink)
	if err != nil {
		return err
	}
	j, err := reprocess.Open(ctx, reprocess.Config{Spec: spec, Topic: logTopic, Table: t, Sink: to,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return openStore(sink + "_dead_letters") }})
	if err != nil {
		return err
	}
	return errors.Join(j.Run(ctx, reprocess.RunOptions{}), j.Close())
}

// checkOrders reads what a job made: so many rows, and the sum of a column.
func checkOrders(ctx context.Context, sink string, rows int64, column string, want int64) (err error) {
	store, err := openStore(sink)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{Topic: logTopic})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	cur, err := reader.Open(ctx, reader.Config{Table: t, Topic: logTopic, App: "bench", Columns: []string{column}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	sum := int64(0)
	got, err := countRows(ctx, cur, func(rb arrow.RecordBatch) {
		if a, ok := rb.Column(0).(*array.Int64); ok {
			for _, v := range a.Int64Values() {
				sum += v
			}
		}
	})
	if err == nil && (got != rows || sum != want) {
		err = fmt.Errorf("wrong result: %d rows with %s of %d in all, want %d and %d", got, column, sum, rows, want)
	}
	return err
}
