package seam

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

var sumSeed = maphash.MakeSeed()

func sum(value []byte) uint64 { return maphash.Bytes(sumSeed, value) }

// patience is how long a reader may fail without a break: longer than any restart here.
const patience = harness.Patience

// client is what one reading process has open.
type client struct {
	r      *rig
	rng    *rand.Rand
	table  *table.Table
	source broker.Source
	close  func() error
}

// reader reads until its context ends, each time from another place, with a new client now and then.
func (r *rig) reader(ctx context.Context, rng *rand.Rand) error {
	good := time.Now()
	for ctx.Err() == nil {
		c, err := r.connect(ctx, rng)
		for range 20 {
			if err != nil || ctx.Err() != nil {
				break
			}
			var h *history
			if r.kafka != "" && rng.IntN(6) == 0 {
				h, err = c.overKafka(ctx)
			} else {
				h, err = c.read(ctx)
			}
			if err == nil && h != nil {
				good = time.Now()
				r.add(h)
			}
		}
		if c != nil {
			err = errors.Join(err, c.close())
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if fatal(err) || time.Since(good) > patience {
			return fmt.Errorf("a reader cannot go on: %w", err)
		}
		r.fault(ctx, err)
	}
	return nil
}

func (r *rig) add(h *history) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories = append(r.histories, h)
	r.count.reads++
	r.count.places += len(h.from)
	r.count.rows += len(h.rows)
}

