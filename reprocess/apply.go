package reprocess

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
)

// failedHeader marks a record that the transform refused, with the reason: it goes to the dead letters as it was.
const failedHeader = "ledgerlake-reprocess-failed"

// refused is the tiering side of failedHeader: it takes the header off, and gives the reason.
func refused(rec *record.Record) error {
	n := len(rec.Headers)
	if n == 0 || string(rec.Headers[n-1].Key) != failedHeader {
		return nil
	}
	why := string(rec.Headers[n-1].Value)
	rec.Headers = rec.Headers[:n-1]
	return &refusal{why}
}

type refusal struct{ why string }

func (r *refusal) Error() string { return "transform: " + r.why }

// applied is a Source whose records have gone through the transform, cut to a range of offsets. Offsets stay;
// dropped records are offsets that are passed over.
type applied struct {
	*stream
	only map[int32]span // nil: everything
	pool chan Transform // idle transforms; nil: values stay

	seen   *counters      // of the process
	filter transform.Spec // of the source: what is no row there is no record for the transform

	split bool // of a plan, which holds the topic's id: it is not recorded once more for each split
}

// TopicID implements broker.TopicIdentifier.
func (a *applied) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	if a.split {
		return [16]byte{}, nil
	}
	return a.stream.TopicID(ctx, topic)
}

// span is offsets of a partition, To exclusive; To -1 has no end.
type span struct{ From, To record.Offset }

// Bounds implements broker.Source.
func (a *applied) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	b, err := a.stream.Bounds(ctx, tp)
	return a.cut(tp.Partition, b), err
}

func (a *applied) cut(p int32, b broker.Bounds) broker.Bounds {
	s, ok := a.only[p]
	if !ok {
		return b
	}
	b.Start = max(b.Start, s.From)
	if s.To >= 0 {
		b.Stable, b.End = min(b.Stable, s.To), min(b.End, s.To)
	}
	b.Stable, b.End = max(b.Stable, b.Start), max(b.End, b.Start)
	return b
}

// Fetch implements broker.Source.
func (a *applied) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	if err := a.stream.pace.Wait(ctx); err != nil {
		return nil, err
	}
	got, changed, err := a.take(ctx, ranges, opts)
	for i := range changed {
		c := &changed[i]
		if got[i].Err != nil || len(got[i].Batches) == 0 {
			continue
		}
		got[i].Aborted = nil
		if got[i].Batches, err = build(c.in, c.results, ranges[i].From, c.next); err != nil {
			return nil, err
		}
	}
	return got, err
}

// taken is what became of the records of one answer, up to the offset next.
type taken struct {
	in      []Record
	results []Result
	next    record.Offset
}

// take fetches, and puts what comes through the transform, all partitions at once.
func (a *applied) take(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, []taken, error) {
	ranges = slices.Clone(ranges)
	limit := a.stream.pace.fetchBytes()
	for i := range ranges {
		if ranges[i].MaxBytes == 0 || ranges[i].MaxBytes > limit {
			ranges[i].MaxBytes = limit
		}
	}
	got, err := a.stream.Fetch(ctx, ranges, opts)
	if err != nil {
		return nil, nil, err
	}
	out := make([]taken, len(got))
	g, gctx := errgroup.WithContext(ctx)
	for i := range got {
		got[i].Bounds = a.cut(got[i].TP.Partition, got[i].Bounds)
		out[i].next = ranges[i].From
		if got[i].Err != nil || len(got[i].Batches) == 0 {
			continue
		}
		g.Go(func() (err error) {
			if out[i], err = a.change(gctx, ranges[i], &got[i]); err != nil {
				return fmt.Errorf("reprocess %s from offset %d: %w", got[i].TP, ranges[i].From, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	return got, out, nil
}

// change puts the records of one answer through the transform.
func (a *applied) change(ctx context.Context, r broker.FetchRange, f *broker.Fetched) (t taken, err error) {
	to := record.Offset(-1)
	if s, ok := a.only[f.TP.Partition]; ok {
		to = s.To
	}
	if t.in, t.next, err = recordsOf(f, r.From, to); err != nil {
		return t, err
	}
	a.stream.pace.Used(int64(len(t.in)), int64(len(f.Batches)))
	a.seen.read(len(t.in), len(f.Batches))
	defer func() { a.seen.made(t.results) }()
	if t.in, err = keepRows(t.in, a.filter, a.topic); err != nil || len(t.in) == 0 {
		return t, err
	}
	if a.pool != nil {
		t.results, err = a.apply(ctx, t.in)
		return t, err
	}
	t.results = make([]Result, len(t.in))
	for i := range t.in {
		t.results[i].Value = t.in[i].Value
	}
	return t, nil
}

func (a *applied) apply(ctx context.Context, in []Record) ([]Result, error) {
	select {
	case t := <-a.pool:
		defer func() { a.pool <- t }()
		out, err := t.Apply(ctx, in)
		if err == nil && len(out) != len(in) {
			err = fmt.Errorf("the transform gave %d results for %d records", len(out), len(in))
		}
		return out, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// recordsOf decodes the committed records of an answer in [from, to), and gives the offset up to which it goes.
func recordsOf(f *broker.Fetched, from, to record.Offset) (in []Record, next record.Offset, err error) {
	var filter record.AbortFilter
	filter.Reset(f.Aborted)
	next = from
	for rest := f.Batches; len(rest) > 0; {
		b, err := record.ReadBatch(rest)
		if err != nil {
			break // the rest comes with the next fetch
		}
		rest = rest[b.Size():]
		keep := filter.Keep(b)
		if b.LastOffset() < from {
			continue
		}
		if to >= 0 && b.BaseOffset >= to { // batches come in order: nothing is left up to the end
			next = to
			break
		}
		if keep {
			if in, err = recordsOfBatch(in, b, f.TP.Partition, from, to); err != nil {
				return nil, 0, err
			}
		}
		next = b.LastOffset() + 1
	}
	if to >= 0 {
		next = min(next, to)
	}
	return in, next, nil
}

func recordsOfBatch(in []Record, b record.Batch, partition int32, from, to record.Offset) ([]Record, error) {
	if err := b.VerifyCRC(); err != nil {
		return nil, err
	}
	var it record.Iterator // one a batch: its memory is what the records point into
	if err := it.Reset(b); err != nil {
		return nil, err
	}
	for it.Next() {
		rec := *it.Record()
		if rec.Offset < from || to >= 0 && rec.Offset >= to {
			continue
		}
		rec.Headers = append([]record.Header(nil), rec.Headers...)
		in = append(in, Record{partition, rec})
	}
	return in, it.Err()
}

// build makes one batch of the results that decides the offsets up to next.
func build(in []Record, results []Result, from, next record.Offset) ([]byte, error) {
	b := record.NewBuilder(record.None)
	for i := range in {
		r := &results[i]
		if r.Drop {
			continue
		}
		value, headers := r.Value, in[i].Headers
		if r.Err != nil {
			value, headers = in[i].Value, append(headers, record.Header{Key: []byte(failedHeader), Value: []byte(r.Err.Error())})
		}
		b.AppendAt(in[i].Offset, in[i].Timestamp, in[i].Key, value, headers)
	}
	if next <= from {
		return nil, nil
	}
	if b.Len() == 0 {
		return hole(next - 1)
	}
	if next-from < math.MaxInt32 {
		b.ExtendTo(next - 1)
		return b.Build(-1)
	}
	raw, err := b.Build(-1)
	if err != nil {
		return nil, err
	}
	return coverTo(raw, next, from) // a hole wider than a batch can be
}
