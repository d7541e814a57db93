package pulsar

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
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
	p    *partition
	last MessageID
	end  record.Offset // where nothing is behind the offset that it was looked for from; else -1: who reads tells

	mu    sync.Mutex
	met   MessageID     // the last entry that came
	next  record.Offset // that was asked for last
	since time.Time     // when it was first
	asked chan verdict  // of silent, which takes longer than an answer may; nil: it does not run
	doubt time.Time     // when silent was first asked; who asks for the end may have been away before
}

// verdict is what silent found of one who has read all below next.
type verdict struct {
	at   MessageID
	next record.Offset
	end  bool
	err  error
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
	m := &mark{p: p, last: last, end: -1}
	if !any || !st.anchor.Lost && reached(st.anchor.ID, last) {
		m.end = from
	}
	return m, nil
}

// reached is a broker.EndMark. What no consumer sees, marks of transactions and messages of aborted ones, never comes: when
// nothing has come for a while, though the stream is open, silent says whether it is that.
func (m *mark) reached(_ context.Context, next record.Offset) (record.Offset, bool, error) {
	if m.end >= 0 && next >= m.end {
		return next, true, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next != next || m.since.IsZero() {
		m.next = next
		m.heard()
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
	case st.stash != nil:
		m.heard()
	case st.at.Ledger >= 0 && compareEntries(st.at, m.last) >= 0 && !st.verify && !st.catching:
		return next, true, nil
	case m.met != st.at:
		m.met = st.at
		m.heard()
	case st.k.Queued() == 0 && time.Since(m.since) > p.s.quiet:
		return m.silence(next, st)
	}
	return 0, false, nil
}

// heard notes that something came.
func (m *mark) heard() { m.since, m.doubt = time.Now(), time.Time{} }

// silence is reached when nothing came for a while. m.mu and the partition's are held.
func (m *mark) silence(next record.Offset, st *stream) (record.Offset, bool, error) {
	if m.asked != nil {
		select {
		case v := <-m.asked:
			m.asked = nil
			switch {
			case v.next != next || v.at != st.at:
			case v.err != nil && !passing(v.err):
				return 0, false, m.p.s.known(v.err)
			case v.end:
				return next, true, nil
			}
		default:
		}
		return 0, false, nil
	}
	switch {
	case m.doubt.IsZero():
		m.doubt = time.Now()
	case time.Since(m.doubt) > m.p.patience():
		return 0, false, m.p.stuck(st.at, m.last)
	}
	at := st.at
	if st.verify || st.catching { // the anchor is to come, and did not
		at = wire.Earliest
	}
	asked, met := make(chan verdict, 1), st.at
	m.asked = asked
	k, oldest := st.k, st.farthest && st.at.Ledger < 0
	go func() {
		end, err := m.p.silent(m.p.s.ctx, at, m.last)
		if err == nil && !end && oldest {
			end, err = gone(m.p.s.ctx, k, m.last)
		}
		asked <- verdict{met, next, end, err}
	}()
	return 0, false, nil
}
