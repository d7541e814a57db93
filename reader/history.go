package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// HistoryConfig are the settings of a History.
type HistoryConfig struct {
	// Table gives the open table of a topic, or false when the topic has none.
	Table func(topic string) (*table.Table, bool)
	// Opening says whether a topic is to have a table that is not open yet; nil: none is.
	Opening func(topic string) bool

	MaxStreams   int           // scans kept open for consumers that read on; default 64
	Idle         time.Duration // a scan that nobody reads on is closed after this; default 30 s
	MemoryBudget int64         // of all scans together, as estimated: 16 MiB each, and twice the size of a file where ReadsInPieces is false; default 256 MiB
	// MaxStale is how old a snapshot may be that serves what it holds. What it does not hold is always looked
	// for in a new one. Default 1 s.
	MaxStale time.Duration
	Codec    record.Codec // of the batches; default Snappy: every client has it, and it costs least
	NoCodec  bool         // batches are not compressed
	// Leases lets each scan hold a lease as Config.LeaseTime says: for jobs, which read all of a table. The many
	// consumers of a server go without; a scan whose file is gone plans again.
	Leases bool
}

func (c HistoryConfig) withDefaults() HistoryConfig {
	if c.MaxStreams == 0 {
		c.MaxStreams = 64
	}
	if c.Idle == 0 {
		c.Idle = 30 * time.Second
	}
	if c.MemoryBudget == 0 {
		c.MemoryBudget = 256 << 20
	}
	if c.MaxStale == 0 {
		c.MaxStale = time.Second
	}
	if c.Codec == record.None && !c.NoCodec {
		c.Codec = record.Snappy
	}
	return c
}

func (c HistoryConfig) validate() error {
	switch {
	case c.Table == nil:
		return errors.New("history config: Table is needed")
	case c.MaxStreams < 1 || c.Idle < 0 || c.MemoryBudget < 1 || c.MaxStale < 0:
		return fmt.Errorf("history config: limits must be positive: %d streams, idle %s, budget %d, stale %s", c.MaxStreams, c.Idle, c.MemoryBudget, c.MaxStale)
	case c.NoCodec && c.Codec != record.None:
		return errors.New("history config: NoCodec does not go with a codec")
	}
	return nil
}

// History answers reads below the log start from tables, as Kafka record batches. It is what the Kafka
// protocol server asks. A consumer that reads on finds the scan of its last Fetch still open and read ahead; any
// other offset begins a scan of its own. All methods may be called concurrently.
type History struct {
	cfg      HistoryConfig
	builders sync.Pool // of *record.Builder

	mu      sync.Mutex
	snaps   map[string]known // newest snapshot by topic
	streams streamSet
}

// known is a snapshot that was the newest one at a time.
type known struct {
	table *table.Table
	snap  *deltalog.Snapshot
	at    time.Time
}

// NewHistory checks the configuration. Close frees what the History holds.
func NewHistory(cfg HistoryConfig) (*History, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &History{cfg: cfg, snaps: map[string]known{}, streams: newStreamSet(cfg)}
	h.builders.New = func() any { return record.NewBuilder(cfg.Codec) }
	return h, nil
}

// Close ends all scans. Later calls of Fetch fail.
func (h *History) Close() error {
	h.streams.close()
	return nil
}

