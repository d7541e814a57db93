package logdir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Config says what to read.
type Config struct {
	Dir   string // the log directory: it holds a folder TOPIC-PARTITION for each partition
	Topic string
	FS    vfs.FS // default: the operating system's
	// PastWatermark gives what the logs hold beyond the high watermark that the broker noted last. That of a broker that
	// was killed is some seconds old.
	PastWatermark bool
	Logger        *slog.Logger // default: discard
}

// Source is a topic of a copied log directory.
type Source struct {
	cfg   Config
	id    [16]byte
	parts map[int32]*partition
}

var _ broker.Source = (*Source)(nil)

// Open reads and checks all segments of the topic. ErrUnknownTopic when the directory has none.
func Open(ctx context.Context, cfg Config) (*Source, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	entries, err := cfg.FS.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("read log directory: %w", err)
	}
	marks, err := readCheckpoint(cfg.FS, path.Join(cfg.Dir, watermarkFile))
	if err != nil {
		return nil, err
	}
	starts, err := readCheckpoint(cfg.FS, path.Join(cfg.Dir, startFile))
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, parts: map[int32]*partition{}}
	var others []string
	for _, e := range entries {
		topic, n, ok := parseFolder(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		if topic != cfg.Topic {
			if !slices.Contains(others, topic) {
				others = append(others, topic)
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		tp := record.TopicPartition{Topic: topic, Partition: n}
		dir := path.Join(cfg.Dir, e.Name())
		id, err := readTopicID(cfg.FS, dir)
		if err != nil {
			return nil, err
		}
		if s.id != [16]byte{} && id != [16]byte{} && id != s.id {
			return nil, fmt.Errorf("%s has another topic id than the partitions before it: are two topics mixed in %s?", dir, cfg.Dir)
		}
		if id != [16]byte{} {
			s.id = id
		}
		mark, noted := marks[tp]
		if !noted || cfg.PastWatermark {
			mark = math.MaxInt64
		}
		p, err := openPartition(cfg, tp, dir, mark)
		if err != nil {
			return nil, err
		}
		p.limit(cfg, starts)
		s.parts[n] = p
	}
	if len(s.parts) == 0 {
		slices.Sort(others)
		return nil, fmt.Errorf("%s: %w: there is no folder %s-0; topics here: %s", cfg.Dir, broker.ErrUnknownTopic, cfg.Topic, cmp.Or(strings.Join(others, ", "), "none, since no folder is named TOPIC-PARTITION"))
	}
	return s, nil
}

// parseFolder reads the name of a partition's folder. Those that are being deleted have other names.
func parseFolder(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	return name[:i], int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == name[i+1:]
}

func (s *Source) partition(tp record.TopicPartition) (*partition, error) {
	if p := s.parts[tp.Partition]; tp.Topic == s.cfg.Topic && p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s: %w", tp, broker.ErrUnknownTopic)
}

// Partitions gives the partitions that have a folder.
func (s *Source) Partitions(_ context.Context, topic string) ([]int32, error) {
	if topic != s.cfg.Topic {
		return nil, broker.ErrUnknownTopic
	}
	return slices.Sorted(maps.Keys(s.parts)), nil
}

// TopicID gives the id of the topic in the cluster that it was copied from.
func (s *Source) TopicID(_ context.Context, topic string) ([16]byte, error) {
	if topic != s.cfg.Topic {
		return [16]byte{}, broker.ErrUnknownTopic
	}
	return s.id, nil
}

// Bounds gives the marks of a partition; they never move.
func (s *Source) Bounds(_ context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	p, err := s.partition(tp)
	if err != nil {
		return broker.Bounds{}, err
	}
	return p.bounds, nil
}

// Fetch reads whole batches. It never waits: nothing will come.
func (s *Source) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	out, total := make([]broker.Fetched, len(ranges)), 0
	for i, r := range ranges {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f := &out[i]
		f.TP = r.TP
		p, err := s.partition(r.TP)
		if err != nil {
			f.Err = err
			continue
		}
		f.Bounds = p.bounds
		if r.From < p.bounds.Start || r.From > p.bounds.End {
			f.Err = &broker.OutOfRangeError{TP: r.TP, Offset: r.From, Bounds: p.bounds}
			continue
		}
		most := r.MaxBytes
		if opts.MaxBytes > 0 {
			if most = min(most, opts.MaxBytes-total); most <= 0 && total > 0 {
				continue
			}
		}
		end := p.bounds.End
		if opts.Isolation == broker.ReadCommitted {
			end = p.bounds.Stable
		}
		if f.Batches, f.Err = p.read(s.cfg.FS, r.From, end, max(most, 1)); f.Err != nil {
			continue
		}
		if opts.Isolation == broker.ReadCommitted {
			f.Aborted = p.abortedIn(r.From, f.Batches)
		}
		total += len(f.Batches)
	}
	return out, nil
}

// OffsetForTime gives the first offset whose timestamp is at or after ms.
func (s *Source) OffsetForTime(_ context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	p, err := s.partition(tp)
	if err != nil {
		return 0, err
	}
	for i := p.first(p.bounds.Start); i < len(p.bases); i++ {
		r, err := p.segment(s.cfg.FS, i)
		if err != nil {
			return 0, err
		}
		o, ok, err := r.OffsetForTime(ms, p.bounds.Start, nil)
		if err = errors.Join(err, r.Close()); err != nil {
			return 0, err
		}
		if ok {
			return min(o, p.bounds.End), nil
		}
	}
	return p.bounds.End, nil
}

// Hold returns ErrNoHold: nothing here is ever dropped.
func (s *Source) Hold(context.Context, record.TopicPartition, record.Offset) error {
	return broker.ErrNoHold
}

// Close has nothing to do.
func (s *Source) Close() error { return nil }

// Left tells, by partition, how many offsets at its end are not given, since the broker had not noted them as committed.
func (s *Source) Left() map[int32]int64 {
	out := map[int32]int64{}
	for n, p := range s.parts {
		if p.whole > p.bounds.End {
			out[n] = int64(p.whole - p.bounds.End)
		}
	}
	return out
}

// Hidden is a transaction without an end, and what stands behind it: a reader of committed records sees none of it.
type Hidden struct {
	Offsets  int64         // up to the end of the partition, the transaction's own included
	First    record.Offset // of the transaction
	Producer int64         // its producer id
}

// Hidden tells, by partition, what a transaction that never ended hides from readers of committed records: the oldest
// one where there are several.
func (s *Source) Hidden() map[int32]Hidden {
	out := map[int32]Hidden{}
	for n, p := range s.parts {
		if p.bounds.Stable == p.bounds.End {
			continue
		}
		h := Hidden{Offsets: int64(p.bounds.End - p.bounds.Stable), First: math.MaxInt64}
		for producer, first := range p.open {
			if first < h.First {
				h.First, h.Producer = first, producer
			}
		}
		out[n] = h
	}
	return out
}

// read gives whole batches from the one that holds from, up to an offset.
func (p *partition) read(fsys vfs.FS, from, end record.Offset, maxBytes int) ([]byte, error) {
	for i := p.first(from); i < len(p.bases) && p.bases[i] < end; i++ {
		r, err := p.segment(fsys, i)
		if err != nil {
			return nil, err
		}
		raw, err := r.Read(from, maxBytes)
		err2 := r.Close()
		if errors.Is(err, io.EOF) {
			continue // the rest of this segment was compacted away
		}
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return before(raw, end)
	}
	return nil, nil
}

// before cuts batches that begin at or behind an offset.
func before(raw []byte, end record.Offset) ([]byte, error) {
	for at := 0; at < len(raw); {
		h, err := record.ParseHeader(raw[at:])
		if err != nil {
			return nil, err
		}
		if h.BaseOffset >= end {
			return raw[:at:at], nil
		}
		at += h.Size()
	}
	return raw, nil
}
