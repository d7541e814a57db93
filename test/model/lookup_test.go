package model

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// amid is a log that something happens to right before it is asked for a time.
type amid struct {
	broker.Source
	happens func()
}

func (a amid) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	a.happens()
	return a.Source.OffsetForTime(ctx, tp, ms)
}

// A read from a time begins at the first record at or after it, also when that is tiered, and leaves the log, between the look
// into the table and the one into the log (I4).
func TestTimeIsFoundWhileItIsTiered(t *testing.T) {
	seedtest.Each(t, 30, func(t *testing.T, seed uint64) {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		clock, largest, last := int64(1000), map[int64]int64{}, map[int32]int64{}
		w.timedRecords(1+w.rng.IntN(20), &clock, largest, last)
		if w.rng.IntN(3) > 0 {
			w.tierWith(0)
		}
		w.timedRecords(1+w.rng.IntN(20), &clock, largest, last)
		cfg := w.config()
		at := 1000 + w.rng.Int64N(clock-1000+3)
		want := w.firstAt(at)
		cfg.From = reader.AtTime(time.UnixMilli(at))
		cfg.Source = amid{w.log, func() {
			w.tierWith(0)
			w.retireAll()
		}}
		c, err := reader.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.Position()[0]; got != want {
			t.Errorf("time %d is found at offset %d, want %d", at, got, want)
		}
	})
}

// firstAt gives the first offset of partition 0 whose record is at or after a time; the end when there is none.
func (w *world) firstAt(ms int64) record.Offset {
	w.t.Helper()
	c, err := reader.Open(w.t.Context(), w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	for {
		rb, err := c.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			return c.Position()[0]
		}
		if err != nil {
			w.t.Fatal(err)
		}
		times := rb.Column(rb.Schema().FieldIndices("_timestamp")[0]).(*array.Timestamp)
		for i, o := range rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64).Int64Values() {
			if int64(times.Value(i)) >= ms*1000 {
				return record.Offset(o)
			}
		}
	}
}

// retireAll drops all from the log that is in the table.
func (w *world) retireAll() {
	w.t.Helper()
	snap, err := w.table.Log.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for p := range int32(partitions) {
		if end, ok := table.LakeEnd(snap, topic, p); ok {
			if _, err := w.log.DeleteRecords(w.t.Context(), tp(p), end); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
