package tiering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
)

// Formats of record values.
const (
	FormatJSON = "json" // one JSON object a record, decoded into the table's payload columns
	FormatRaw  = "raw"  // bytes, kept in the value column alone
)

// SampleConfig says how much of a topic to look at before its table is made.
type SampleConfig struct {
	Records int           // look at so many values at most; default 1000
	Settle  time.Duration // having seen one record, wait so long for more; default 1 s
	// UntilEnd looks up to the ends of the log as they are now, and waits for nothing.
	UntilEnd bool
	// Waits is told once when there is no record yet and the look goes on until there is one; may be nil.
	Waits func()
}

// Infer looks at the first records of a topic and says which format and payload columns its table should
// have: JSON columns when every sampled value that is not null is a JSON object, else raw. As to topics without a record
// see Sample.
func Infer(ctx context.Context, src broker.Source, topic string, cfg SampleConfig) (format string, payload *arrow.Schema, err error) {
	values, err := Sample(ctx, src, topic, cfg)
	if err != nil {
		return "", nil, err
	}
	raw := arrow.NewSchema(nil, nil)
	payload, err = decode.InferJSON(values)
	if err != nil || payload.NumFields() == 0 {
		return FormatRaw, raw, nil //nolint:nilerr // not JSON is an answer here, not a failure
	}
	return FormatJSON, payload, nil
}

// ErrNoRecords is returned by a bounded look at a topic that holds no committed value that is not null.
var ErrNoRecords = errors.New("the topic has no record to tell columns by")

// Sample gives the first values of a topic that are not null, one at the least. It waits until the topic has a record,
// or, with UntilEnd, gives ErrNoRecords when it has none.
func Sample(ctx context.Context, src broker.Source, topic string, cfg SampleConfig) ([][]byte, error) {
	if cfg.Records == 0 {
		cfg.Records = 1000
	}
	if cfg.Settle == 0 {
		cfg.Settle = time.Second
	}
	values, err := sample(ctx, src, topic, cfg)
	if err != nil {
		return nil, fmt.Errorf("sample topic %s: %w", topic, err)
	}
	return values, nil
}

// sample collects values that are not null, of all partitions.
func sample(ctx context.Context, src broker.Source, topic string, cfg SampleConfig) ([][]byte, error) {
	parts, err := src.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	ranges, ends := make([]broker.FetchRange, 0, len(parts)), map[record.TopicPartition]record.Offset{}
	for _, p := range parts {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		b, err := src.Bounds(ctx, tp)
		if err != nil {
			return nil, err
		}
		ranges, ends[tp] = append(ranges, broker.FetchRange{TP: tp, From: b.Start, MaxBytes: 1 << 20}), b.Stable
	}
	from := map[record.TopicPartition]record.Offset{}
	var values [][]byte
	var until time.Time // zero before the first record
	for len(values) < cfg.Records && (until.IsZero() || time.Now().Before(until)) {
		if cfg.UntilEnd {
			if ranges, err = before(ctx, src, ranges, from, ends); err != nil {
				return nil, err
			}
			if len(ranges) == 0 {
				break
			}
		}
		got, err := src.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxBytes: 16 << 20, MaxWait: min(cfg.Settle, 500*time.Millisecond), Isolation: broker.ReadCommitted})
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range got {
			if got[i].Err != nil {
				return nil, got[i].Err
			}
			if values, err = takeValues(values, got[i], &ranges[i], cfg.Records); err != nil {
				return nil, err
			}
		}
		switch {
		case len(values) > 0 && until.IsZero():
			until = time.Now().Add(cfg.Settle)
		case len(values) == 0 && !cfg.UntilEnd && cfg.Waits != nil:
			cfg.Waits()
			cfg.Waits = nil
		}
	}
	if len(values) == 0 {
		return nil, ErrNoRecords
	}
	return values, nil
}

// before leaves the ranges that have not come to their end. A source that counts by reading (broker.Counter) does not know
// it: it is asked to read up to there when a round has brought nothing (from is where that began).
func before(ctx context.Context, src broker.Source, ranges []broker.FetchRange, from, ends map[record.TopicPartition]record.Offset) (left []broker.FetchRange, err error) {
	_, counts := src.(broker.Counter)
	for _, r := range ranges {
		began, again := from[r.TP]
		from[r.TP] = r.From
		if counts && again && r.From == began {
			if ends[r.TP], err = broker.StableEnd(ctx, src, r.TP); err != nil {
				return nil, err
			}
		}
		if r.From < ends[r.TP] || counts && !(again && r.From == began) {
			left = append(left, r)
		}
	}
	return left, nil
}

func takeValues(values [][]byte, f broker.Fetched, r *broker.FetchRange, limit int) ([][]byte, error) {
	var it record.Iterator
	var filter record.AbortFilter
	filter.Reset(f.Aborted)
	for rest := f.Batches; len(rest) > 0 && len(values) < limit; {
		b, err := record.ReadBatch(rest)
		if errors.Is(err, record.ErrTruncated) {
			break
		}
		if err != nil {
			return nil, err
		}
		rest = rest[b.Size():]
		r.From = b.LastOffset() + 1
		if !filter.Keep(b) {
			continue
		}
		if err := it.Reset(b); err != nil {
			return nil, err
		}
		for it.Next() {
			if v := it.Record().Value; v != nil {
				values = append(values, append([]byte{}, v...))
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return values, nil
}
