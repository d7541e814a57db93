package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// memLog is a small broker.Log in memory that checks its caller: one batch an append, no use after Close,
// no batch changed by who was given it.
type memLog struct {
	tb testing.TB

	mu     sync.Mutex
	topics map[string]*memTopic
	pid    int64
	grown  chan struct{}
	closed bool
	fail   error // of Topics, when set
	over   broker.TopicConfig

	failMarker func(record.TopicPartition) error
}

type memTopic struct {
	info  broker.TopicInfo
	parts []*memPart
}

type memPart struct {
	start, end record.Offset
	batches    []record.Batch
	open       map[int64]record.Offset // first offset of open transactions, by producer
	epochs     map[int64]int16
	aborted    []abortedRange
}

type abortedRange struct {
	record.AbortedTxn
	last record.Offset
}

func newMemLog(tb testing.TB) *memLog {
	l := &memLog{tb: tb, topics: map[string]*memTopic{}, grown: make(chan struct{}), pid: 1000}
	tb.Cleanup(l.checkStored)
	return l
}

// checkStored sees to it that nobody wrote into a batch after it was appended.
func (l *memLog) checkStored() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range l.topics {
		for p, part := range t.parts {
			for _, b := range part.batches {
				if err := b.VerifyCRC(); err != nil {
					l.tb.Errorf("%s-%d: batch at %d was changed by who was given it: %v", name, p, b.BaseOffset, err)
				}
			}
		}
	}
}

func (l *memLog) part(tp record.TopicPartition) (*memPart, *memTopic, error) {
	if l.closed {
		return nil, nil, broker.ErrClosed
	}
	t := l.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.parts) {
		return nil, nil, fmt.Errorf("%s: %w", tp, broker.ErrUnknownTopic)
	}
	return t.parts[tp.Partition], t, nil
}

func (l *memLog) Partitions(_ context.Context, topic string) ([]int32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[topic]
	if t == nil {
		return nil, broker.ErrUnknownTopic
	}
	var out []int32
	for i := range t.parts {
		out = append(out, int32(i))
	}
	return out, nil
}

func (p *memPart) bounds() broker.Bounds {
	stable := p.end
	for _, first := range p.open {
		stable = min(stable, first)
	}
	return broker.Bounds{Start: p.start, Stable: stable, End: p.end}
}

func (l *memLog) Bounds(_ context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return broker.Bounds{}, err
	}
	return p.bounds(), nil
}

func (l *memLog) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	if opts.MaxWait > maxFetchWait {
		l.tb.Errorf("Fetch with MaxWait %v", opts.MaxWait)
	}
	timeout := time.NewTimer(opts.MaxWait)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		out, n, failed := l.fetch(ranges, opts)
		grown, closed := l.grown, l.closed
		l.mu.Unlock()
		if closed {
			return nil, broker.ErrClosed
		}
		if n >= opts.MinBytes || failed || opts.MaxWait <= 0 {
			return out, nil
		}
		select {
		case <-grown:
		case <-timeout.C:
			return out, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *memLog) fetch(ranges []broker.FetchRange, opts broker.FetchOptions) (out []broker.Fetched, total int, failed bool) {
	for _, r := range ranges {
		f := broker.Fetched{TP: r.TP}
		p, t, err := l.part(r.TP)
		switch {
		case err != nil:
			f.Err = err
		case r.ID != [16]byte{} && r.ID != t.info.ID:
			f.Err = broker.ErrUnknownTopic
		case r.From < p.start || r.From > p.end:
			f.Err = &broker.OutOfRangeError{TP: r.TP, Offset: r.From, Bounds: p.bounds()}
		default:
			f.Bounds = p.bounds()
			i := sort.Search(len(p.batches), func(i int) bool { return p.batches[i].LastOffset() >= r.From })
			end := p.end
			if opts.Isolation == broker.ReadCommitted {
				end = f.Bounds.Stable
			}
			for ; i < len(p.batches) && p.batches[i].BaseOffset < end; i++ {
				n := len(p.batches[i].Raw)
				if total > 0 && (len(f.Batches)+n > r.MaxBytes || opts.MaxBytes > 0 && total+n > opts.MaxBytes) {
					break
				}
				f.Batches = append(f.Batches, p.batches[i].Raw...)
				total += n
				for _, a := range p.aborted {
					if b := p.batches[i]; opts.Isolation == broker.ReadCommitted && a.First <= b.LastOffset() && a.last >= b.BaseOffset && !slices.Contains(f.Aborted, a.AbortedTxn) {
						f.Aborted = append(f.Aborted, a.AbortedTxn)
					}
				}
			}
		}
		failed = failed || f.Err != nil
		out = append(out, f)
	}
	return out, total, failed
}

