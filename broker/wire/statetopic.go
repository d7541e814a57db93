package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	stateBatchBytes   = 512 << 10
	stateMessageBytes = 16 << 20
)

// stateTopic is an internal topic of one partition that keeps what a coordinator knows for the next start. The
// newest record of a key counts; a null value removes it. The Log compacts it.
type stateTopic struct {
	log          broker.Log
	tp           record.TopicPartition
	segmentBytes int64 // small, so that little is left to be compacted
	whole        bool  // an append is one batch, whatever its size: all of it is there after a crash, or nothing

	mu   sync.Mutex // guards what follows
	made bool
}

type stateRecord struct{ key, value []byte }

func newStateTopic(log broker.Log, name string) *stateTopic {
	return &stateTopic{log: log, tp: record.TopicPartition{Topic: name}, segmentBytes: 16 << 20}
}

// load gives every record, oldest first. A topic that does not exist yet is made by the first append.
func (t *stateTopic) load(ctx context.Context, each func(*record.Record) error) error {
	b, err := t.log.Bounds(ctx, t.tp)
	if errors.Is(err, broker.ErrUnknownTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	t.made = true
	var it record.Iterator
	for at := b.Start; at < b.End; {
		got, err := t.log.Fetch(ctx, []broker.FetchRange{{TP: t.tp, From: at, MaxBytes: 4 << 20}}, broker.FetchOptions{})
		if err != nil {
			return err
		}
		if len(got) != 1 || got[0].Err != nil {
			return fmt.Errorf("read %s at offset %d: %w", t.tp, at, firstErr(got))
		}
		if len(got[0].Batches) == 0 {
			return nil // compaction has left nothing from here on
		}
		for raw := got[0].Batches; len(raw) > 0; {
			batch, err := record.ReadBatch(raw)
			if errors.Is(err, record.ErrTruncated) {
				break
			}
			if err == nil {
				raw = raw[batch.Size():]
				err = t.replay(&it, batch, at, each)
			}
			if err != nil {
				return fmt.Errorf("read %s at offset %d: %w", t.tp, at, err)
			}
			at = max(at, batch.LastOffset()+1)
		}
	}
	return nil
}

func firstErr(got []broker.Fetched) error {
	for _, g := range got {
		if g.Err != nil {
			return g.Err
		}
	}
	return errors.New("the log gives no answer")
}

func (t *stateTopic) replay(it *record.Iterator, b record.Batch, from record.Offset, each func(*record.Record) error) error {
	if b.Control() {
		return nil
	}
	if err := it.Reset(b); err != nil {
		return err
	}
	for it.Next() {
		if it.Record().Offset < from {
			continue
		}
		if err := each(it.Record()); err != nil {
			return err
		}
	}
	return it.Err()
}

// append makes records durable.
func (t *stateTopic) append(ctx context.Context, recs []stateRecord) error {
	if err := t.make(ctx); err != nil {
		return err
	}
	b, now := record.NewBuilder(record.None), time.Now().UnixMilli()
	for i, r := range recs {
		b.Append(now, r.key, r.value, nil)
		if i < len(recs)-1 && (t.whole || b.Bytes() < stateBatchBytes) {
			continue
		}
		raw, err := b.Build(0)
		if err != nil {
			return fmt.Errorf("encode records of %s: %w", t.tp.Topic, err)
		}
		if _, err := t.log.Append(ctx, t.tp, raw); err != nil {
			return fmt.Errorf("append to %s: %w", t.tp.Topic, err)
		}
		b = record.NewBuilder(record.None) // the Log may keep raw
	}
	return nil
}

func (t *stateTopic) make(ctx context.Context) error {
	t.mu.Lock()
	made := t.made
	t.mu.Unlock()
	if made {
		return nil
	}
	_, err := t.log.CreateTopic(ctx, t.tp.Topic, broker.TopicConfig{
		Partitions: 1, SegmentBytes: t.segmentBytes, Compact: true, MaxMessageBytes: stateMessageBytes, RetentionAge: -1, RetentionBytes: -1,
	})
	if err != nil && !errors.Is(err, broker.ErrTopicExists) {
		return fmt.Errorf("make %s: %w", t.tp.Topic, err)
	}
	t.mu.Lock()
	t.made = true
	t.mu.Unlock()
	return nil
}
