package wire

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	offsetBatchBytes = 512 << 10
	offsetStripes    = 64
)

// committed is one committed position.
type committed struct {
	offset   int64
	epoch    int32
	metadata string
}

// offsetStore keeps the committed offsets of all groups: in memory for reading, and as records of
// OffsetsTopic, in the encoding of Kafka's own offsets topic, for the next start. The newest record of a key
// counts; a null value removes it.
//
// The topic is kept short by rewriting: when it has many more records than there are live positions, all of
// them are appended once more and everything before is deleted. A crash in between leaves both, which reads
// the same.
type offsetStore struct {
	log          broker.Log
	lg           *slog.Logger
	compactAfter int
	tp           record.TopicPartition
	seed         maphash.Seed

	gate    sync.RWMutex              // commits share it; a rewrite has it alone
	stripes [offsetStripes]sync.Mutex // by group: appends and the map take the same order
	mu      sync.Mutex                // guards what follows
	groups  map[string]groupOffsets
	records int // in the topic
	made    bool
}

type groupOffsets map[record.TopicPartition]committed

func newOffsetStore(log broker.Log, lg *slog.Logger, compactAfter int) *offsetStore {
	return &offsetStore{
		log: log, lg: lg, compactAfter: compactAfter, seed: maphash.MakeSeed(),
		tp:     record.TopicPartition{Topic: OffsetsTopic},
		groups: map[string]groupOffsets{},
	}
}

