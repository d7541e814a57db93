package local

import (
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// keptBatches is how many batches of a producer are remembered to tell its retries (Kafka's number).
const keptBatches = 5

// produced is a batch of an idempotent producer.
type produced struct {
	First, Last int32 // sequence numbers
	Base        record.Offset
	Time        int64 // max timestamp, for the answer to a retry
}

// producer is what a partition knows of one idempotent producer.
type producer struct {
	Epoch    int16
	Last     []produced     // oldest first: keptBatches that are durable, and all that are on their way
	Seen     int64          // Unix ms of the last append
	Marked   int32          `json:",omitempty"` // one more than the coordinator epoch of the last marker; 0: none
	TxnFirst *record.Offset `json:"-"`          // first offset of the open transaction, from what was given offsets
}

// durable gives what a checkpoint may say of the producer: batches that are still on their way to the disk may
// get lost, and a retry of those must not be taken for a duplicate (I1).
func (s *producer) durable(end record.Offset) *producer {
	n := len(s.Last)
	for n > 0 && s.Last[n-1].Base >= end {
		n--
	}
	return &producer{Epoch: s.Epoch, Last: slices.Clone(s.Last[max(0, n-keptBatches):n]), Seen: s.Seen, Marked: s.Marked}
}

// forget forgets what is older than the last batches below end: none that is on its way to the disk, whose retry must find it.
func (s *producer) forget(end record.Offset) {
	n := 0
	for len(s.Last)-n > keptBatches && s.Last[n+keptBatches].Base < end {
		n++
	}
	if n > 0 {
		s.Last = append(s.Last[:0], s.Last[n:]...)
	}
	if len(s.Last) <= keptBatches && cap(s.Last) > 4*keptBatches { // many were on their way at once
		s.Last = slices.Clone(s.Last)
	}
}

// lastSequence gives the sequence number of a batch's last record. Numbers wrap from 2^31-1 to 0.
func lastSequence(h record.BatchHeader) int32 {
	return (h.BaseSequence + h.LastOffsetDelta) & 0x7fffffff
}

// checkProducerLocked looks at the sequence numbers of a batch. It gives the first append when it is a retry.
func (p *partition) checkProducerLocked(h record.BatchHeader) (*produced, error) {
	s := p.producers[h.ProducerID]
	if s == nil {
		// Of a producer that was forgotten any number may follow; an empty partition has forgotten none.
		if p.next == 0 && h.BaseSequence != 0 {
			return nil, fmt.Errorf("%w: producer %d begins with %d", broker.ErrOutOfOrder, h.ProducerID, h.BaseSequence)
		}
		return nil, nil
	}
	switch {
	case h.ProducerEpoch < s.Epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", broker.ErrProducerFenced, h.ProducerID, s.Epoch, h.ProducerEpoch)
	case h.ProducerEpoch > s.Epoch:
		if s.TxnFirst != nil { // whoever gave it the epoch ends what the former one left open
			return nil, fmt.Errorf("%w: producer %d begins epoch %d, and has a transaction open in epoch %d", broker.ErrTxnState, h.ProducerID, h.ProducerEpoch, s.Epoch)
		}
		if h.BaseSequence != 0 {
			return nil, fmt.Errorf("%w: producer %d begins epoch %d with %d", broker.ErrOutOfOrder, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
		}
		return nil, nil
	}
	for i := max(0, len(s.Last)-keptBatches); i < len(s.Last); i++ {
		if b := &s.Last[i]; b.First == h.BaseSequence && b.Last == lastSequence(h) {
			return b, nil
		}
	}
	want := int32(0) // a crash lost what the producer had in flight since it began this epoch
	if n := len(s.Last); n > 0 {
		want = (s.Last[n-1].Last + 1) & 0x7fffffff
	}
	if h.BaseSequence != want {
		return nil, fmt.Errorf("%w: producer %d sent %d, expected %d", broker.ErrOutOfOrder, h.ProducerID, h.BaseSequence, want)
	}
	if s.TxnFirst != nil && !h.Transactional() {
		return nil, fmt.Errorf("%w: a plain batch of producer %d, which has a transaction open", broker.ErrTxnState, h.ProducerID)
	}
	return nil, nil
}

// noteProducerLocked remembers a batch that was given its offset; control are the bytes of a control batch.
func (p *partition) noteProducerLocked(h record.BatchHeader, control []byte, nowMS int64) {
	if h.ProducerID < 0 {
		return
	}
	s := p.producers[h.ProducerID]
	if s == nil {
		s = &producer{}
		p.producers[h.ProducerID] = s
		p.log.producers.added.Add(1)
	}
	if s.Last == nil || s.Epoch != h.ProducerEpoch {
		s.Epoch, s.Last = h.ProducerEpoch, make([]produced, 0, keptBatches)
	}
	if h.Control() {
		if m, ok := markerOf(control); ok {
			s.TxnFirst, s.Marked, s.Seen = nil, m.coordinatorEpoch+1, nowMS
		}
		return
	}
	if h.Transactional() && s.TxnFirst == nil {
		first := h.BaseOffset
		s.TxnFirst = &first
	}
	s.forget(p.end)
	s.Last = append(s.Last, produced{First: h.BaseSequence, Last: lastSequence(h), Base: h.BaseOffset, Time: h.MaxTimestamp})
	s.Seen = nowMS
}

// expireProducersLocked forgets producers that were idle for long, which bounds memory. Open transactions keep
// theirs.
func (p *partition) expireProducersLocked(before int64) {
	for id, s := range p.producers {
		if _, open := p.txns.open[id]; !open && s.TxnFirst == nil && s.Seen < before {
			delete(p.producers, id)
			p.changed = true
		}
	}
}
