package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

var _ broker.Transactor = (*Log)(nil)

// AppendMarker ends the open transaction of a producer in one partition. See broker.Transactor. Where there is
// nothing to end and nobody to fence, it waits until what was decided before is durable, and gives -1.
func (l *Log) AppendMarker(ctx context.Context, tp record.TopicPartition, m broker.TxnMarker) (record.Offset, error) {
	if err := l.enter(); err != nil {
		return 0, err
	}
	defer l.leave()
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	kind := record.AbortMarker
	if m.Commit {
		kind = record.CommitMarker
	}
	raw, err := record.BuildMarker(0, kind, m.ProducerID, m.Epoch, m.CoordinatorEpoch, l.cfg.Clock().UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("end transaction in %s: %w: %w", tp, broker.ErrInvalidRecord, err)
	}
	h, err := record.ParseHeader(raw)
	if err != nil {
		return 0, fmt.Errorf("end transaction in %s: %w", tp, err)
	}
	if m.ProducerID < 0 || m.Epoch < 0 {
		return 0, fmt.Errorf("end transaction in %s: %w: producer %d, epoch %d", tp, broker.ErrInvalidRecord, m.ProducerID, m.Epoch)
	}
	res, err := l.put(ctx, p, &admitted{batch: raw, h: h})
	return res.Base, err
}

// checkMarkerLocked looks whether a marker is needed: a result says that it is not.
func (p *partition) checkMarkerLocked(h record.BatchHeader, m marker) (*produced, error) {
	s := p.producers[h.ProducerID]
	switch {
	case s == nil:
		return nil, nil // the epoch must be known here, or an older one could still begin a transaction
	case h.ProducerEpoch < s.Epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the marker %d", broker.ErrProducerFenced, h.ProducerID, s.Epoch, h.ProducerEpoch)
	case m.coordinatorEpoch+1 < s.Marked:
		return nil, fmt.Errorf("%w: a marker of coordinator epoch %d was here, this one has %d", broker.ErrProducerFenced, s.Marked-1, m.coordinatorEpoch)
	case h.ProducerEpoch == s.Epoch && s.TxnFirst == nil:
		return &produced{Base: -1}, nil
	}
	return nil, nil
}

// Producers gives what a partition knows of its producers, by id.
func (l *Log) Producers(_ context.Context, tp record.TopicPartition) ([]broker.ProducerState, error) {
	if l.isClosed() {
		return nil, broker.ErrClosed
	}
	p, err := l.partition(tp)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]broker.ProducerState, 0, len(p.producers))
	for id, s := range p.producers {
		st := broker.ProducerState{ID: id, Epoch: s.Epoch, LastSequence: -1, LastTimestamp: s.Seen, CoordinatorEpoch: s.Marked - 1, TxnStart: -1}
		if n := len(s.Last); n > 0 {
			st.LastSequence = s.Last[n-1].Last
		}
		if s.TxnFirst != nil {
			st.TxnStart = *s.TxnFirst
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b broker.ProducerState) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
