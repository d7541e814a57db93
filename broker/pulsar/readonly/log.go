// Package readonly shows topics of a Pulsar as a broker.Log: what the Kafka protocol server needs to serve them to consumers.
// A topic has the last part of its name, TOPIC of TENANT/NAMESPACE/TOPIC; partitions, offsets, keys, values, times and
// headers are those of pulsar.Source. It takes no records, and makes, changes and deletes no topic.
//
// Internal topics, whose names begin with two underscores, are those of another log: there the positions of consumer groups are
// kept.
//
// Bounds give what is known of a partition without reading: CountEnd tells the end. A Fetch that brings nothing says
// whether it stands at the end, so that a client which waits for the end never takes a topic that is not open yet for an
// empty one.
//
// All methods may be called concurrently.
package readonly

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/record"
)

// Config of a Log.
type Config struct {
	Source    *pulsar.Source // with NoOrigin set, so that records are as the table's history gives them
	Namespace string         // TENANT/NAMESPACE
	Topics    *regexp.Regexp // whole names, TENANT/NAMESPACE/TOPIC
	Internal  broker.Log     // keeps the internal topics
	Logger    *slog.Logger   // default: silent
}

// Log is topics of a Pulsar. Make it with New.
type Log struct {
	cfg Config

	asking sync.Mutex      // one asks for the list, for all
	told   map[string]bool // names that no client can use, and that it was said of; guarded by asking

	mu     sync.Mutex
	listed time.Time
	topics []broker.TopicInfo
	names  map[string]bool // of topics, as clients know them; nil before the first list
}

var (
	_ broker.Log     = (*Log)(nil)
	_ broker.Counter = (*Log)(nil)
)

// New makes a Log. It closes neither source nor internal log.
func New(cfg Config) *Log {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Log{cfg: cfg, told: map[string]bool{}}
}

// listFor is how long a list of topics is good: new topics and partitions are seen after it.
const listFor = 5 * time.Second

// legal are the names that Kafka's clients take.
var legal = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Full gives the name of a topic in Pulsar.
func (l *Log) Full(topic string) string { return l.cfg.Namespace + "/" + topic }

func (l *Log) full(tp record.TopicPartition) record.TopicPartition {
	return record.TopicPartition{Topic: l.Full(tp.Topic), Partition: tp.Partition}
}

// Topics gives the internal topics and those of Pulsar.
func (l *Log) Topics(ctx context.Context) ([]broker.TopicInfo, error) {
	own, err := l.cfg.Internal.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var out []broker.TopicInfo
	for _, t := range own {
		if broker.Internal(t.Name) {
			out = append(out, t)
		}
	}
	if err := l.list(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(out, l.topics...), nil
}

// young says whether the list of topics need not be asked for, and whether there is one at all.
func (l *Log) young() (young, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names != nil && time.Since(l.listed) < listFor, l.names != nil
}

// list makes sure that the list of topics is young. While Pulsar does not answer, the old one is good.
func (l *Log) list(ctx context.Context) error {
	if young, _ := l.young(); young {
		return nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	young, any := l.young()
	if young {
		return nil
	}
	topics, err := l.look(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = time.Now()
	if err != nil && any {
		l.cfg.Logger.Warn("the topics of Pulsar cannot be listed: those that were there are shown", "namespace", l.cfg.Namespace, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: list topics of %s: %w", broker.ErrStorage, l.cfg.Namespace, err)
	}
	l.topics, l.names = topics, map[string]bool{}
	for _, t := range topics {
		l.names[t.Name] = true
	}
	return nil
}

func (l *Log) look(ctx context.Context) (out []broker.TopicInfo, err error) {
	all, err := l.cfg.Source.Topics(ctx, l.cfg.Namespace, l.cfg.Topics)
	if err != nil {
		return nil, err
	}
	for _, full := range all {
		name := full[strings.LastIndexByte(full, '/')+1:]
		if !legal.MatchString(name) || broker.Internal(name) {
			if !l.told[full] {
				l.told[full] = true
				l.cfg.Logger.Warn("a topic of Pulsar is not shown: Kafka's clients take no such name", "topic", full)
			}
			continue
		}
		parts, err := l.cfg.Source.Partitions(ctx, full)
		if errors.Is(err, broker.ErrUnknownTopic) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		t := broker.TopicInfo{Name: name, Config: broker.TopicConfig{Partitions: int32(len(parts))}}
		sum := sha256.Sum256([]byte("ledgerlake pulsar " + full))
		copy(t.ID[:], sum[:])
		out = append(out, t)
	}
	return out, nil
}

// known is ErrUnknownTopic for a topic that is not in the list.
func (l *Log) known(ctx context.Context, topic string) error {
	has := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.names[topic]
	}
	if has() {
		return nil
	}
	if err := l.list(ctx); err != nil {
		return err
	}
	if !has() {
		return fmt.Errorf("topic %s: %w", topic, broker.ErrUnknownTopic)
	}
	return nil
}

// Partitions gives the partitions of a topic.
func (l *Log) Partitions(ctx context.Context, topic string) ([]int32, error) {
	if broker.Internal(topic) {
		return l.cfg.Internal.Partitions(ctx, topic)
	}
	if err := l.known(ctx, topic); err != nil {
		return nil, err
	}
	return l.cfg.Source.Partitions(ctx, l.Full(topic))
}

// Bounds gives what is known without reading, as pulsar.Source does.
func (l *Log) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	if broker.Internal(tp.Topic) {
		return l.cfg.Internal.Bounds(ctx, tp)
	}
	if err := l.known(ctx, tp.Topic); err != nil {
		return broker.Bounds{}, err
	}
	b, err := l.cfg.Source.Bounds(ctx, l.full(tp))
	return b, storage(err)
}

// CountEnd reads on to the end as it is now.
func (l *Log) CountEnd(ctx context.Context, tp record.TopicPartition) (record.Offset, error) {
	if broker.Internal(tp.Topic) {
		return broker.StableEnd(ctx, l.cfg.Internal, tp)
	}
	if err := l.known(ctx, tp.Topic); err != nil {
		return 0, err
	}
	end, err := l.cfg.Source.CountEnd(ctx, l.full(tp))
	return end, storage(err)
}

// OffsetForTime gives the first message at or behind a time, of those that are in no table.
func (l *Log) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	if broker.Internal(tp.Topic) {
		return l.cfg.Internal.OffsetForTime(ctx, tp, ms)
	}
	if err := l.known(ctx, tp.Topic); err != nil {
		return 0, err
	}
	o, err := l.cfg.Source.OffsetForTime(ctx, l.full(tp), ms)
	return o, storage(err)
}

// storage makes an outage of Pulsar something that clients try again after.
func storage(err error) error {
	if err == nil || errors.Is(err, broker.ErrUnknownTopic) || errors.Is(err, broker.ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	var outside *broker.OutOfRangeError
	if errors.As(err, &outside) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrStorage, err)
}

// Fetch answers ranges of internal topics at once and those of Pulsar as its source does.
func (l *Log) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	out := make([]broker.Fetched, len(ranges))
	var asked []broker.FetchRange
	var at []int
	for i, r := range ranges {
		out[i].TP = r.TP
		switch {
		case broker.Internal(r.TP.Topic):
			got, err := l.cfg.Internal.Fetch(ctx, []broker.FetchRange{r}, broker.FetchOptions{MaxBytes: opts.MaxBytes, Isolation: opts.Isolation})
			if err != nil {
				return nil, err
			}
			out[i] = got[0]
		default:
			if out[i].Err = l.known(ctx, r.TP.Topic); out[i].Err == nil {
				r.TP = l.full(r.TP)
				asked, at = append(asked, r), append(at, i)
			}
		}
	}
	if len(asked) == 0 {
		return out, nil
	}
	if len(asked) < len(ranges) {
		opts.MaxWait, opts.MinBytes = 0, 0
	}
	spread(asked, opts.MaxBytes)
	got, err := l.cfg.Source.Fetch(ctx, asked, opts)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	for i := range got {
		f, to := &got[i], &out[at[i]]
		tp := to.TP
		*to = *f
		to.TP = tp
		if to.Err = storage(to.Err); to.Err == nil && len(to.Batches) == 0 {
			l.empty(ctx, asked[i], to)
		}
	}
	return out, err
}

