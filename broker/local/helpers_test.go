package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// start is the time of the tests' records; the clock stands there unless a test moves it.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// clock is a time that a test moves while the log looks at it.
type clock struct{ passed atomic.Int64 }

func newClock() *clock { return &clock{} }

func (c *clock) time() time.Time { return start.Add(time.Duration(c.passed.Load())) }

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

func smallConfig(fsys vfs.FS) Config {
	return Config{Dir: "/log", FS: fsys, Clock: at(start), JournalBytes: 8 << 10, CheckpointBytes: 12 << 10, inFileFrom: 200,
		DefaultTopic: broker.TopicConfig{SegmentBytes: 3 << 10}}
}

// injected is a log that writes no checkpoint by its appends, with a topic t, over a file system that can fail.
func injected(t testing.TB, retention time.Duration) (*Log, *vfs.Mem, *vfs.Inject) {
	t.Helper()
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	cfg := smallConfig(inject)
	cfg.CheckpointBytes, cfg.RetentionInterval = 1<<30, retention
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	return l, mem, inject
}

func mustOpen(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func mustCreate(t testing.TB, l *Log, name string, cfg broker.TopicConfig) {
	t.Helper()
	if _, err := l.CreateTopic(t.Context(), name, cfg); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

// batchOf makes a batch of records whose values are the strings.
func batchOf(t testing.TB, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.None)
	for _, v := range values {
		b.Append(start.UnixMilli(), nil, []byte(v), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return raw
}

func producedBatch(t testing.TB, id int64, epoch int16, seq int32, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, epoch, seq
	for _, v := range values {
		b.Append(start.UnixMilli(), nil, []byte(v), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return raw
}

// appendEither appends every other batch without a goroutine that waits in the log.
func appendEither(t testing.TB, l *Log, tp record.TopicPartition, raw []byte) (broker.AppendResult, error) {
	if len(raw)%2 == 0 {
		return l.Append(t.Context(), tp, raw)
	}
	type result struct {
		broker.AppendResult
		err error
	}
	done := make(chan result, 2) // a second call would not be missed
	l.AppendThen(t.Context(), broker.Append{TP: tp, Batch: raw, Then: func(res broker.AppendResult, err error) { done <- result{res, err} }})
	r := <-done
	if len(done) > 0 {
		t.Error("AppendThen told twice")
	}
	return r.AppendResult, r.err
}

func mustAppend(t testing.TB, l *Log, tp record.TopicPartition, raw []byte) broker.AppendResult {
	t.Helper()
	res, err := appendEither(t, l, tp, raw)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return res
}

// readAll gives the values of a partition from its start to its end, and checks that no offset is missing.
func readAll(l *Log, tp record.TopicPartition) (map[record.Offset]string, broker.Bounds, error) {
	out := map[record.Offset]string{}
	bounds, err := l.Bounds(context.Background(), tp)
	if err != nil {
		return nil, bounds, err
	}
	var it record.Iterator
	for next := bounds.Start; next < bounds.End; {
		got, err := fetchEither(l, broker.FetchRange{TP: tp, From: next, MaxBytes: 2000}, broker.FetchOptions{})
		if err != nil {
			return nil, bounds, err
		}
		if len(got.Batches) == 0 {
			return nil, bounds, fmt.Errorf("no batch at %d of %v", next, bounds)
		}
		for b := got.Batches; len(b) > 0; {
			batch, err := record.ReadBatch(b)
			if err == nil {
				err = errors.Join(batch.VerifyCRC(), it.Reset(batch))
			}
			if err != nil {
				return nil, bounds, err
			}
			for it.Next() {
				r := it.Record()
				if r.Offset > next {
					return nil, bounds, fmt.Errorf("offset %d follows %d", r.Offset, next-1)
				}
				if r.Offset == next {
					out[r.Offset] = strings.Clone(string(r.Value))
					next++
				}
			}
			b = b[batch.Size():]
		}
	}
	return out, bounds, nil
}

// fetchEither reads at every other offset from where the log's file has the batches.
func fetchEither(l *Log, r broker.FetchRange, opts broker.FetchOptions) (broker.Fetched, error) {
	opts.InFiles = r.From%2 == 0
	got, err := l.Fetch(context.Background(), []broker.FetchRange{r}, opts)
	if err != nil {
		return broker.Fetched{}, err
	}
	return got[0], errors.Join(got[0].Err, intoMemory(&got[0]))
}

// intoMemory makes an answer as one without files is.
func intoMemory(f *broker.Fetched) error {
	if f.File == nil {
		return nil
	}
	f.Batches = make([]byte, f.File.Size)
	_, err := f.File.File.ReadAt(f.Batches, f.File.Pos)
	releaseFile(f)
	return err
}

func mustRead(t testing.TB, l *Log, tp record.TopicPartition) (map[record.Offset]string, broker.Bounds) {
	t.Helper()
	got, bounds, err := readAll(l, tp)
	if err != nil {
		t.Fatalf("read %s: %v", tp, err)
	}
	return got, bounds
}

func tp(topic string, partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: topic, Partition: partition}
}