// load replays the topic. A topic that does not exist yet is made by the first commit.
func (o *offsetStore) load(ctx context.Context) error {
	b, err := o.log.Bounds(ctx, o.tp)
	if errors.Is(err, broker.ErrUnknownTopic) {
		return nil
	}
	if err != nil {
		return err
	}
	o.made = true
	var it record.Iterator
	for at := b.Start; at < b.End; {
		got, err := o.log.Fetch(ctx, []broker.FetchRange{{TP: o.tp, From: at, MaxBytes: 4 << 20}}, broker.FetchOptions{})
		if err != nil {
			return err
		}
		if len(got) != 1 || got[0].Err != nil || len(got[0].Batches) == 0 {
			return fmt.Errorf("read %s at offset %d: %w", o.tp, at, firstErr(got))
		}
		for raw := got[0].Batches; len(raw) > 0; {
			batch, err := record.ReadBatch(raw)
			if errors.Is(err, record.ErrTruncated) {
				break
			}
			if err != nil {
				return fmt.Errorf("read %s at offset %d: %w", o.tp, at, err)
			}
			raw = raw[batch.Size():]
			if err := o.replay(&it, batch); err != nil {
				return fmt.Errorf("read %s at offset %d: %w", o.tp, batch.BaseOffset, err)
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
	return errors.New("the log gives no data below its end")
}

func (o *offsetStore) replay(it *record.Iterator, b record.Batch) error {
	if err := it.Reset(b); err != nil {
		return err
	}
	for it.Next() {
		rec := it.Record()
		o.records++
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(rec.Key); err != nil {
			return fmt.Errorf("key of offset %d: %w", rec.Offset, err)
		}
		if k.Version > 1 {
			continue // a kind of record that a newer ledgerlake writes
		}
		tp := record.TopicPartition{Topic: k.Topic, Partition: k.Partition}
		if rec.Value == nil {
			o.set(k.Group, tp, nil)
			continue
		}
		var v kmsg.OffsetCommitValue
		if err := v.ReadFrom(rec.Value); err != nil {
			return fmt.Errorf("value of offset %d: %w", rec.Offset, err)
		}
		o.set(k.Group, tp, &committed{offset: v.Offset, epoch: v.LeaderEpoch, metadata: v.Metadata})
	}
	return it.Err()
}

// set changes the map. Callers other than load hold mu.
func (o *offsetStore) set(group string, tp record.TopicPartition, c *committed) {
	g := o.groups[group]
	if c == nil {
		delete(g, tp)
		if len(g) == 0 {
			delete(o.groups, group)
		}
		return
	}
	if g == nil {
		g = groupOffsets{}
		o.groups[group] = g
	}
	g[tp] = *c
}

// commit makes positions durable and then visible. A nil position removes.
func (o *offsetStore) commit(ctx context.Context, group string, pos map[record.TopicPartition]*committed) error {
	if len(pos) == 0 {
		return nil
	}
	if err := o.make(ctx); err != nil {
		return err
	}
	o.gate.RLock()
	err := o.commitLocked(ctx, group, pos)
	o.gate.RUnlock()
	if err != nil {
		return err
	}
	o.mu.Lock()
	live := 0
	for _, g := range o.groups {
		live += len(g)
	}
	due := o.records > o.compactAfter+4*live
	o.mu.Unlock()
	if due {
		if err := o.rewrite(ctx); err != nil {
			o.lg.Error("rewrite the committed offsets", "err", err) // the commit itself is durable
		}
	}
	return nil
}

func (o *offsetStore) commitLocked(ctx context.Context, group string, pos map[record.TopicPartition]*committed) error {
	stripe := &o.stripes[maphash.String(o.seed, group)%offsetStripes]
	stripe.Lock()
	defer stripe.Unlock()
	w := offsetWriter{o: o, ctx: ctx, b: record.NewBuilder(record.None), now: time.Now().UnixMilli()}
	for tp, c := range pos {
		if err := w.add(group, tp, c); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records += len(pos)
	for tp, c := range pos {
		o.set(group, tp, c)
	}
	return nil
}

func (o *offsetStore) make(ctx context.Context) error {
	o.mu.Lock()
	made := o.made
	o.mu.Unlock()
	if made {
		return nil
	}
	_, err := o.log.CreateTopic(ctx, OffsetsTopic, broker.TopicConfig{Partitions: 1, SegmentBytes: 16 << 20, Compact: true})
	if err != nil && !errors.Is(err, broker.ErrTopicExists) {
		return fmt.Errorf("make %s: %w", OffsetsTopic, err)
	}
	o.mu.Lock()
	o.made = true
	o.mu.Unlock()
	return nil
}

// rewrite appends all live positions and deletes what lies before them.
func (o *offsetStore) rewrite(ctx context.Context) error {
	o.gate.Lock()
	defer o.gate.Unlock()
	w := offsetWriter{o: o, ctx: ctx, b: record.NewBuilder(record.None), now: time.Now().UnixMilli()}
	live := 0
	for group, g := range o.groups {
		for tp, c := range g {
			live++
			if err := w.add(group, tp, &c); err != nil {
				return err
			}
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	before := w.first
	if !w.wrote { // nothing is live
		before = -1
	}
	if _, err := o.log.DeleteRecords(ctx, o.tp, before); err != nil {
		return err
	}
	o.mu.Lock()
	o.records = live
	o.mu.Unlock()
	return nil
}

// offsetWriter cuts positions into batches that every Log takes.
type offsetWriter struct {
	o     *offsetStore
	ctx   context.Context
	b     *record.Builder
	now   int64
	first record.Offset
	wrote bool
}

func (w *offsetWriter) add(group string, tp record.TopicPartition, c *committed) error {
	k := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	var value []byte
	if c != nil {
		v := kmsg.OffsetCommitValue{Version: 3, Offset: c.offset, LeaderEpoch: c.epoch, Metadata: c.metadata, CommitTimestamp: w.now}
		value = v.AppendTo(nil)
	}
	w.b.Append(w.now, k.AppendTo(nil), value, nil)
	if w.b.Bytes() >= offsetBatchBytes {
		return w.flush()
	}
	return nil
}

func (w *offsetWriter) flush() error {
	if w.b.Len() == 0 {
		return nil
	}
	raw, err := w.b.Build(0)
	if err != nil {
		return fmt.Errorf("encode committed offsets: %w", err)
	}
	w.b = record.NewBuilder(record.None) // the Log may keep raw
	res, err := w.o.log.Append(w.ctx, w.o.tp, raw)
	if err != nil {
		return fmt.Errorf("append committed offsets: %w", err)
	}
	if !w.wrote {
		w.first, w.wrote = res.Base, true
	}
	return nil
}

func (o *offsetStore) get(group string, tp record.TopicPartition) (committed, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.groups[group][tp]
	return c, ok
}

// of gives a copy of a group's positions.
func (o *offsetStore) of(group string) groupOffsets {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.groups[group])
}

func (o *offsetStore) has(group string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.groups[group]
	return ok
}

// names gives the groups that have positions, sorted.
func (o *offsetStore) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.groups))
}

// forget removes all positions of a group.
func (o *offsetStore) forget(ctx context.Context, group string) error {
	pos := map[record.TopicPartition]*committed{}
	for tp := range o.of(group) {
		pos[tp] = nil
	}
	return o.commit(ctx, group, pos)
}

// forgetTopic removes the positions of all groups in a deleted topic.
func (o *offsetStore) forgetTopic(ctx context.Context, topic string) error {
	var errs []error
	for _, group := range o.names() {
		pos := map[record.TopicPartition]*committed{}
		for tp := range o.of(group) {
			if tp.Topic == topic {
				pos[tp] = nil
			}
		}
		errs = append(errs, o.commit(ctx, group, pos))
	}
	return errors.Join(errs...)
}
