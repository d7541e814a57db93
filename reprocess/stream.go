package reprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// stream is a topic from its first record on, as a broker.Source: out of the table below the seam, out of the log
// behind it. Runs of offsets without a record come as control batches, which every consumer passes over.
type stream struct {
	topic   string
	table   *table.Table    // nil: the log alone
	log     broker.Source   // nil: the table alone
	history *reader.History // nil without a table
	pace    *governor       // of all workers together

	mu   sync.Mutex
	seam map[int32]record.Offset // lake ends as of the last look
}

var _ broker.Source = (*stream)(nil)

func openStream(ctx context.Context, topic string, t *table.Table, log broker.Source) (*stream, error) {
	s := &stream{topic: topic, table: t, log: log, pace: newGovernor(reader.Rate{}), seam: map[int32]record.Offset{}}
	if t == nil {
		return s, nil
	}
	var err error
	s.history, err = reader.NewHistory(reader.HistoryConfig{NoCodec: true, Leases: true, Table: func(string) (*table.Table, bool) { return t, true }})
	if err != nil {
		return nil, err
	}
	return s, s.look(ctx)
}

// look moves the seam to where the table ends now.
func (s *stream) look(ctx context.Context) error {
	snap, err := s.table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the source's table: %w", err)
	}
	parts := table.Partitions(snap, s.topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seam) // a restore may have taken positions back
	for _, p := range parts {
		if end, ok := table.LakeEnd(snap, s.topic, p); ok {
			s.seam[p] = end
		}
	}
	return nil
}

func (s *stream) lakeEnd(p int32) (record.Offset, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.seam[p]
	return end, ok
}

// Partitions implements broker.Source.
func (s *stream) Partitions(ctx context.Context, topic string) ([]int32, error) {
	if s.log != nil {
		return s.log.Partitions(ctx, topic)
	}
	snap, err := s.table.Log.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	parts := table.Partitions(snap, topic)
	if len(parts) == 0 {
		return nil, fmt.Errorf("topic %s in %s: %w: the table has no position of it", topic, s.table.Store.URL(), broker.ErrUnknownTopic)
	}
	return parts, nil
}

// Bounds implements broker.Source.
func (s *stream) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	end, ok := s.lakeEnd(tp.Partition)
	if s.log == nil {
		return broker.Bounds{Stable: end, End: end}, nil
	}
	b, err := s.log.Bounds(ctx, tp)
	if ok {
		b.Start = 0
	}
	return b, err
}

// leastShare is what a partition gives at least of an answer that many share.
const leastShare = 64 << 10

