package wire

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const offsetStripes = 64

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
// OffsetsTopic, in the encoding of Kafka's own offsets topic, for the next start.
type offsetStore struct {
	topic *stateTopic
	kept  *held
	seed  maphash.Seed

	stripes [offsetStripes]sync.Mutex // by group: appends and the map take the same order
	mu      sync.Mutex                // guards what follows
	groups  map[string]groupOffsets
}

type groupOffsets map[record.TopicPartition]committed

func newOffsetStore(log broker.Log, kept *held) *offsetStore {
	return &offsetStore{
		topic: newStateTopic(log, OffsetsTopic), kept: kept, seed: maphash.MakeSeed(),
		groups: map[string]groupOffsets{},
	}
}

// load replays the topic.
func (o *offsetStore) load(ctx context.Context) error {
	return o.topic.load(ctx, func(rec *record.Record) error {
		if len(rec.Key) < 2 || binary.BigEndian.Uint16(rec.Key) > 1 {
			return nil // a kind of record that others write
		}
		group, tp, c, err := readPosition(rec.Key, rec.Value)
		if err != nil {
			return fmt.Errorf("offset %d: %w", rec.Offset, err)
		}
		o.set(group, tp, c)
		return nil
	})
}

// readPosition reads a record of the topic; the position is nil where it is removed.
func readPosition(key, value []byte) (group string, tp record.TopicPartition, c *committed, err error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return "", tp, nil, fmt.Errorf("key of a position: %w", err)
	}
	tp = record.TopicPartition{Topic: k.Topic, Partition: k.Partition}
	if value == nil {
		return k.Group, tp, nil, nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return "", tp, nil, fmt.Errorf("value of a position: %w", err)
	}
	return k.Group, tp, &committed{offset: v.Offset, epoch: v.LeaderEpoch, metadata: v.Metadata, at: v.CommitTimestamp}, nil
}

// record is a position as it stands in the topic; nil removes it.
func (c *committed) record(group string, tp record.TopicPartition) stateRecord {
	k := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	r := stateRecord{key: k.AppendTo(nil)}
	if c != nil {
		v := kmsg.OffsetCommitValue{Version: 3, Offset: c.offset, LeaderEpoch: c.epoch, Metadata: c.metadata, CommitTimestamp: c.at}
		r.value = v.AppendTo(nil)
	}
	return r
}

// set changes the map. Callers other than load hold mu.
func (o *offsetStore) set(group string, tp record.TopicPartition, c *committed) {
	g := o.groups[group]
	if old, ok := g[tp]; ok {
		delete(g, tp)
		o.kept.add(-positionCost(tp, &old))
	}
	if c != nil {
		if g == nil {
			g = groupOffsets{}
			o.groups[group] = g
			o.kept.add(groupCost(group))
		}
		g[tp] = *c
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

// commitTxn commits positions that a transaction has held, and counted, until now.
func (o *offsetStore) commitTxn(ctx context.Context, group string, pos map[record.TopicPartition]*committed) error {
	return o.changeGroup(ctx, group, true, func(groupOffsets) map[record.TopicPartition]*committed { return pos })
}

// change commits what pick makes of a group's present positions.
func (o *offsetStore) change(ctx context.Context, group string, pick func(groupOffsets) map[record.TopicPartition]*committed) error {
	return o.changeGroup(ctx, group, false, pick)
}

// changeGroup is change; counted says that the memory of the positions is counted already.
func (o *offsetStore) changeGroup(ctx context.Context, group string, counted bool, pick func(groupOffsets) map[record.TopicPartition]*committed) error {
	stripe := &o.stripes[maphash.String(o.seed, group)%offsetStripes]
	stripe.Lock()
	defer stripe.Unlock()
	pos := pick(o.of(group))
	if len(pos) == 0 {
		return nil
	}
	now, need := time.Now().UnixMilli(), int64(0)
	recs := make([]stateRecord, 0, len(pos))
	for tp, c := range pos {
		if c != nil {
			c.at = cmp.Or(c.at, now)
			need += groupCost(group) + positionCost(tp, c)
		}
		recs = append(recs, c.record(group, tp))
	}
	if need > 0 && !counted {
		if !o.kept.take(need) {
			return errNoMemory
		}
		defer o.kept.add(-need) // what is kept of it counts by then
	}
	if err := o.topic.append(ctx, recs); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for tp, c := range pos {
		o.set(group, tp, c)
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