// spread keeps an answer near what was asked for in all.
func spread(ranges []broker.FetchRange, limit int) {
	if limit <= 0 {
		return
	}
	each := max(limit/len(ranges), 1)
	for i := range ranges {
		if ranges[i].MaxBytes <= 0 || ranges[i].MaxBytes > each {
			ranges[i].MaxBytes = each
		}
	}
}

// empty says where the end is when there was nothing to give: here, or somewhere behind.
func (l *Log) empty(ctx context.Context, r broker.FetchRange, f *broker.Fetched) {
	end, known := l.cfg.Source.EndBehind(ctx, r.TP, r.From)
	switch {
	case known && end < r.From:
		b := broker.Bounds{Start: f.Bounds.Start, Stable: end, End: end}
		b.Start = min(b.Start, end)
		f.Err = &broker.OutOfRangeError{TP: f.TP, Offset: r.From, Bounds: b}
	case known:
		f.Bounds.End, f.Bounds.Stable = end, end
	default:
		f.Bounds.End = max(f.Bounds.End, r.From+1)
		f.Bounds.Stable = f.Bounds.End
	}
}

// Hold keeps nothing: who fills the tables does.
func (l *Log) Hold(context.Context, record.TopicPartition, record.Offset) error {
	return broker.ErrNoHold
}

// InitProducerID gives one, so that a producer is told by the topic that it cannot write there.
func (l *Log) InitProducerID(ctx context.Context) (int64, int16, error) {
	return l.cfg.Internal.InitProducerID(ctx)
}

// Close does nothing: the source and the internal log are the caller's.
func (l *Log) Close() error { return nil }

func refuse(topic string) error {
	return fmt.Errorf("%w: %s is a topic of Pulsar, shown for consumers: produce to Pulsar", broker.ErrReadOnly, topic)
}

// CreateTopic makes internal topics alone.
func (l *Log) CreateTopic(ctx context.Context, name string, cfg broker.TopicConfig) (broker.TopicInfo, error) {
	if broker.Internal(name) {
		return l.cfg.Internal.CreateTopic(ctx, name, cfg)
	}
	return broker.TopicInfo{}, refuse(name)
}

// DeleteTopic deletes internal topics alone.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	if broker.Internal(name) {
		return l.cfg.Internal.DeleteTopic(ctx, name)
	}
	return refuse(name)
}

// Append adds to internal topics alone.
func (l *Log) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	if broker.Internal(tp.Topic) {
		return l.cfg.Internal.Append(ctx, tp, batch)
	}
	return broker.AppendResult{}, refuse(tp.Topic)
}

// DeleteRecords works on internal topics alone.
func (l *Log) DeleteRecords(ctx context.Context, tp record.TopicPartition, before record.Offset) (record.Offset, error) {
	if broker.Internal(tp.Topic) {
		return l.cfg.Internal.DeleteRecords(ctx, tp, before)
	}
	return 0, refuse(tp.Topic)
}
