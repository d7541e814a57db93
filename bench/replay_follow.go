package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	followRate  = 500  // records a second, each a batch of its own
	followMost  = 2000 // records of a round
	followLeast = 100
	// followed and fetched name the two sides.
	followed = "following: reader"
	fetched  = "following: the log's own fetch"
)

// tail is what is sent while both sides follow: record i goes to partition i modulo logPartitions.
type tail struct {
	first   [logPartitions]record.Offset
	batches [][]byte
	bytes   int64
	sent    []time.Time
}

// arrivals are when one side had each record.
type arrivals struct {
	t    *tail
	at   []time.Time
	left int
}

func (a *arrivals) see(partition int32, o record.Offset, now time.Time) error {
	i := int(o-a.t.first[partition])*logPartitions + int(partition)
	if o < a.t.first[partition] || i >= len(a.at) || !a.at[i].IsZero() {
		return fmt.Errorf("wrong result: %d:%d was not sent, or comes twice", partition, o)
	}
	a.at[i] = now
	a.left--
	return nil
}

// follow measures how long a record takes from its append to a reader that follows the log, decoded into the table's columns,
// beside a fetch of the log that only waits for its bytes. Both wait for the same records at the same time.
func (c *replayCase) follow(ctx context.Context, cfg Config, r *Report, log *local.Log) (err error) {
	t, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for round := range cfg.Rounds {
		x, err := newTail(ctx, cfg, log)
		if err != nil {
			return err
		}
		begin := time.Now()
		ours, theirs, err := x.race(ctx, log, t)
		if err != nil {
			return err
		}
		for name, a := range map[string]*arrivals{followed: ours, fetched: theirs} {
			s := Sample{Case: name, Round: round, Records: int64(len(a.at)), Bytes: x.bytes, Seconds: time.Since(begin).Seconds()}
			s.P50, s.P95, s.P99 = a.waits()
			r.Samples = append(r.Samples, s)
		}
	}
	p99 := func(s Sample) float64 { return s.P99 }
	r.atMost("following: p99 from append to reader, minus the p99 of the log's own fetch of the same records, ms", 20, r.median(followed, p99)-r.median(fetched, p99))
	return nil
}

func newTail(ctx context.Context, cfg Config, log *local.Log) (*tail, error) {
	x := &tail{}
	for p := range x.first {
		b, err := log.Bounds(ctx, record.TopicPartition{Topic: logTopic, Partition: int32(p)})
		if err != nil {
			return nil, err
		}
		x.first[p] = b.End
	}
	events := NewEvents(cfg.Seed+1, start(), time.Millisecond)
	b := record.NewBuilder(record.None)
	for i := range min(max(cfg.Records/100, followLeast), followMost) {
		key, value := events.Next(nil, nil)
		b.Append(start().UnixMilli()+int64(i), key, value, nil)
		raw, err := b.Build(0)
		if err != nil {
			return nil, err
		}
		x.batches, x.bytes = append(x.batches, slices.Clone(raw)), x.bytes+int64(len(value))
	}
	x.sent = make([]time.Time, len(x.batches))
	return x, nil
}

// race sends the tail while both sides follow.
func (x *tail) race(ctx context.Context, log *local.Log, t *table.Table) (ours, theirs *arrivals, err error) {
	from := map[int32]record.Offset{}
	for p, o := range x.first {
		from[int32(p)] = o
	}
	cur, err := reader.Open(ctx, reader.Config{Table: t, Source: log, Topic: logTopic, From: reader.AtOffsets(from), Follow: true})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, cur.Close()) }()
	n := len(x.batches)
	ours, theirs = &arrivals{t: x, at: make([]time.Time, n), left: n}, &arrivals{t: x, at: make([]time.Time, n), left: n}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ours.read(ctx, cur, t.Names) })
	g.Go(func() error { return theirs.fetch(ctx, log) })
	g.Go(func() error { return x.send(ctx, log) })
	return ours, theirs, g.Wait()
}

// send appends the records at their rate.
func (x *tail) send(ctx context.Context, log *local.Log) error {
	begin, tick := time.Now(), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(x.batches); {
		for due := min(len(x.batches), int(followRate*time.Since(begin).Seconds())); i < due; i++ {
			x.sent[i] = time.Now()
			if _, err := log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: int32(i % logPartitions)}, x.batches[i]); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (a *arrivals) read(ctx context.Context, cur *reader.Cursor, n table.Names) error {
	for a.left > 0 {
		rb, err := cur.Next(ctx)
		if err != nil {
			return err
		}
		if err := a.take(rb, n, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrivals) take(rb arrow.RecordBatch, n table.Names, now time.Time) error {
	parts, ok1 := rb.Column(rb.Schema().FieldIndices(n.Partition)[0]).(*array.Int32)
	offsets, ok2 := rb.Column(rb.Schema().FieldIndices(n.Offset)[0]).(*array.Int64)
	if !ok1 || !ok2 {
		return fmt.Errorf("columns of other types: %v", rb.Schema())
	}
	for i := range int(rb.NumRows()) {
		if err := a.see(parts.Value(i), record.Offset(offsets.Value(i)), now); err != nil {
			return err
		}
	}
	return nil
}

// fetch waits for the bytes of the records as a broker's consumer does.
func (a *arrivals) fetch(ctx context.Context, log *local.Log) error {
	next := a.t.first
	for a.left > 0 {
		var ranges []broker.FetchRange
		for p, o := range next {
			ranges = append(ranges, broker.FetchRange{TP: record.TopicPartition{Topic: logTopic, Partition: int32(p)}, From: o, MaxBytes: 1 << 20})
		}
		got, err := log.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxWait: 500 * time.Millisecond, MaxBytes: 8 << 20, Isolation: broker.ReadCommitted})
		now := time.Now()
		if err != nil {
			return err
		}
		for _, f := range got {
			if f.Err != nil {
				return f.Err
			}
			for rest := f.Batches; len(rest) > 0; {
				b, err := record.ReadBatch(rest)
				if err != nil {
					return err
				}
				for o := b.BaseOffset; o <= b.LastOffset(); o++ {
					if err := a.see(f.TP.Partition, o, now); err != nil {
						return err
					}
				}
				next[f.TP.Partition], rest = b.LastOffset()+1, rest[b.Size():]
			}
		}
	}
	return nil
}

// waits gives milliseconds from the append to the arrival, without the first tenth, in which the sides become warm.
func (a *arrivals) waits() (p50, p95, p99 float64) {
	var ms []float64
	for i := len(a.at) / 10; i < len(a.at); i++ {
		ms = append(ms, a.at[i].Sub(a.t.sent[i]).Seconds()*1e3)
	}
	slices.Sort(ms)
	at := func(q float64) float64 { return ms[min(len(ms)-1, int(q*float64(len(ms))))] }
	return at(0.5), at(0.95), at(0.99)
}
