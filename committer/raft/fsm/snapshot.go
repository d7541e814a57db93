package fsm

import (
	"encoding/binary"
	"fmt"
)

// Snapshot gives the whole state as bytes; the same state gives the same bytes.
func (s *State) Snapshot() []byte {
	w := &writer{b: []byte{format}}
	w.count(len(s.tables))
	for _, name := range s.Tables() {
		s.tables[name].encode(w)
	}
	return w.b
}

// Restore replaces the state by a snapshot; after an error it is as before.
func (s *State) Restore(b []byte) error {
	if len(b) == 0 || b[0] < oldFormat || b[0] > format {
		return fmt.Errorf("%w: unknown format of the snapshot; a newer program wrote it, upgrade this node", ErrCorrupt)
	}
	r := &reader{b: b[1:], format: b[0]}
	tables := map[string]*Table{}
	for range r.count(1) {
		t := decodeTable(r)
		tables[t.name] = t
	}
	if err := r.end(); err != nil {
		return err
	}
	s.tables = tables
	return nil
}

func (t *Table) encode(w *writer) {
	w.str(t.name)
	w.int(t.version)
	w.str(t.hash)
	t.shape.encode(w)
	w.int(t.stamp)
	w.numbers(t.positions)
	w.count(len(t.pending))
	for _, v := range t.pending {
		v.encode(w)
	}
	w.int(t.epoch)
	w.numbers(t.fences)
	w.count(len(t.removed))
	for _, x := range t.removed {
		w.int(x.version)
		w.b = binary.BigEndian.AppendUint64(w.b, uint64(x.file))
	}
	w.int(t.since)
	w.int(t.reshaped)
	w.int(t.rewritten)
	w.numbers(t.moved)
	w.count(len(t.order))
	for _, id := range t.order {
		w.str(id)
		t.answers[id].encode(w)
	}
}

func decodeTable(r *reader) *Table {
	t := &Table{name: r.str(), version: r.int(), hash: r.str(), shape: decodeShape(r), stamp: r.int(), positions: r.numbers(),
		answers: map[string]Answer{}}
	for range r.count(8) {
		t.pending = append(t.pending, decodeVersion(r))
	}
	t.epoch, t.fences = r.int(), r.numbers()
	for range r.count(2) {
		t.removed = append(t.removed, removal{r.int(), r.sum()})
	}
	if t.since = r.int(); r.format == oldFormat {
		t.reshaped = t.version // it may have been any: what was planned before it is planned again
	} else {
		t.reshaped = r.int()
	}
	if r.format < 4 { // anything may have happened up to the base
		t.rewritten, t.moved = t.version, map[string]int64{}
		for id := range t.positions {
			t.moved[id] = t.version
		}
	} else {
		t.rewritten, t.moved = r.int(), r.numbers()
	}
	for range r.count(6) {
		id := r.str()
		t.order = append(t.order, id)
		if a := decodeAnswer(r); a.Code != Unknown {
			t.answers[id] = a
		}
	}
	return t
}

func (v *Version) encode(w *writer) {
	w.int(v.Number)
	w.str(v.TxnID)
	w.int(v.Time)
	w.int(v.Stamp)
	w.str(v.Engine)
	w.int(v.rebased)
	w.bool(v.open)
	w.numbers(v.moves)
	w.count(len(v.Requests))
	for i := range v.Requests {
		v.Requests[i].encode(w)
	}
}

func decodeVersion(r *reader) *Version {
	v := &Version{Number: r.int(), TxnID: r.str(), Time: r.int(), Stamp: r.int(), Engine: r.str(), rebased: r.int()}
	if r.format >= 4 {
		v.open = r.bool()
	}
	v.moves = r.numbers()
	for range r.count(minRequest) {
		v.Requests = append(v.Requests, decodeRequest(r))
	}
	return v
}
