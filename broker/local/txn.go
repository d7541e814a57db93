package local

import (
	"encoding/binary"
	"sort"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// txns are the transactions of one partition as far as they are visible: of the batches below the high
// watermark. What was given an offset but is not durable yet stands in producer.TxnFirst only, so that the last
// stable offset never runs ahead of a marker that could be lost.
type txns struct {
	open    map[int64]record.Offset // first offset of each producer's open transaction
	aborted []segment.AbortedTxn    // of all segments, by Last; what their .txnindex files hold. Never changed in place
}

// openTxn is an open transaction in a checkpoint.
type openTxn struct {
	Producer int64
	First    record.Offset
}

// stableLocked is the last stable offset: behind it nothing is decided yet.
func (p *partition) stableLocked() record.Offset {
	stable := p.end
	for _, first := range p.txns.open {
		stable = min(stable, first)
	}
	return max(stable, p.start) // a client may have deleted the beginning of an open transaction
}

// marker is what a control batch says.
type marker struct {
	commit           bool
	coordinatorEpoch int32
}

// markerOf reads a control batch; ok is false when it is not the marker of a transaction.
func markerOf(raw []byte) (m marker, ok bool) {
	b, err := record.ReadBatch(raw)
	if err != nil || !b.Control() {
		return m, false
	}
	var it record.Iterator
	if it.Reset(b) != nil || !it.Next() {
		return m, false
	}
	kind, ok := record.ControlType(it.Record())
	m.commit = kind == record.CommitMarker
	if v := it.Record().Value; len(v) >= 6 {
		m.coordinatorEpoch = int32(binary.BigEndian.Uint32(v[2:]))
	}
	return m, ok
}

// seeTxnLocked follows the transactions through a batch that has become visible; s is the segment that it is in.
// control are the bytes of a control batch.
func (p *partition) seeTxnLocked(s *seg, h record.BatchHeader, control []byte) {
	switch {
	case h.ProducerID < 0 || !h.Transactional():
		return
	case !h.Control():
		if _, ok := p.txns.open[h.ProducerID]; !ok {
			p.txns.open[h.ProducerID] = h.BaseOffset
		}
		return
	}
	m, ok := markerOf(control)
	first, open := p.txns.open[h.ProducerID]
	if !ok || !open {
		return
	}
	delete(p.txns.open, h.ProducerID)
	if m.commit {
		return
	}
	t := segment.AbortedTxn{ProducerID: h.ProducerID, First: first, Last: h.LastOffset(), Stable: p.stableLocked()}
	p.txns.aborted = append(p.txns.aborted, t)
	s.w.AddAborted(t)
	p.newFiles = true
}

// forgetAbortedLocked forgets the aborted transactions whose marker the log no longer has.
func (p *partition) forgetAbortedLocked() {
	base := p.start
	if len(p.segs) > 0 {
		base = min(base, p.segs[0].state().Base)
	}
	n := searchAborted(p.txns.aborted, base)
	p.txns.aborted = append(p.txns.aborted[:0:0], p.txns.aborted[n:]...)
}

// searchAborted gives the first aborted transaction whose marker is at or behind an offset.
func searchAborted(all []segment.AbortedTxn, o record.Offset) int {
	return sort.Search(len(all), func(i int) bool { return all[i].Last >= o })
}

// abortedIn gives those aborted transactions that have offsets in [from, to), by first offset.
func abortedIn(all []segment.AbortedTxn, from, to record.Offset) []record.AbortedTxn {
	var out []record.AbortedTxn
	for i := searchAborted(all, from); i < len(all); i++ {
		if all[i].First < to {
			out = append(out, record.AbortedTxn{ProducerID: all[i].ProducerID, First: all[i].First})
		}
		if all[i].Stable >= to {
			break // what ends later began at or behind this offset
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].First < out[j].First })
	return out
}
