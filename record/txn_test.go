package record

import (
	"slices"
	"testing"
)

func txnBatch(t *testing.T, base Offset, pid int64, transactional bool, n int) []byte {
	t.Helper()
	b := NewBuilder(None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = pid, 0, 0, transactional
	for range n {
		b.Append(1, nil, []byte("v"), nil)
	}
	raw, err := b.Build(base)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func marker(t *testing.T, base Offset, m Marker, pid int64) []byte {
	t.Helper()
	raw, err := BuildMarker(base, m, pid, 0, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func kept(t *testing.T, f *AbortFilter, log []byte) []Offset {
	t.Helper()
	var out []Offset
	for len(log) > 0 {
		b, err := ReadBatch(log)
		if err != nil {
			t.Fatal(err)
		}
		if f.Keep(b) {
			out = append(out, b.BaseOffset)
		}
		log = log[b.Size():]
	}
	return out
}

// I4: read_committed sees exactly what was committed or written outside transactions.
func TestAbortFilter(t *testing.T) {
	log := slices.Concat(
		txnBatch(t, 0, 1, true, 2),     // aborted
		txnBatch(t, 2, 2, true, 1),     // committed, interleaved
		txnBatch(t, 3, -1, false, 1),   // plain
		txnBatch(t, 4, 1, true, 1),     // aborted, same transaction
		txnBatch(t, 5, 1, false, 1),    // idempotent, outside a transaction: kept
		marker(t, 6, AbortMarker, 1),   //
		txnBatch(t, 7, 1, true, 1),     // next transaction of 1: committed
		marker(t, 8, CommitMarker, 2),  //
		marker(t, 9, CommitMarker, 1),  //
		txnBatch(t, 10, 2, true, 1),    // aborted
		txnBatch(t, 11, 3, true, 1),    // aborted
		marker(t, 12, AbortMarker, 3),  //
		txnBatch(t, 13, 2, true, 1),    // still aborted
		marker(t, 14, AbortMarker, 2),  //
		txnBatch(t, 15, -1, false, 10), // plain
	)
	var f AbortFilter
	aborted := []AbortedTxn{{2, 10}, {1, 0}, {3, 11}} // any order
	for range 2 {                                     // reusable
		f.Reset(aborted)
		if got, want := kept(t, &f, log), []Offset{2, 3, 5, 7, 15}; !slices.Equal(got, want) {
			t.Fatalf("kept %v, want %v", got, want)
		}
	}
	f.Reset(nil)
	if got, want := kept(t, &f, log), []Offset{0, 2, 3, 4, 5, 7, 10, 11, 13, 15}; !slices.Equal(got, want) {
		t.Fatalf("nothing aborted: kept %v, want %v", got, want)
	}
}

// A fetch may begin in the middle of an aborted transaction: First lies before the first batch.
func TestAbortFilterMidTransaction(t *testing.T) {
	var f AbortFilter
	f.Reset([]AbortedTxn{{7, 3}})
	log := slices.Concat(txnBatch(t, 50, 7, true, 1), marker(t, 51, AbortMarker, 7), txnBatch(t, 52, 7, true, 1))
	if got := kept(t, &f, log); !slices.Equal(got, []Offset{52}) {
		t.Fatalf("kept %v", got)
	}
}

func TestControlType(t *testing.T) {
	for _, m := range []Marker{AbortMarker, CommitMarker} {
		raw := marker(t, 9, m, 4)
		recs, err := readAll(new(Iterator), raw)
		if err != nil || len(recs) != 1 {
			t.Fatal(recs, err)
		}
		got, ok := ControlType(&recs[0])
		if !ok || got != m || string(recs[0].Value) != "\x00\x00\x00\x00\x00\x05" {
			t.Errorf("marker %d: got %d, %v, value % x", m, got, ok, recs[0].Value)
		}
		h, _ := ParseHeader(raw)
		if !h.Control() || !h.Transactional() || h.ProducerID != 4 || h.BaseOffset != 9 {
			t.Errorf("header %+v", h)
		}
	}
	for _, key := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x02", "\xff\xff\x00\x00"} {
		if _, ok := ControlType(&Record{Key: []byte(key)}); ok {
			t.Errorf("key % x is a marker", key)
		}
	}
}
