package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	logTopic      = "events"
	logPartitions = 4
	// produceBytes is the size of a produced batch: what a busy client sends.
	produceBytes = 64 << 10
	// syncBytes is what the plain writer makes durable at a time: the journal's group size.
	syncBytes = 512 << 10
)

// RunLog measures appends to the embedded log: without a sync (as Kafka's default), and durable, the latter
// beside sequential writes with an fdatasync each of the journal's group size.
func RunLog(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	batches, records, bytes, err := produceBatches(cfg)
	if err != nil {
		return nil, err
	}
	r := &Report{Scenario: "log", Machine: Machine(), Time: time.Now().UTC()}
	sides := []struct {
		name string
		run  func() (int64, int64, error)
	}{
		{"append durability=none", func() (int64, int64, error) {
			return records, bytes, appendAll(ctx, cfg, batches, records, local.DurabilityNone)
		}},
		{"append durability=group", func() (int64, int64, error) {
			return records, bytes, appendAll(ctx, cfg, batches, records, local.DurabilityGroup)
		}},
		{"sequential fdatasync writes", func() (int64, int64, error) { return records, bytes, plainWrites(cfg, batches) }},
	}
	for round := range cfg.Rounds {
		for _, side := range sides {
			s, err := measure(side.name, round, side.run)
			if err != nil {
				return nil, err
			}
			r.Samples = append(r.Samples, s)
		}
	}
	r.atLeast("append without sync, MB per CPU second", 300, r.median("append durability=none", perCPUSecond))
	r.atLeast("durable append / sequential fdatasync writes, MB/s ratio", 0.5,
		r.median("append durability=group", perSecond)/r.median("sequential fdatasync writes", perSecond))
	return r, nil
}

// produceBatches makes all batches before anything is measured, uncompressed as the raw rate is wanted.
func produceBatches(cfg Config) (batches [][]byte, records, bytes int64, err error) {
	events := NewEvents(cfg.Seed, start(), time.Millisecond)
	b := record.NewBuilder(record.None)
	var key, value []byte
	for range cfg.Records {
		key, value = events.Next(key[:0], value[:0])
		b.Append(start().UnixMilli()+records, key, value, nil)
		records++
		bytes += int64(len(value))
		if b.Bytes() >= produceBytes {
			raw, err := b.Build(0)
			if err != nil {
				return nil, 0, 0, err
			}
			batches = append(batches, raw)
		}
	}
	if b.Len() > 0 {
		raw, err := b.Build(0)
		if err != nil {
			return nil, 0, 0, err
		}
		batches = append(batches, raw)
	}
	return batches, records, bytes, nil
}

// appendAll appends every batch, from several producers per partition as a busy broker sees them.
func appendAll(ctx context.Context, cfg Config, batches [][]byte, records int64, durability local.Durability) (err error) {
	dir, remove, err := cfg.scratch()
	if err != nil {
		return err
	}
	defer remove()
	log, err := local.Open(ctx, local.Config{Dir: dir, FS: vfs.OS(), Durability: durability})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.CreateTopic(ctx, logTopic, broker.TopicConfig{Partitions: logPartitions}); err != nil {
		return err
	}
	const producers = 16
	var wg sync.WaitGroup
	errs := make([]error, producers)
	for w := range producers {
		wg.Go(func() {
			tp := record.TopicPartition{Topic: logTopic, Partition: int32(w % logPartitions)}
			for i := w; i < len(batches) && errs[w] == nil; i += producers {
				_, errs[w] = log.Append(ctx, tp, batches[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	got := int64(0)
	for p := range int32(logPartitions) {
		b, err := log.Bounds(ctx, record.TopicPartition{Topic: logTopic, Partition: p})
		if err != nil {
			return err
		}
		got += int64(b.End)
	}
	if got != records {
		return fmt.Errorf("wrong result: %d records in the log, %d appended", got, records)
	}
	return nil
}

// plainWrites writes the same bytes to one file with an fdatasync each syncBytes: what the disk can do.
func plainWrites(cfg Config, batches [][]byte) (err error) {
	dir, remove, err := cfg.scratch()
	if err != nil {
		return err
	}
	defer remove()
	f, err := vfs.OS().Create(filepath.Join(dir, "plain"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	pending := 0
	for _, b := range batches {
		if _, err := f.Write(b); err != nil {
			return err
		}
		if pending += len(b); pending >= syncBytes {
			if err := f.SyncData(); err != nil {
				return err
			}
			pending = 0
		}
	}
	return f.SyncData()
}