func (l *memLog) OffsetForTime(_ context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return 0, err
	}
	var it record.Iterator
	for _, b := range p.batches {
		if b.MaxTimestamp < ms {
			continue
		}
		if err := it.Reset(b); err != nil {
			return 0, err
		}
		for it.Next() {
			if r := it.Record(); r.Timestamp >= ms && r.Offset >= p.start {
				return r.Offset, nil
			}
		}
	}
	return p.end, nil
}

func (l *memLog) Hold(context.Context, record.TopicPartition, record.Offset) error {
	return broker.ErrNoHold
}

func (l *memLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

func (l *memLog) Topics(context.Context) ([]broker.TopicInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	var out []broker.TopicInfo
	for _, t := range l.topics {
		out = append(out, t.info)
	}
	return out, nil
}

func (l *memLog) CreateTopic(_ context.Context, name string, cfg broker.TopicConfig) (broker.TopicInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !validTopicName(name) {
		return broker.TopicInfo{}, broker.ErrInvalidTopic
	}
	if l.topics[name] != nil {
		return broker.TopicInfo{}, broker.ErrTopicExists
	}
	t := &memTopic{info: broker.TopicInfo{Name: name, Config: cfg.Over(l.over), Own: cfg}}
	_, _ = rand.Read(t.info.ID[:])
	for range cfg.Partitions {
		t.parts = append(t.parts, &memPart{})
	}
	l.topics[name] = t
	return t.info, nil
}

func (l *memLog) DeleteTopic(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topics[name] == nil {
		return broker.ErrUnknownTopic
	}
	delete(l.topics, name)
	return nil
}

func (l *memLog) Append(_ context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	batch = bytes.Clone(batch)
	b, err := record.ReadBatch(batch)
	if err != nil || b.Size() != len(batch) {
		return broker.AppendResult{}, errors.Join(broker.ErrCorruptBatch, err)
	}
	if err := b.VerifyCRC(); err != nil {
		return broker.AppendResult{}, errors.Join(broker.ErrCorruptBatch, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, t, err := l.part(tp)
	if err != nil {
		return broker.AppendResult{}, err
	}
	limit := int32(1<<20 + 12)
	if t.info.Config.MaxMessageBytes > 0 {
		limit = t.info.Config.MaxMessageBytes
	}
	if len(batch) > int(limit) {
		return broker.AppendResult{}, broker.ErrTooLarge
	}
	if b.ProducerID >= 0 {
		next := int32(0)
		for _, old := range p.batches {
			if old.ProducerID != b.ProducerID || old.ProducerEpoch != b.ProducerEpoch || old.Control() {
				continue
			}
			if old.BaseSequence == b.BaseSequence && old.LastOffsetDelta == b.LastOffsetDelta {
				return broker.AppendResult{Base: old.BaseOffset, LogAppendTime: -1, LogStart: p.start, Duplicate: true}, nil
			}
			next = old.BaseSequence + old.LastOffsetDelta + 1
		}
		if b.ProducerEpoch < p.epochs[b.ProducerID] {
			return broker.AppendResult{}, broker.ErrProducerFenced
		}
		if b.ProducerEpoch > p.epochs[b.ProducerID] {
			next = 0
		}
		if b.BaseSequence != next {
			return broker.AppendResult{}, fmt.Errorf("%w: %d, want %d", broker.ErrOutOfOrder, b.BaseSequence, next)
		}
		p.note(b)
	}
	record.SetBaseOffset(batch, p.end)
	record.SetLeaderEpoch(batch, 0)
	if b, err = record.ReadBatch(batch); err != nil {
		return broker.AppendResult{}, err
	}
	l.put(p, b)
	return broker.AppendResult{Base: b.BaseOffset, LogAppendTime: -1, LogStart: p.start}, nil
}

func (l *memLog) DeleteRecords(_ context.Context, tp record.TopicPartition, before record.Offset) (record.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return 0, err
	}
	if before == -1 {
		before = p.end
	}
	if before < 0 || before > p.end {
		return 0, &broker.OutOfRangeError{TP: tp, Offset: before, Bounds: p.bounds()}
	}
	p.start = max(p.start, before)
	for len(p.batches) > 0 && p.batches[0].LastOffset() < p.start {
		p.batches = p.batches[1:]
	}
	return p.start, nil
}

func (l *memLog) InitProducerID(context.Context) (int64, int16, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pid++
	return l.pid, 0, nil
}

func (l *memLog) put(p *memPart, b record.Batch) {
	p.batches = append(p.batches, b)
	p.end = b.LastOffset() + 1
	close(l.grown)
	l.grown = make(chan struct{})
}

// note keeps the producer's epoch, and the first offset of its transaction.
func (p *memPart) note(b record.Batch) {
	if p.open == nil {
		p.open, p.epochs = map[int64]record.Offset{}, map[int64]int16{}
	}
	p.epochs[b.ProducerID] = b.ProducerEpoch
	if _, ok := p.open[b.ProducerID]; b.Transactional() && !ok {
		p.open[b.ProducerID] = p.end
	}
}

func (l *memLog) AppendMarker(_ context.Context, tp record.TopicPartition, m broker.TxnMarker) (record.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return 0, err
	}
	if l.failMarker != nil {
		if err := l.failMarker(tp); err != nil {
			return 0, err
		}
	}
	if m.Epoch < p.epochs[m.ProducerID] {
		return 0, broker.ErrProducerFenced
	}
	kind := record.AbortMarker
	if m.Commit {
		kind = record.CommitMarker
	}
	raw, err := record.BuildMarker(p.end, kind, m.ProducerID, m.Epoch, m.CoordinatorEpoch, time.Now().UnixMilli())
	if err != nil {
		return 0, err
	}
	b, err := record.ReadBatch(raw)
	if err != nil {
		return 0, err
	}
	if p.open == nil {
		p.open, p.epochs = map[int64]record.Offset{}, map[int64]int16{}
	}
	p.epochs[m.ProducerID] = m.Epoch
	if first, ok := p.open[m.ProducerID]; ok {
		delete(p.open, m.ProducerID)
		if !m.Commit {
			p.aborted = append(p.aborted, abortedRange{record.AbortedTxn{ProducerID: m.ProducerID, First: first}, p.end})
		}
	}
	l.put(p, b)
	return b.BaseOffset, nil
}

func (l *memLog) Producers(_ context.Context, tp record.TopicPartition) ([]broker.ProducerState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return nil, err
	}
	var out []broker.ProducerState
	for id, epoch := range p.epochs {
		st := broker.ProducerState{ID: id, Epoch: epoch, LastSequence: -1, LastTimestamp: -1, CoordinatorEpoch: -1, TxnStart: -1}
		if first, ok := p.open[id]; ok {
			st.TxnStart = first
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b broker.ProducerState) int { return int(a.ID - b.ID) })
	return out, nil
}

func (l *memLog) Size(_ context.Context, tp record.TopicPartition) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _, err := l.part(tp)
	if err != nil {
		return 0, err
	}
	for _, b := range p.batches {
		n += int64(len(b.Raw))
	}
	return n, nil
}

func (l *memLog) CreatePartitions(_ context.Context, topic string, total int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[topic]
	if t == nil {
		return broker.ErrUnknownTopic
	}
	for int32(len(t.parts)) < total {
		t.parts = append(t.parts, &memPart{})
	}
	t.info.Config.Partitions, t.info.Own.Partitions = total, total
	return nil
}

func (l *memLog) SetTopicConfig(_ context.Context, name string, cfg broker.TopicConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	if t == nil {
		return broker.ErrUnknownTopic
	}
	t.info.Own, t.info.Config = cfg, cfg.Over(l.over)
	return nil
}

func (l *memLog) TopicDefaults() broker.TopicConfig { return broker.DefaultTopicConfig() }

func (l *memLog) SetTopicDefaults(_ context.Context, cfg broker.TopicConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = cfg
	for _, t := range l.topics {
		t.info.Config = t.info.Own.Over(cfg)
	}
	return nil
}

// plainLog is a Log without transactions.
type plainLog struct{ broker.Log }