// snapshot gives a snapshot of a topic's table: one that is kept while it is young enough, unless fresh is set.
func (h *History) snapshot(ctx context.Context, topic string, t *table.Table, fresh bool) (*deltalog.Snapshot, error) {
	h.mu.Lock()
	k := h.snaps[topic]
	h.mu.Unlock()
	now := time.Now()
	if !fresh && k.table == t && now.Sub(k.at) <= h.cfg.MaxStale {
		return k.snap, nil
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of the table of topic %s: %w", topic, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snaps[topic] = known{t, snap, now}
	return snap, nil
}

// lakeEnd gives the first offset of a partition that its table has not decided, and a snapshot that says so. A
// snapshot that is kept is believed when the offset is below: the table only grows.
func (h *History) lakeEnd(ctx context.Context, tp record.TopicPartition, t *table.Table, from record.Offset) (*deltalog.Snapshot, record.Offset, bool, error) {
	snap, err := h.snapshot(ctx, tp.Topic, t, false)
	if err != nil {
		return nil, 0, false, err
	}
	if end, ok := lakeEndOf(snap, tp); ok && from < end {
		return snap, end, ok, nil
	}
	if snap, err = h.snapshot(ctx, tp.Topic, t, true); err != nil {
		return nil, 0, false, err
	}
	end, ok := lakeEndOf(snap, tp)
	return snap, end, ok, nil
}

// lakeEndOf is the lake end of a topic's partition, whoever fills its table.
func lakeEndOf(snap *deltalog.Snapshot, tp record.TopicPartition) (record.Offset, bool) {
	if filler := snap.Metadata().Configuration[committer.FilledByProperty]; filler != "" {
		if end, ok := table.LakeEnd(snap, filler, tp.Partition); ok {
			return end, true
		}
	}
	return table.LakeEnd(snap, tp.Topic, tp.Partition)
}

// Start gives the first offset that the table of a partition may hold: 0 when anything was tiered, or when nobody can
// say now because the table is not open yet or its store has a fault. A "no" would send consumers to the log's start, or
// its end, over what the table has (I4); Fetch then gives the error that they are to try again after.
func (h *History) Start(ctx context.Context, tp record.TopicPartition) (record.Offset, bool) {
	t, ok := h.cfg.Table(tp.Topic)
	if !ok {
		return 0, h.cfg.Opening != nil && h.cfg.Opening(tp.Topic)
	}
	_, _, ok, err := h.lakeEnd(ctx, tp, t, -1)
	return 0, ok || err != nil
}

// End gives the first offset that the table has not decided of a partition, false when the topic has no table or nothing of
// the partition is in it. A snapshot that is kept is believed when that is logStart or behind, else the newest one tells.
// *table.TopicChangedError when the table is that of another topic, which had the name; an id of zeros agrees with all.
func (h *History) End(ctx context.Context, tp record.TopicPartition, id [16]byte, logStart record.Offset) (record.Offset, bool, error) {
	t, ok := h.cfg.Table(tp.Topic)
	if !ok {
		return 0, false, nil
	}
	snap, end, ok, err := h.lakeEnd(ctx, tp, t, logStart-1)
	if err != nil {
		return 0, false, err
	}
	if _, err := table.CheckTopic(snap, tp.Topic, tp.Topic, id); err != nil {
		return 0, false, err
	}
	return end, ok, nil
}

// Fetch gives batches of about maxBytes from the first row at or after from, and the offset after them.
// next is greater than from unless the table holds nothing there; then batches is empty too.
func (h *History) Fetch(ctx context.Context, tp record.TopicPartition, from record.Offset, maxBytes int) ([]byte, record.Offset, error) {
	t, ok := h.cfg.Table(tp.Topic)
	if !ok {
		return nil, from, fmt.Errorf("topic %s has no table", tp.Topic)
	}
	s, err := h.streamAt(ctx, tp, t, from)
	if s == nil || err != nil {
		return nil, from, err
	}
	b := h.builders.Get().(*record.Builder)
	out, err := s.fill(ctx, b, maxBytes)
	b.Reset()
	h.builders.Put(b)
	next := s.next
	if err != nil {
		h.streams.drop(s)
		return nil, from, err
	}
	h.streams.give(s)
	return out, next, nil
}

// streamAt gives a stream that stands at an offset, for the caller alone; nil when the table has nothing there.
func (h *History) streamAt(ctx context.Context, tp record.TopicPartition, t *table.Table, from record.Offset) (*stream, error) {
	if s := h.streams.take(tp, t, from); s != nil {
		return s, nil
	}
	snap, end, ok, err := h.lakeEnd(ctx, tp, t, from)
	if err != nil || !ok || from >= end {
		return nil, err
	}
	s := &stream{tp: tp, table: t, next: from, leases: h.cfg.Leases, cost: scanCost(t, snap)}
	if err := h.streams.admit(ctx, s); err != nil {
		return nil, err
	}
	if err := s.open(ctx, snap); err != nil {
		h.streams.drop(s)
		return nil, err
	}
	return s, nil
}

// OffsetForTime gives the first offset in the table with a timestamp at or after ms.
func (h *History) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, bool, error) {
	t, ok := h.cfg.Table(tp.Topic)
	if !ok {
		return 0, false, nil
	}
	snap, err := h.snapshot(ctx, tp.Topic, t, true)
	if err != nil {
		return 0, false, err
	}
	end, ok := lakeEndOf(snap, tp)
	if !ok {
		return 0, false, nil
	}
	c := &Cursor{cfg: Config{Table: t, App: committer.PositionsOf(snap, tp.Topic), Topic: tp.Topic}, snap: snap}
	o, found, err := c.lakeOffsetAt(ctx, snap, table.Range{Partition: tp.Partition, To: end}, time.UnixMilli(ms))
	if errors.Is(err, ErrNotReplayable) {
		return 0, false, nil
	}
	return o, found, err
}