// fault counts an error that a reader goes on after, and rests a moment.
func (r *rig) fault(ctx context.Context, err error) {
	r.mu.Lock()
	r.faults[cause(err)]++
	r.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// fatal says whether an error is about the stream itself, which no bad weather excuses (I4).
func fatal(err error) bool {
	var missing *reader.MissingError
	var beyond *broker.OutOfRangeError
	return errors.As(err, &missing) || errors.As(err, &beyond) || errors.Is(err, kerr.OffsetOutOfRange) || strings.Contains(err.Error(), "out of order")
}

func (r *rig) connect(ctx context.Context, rng *rand.Rand) (*client, error) {
	t, err := r.openTable(ctx)
	if err != nil {
		return nil, err
	}
	src, done, err := r.source(ctx, t)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &client{r, rng, t, src, func() error { return errors.Join(done(), t.Close()) }}, nil
}

// place picks a place of a partition: near the seam, or anywhere from its first offset to its end.
func (c *client) place(ctx context.Context, p int32) (record.Offset, error) {
	snap, err := c.table.Log.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	lake, _ := table.LakeEnd(snap, c.r.topic, p)
	end, err := broker.StableEnd(ctx, c.source, record.TopicPartition{Topic: c.r.topic, Partition: p})
	if err != nil {
		return 0, err
	}
	end = max(end, lake)
	switch c.rng.IntN(4) {
	case 0, 1:
		return min(max(lake+record.Offset(c.rng.IntN(200))-100, 0), end), nil
	case 2:
		return lake + record.Offset(c.rng.Int64N(int64(end-lake)+1)), nil
	}
	return record.Offset(c.rng.Int64N(int64(end) + 1)), nil
}

// places picks one partition, or all.
func (c *client) places(ctx context.Context) (map[int32]record.Offset, error) {
	ids, err := c.source.Partitions(ctx, c.r.topic)
	if err != nil || len(ids) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%d partitions", len(ids)))
	}
	if c.rng.IntN(2) == 0 {
		ids = ids[c.rng.IntN(len(ids)):][:1]
	}
	from := map[int32]record.Offset{}
	for _, p := range ids {
		if from[p], err = c.place(ctx, p); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// settings picks how to read.
func (c *client) settings(from map[int32]record.Offset) reader.Config {
	cfg := reader.Config{Table: c.table, Source: c.source, Topic: c.r.topic, From: reader.AtOffsets(from),
		BatchRows: 1 + c.rng.IntN(200), ReadAhead: 1 + c.rng.IntN(3), MaxWait: 100 * time.Millisecond}
	for p := range from {
		cfg.Partitions = append(cfg.Partitions, p)
	}
	switch c.rng.IntN(10) {
	case 0: // to an end, or the one that the log has now
		until := map[int32]record.Offset{}
		for p, o := range from {
			until[p] = o + record.Offset(c.rng.IntN(1000))
		}
		cfg.Until = reader.AtOffsets(until)
	case 1:
		cfg.Follow, cfg.MaxRows = true, int64(1+c.rng.IntN(100)) // which takes a second to come
	default:
		cfg.MaxRows = int64(1 + c.rng.IntN(300))
	}
	if c.rng.IntN(2) == 0 {
		cfg.Columns = []string{"_value", "_offset", "_partition"}
	}
	if c.rng.IntN(3) == 0 {
		cfg.LeaseAfter = time.Nanosecond
	}
	return cfg
}

// read reads once, going on from tokens over faults and by choice; nil when the run ended meanwhile.
func (c *client) read(ctx context.Context) (*history, error) {
	from, err := c.places(ctx)
	if err != nil {
		return nil, err
	}
	cfg := c.settings(from)
	h := &history{who: fmt.Sprintf("a read (follow %v, up to %d rows, %d columns)", cfg.Follow, cfg.MaxRows, len(cfg.Columns)), from: map[int32]int64{}}
	for p, o := range from {
		h.from[p] = int64(o)
	}
	cfg.OnGap = func(g reader.Gap) {
		h.holes = append(h.holes, hole{g.Partition, int64(g.From), int64(g.To), g.Reason})
	}
	most := cfg.MaxRows
	sides := map[bool]bool{}
	began, resumed := false, 0
	for good := time.Now(); ; {
		cur, err := reader.Open(ctx, cfg)
		if err == nil {
			if h.end == nil && !cfg.Follow && most == 0 {
				h.end = offsets(cur.End())
				cfg.Until = reader.AtOffsets(cur.End()) // also when it goes on
			}
			if !began {
				c.r.begins(cur)
				began = true
			}
			var done bool
			done, err = c.some(ctx, cur, h, sides)
			h.to = offsets(cur.Position())
			h.forget()
			cfg.From, _ = reader.AtToken(cur.Token(), c.r.topic)
			err = errors.Join(err, cur.Close())
			if err == nil && done {
				c.r.ends(sides, resumed)
				return h, nil
			}
			if most > 0 {
				if cfg.MaxRows = most - int64(len(h.rows)); cfg.MaxRows == 0 { // it had all before the fault
					c.r.ends(sides, resumed)
					return h, nil
				}
			}
			resumed++
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil:
			good = time.Now()
		case fatal(err) || time.Since(good) > patience:
			return nil, fmt.Errorf("%s from %v: %w", h.who, h.from, err)
		default:
			c.r.fault(ctx, err)
		}
	}
}

// some reads batches until the end (true), a fault, or the wish to go on from a token.
func (c *client) some(ctx context.Context, cur *reader.Cursor, h *history, sides map[bool]bool) (bool, error) {
	for {
		rb, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		sides[cur.InLake()] = true
		h.take(rb)
		if c.rng.IntN(25) == 0 {
			return false, nil
		}
	}
}

func (h *history) take(rb arrow.RecordBatch) {
	col := func(name string) arrow.Array { return rb.Column(rb.Schema().FieldIndices(name)[0]) }
	parts, offs, values := col("_partition").(*array.Int32), col("_offset").(*array.Int64), col("_value").(*array.Binary)
	for i := range int(rb.NumRows()) {
		v := values.Value(i)
		if values.IsNull(i) {
			v = []byte("null")
		}
		h.rows = append(h.rows, row{harness.Position{Partition: parts.Value(i), Offset: offs.Value(i)}, sum(v)})
	}
}

// forget drops the holes that were told for rows which a fault kept back: they are told again.
func (h *history) forget() {
	h.holes = slices.DeleteFunc(h.holes, func(g hole) bool { return g.from >= h.to[g.partition] })
}

func offsets(m map[int32]record.Offset) map[int32]int64 {
	out := map[int32]int64{}
	for p, o := range m {
		out[p] = int64(o)
	}
	return out
}

// begins counts on which side of the seam a read begins.
func (r *rig) begins(cur *reader.Cursor) {
	lake := false
	for p, o := range cur.Position() {
		lake = lake || o < cur.Seam()[p]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if lake {
		r.count.inLake++
	} else {
		r.count.inLog++
	}
}

func (r *rig) ends(sides map[bool]bool, resumed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count.resumed += resumed
	if len(sides) == 2 {
		r.count.crossed++
	}
}

// overKafka is a plain Kafka client at a random offset of a partition: below the log's start the table answers.
func (c *client) overKafka(ctx context.Context) (*history, error) {
	from, err := c.places(ctx)
	if err != nil {
		return nil, err
	}
	at := map[int32]kgo.Offset{}
	h := &history{who: "a Kafka client", from: map[int32]int64{}, to: map[int32]int64{}, silent: true}
	enough := map[int32]int64{}
	for p, o := range from {
		end, err := broker.StableEnd(ctx, c.source, record.TopicPartition{Topic: c.r.topic, Partition: p})
		if err != nil {
			return nil, err
		}
		at[p] = kgo.NewOffset().At(int64(o))
		h.from[p], h.to[p] = int64(o), int64(o)
		enough[p] = min(int64(o)+1+c.rng.Int64N(200), int64(end))
	}
	k, err := kgo.NewClient(kgo.SeedBrokers(c.r.kafka), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.r.topic: at}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return nil, err
	}
	defer k.Close()
	for !covered(h.to, enough) {
		limit, cancel := context.WithTimeout(ctx, 5*time.Second) // records come all the time: an abort may be the last thing here
		fetches := k.PollFetches(limit)
		cancel()
		if ctx.Err() != nil {
			return nil, nil
		}
		if err := fetches.Err(); errors.Is(err, context.DeadlineExceeded) {
			break // what it has is judged
		} else if err != nil {
			return nil, err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() {
				h.rows = append(h.rows, row{harness.Position{Partition: rec.Partition, Offset: rec.Offset}, sum(rec.Value)})
			}
			h.to[rec.Partition] = rec.Offset + 1
		})
	}
	c.r.mu.Lock()
	c.r.count.overKafka++
	c.r.mu.Unlock()
	return h, nil
}

func covered(at, enough map[int32]int64) bool {
	for p, o := range enough {
		if at[p] < o {
			return false
		}
	}
	return true
}
