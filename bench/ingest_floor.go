package bench

import (
	"context"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

// ingestFloor is a part of the way from a topic to a table, and nothing behind it, on one thread: what is left of a
// program that does no more. It says what the machine allows.
type ingestFloor int

const (
	floorNone   ingestFloor = iota
	floorFetch              // batches are fetched and dropped
	floorUnpack             // their checksums are verified, they are decompressed and their records found
	floorDecode             // values become columns, which are dropped; of a shape without transforms
)

// floorSides are the sides that are no whole pipeline.
func floorSides() []ingestSide {
	decodes := func(c ingestCase) bool {
		s, err := shapeOf(c.shape)
		return c.goals && err == nil && s.avro == "" && s.transforms == nil
	}
	drains := func(c ingestCase) bool { return c.goals && c.rate == 0 }
	return []ingestSide{
		{name: "floor: fetch alone", floor: floorFetch, only: drains},
		{name: "floor: fetch, unpack", floor: floorUnpack, only: drains},
		{name: "floor: fetch, unpack, decode", floor: floorDecode, only: decodes},
	}
}

func (w *ingestWork) drainFloor(ctx context.Context, side ingestSide, load *topicLoad, round int) (Sample, error) {
	src, err := kafka.Open(ctx, kafka.Config{Brokers: []string{w.node.addr}})
	if err != nil {
		return Sample{}, err
	}
	defer src.Close()
	f := floorRun{src: src, topic: load.topic}
	if side.floor >= floorUnpack {
		f.it = &record.Iterator{Verified: true}
	}
	if side.floor == floorDecode {
		columns, err := w.kind.columns()
		if err != nil {
			return Sample{}, err
		}
		payload, err := deltalog.ToArrow(columns)
		if err != nil {
			return Sample{}, err
		}
		if f.dec, err = decode.ForTable(payload); err != nil {
			return Sample{}, err
		}
	}
	s, err := measure(side.name+", "+w.title(), round, func() (int64, int64, error) {
		err := f.run(ctx)
		return f.records, load.bytes, err
	})
	if err == nil && f.records != load.want.records {
		err = fmt.Errorf("wrong result: %d records of %d", f.records, load.want.records)
	}
	return s, err
}

// floorRun reads a topic to its end.
type floorRun struct {
	src     broker.Source
	topic   string
	it      *record.Iterator // nil: batches are not opened
	dec     *decode.JSON     // nil: values are not looked at
	records int64
}

// run fetches all partitions at once, as tiering does.
func (f *floorRun) run(ctx context.Context) error {
	const fetchBytes = 4 << 20
	parts, err := f.src.Partitions(ctx, f.topic)
	if err != nil {
		return err
	}
	var ranges []broker.FetchRange
	for _, p := range parts {
		tp := record.TopicPartition{Topic: f.topic, Partition: p}
		b, err := f.src.Bounds(ctx, tp)
		if err != nil {
			return err
		}
		if b.Start < b.End {
			ranges = append(ranges, broker.FetchRange{TP: tp, From: b.Start})
		}
	}
	for len(ranges) > 0 {
		for i := range ranges {
			ranges[i].MaxBytes = fetchBytes / len(ranges)
		}
		got, err := f.src.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxBytes: fetchBytes, Isolation: broker.ReadCommitted})
		if err != nil {
			return err
		}
		left := ranges[:0]
		for i := range got {
			if got[i].Err != nil {
				return got[i].Err
			}
			next, err := f.take(ranges[i].From, got[i].Batches)
			if err != nil {
				return err
			}
			if next < got[i].Bounds.End {
				left = append(left, broker.FetchRange{TP: ranges[i].TP, From: next})
			}
		}
		ranges = left
	}
	return nil
}

// take goes through the batches of a partition, and gives the offset behind them.
func (f *floorRun) take(next record.Offset, batches []byte) (record.Offset, error) {
	for len(batches) > 0 {
		b, err := record.ReadBatch(batches)
		if err != nil {
			return next, err
		}
		batches, next = batches[b.Size():], b.LastOffset()+1
		if err := f.open(b); err != nil {
			return next, err
		}
	}
	return next, nil
}

func (f *floorRun) open(b record.Batch) error {
	if f.it == nil {
		f.records += int64(b.Count)
		return nil
	}
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if err := f.it.Reset(b); err != nil {
		return err
	}
	for f.it.Next() {
		f.records++
		if f.dec == nil {
			continue
		}
		if err := f.dec.Append(f.it.Record().Value); err != nil {
			return err
		}
		if f.dec.Rows() == 4096 {
			f.dec.Reset()
		}
	}
	return f.it.Err()
}
