package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
// newest record of a key counts; a null value removes it.
//
// The topic is kept short by rewriting: when it has many more records than there are live ones, all live ones
// are appended once more and everything before is deleted. A crash in between leaves both, which reads the same.
type stateTopic struct {
	log          broker.Log
	tp           record.TopicPartition
	compactAfter int
	whole        bool // an append is one batch, whatever its size: all of it is there after a crash, or nothing

	gate    sync.RWMutex // appends share it; a rewrite has it alone
	mu      sync.Mutex   // guards what follows
	made    bool
	records int // in the topic
}

type stateRecord struct{ key, value []byte }

func newStateTopic(log broker.Log, name string, compactAfter int) *stateTopic {
	return &stateTopic{log: log, tp: record.TopicPartition{Topic: name}, compactAfter: compactAfter}
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
		t.records++
		if err := each(it.Record()); err != nil {
			return err
		}
	}
	return it.Err()
}

// append makes records durable and then calls apply, before any rewrite.
func (t *stateTopic) append(ctx context.Context, recs []stateRecord, apply func()) error {
	if err := t.make(ctx); err != nil {
		return err
	}
	t.gate.RLock()
	defer t.gate.RUnlock()
	w := stateWriter{t: t, ctx: ctx, b: record.NewBuilder(record.None), now: time.Now().UnixMilli(), whole: t.whole}
	for _, r := range recs {
		if err := w.add(r); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	t.mu.Lock()
	t.records += len(recs)
	t.mu.Unlock()
	apply()
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
		Partitions: 1, SegmentBytes: 16 << 20, Compact: true, MaxMessageBytes: stateMessageBytes, RetentionAge: -1, RetentionBytes: -1,
	})
	if err != nil && !errors.Is(err, broker.ErrTopicExists) {
		return fmt.Errorf("make %s: %w", t.tp.Topic, err)
	}
	t.mu.Lock()
	t.made = true
	t.mu.Unlock()
	return nil
}

// compact rewrites the topic when that is due. all gives the live records; nobody appends meanwhile.
func (t *stateTopic) compact(ctx context.Context, live int, all iter.Seq[stateRecord]) error {
	t.mu.Lock()
	due := t.records > t.compactAfter+4*live
	t.mu.Unlock()
	if !due {
		return nil
	}
	t.gate.Lock()
	defer t.gate.Unlock()
	w := stateWriter{t: t, ctx: ctx, b: record.NewBuilder(record.None), now: time.Now().UnixMilli()}
	n := 0
	for r := range all {
		n++
		if err := w.add(r); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	before := w.first
	if !w.wrote { // nothing is live
		before = -1
	}
	if _, err := t.log.DeleteRecords(ctx, t.tp, before); err != nil {
		return err
	}
	t.mu.Lock()
	t.records = n
	t.mu.Unlock()
	return nil
}

// stateWriter cuts records into batches that every Log takes.
type stateWriter struct {
	t     *stateTopic
	ctx   context.Context
	b     *record.Builder
	now   int64
	whole bool
	first record.Offset
	wrote bool
}

func (w *stateWriter) add(r stateRecord) error {
	w.b.Append(w.now, r.key, r.value, nil)
	if !w.whole && w.b.Bytes() >= stateBatchBytes {
		return w.flush()
	}
	return nil
}

func (w *stateWriter) flush() error {
	if w.b.Len() == 0 {
		return nil
	}
	raw, err := w.b.Build(0)
	if err != nil {
		return fmt.Errorf("encode records of %s: %w", w.t.tp.Topic, err)
	}
	w.b = record.NewBuilder(record.None) // the Log may keep raw
	res, err := w.t.log.Append(w.ctx, w.t.tp, raw)
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.t.tp.Topic, err)
	}
	if !w.wrote {
		w.first, w.wrote = res.Base, true
	}
	return nil
}
