package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// BenchmarkIngest is our side of scenario ingest without Kafka, for profiles and for benchstat: one operation moves a
// topic of 12 partitions, compressed as producers do, into a table that is filled as it is. Processor time is what to
// compare, since the clock also measures neighbours.
func BenchmarkIngest(b *testing.B) {
	for name, records := range map[string]int{"web": 300_000, "event": 100_000, "event2k": 50_000} {
		b.Run(name, func(b *testing.B) { benchmarkIngest(b, name, records) })
	}
}

func benchmarkIngest(b *testing.B, name string, records int) {
	s, err := shapeOf(name)
	if err != nil {
		b.Fatal(err)
	}
	scratch := b.TempDir()
	log, bytes, err := filledTopic(b.Context(), s, records, filepath.Join(scratch, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			b.Error(err)
		}
	}()
	b.SetBytes(bytes)
	b.ReportAllocs()
	used, n := cpuTime(), 0
	for b.Loop() {
		n++
		at := filepath.Join(scratch, fmt.Sprintf("run-%d-%d", b.N, n))
		if err := drainAsItIs(b.Context(), log, s, at, int64(records)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime()-used).Nanoseconds())/float64(records)/float64(b.N), "cpu-ns/record")
}

// filledTopic makes a log of 12 partitions in batches as a busy producer of lz4 sends them.
func filledTopic(ctx context.Context, s shape, records int, at string) (_ *local.Log, bytes int64, err error) {
	const partitions, batchBytes = 12, 512 << 10
	log, err := local.Open(ctx, local.Config{Dir: at, FS: vfs.OS(), Durability: local.DurabilityNone})
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, log.Close())
		}
	}()
	if _, err := log.CreateTopic(ctx, logTopic, broker.TopicConfig{Partitions: partitions}); err != nil {
		return nil, 0, err
	}
	next, batch := s.make(1), record.NewBuilder(record.LZ4)
	var value []byte
	at12 := int32(0)
	flush := func() error {
		raw, err := batch.Build(0)
		if err != nil {
			return err
		}
		_, err = log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: at12 % partitions}, raw)
		at12++
		return err
	}
	for i := range records {
		value = next(value[:0])
		bytes += int64(len(value))
		batch.Append(start().UnixMilli()+int64(i), nil, value, nil)
		if batch.Bytes() >= batchBytes || i == records-1 {
			if err := flush(); err != nil {
				return nil, 0, err
			}
		}
	}
	return log, bytes, nil
}

// drainAsItIs moves the log into a new table of the daemon's kind and checks its number of rows.
func drainAsItIs(ctx context.Context, log *local.Log, s shape, at string, records int64) error {
	store, err := dir.Open(dir.Config{Root: at, FS: vfs.OS()})
	if err != nil {
		return err
	}
	if err := createPlainTable(ctx, s, logTopic, store); err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{})
	if err != nil {
		return err
	}
	var spec transform.Spec
	for _, text := range s.transforms {
		f, err := transform.ParseField(text)
		if err != nil {
			return err
		}
		spec.Set = append(spec.Set, f)
	}
	tr, err := tiering.Open(ctx, tiering.Config{
		Source: log, Topic: logTopic, App: logTopic, Table: t, Format: tiering.FormatJSON, AsItIs: true, Transform: spec,
		Committer: committer.NewDirect(t.Log), UntilEnd: true,
		DeadLetterStore: func(context.Context) (objstore.Store, error) {
			return dir.Open(dir.Config{Root: at + "_dead_letters", FS: vfs.OS()})
		},
	})
	if err != nil {
		return err
	}
	if err := errors.Join(tr.Run(ctx), tr.Close(), t.Close()); err != nil {
		return err
	}
	if got := tr.Stats().Rows; got != records {
		return fmt.Errorf("%d rows of %d", got, records)
	}
	return nil
}
