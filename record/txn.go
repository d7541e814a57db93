package record

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Marker is the kind of control record that ends a transaction.
type Marker int16

// The markers of transactions. Other control records are the cluster's own and concern no client.
const (
	AbortMarker  Marker = 0
	CommitMarker Marker = 1
)

// ControlType reads the key of a control batch's record; ok is false when it is not a transaction marker.
func ControlType(rec *Record) (m Marker, ok bool) {
	const keySize = 4 // version, type
	if len(rec.Key) < keySize || int16(binary.BigEndian.Uint16(rec.Key)) < 0 {
		return 0, false
	}
	m = Marker(binary.BigEndian.Uint16(rec.Key[2:]))
	return m, m == AbortMarker || m == CommitMarker
}

// BuildMarker makes the control batch that ends a transaction of a producer.
func BuildMarker(base Offset, m Marker, producerID int64, producerEpoch int16, coordinatorEpoch int32, ts int64) ([]byte, error) {
	b := NewBuilder(None)
	b.ProducerID, b.ProducerEpoch = producerID, producerEpoch
	b.Transactional, b.Control = true, true
	var key [4]byte   // version 0, type
	var value [6]byte // version 0, coordinator epoch
	binary.BigEndian.PutUint16(key[2:], uint16(m))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	b.Append(ts, key[:], value[:], nil)
	return b.Build(base)
}

// AbortedTxn says that the batches of ProducerID from First up to its next marker were aborted.
type AbortedTxn struct {
	ProducerID int64
	First      Offset
}

// AbortFilter leaves out what a read_committed consumer must not see: batches of aborted transactions, and
// control batches. The zero value knows no aborted transaction. It serves one partition.
type AbortFilter struct {
	aborted []AbortedTxn // by First
	next    int          // the first one not yet reached
	open    map[int64]struct{}
}

// Reset takes the aborted transactions that came with a fetch; they are copied.
func (f *AbortFilter) Reset(aborted []AbortedTxn) {
	f.aborted = append(f.aborted[:0], aborted...)
	slices.SortStableFunc(f.aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	f.next = 0
	clear(f.open)
}

// Keep says whether the records of b are for the consumer. It is called for every batch of the fetch, in
// order, control batches included: a marker ends the aborted range of its producer.
func (f *AbortFilter) Keep(b Batch) bool {
	if b.ProducerID < 0 {
		return !b.Control()
	}
	f.reach(b.LastOffset())
	if b.Control() {
		delete(f.open, b.ProducerID)
		return false
	}
	if !b.Transactional() || len(f.open) == 0 {
		return true
	}
	_, aborted := f.open[b.ProducerID]
	return !aborted
}

// reach opens the aborted transactions that begin at or before last.
func (f *AbortFilter) reach(last Offset) {
	for ; f.next < len(f.aborted) && f.aborted[f.next].First <= last; f.next++ {
		if f.open == nil {
			f.open = make(map[int64]struct{})
		}
		f.open[f.aborted[f.next].ProducerID] = struct{}{}
	}
}
