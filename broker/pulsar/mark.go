package pulsar

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

var _ broker.Marker = (*Source)(nil)

// MarkEnd notes the last message that there is now, by its id: its offset is known when it was read.
func (s *Source) MarkEnd(ctx context.Context, tp record.TopicPartition) (broker.EndMark, error) {
	if s.feed.Gapless() { // where reading ends is known when it was read
		end, err := s.CountEnd(ctx, tp)
		return func(_ context.Context, next record.Offset) (record.Offset, bool, error) { return end, next >= end, nil }, err
	}
	var m *mark
	err := s.retry(ctx, func() error {
		p, err := s.partition(ctx, tp)
		if err == nil {
			m, err = p.markEnd(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m.reached, nil
}

// mark is the end of a partition at a time.
type mark struct {
	p     *partition
	last  MessageID
	empty bool // there is none

	mu    sync.Mutex
	next  record.Offset // that was asked for last
	since time.Time     // when it was first
}

func (p *partition) markEnd(ctx context.Context) (*mark, error) {
	from, ok, err := p.tableEnd(ctx)
	if err == nil && !ok {
		from, err = p.findBase(ctx)
	}
	if err != nil {
		return nil, err
	}
	st, err := p.take(ctx, from)
	if err != nil {
		return nil, err
	}
	defer p.put(st) // who reads goes on with it
	if err := st.open(ctx); err != nil {
		return nil, err
	}
	last, any, err := st.k.Last(ctx)
	if err != nil {
		st.close()
		return nil, err
	}
	return &mark{p: p, last: last, empty: !any}, nil
}

// reached is a broker.EndMark. What no consumer sees, marks of transactions and messages of aborted ones, never comes: when
// nothing has come for a while, though the stream is open, it is taken for that.
func (m *mark) reached(_ context.Context, next record.Offset) (record.Offset, bool, error) {
	if m.empty {
		return next, true, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next != next || m.since.IsZero() {
		m.next, m.since = next, time.Now()
	}
	p := m.p
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.streams, func(st *stream) bool { return st.next == next && st.k != nil })
	if i < 0 {
		return 0, false, nil
	}
	st := p.streams[i]
	switch {
	case !st.anchor.Lost && reached(st.anchor.ID, m.last):
		return next, true, nil
	case st.verify || st.catching || st.stash != nil:
		m.since = time.Now()
	case st.at.Ledger >= 0 && compareEntries(st.at, m.last) >= 0:
		return next, true, nil
	case st.k.Queued() == 0 && time.Since(m.since) > p.s.quiet:
		return next, true, nil
	}
	return 0, false, nil
}
