package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// historyPartitions are how many partitions the topics have that are read from their tables.
var historyPartitions = []int{1, 12}

// runHistory measures Fetch where the log has nothing left: a server begins over a directory whose table was filled
// before, so that its processor time and memory are of the replay alone.
func (w *brokerWork) runHistory(ctx context.Context, round int) error {
	for _, n := range historyPartitions {
		if err := w.replayHistory(ctx, n, round); err != nil {
			return fmt.Errorf("%s: %w", sideHistory, err)
		}
	}
	return nil
}

func (w *brokerWork) replayHistory(ctx context.Context, partitions, round int) error {
	dir := filepath.Join(w.scratch, fmt.Sprint("history-", partitions))
	defer os.RemoveAll(dir)
	if err := w.fillHistory(ctx, dir, partitions); err != nil {
		return err
	}
	s, end, err := w.startServe(ctx, dir)
	if err != nil {
		return err
	}
	defer end()
	return w.consume(ctx, s, brokerRead{side: sideHistory, topic: logTopic, partitions: partitions, check: w.compare(partitions)}, round)
}

// fillHistory makes a directory of serve whose topic is in its table alone: value i is in partition i % partitions.
func (w *brokerWork) fillHistory(ctx context.Context, dir string, partitions int) (err error) {
	log, err := local.Open(ctx, local.Config{Dir: filepath.Join(dir, "log"), FS: vfs.OS(), Durability: local.DurabilityNone})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.CreateTopic(ctx, logTopic, broker.TopicConfig{Partitions: int32(partitions), Tiered: true}); err != nil {
		return err
	}
	for p := range partitions {
		if err := w.appendShare(ctx, log, p, partitions); err != nil {
			return err
		}
	}
	_, payload, err := tiering.Infer(ctx, log, logTopic, tiering.SampleConfig{})
	if err != nil {
		return err
	}
	rows, err := drain(ctx, log, filepath.Join(dir, "lake", logTopic), payload)
	if err != nil {
		return err
	}
	if rows != int64(len(w.values)) {
		return fmt.Errorf("%d rows in the table, want %d", rows, len(w.values))
	}
	for p := range int32(partitions) {
		tp := record.TopicPartition{Topic: logTopic, Partition: p}
		if _, err := log.DeleteRecords(ctx, tp, -1); err != nil {
			return err
		}
		if b, err := log.Bounds(ctx, tp); err != nil || b.Start != b.End {
			return errors.Join(err, fmt.Errorf("the log of %s has [%d, %d) after all was deleted", tp, b.Start, b.End))
		}
	}
	return nil
}

// appendShare appends the values of one partition.
func (w *brokerWork) appendShare(ctx context.Context, log *local.Log, p, partitions int) error {
	b := record.NewBuilder(record.None)
	for i := p; i < len(w.values); i += partitions {
		b.Append(start().UnixMilli()+int64(i), nil, w.values[i], nil)
		if b.Bytes() < produceBytes && i+partitions < len(w.values) {
			continue
		}
		raw, err := b.Build(0)
		if err != nil {
			return err
		}
		if _, err := log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: int32(p)}, bytes.Clone(raw)); err != nil {
			return err
		}
	}
	return nil
}

// compare gives a check of what a client gets: each record has the value, key and time of its offset, and batches are whole.
func (w *brokerWork) compare(partitions int) func(int32, record.Batch) error {
	var it record.Iterator
	return func(p int32, b record.Batch) error {
		if err := errors.Join(b.VerifyCRC(), it.Reset(b)); err != nil {
			return err
		}
		o := b.BaseOffset
		for ; it.Next(); o++ {
			i, r := int64(o)*int64(partitions)+int64(p), it.Record()
			if i >= int64(len(w.values)) || r.Offset != o || r.Key != nil || r.Timestamp != start().UnixMilli()+i || !bytes.Equal(r.Value, w.values[i]) {
				return fmt.Errorf("wrong result: partition %d gives at offset %d another record than was produced there: offset %d, time %d, %.100q", p, o, r.Offset, r.Timestamp, r.Value)
			}
		}
		if it.Err() == nil && o != b.LastOffset()+1 {
			return fmt.Errorf("wrong result: the batch [%d, %d] of partition %d ends before %d", b.BaseOffset, b.LastOffset(), p, o)
		}
		return it.Err()
	}
}