// Fetch implements broker.Source. It waits only when everything asked for is at the end of the log.
func (s *stream) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	out := make([]broker.Fetched, len(ranges))
	var tail []broker.FetchRange
	var at []int
	for i, r := range ranges {
		end, ok := s.lakeEnd(r.TP.Partition)
		if !ok || r.From >= end {
			tail, at = append(tail, r), append(at, i)
			continue
		}
		if opts.MaxBytes > 0 { // all of them are in the answer
			share := max(opts.MaxBytes/len(ranges), leastShare)
			r.MaxBytes = min(cmp.Or(r.MaxBytes, share), share)
		}
		out[i] = s.fetchLake(ctx, r, end)
	}
	switch {
	case len(tail) == 0:
		return out, nil
	case s.log == nil:
		for _, i := range at {
			end, _ := s.lakeEnd(ranges[i].TP.Partition)
			out[i] = broker.Fetched{TP: ranges[i].TP, Bounds: broker.Bounds{Stable: end, End: end}}
		}
		return out, nil
	case len(tail) < len(ranges):
		opts.MaxWait = 0
	}
	got, err := s.log.Fetch(ctx, tail, opts)
	if err != nil {
		return nil, err
	}
	if len(got) != len(tail) {
		return nil, fmt.Errorf("the log answered %d of %d partitions", len(got), len(tail))
	}
	for j, f := range got {
		if out[at[j]], err = s.behindSeam(ctx, tail[j], f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// behindSeam looks for the table's new end when retention was faster than this stream: the records that the log
// has dropped are in the table then (I6).
func (s *stream) behindSeam(ctx context.Context, r broker.FetchRange, f broker.Fetched) (broker.Fetched, error) {
	var beyond *broker.OutOfRangeError
	_, known := s.lakeEnd(r.TP.Partition)
	if known {
		f.Bounds.Start = 0
	}
	if !errors.As(f.Err, &beyond) || r.From >= beyond.Bounds.Start || s.table == nil {
		return f, nil
	}
	before, _ := s.lakeEnd(r.TP.Partition)
	if err := s.look(ctx); err != nil {
		return f, err
	}
	if end, ok := s.lakeEnd(r.TP.Partition); ok && end > before {
		return broker.Fetched{TP: r.TP, Bounds: broker.Bounds{Stable: beyond.Bounds.Stable, End: beyond.Bounds.End}}, nil // comes with the next fetch
	}
	return f, nil
}

func (s *stream) fetchLake(ctx context.Context, r broker.FetchRange, end record.Offset) broker.Fetched {
	f := broker.Fetched{TP: r.TP, Bounds: broker.Bounds{Stable: end, End: end}}
	maxBytes := r.MaxBytes
	if maxBytes <= 0 {
		maxBytes = 4 << 20
	}
	batches, next, err := s.history.Fetch(ctx, r.TP, r.From, maxBytes)
	if err != nil {
		f.Err = fmt.Errorf("read the table of the source: %w", err)
		return f
	}
	if next <= r.From { // nothing is left there, if the table still stands where it did
		if err := s.look(ctx); err != nil {
			f.Err = err
			return f
		}
		if now, _ := s.lakeEnd(r.TP.Partition); now < end {
			return f // it was restored to an older version: the next fetch goes to the log from there
		}
		next = end
	}
	f.Batches, f.Err = coverTo(batches, min(next, end), r.From)
	return f
}

// coverTo adds a control batch when batches end before next, so that the offsets up to it are decided.
func coverTo(batches []byte, next, from record.Offset) ([]byte, error) {
	last := from - 1
	for rest := batches; len(rest) > 0; {
		b, err := record.ReadBatch(rest)
		if err != nil {
			return nil, err
		}
		last, rest = b.LastOffset(), rest[b.Size():]
	}
	if last+1 >= next {
		return batches, nil
	}
	hole, err := hole(next - 1)
	return append(batches, hole...), err
}

// hole is a batch that says: up to this offset there is no record more.
func hole(last record.Offset) ([]byte, error) {
	return record.BuildMarker(last, record.AbortMarker, 0, 0, 0, 0)
}

// OffsetForTime implements broker.Source.
func (s *stream) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	end, _ := s.lakeEnd(tp.Partition)
	return broker.FirstAt(func() (o record.Offset, ok bool, err error) {
		if s.history != nil {
			o, ok, err = s.history.OffsetForTime(ctx, tp, ms)
		}
		return o, ok, err
	}, func() (record.Offset, error) {
		if s.log == nil {
			return end, nil
		}
		o, err := s.log.OffsetForTime(ctx, tp, ms)
		return max(o, end), err
	})
}

// Hold implements broker.Source: a job holds back nothing; what retention takes is in the table.
func (*stream) Hold(context.Context, record.TopicPartition, record.Offset) error {
	return broker.ErrNoHold
}

// Sync implements broker.Syncer for a log that is one.
func (s *stream) Sync(ctx context.Context, tp record.TopicPartition) error {
	if log, ok := s.log.(broker.Syncer); ok {
		return log.Sync(ctx, tp)
	}
	return nil
}

// TopicID implements broker.TopicIdentifier for a log that knows it.
func (s *stream) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	if log, ok := s.log.(broker.TopicIdentifier); ok {
		return log.TopicID(ctx, topic)
	}
	return [16]byte{}, nil
}

// topicID is TopicID as text, empty when the log does not know it.
func (s *stream) topicID(ctx context.Context) (string, error) {
	id, err := s.TopicID(ctx, s.topic)
	if err != nil || id == [16]byte{} {
		return "", err
	}
	return table.FormatTopicID(id), nil
}

// Close closes what the stream itself has opened.
func (s *stream) Close() error {
	if s.history == nil {
		return nil
	}
	return s.history.Close()
}

// resolve turns a place in words into an offset for each partition; those that the words do not name are left out.
func (s *stream) resolve(ctx context.Context, words string, partitions []int32) (map[int32]record.Offset, error) {
	bound, err := reader.ParseBound(words, s.topic)
	if err != nil {
		return nil, err
	}
	named, isOffsets := bound.Offsets()
	at, isTime := bound.Time()
	if !isOffsets && !isTime && words != "earliest" && words != "latest" && words != "now" {
		return nil, fmt.Errorf("%q: want earliest, now, a time, or offsets", words)
	}
	out := map[int32]record.Offset{}
	for _, p := range partitions {
		tp := record.TopicPartition{Topic: s.topic, Partition: p}
		b, err := s.Bounds(ctx, tp)
		if err != nil {
			return nil, fmt.Errorf("bounds of %s: %w", tp, err)
		}
		o := b.Stable
		switch {
		case words == "earliest":
			o = b.Start
		case isTime:
			if o, err = s.OffsetForTime(ctx, tp, reader.MillisFrom(at)); err != nil {
				return nil, fmt.Errorf("offset of %s at %s: %w", tp, at.Format(time.RFC3339), err)
			}
		case isOffsets:
			var ok bool
			if o, ok = named[p]; !ok {
				continue
			}
		}
		if o < b.Start || o > b.Stable {
			return nil, fmt.Errorf("%s: offset %d is outside of what there is, [%d, %d]", tp, o, b.Start, b.Stable)
		}
		out[p] = o
	}
	return out, nil
}
