package reader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// resolve makes the partitions and turns From and Until into offsets. The snapshot is taken before the
// log's bounds are asked for, so the lake end never lies above the log's end.
func (c *Cursor) resolve(ctx context.Context) error {
	if err := c.findPositions(ctx); err != nil {
		return err
	}
	ids, err := c.partitions(ctx)
	if err != nil {
		return err
	}
	if err := c.checkTopic(ctx); err != nil {
		return err
	}
	if c.cfg.From, err = c.ofVersion(ctx, c.cfg.From, nil); err != nil {
		return err
	}
	if c.cfg.Until, err = c.ofVersion(ctx, c.cfg.Until, ids); err != nil {
		return err
	}
	for _, id := range ids {
		p := &part{id: id}
		if c.snap != nil {
			if err := c.seam(p); err != nil {
				return err
			}
		}
		if p.next, err = c.startOf(ctx, p); err != nil {
			return err
		}
		if p.until, p.mark, err = c.endOf(ctx, p); err != nil {
			return err
		}
		c.addPart(p)
	}
	return nil
}

// ofVersion turns the end of a version of the table into offsets. Those of zero it ends at 0 where it knows nothing of them.
func (c *Cursor) ofVersion(ctx context.Context, b Bound, zero []int32) (Bound, error) {
	if b.kind != boundVersion {
		return b, nil
	}
	if c.snap == nil {
		return b, fmt.Errorf("%w: version %d is a place in a table, and there is none", ErrBadRequest, b.version)
	}
	snap, err := c.cfg.Table.Log.SnapshotAt(ctx, b.version)
	if err != nil {
		return b, fmt.Errorf("find version %d of the table: %w", b.version, err)
	}
	ends := map[int32]record.Offset{}
	switch {
	case c.byRows:
		if ends, err = endsOfRows(ctx, c.cfg.Table, snap, nil); err != nil {
			return b, err
		}
	case c.positioned:
		for _, p := range table.Partitions(snap, c.cfg.App) {
			ends[p], _ = table.LakeEnd(snap, c.cfg.App, p)
		}
	default:
		return b, fmt.Errorf("version %d: %w: without positions it is no place in a stream; --version reads it whole", b.version, ErrNotReplayable)
	}
	for _, p := range zero {
		ends[p] += 0
	}
	return AtOffsets(ends), nil
}

// checkTopic refuses to join a table with the log of another topic that has the same name (I4).
func (c *Cursor) checkTopic(ctx context.Context) error {
	src, ok := c.cfg.Source.(broker.TopicIdentifier)
	if !ok || c.snap == nil {
		return nil
	}
	id, err := src.TopicID(ctx, c.cfg.Topic)
	if err != nil {
		return fmt.Errorf("id of topic %s: %w", c.cfg.Topic, err)
	}
	_, err = table.CheckTopic(c.snap, c.cfg.App, c.cfg.Topic, id)
	return err
}

// partitions are those asked for, else all that the log or the table's positions know.
func (c *Cursor) partitions(ctx context.Context) ([]int32, error) {
	known := map[int32]bool{}
	if c.cfg.Source != nil {
		ids, err := c.cfg.Source.Partitions(ctx, c.cfg.Topic)
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", c.cfg.Topic, err)
		}
		for _, id := range ids {
			known[id] = true
		}
	}
	for p := range c.rowEnds {
		known[p] = true
	}
	if c.positioned {
		for _, p := range table.Partitions(c.snap, c.cfg.App) {
			known[p] = true
		}
	}
	if len(c.cfg.Partitions) == 0 {
		return slices.Sorted(maps.Keys(known)), nil
	}
	if len(known) == 0 {
		return nil, errors.New("table has no offset positions, so partitions cannot be chosen: it was not filled by a log")
	}
	for _, id := range c.cfg.Partitions {
		if !known[id] {
			return nil, fmt.Errorf("partition %d: %w; there are %v", id, broker.ErrUnknownTopic, slices.Sorted(maps.Keys(known)))
		}
	}
	return c.cfg.Partitions, nil
}

func (c *Cursor) startOf(ctx context.Context, p *part) (record.Offset, error) {
	switch c.cfg.From.kind {
	case boundLatest, boundNow:
		return c.liveEnd(ctx, p)
	case boundTime:
		return c.offsetAt(ctx, p, c.cfg.From.time)
	case boundOffsets:
		if o, ok := c.cfg.From.offsets[p.id]; ok {
			end, err := c.liveEnd(ctx, p)
			if err == nil && o > end {
				err = &broker.OutOfRangeError{TP: record.TopicPartition{Topic: c.cfg.Topic, Partition: p.id}, Offset: o, Bounds: broker.Bounds{Stable: end, End: end}}
			}
			return o, err
		}
	}
	if p.lakeEnd > 0 || c.cfg.Source == nil {
		return 0, nil
	}
	b, err := c.sourceBounds(ctx, p.id)
	return b.Start, err
}

