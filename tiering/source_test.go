package tiering_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// fakeLog is a log in memory: what a test appends, with the faults that it asks for.
type fakeLog struct {
	mu      sync.Mutex
	parts   []*fakePartition
	changed chan struct{}
	holds   map[int32]record.Offset
	asked   map[int32]record.Offset // of the newest fetch
}

type fakePartition struct {
	batches [][]byte
	bounds  broker.Bounds
	aborted []broker.AbortedTxn
	errs    []error // answers of the next fetches
}

func newFakeLog(partitions int) *fakeLog {
	l := &fakeLog{changed: make(chan struct{}), holds: map[int32]record.Offset{}, asked: map[int32]record.Offset{}}
	for range partitions {
		l.parts = append(l.parts, &fakePartition{})
	}
	return l
}

// update changes a partition and wakes those who wait.
func (l *fakeLog) update(p int32, f func(*fakePartition)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.parts[p])
	close(l.changed)
	l.changed = make(chan struct{})
}

// append adds one batch of values at the end; a nil value is a tombstone.
func (l *fakeLog) append(t testing.TB, p int32, codec record.Codec, values ...[]byte) {
	t.Helper()
	b := record.NewBuilder(codec)
	l.update(p, func(part *fakePartition) {
		for i, v := range values {
			o := part.bounds.End + record.Offset(i)
			b.Append(1000+int64(o), fmt.Appendf(nil, "key-%d", o), v, []record.Header{{Key: []byte("h"), Value: []byte("x")}})
		}
		raw, err := b.Build(part.bounds.End)
		if err != nil {
			t.Error(err)
		}
		part.add(raw, len(values))
	})
}

func (p *fakePartition) add(raw []byte, n int) {
	p.batches = append(p.batches, raw)
	p.bounds.End += record.Offset(n)
	p.bounds.Stable = p.bounds.End
}

// appendTxn adds a batch of a transaction and its marker.
func (l *fakeLog) appendTxn(t testing.TB, p int32, producer int64, abort bool, values ...[]byte) {
	t.Helper()
	l.update(p, func(part *fakePartition) {
		first := part.bounds.End
		b := record.NewBuilder(record.None)
		b.ProducerID, b.ProducerEpoch, b.Transactional = producer, 0, true
		for _, v := range values {
			b.Append(1000, nil, v, nil)
		}
		raw, err := b.Build(first)
		if err != nil {
			t.Fatal(err)
		}
		part.add(raw, len(values))
		kind := record.CommitMarker
		if abort {
			kind = record.AbortMarker
			part.aborted = append(part.aborted, broker.AbortedTxn{ProducerID: producer, First: first})
		}
		marker, err := record.BuildMarker(part.bounds.End, kind, producer, 0, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		part.add(marker, 1)
	})
}

func (l *fakeLog) Partitions(context.Context, string) ([]int32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []int32
	for i := range l.parts {
		out = append(out, int32(i))
	}
	return out, nil
}

func (l *fakeLog) Bounds(_ context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[tp.Partition].bounds, nil
}

func (l *fakeLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	deadline := time.NewTimer(opts.MaxWait)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		var out []broker.Fetched
		total, special := 0, false
		for _, r := range ranges {
			l.asked[r.TP.Partition] = r.From
			f := l.read(r, opts.MaxBytes-total)
			total += len(f.Batches)
			special = special || f.Err != nil
			out = append(out, f)
		}
		changed := l.changed
		l.mu.Unlock()
		if total > 0 || special {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return out, nil
		case <-changed:
		}
	}
}

func (l *fakeLog) read(r broker.FetchRange, left int) broker.Fetched {
	p := l.parts[r.TP.Partition]
	f := broker.Fetched{TP: r.TP, Bounds: p.bounds}
	if len(p.errs) > 0 {
		f.Err, p.errs = p.errs[0], p.errs[1:]
		return f
	}
	if r.From < p.bounds.Start || r.From > p.bounds.End {
		f.Err = &broker.OutOfRangeError{TP: r.TP, Offset: r.From, Bounds: p.bounds}
		return f
	}
	for _, raw := range p.batches {
		b, err := record.ReadBatch(raw)
		if err != nil {
			f.Err = err
			return f
		}
		if b.LastOffset() < r.From || b.BaseOffset >= p.bounds.Stable {
			continue
		}
		if len(f.Batches) > 0 && len(f.Batches)+len(raw) > min(r.MaxBytes, left) || len(f.Batches) == 0 && left <= 0 {
			break
		}
		f.Batches = append(f.Batches, raw...)
	}
	f.Aborted = slices.Clone(p.aborted)
	return f
}

func (l *fakeLog) OffsetForTime(context.Context, record.TopicPartition, int64) (record.Offset, error) {
	return 0, broker.ErrUnsupported
}

func (l *fakeLog) Hold(_ context.Context, tp record.TopicPartition, o record.Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[tp.Partition] = o
	return nil
}

func (l *fakeLog) Close() error { return nil }
