package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// History answers reads below the log start from tables, as Kafka record batches. It is what the Kafka
// protocol server asks. All methods may be called concurrently.
type History struct {
	// Table gives the open table of a topic, or false when the topic has none.
	Table func(topic string) (*table.Table, bool)
}

// Start gives the first offset that the table of a partition may hold: 0 when anything was tiered.
func (h *History) Start(ctx context.Context, tp record.TopicPartition) (record.Offset, bool) {
	t, ok := h.Table(tp.Topic)
	if !ok {
		return 0, false
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return 0, false
	}
	_, ok = table.LakeEnd(snap, tp.Topic, tp.Partition)
	return 0, ok
}

// Fetch gives batches of about maxBytes from the first row at or after from, and the offset after them.
// next is greater than from unless the table holds nothing there; then batches is empty too.
func (h *History) Fetch(ctx context.Context, tp record.TopicPartition, from record.Offset, maxBytes int) ([]byte, record.Offset, error) {
	t, ok := h.Table(tp.Topic)
	if !ok {
		return nil, from, fmt.Errorf("topic %s has no table", tp.Topic)
	}
	c, err := Open(ctx, Config{
		Table: t, App: tp.Topic, Partitions: []int32{tp.Partition},
		From: AtOffsets(map[int32]record.Offset{tp.Partition: from}),
	})
	if err != nil {
		return nil, from, err
	}
	defer c.Close()
	var out []byte
	next := from
	b := record.NewBuilder(record.Zstd)
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		raw, err := b.Build(-1)
		out = append(out, raw...)
		return err
	}
	for r, err := range c.Records(ctx) {
		if err != nil {
			return nil, from, err
		}
		b.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
		next = r.Offset + 1
		if b.Bytes() >= min(maxBytes, historyBatchBytes) {
			if err := flush(); err != nil {
				return nil, from, err
			}
			if len(out) >= maxBytes {
				return out, next, nil
			}
		}
	}
	if err := flush(); err != nil {
		return nil, from, err
	}
	// The end of the table was reached: what is left below the seam has no row.
	return out, max(next, c.Position()[tp.Partition]), nil
}

// historyBatchBytes is the size of one batch made from rows, before compression.
const historyBatchBytes = 1 << 20

// OffsetForTime gives the first offset in the table with a timestamp at or after ms.
func (h *History) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, bool, error) {
	t, ok := h.Table(tp.Topic)
	if !ok {
		return 0, false, nil
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return 0, false, err
	}
	end, ok := table.LakeEnd(snap, tp.Topic, tp.Partition)
	if !ok {
		return 0, false, nil
	}
	c := &Cursor{cfg: Config{Table: t, App: tp.Topic, Topic: tp.Topic}, snap: snap}
	o, found, err := c.lakeOffsetAt(ctx, &part{id: tp.Partition, lakeEnd: end}, time.UnixMilli(ms))
	if errors.Is(err, ErrNotReplayable) {
		return 0, false, nil
	}
	return o, found, err
}