func (c *Cursor) endOf(ctx context.Context, p *part) (until record.Offset, mark broker.EndMark, err error) {
	until = noEnd
	switch c.cfg.Until.kind {
	case boundOffsets:
		if o, ok := c.cfg.Until.offsets[p.id]; ok {
			until = o
		}
	case boundTime:
		if until, err = c.offsetAt(ctx, p, c.cfg.Until.time); err != nil {
			return 0, nil, err
		}
	case boundEarliest:
		return 0, nil, nil
	}
	if c.cfg.Follow && c.cfg.Until.kind != boundNow && c.cfg.Until.kind != boundLatest {
		return until, nil, nil
	}
	if m, ok := c.cfg.Source.(broker.Marker); ok && !c.cfg.countEnds && !c.counted(p) {
		mark, err = m.MarkEnd(ctx, record.TopicPartition{Topic: c.cfg.Topic, Partition: p.id})
		if err != nil {
			err = fmt.Errorf("end of %s-%d: %w", c.cfg.Topic, p.id, err)
		}
		return until, mark, err
	}
	end, err := c.liveEnd(ctx, p)
	return min(until, end), nil, err
}

// counted says that the end was asked for to find the start: who read up to it then knows it.
func (c *Cursor) counted(p *part) bool {
	_, named := c.cfg.From.offsets[p.id]
	return named || c.cfg.From.kind == boundLatest || c.cfg.From.kind == boundNow
}

// lookForEnds takes over the ends of the partitions that have reached theirs.
func (c *Cursor) lookForEnds(ctx context.Context) error {
	for _, p := range c.parts {
		if p.mark == nil || p.done() {
			continue
		}
		end, reached, err := p.mark(ctx, p.next)
		if err != nil {
			return fmt.Errorf("end of %s-%d: %w", c.cfg.Topic, p.id, err)
		}
		if reached {
			p.until, p.mark = min(p.until, end), nil
		}
	}
	return nil
}

// liveEnd is the end of what can be read now: the log's last stable offset, else the lake end.
func (c *Cursor) liveEnd(ctx context.Context, p *part) (record.Offset, error) {
	if c.cfg.Source == nil {
		return p.lakeEnd, nil
	}
	end, err := broker.StableEnd(ctx, c.cfg.Source, record.TopicPartition{Topic: c.cfg.Topic, Partition: p.id})
	if err != nil {
		return 0, fmt.Errorf("end of %s-%d: %w", c.cfg.Topic, p.id, err)
	}
	return max(end, p.lakeEnd), nil
}

// offsetAt finds the first offset whose record has a timestamp at or after t: in the table first, since a
// log's own look-up knows nothing of what it dropped.
func (c *Cursor) offsetAt(ctx context.Context, p *part, t time.Time) (record.Offset, error) {
	snap, end := c.snap, p.lakeEnd
	inTable := func() (record.Offset, bool, error) {
		if end <= 0 {
			return 0, false, nil
		}
		return c.lakeOffsetAt(ctx, snap, table.Range{Partition: p.id, To: end}, t)
	}
	if c.cfg.Source == nil {
		o, ok, err := inTable()
		if !ok {
			o = p.lakeEnd
		}
		return o, err
	}
	return broker.FirstAt(inTable, func() (o record.Offset, err error) {
		if o, err = c.cfg.Source.OffsetForTime(ctx, record.TopicPartition{Topic: c.cfg.Topic, Partition: p.id}, MillisFrom(t)); err == nil {
			snap, end, err = c.lakeNow(ctx, p)
		}
		return max(o, p.lakeEnd), err
	})
}

// lakeNow gives the newest snapshot of the table and how far it is; 0 when it says nothing of the partition.
func (c *Cursor) lakeNow(ctx context.Context, p *part) (*deltalog.Snapshot, record.Offset, error) {
	if c.snap == nil {
		return c.snap, 0, nil
	}
	snap, err := c.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("read the log of the table: %w", err)
	}
	if snap.Metadata().ID != c.snap.Metadata().ID { // made again: nothing that was found there would be of this stream
		return snap, 0, nil
	}
	end, _ := table.LakeEnd(snap, c.cfg.App, p.id)
	return snap, end, nil
}

// lakeOffsetAt looks for the first row of a range with a timestamp at or after t.
func (c *Cursor) lakeOffsetAt(ctx context.Context, snap *deltalog.Snapshot, r table.Range, t time.Time) (record.Offset, bool, error) {
	names := c.names()
	if names.Offset == "" || names.Timestamp == "" {
		return 0, false, errors.New("table has no timestamp column for log records: choose offsets instead of a time")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	want := arrow.Timestamp(unitsFrom(t.UnixMicro(), t, time.Microsecond))
	for rb, err := range c.cfg.Table.Scan(ctx, snap, table.ScanOptions{
		Ranges:       []table.Range{r},
		Columns:      []string{names.Offset, names.Timestamp},
		MinTimestamp: t,
	}) {
		if err != nil {
			return 0, false, fmt.Errorf("look up %s in the table: %w", t.Format(time.RFC3339), err)
		}
		offsets, ok1 := rb.Column(0).(*array.Int64)
		times, ok2 := rb.Column(1).(*array.Timestamp)
		if !ok1 || !ok2 {
			rb.Release()
			return 0, false, fmt.Errorf("columns %s and %s are not long and timestamp", names.Offset, names.Timestamp)
		}
		for i, ts := range times.TimestampValues() {
			if ts >= want && times.IsValid(i) {
				o := record.Offset(offsets.Value(i))
				rb.Release()
				return o, true, nil
			}
		}
		rb.Release()
	}
	return 0, false, nil
}
