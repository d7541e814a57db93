package wire

import (
	"cmp"
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
	at       int64 // ms: when it was committed, or its group was last seen with members
}

// refreshParts says in how many parts of the retention the positions of a living group are written anew.
const refreshParts = 14

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

	kept    *held
	gate    sync.RWMutex              // commits share it; a rewrite has it alone
	stripes [offsetStripes]sync.Mutex // by group: appends and the map take the same order
	mu      sync.Mutex                // guards what follows
	groups  map[string]groupOffsets
	live    int // positions in groups
	records int // in the topic
	made    bool
}

type groupOffsets map[record.TopicPartition]committed

func newOffsetStore(log broker.Log, lg *slog.Logger, compactAfter int, kept *held) *offsetStore {
	return &offsetStore{
		log: log, lg: lg, compactAfter: compactAfter, kept: kept, seed: maphash.MakeSeed(),
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
		o.set(k.Group, tp, &committed{offset: v.Offset, epoch: v.LeaderEpoch, metadata: v.Metadata, at: v.CommitTimestamp})
	}
	return it.Err()
}

// set changes the map. Callers other than load hold mu.
func (o *offsetStore) set(group string, tp record.TopicPartition, c *committed) {
	g := o.groups[group]
	if old, ok := g[tp]; ok {
		delete(g, tp)
		o.live--
		o.kept.add(-positionCost(tp, &old))
	}
	if c != nil {
		if g == nil {
			g = groupOffsets{}
			o.groups[group] = g
			o.kept.add(groupCost(group))
		}
		g[tp] = *c
		o.live++
		o.kept.add(positionCost(tp, c))
	} else if g != nil && len(g) == 0 {
		delete(o.groups, group)
		o.kept.add(-groupCost(group))
	}
}

// commit makes positions durable and then visible. A nil position removes. Positions for which there is no
// memory are refused with errNoMemory.
func (o *offsetStore) commit(ctx context.Context, group string, pos map[record.TopicPartition]*committed) error {
	return o.change(ctx, group, func(groupOffsets) map[record.TopicPartition]*committed { return pos })
}

// change commits what pick makes of a group's present positions.
func (o *offsetStore) change(ctx context.Context, group string, pick func(groupOffsets) map[record.TopicPartition]*committed) error {
	if err := o.make(ctx); err != nil {
		return err
	}
	o.gate.RLock()
	err := o.changeLocked(ctx, group, pick)
	o.gate.RUnlock()
	if err != nil {
		return err
	}
	o.mu.Lock()
	due := o.records > o.compactAfter+4*o.live
	o.mu.Unlock()
	if due {
		if err := o.rewrite(ctx); err != nil {
			o.lg.Error("rewrite the committed offsets", "err", err) // the commit itself is durable
		}
	}
	return nil
}

func (o *offsetStore) changeLocked(ctx context.Context, group string, pick func(groupOffsets) map[record.TopicPartition]*committed) error {
	stripe := &o.stripes[maphash.String(o.seed, group)%offsetStripes]
	stripe.Lock()
	defer stripe.Unlock()
	pos := pick(o.of(group))
	if len(pos) == 0 {
		return nil
	}
	w := offsetWriter{o: o, ctx: ctx, b: record.NewBuilder(record.None), now: time.Now().UnixMilli()}
	need := int64(0)
	for tp, c := range pos {
		if c != nil {
			c.at = cmp.Or(c.at, w.now)
			need += groupCost(group) + positionCost(tp, c)
		}
	}
	if need > 0 {
		if !o.kept.take(need) {
			return errNoMemory
		}
		defer o.kept.add(-need) // what is kept of it counts by then
	}
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
		v := kmsg.OffsetCommitValue{Version: 3, Offset: c.offset, LeaderEpoch: c.epoch, Metadata: c.metadata, CommitTimestamp: c.at}
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
	return o.remove(ctx, group, func(record.TopicPartition) bool { return true })
}

// remove removes the positions of a group that which names.
func (o *offsetStore) remove(ctx context.Context, group string, which func(record.TopicPartition) bool) error {
	return o.change(ctx, group, func(now groupOffsets) map[record.TopicPartition]*committed {
		pos := map[record.TopicPartition]*committed{}
		for tp := range now {
			if which(tp) {
				pos[tp] = nil
			}
		}
		return pos
	})
}

// expire removes the positions of groups without members that are older than keep. Those of groups with members
// it writes anew from time to time, so that their age, also after a restart, is counted from when the group
// was last seen alive; a group is therefore forgotten between keep and keep/refreshParts more after its end.
func (o *offsetStore) expire(ctx context.Context, now time.Time, keep time.Duration, alive func(group string) bool) error {
	var errs []error
	part := (keep / refreshParts).Milliseconds()
	for _, group := range o.names() {
		living := alive(group)
		errs = append(errs, o.change(ctx, group, func(has groupOffsets) map[record.TopicPartition]*committed {
			pos := map[record.TopicPartition]*committed{}
			for tp, c := range has {
				age := now.UnixMilli() - c.at
				switch {
				case living && age > part:
					c.at = now.UnixMilli()
					pos[tp] = &c
				case !living && age > keep.Milliseconds()+part:
					pos[tp] = nil
				}
			}
			return pos
		}))
	}
	return errors.Join(errs...)
}

// forgetTopic removes the positions of all groups in a deleted topic.
func (o *offsetStore) forgetTopic(ctx context.Context, topic string) error {
	var errs []error
	for _, group := range o.names() {
		errs = append(errs, o.remove(ctx, group, func(tp record.TopicPartition) bool { return tp.Topic == topic }))
	}
	return errors.Join(errs...)
}
