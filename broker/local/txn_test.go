package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

func txnBatch(t testing.TB, id int64, epoch int16, seq int32, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = id, epoch, seq, true
	for _, v := range values {
		b.Append(start.UnixMilli(), nil, []byte(v), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return raw
}

func mustEnd(t testing.TB, l *Log, p record.TopicPartition, id int64, epoch int16, commit bool) record.Offset {
	t.Helper()
	o, err := l.AppendMarker(t.Context(), p, broker.TxnMarker{ProducerID: id, Epoch: epoch, Commit: commit})
	if err != nil {
		t.Fatalf("marker: %v", err)
	}
	return o
}

// readCommitted gives what a read_committed consumer sees from an offset on, in fetches of about limit bytes.
func readCommitted(l *Log, p record.TopicPartition, from record.Offset, limit int) (map[record.Offset]string, broker.Bounds, error) {
	out := map[record.Offset]string{}
	bounds, err := l.Bounds(context.Background(), p)
	if err != nil {
		return nil, bounds, err
	}
	var it record.Iterator
	var filter record.AbortFilter
	for next := max(from, bounds.Start); next < bounds.Stable; {
		got, err := fetchEither(l, broker.FetchRange{TP: p, From: next, MaxBytes: limit}, broker.FetchOptions{Isolation: broker.ReadCommitted})
		if err != nil {
			return nil, bounds, err
		}
		if len(got.Batches) == 0 {
			return nil, bounds, fmt.Errorf("no batch at %d of %v", next, bounds)
		}
		filter.Reset(got.Aborted)
		for b := got.Batches; len(b) > 0; {
			batch, err := record.ReadBatch(b)
			if err != nil {
				return nil, bounds, err
			}
			if filter.Keep(batch) {
				if err := it.Reset(batch); err != nil {
					return nil, bounds, err
				}
				for it.Next() {
					if r := it.Record(); r.Offset >= next {
						out[r.Offset] = strings.Clone(string(r.Value))
					}
				}
			}
			b, next = b[batch.Size():], batch.LastOffset()+1
		}
	}
	return out, bounds, nil
}

func checkCommitted(t *testing.T, l *Log, p record.TopicPartition, want map[record.Offset]string, stable record.Offset) {
	t.Helper()
	for _, from := range []record.Offset{0, 1, 2, 3, 5, 8} {
		for _, limit := range []int{1, 200, 1 << 20} {
			got, b, err := readCommitted(l, p, from, limit)
			if err != nil || b.Stable != stable {
				t.Fatalf("from %d: bounds %v, want a stable offset of %d: %v", from, b, stable, err)
			}
			part := maps.Clone(want)
			maps.DeleteFunc(part, func(o record.Offset, _ string) bool { return o < from })
			if diff := cmp.Diff(part, got); diff != "" {
				t.Fatalf("from %d, %d bytes (-want +got):\n%s", from, limit, diff)
			}
		}
	}
}

// TestTransactions interleaves transactions, and looks at them again after a crash with and without a checkpoint,
// in the active segment and in sealed ones.
func TestTransactions(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, segmentBytes := range []int64{broker.MinSegmentBytes, 1 << 20} {
			for _, checkpoint := range []bool{false, true} {
				t.Run(fmt.Sprint(d, segmentBytes, checkpoint), func(t *testing.T) {
					mem := vfs.NewMem()
					cfg := smallConfig(mem)
					cfg.Durability = d
					l := mustOpen(t, cfg)
					p := tp("t", 0)
					mustCreate(t, l, "t", broker.TopicConfig{SegmentBytes: segmentBytes})
					pad := strings.Repeat("x", 300)
					mustAppend(t, l, p, txnBatch(t, 1, 0, 0, "a1"+pad, "a2")) // 0, 1
					mustAppend(t, l, p, txnBatch(t, 2, 0, 0, "b1"+pad))       // 2
					mustAppend(t, l, p, batchOf(t, "plain"+pad))              // 3
					mustAppend(t, l, p, txnBatch(t, 1, 0, 2, "a3"+pad))       // 4
					checkCommitted(t, l, p, map[record.Offset]string{}, 0)    // nothing is decided
					if o := mustEnd(t, l, p, 1, 0, false); o != 5 {           // 5
						t.Fatalf("marker at %d", o)
					}
					checkCommitted(t, l, p, map[record.Offset]string{}, 2)
					mustAppend(t, l, p, txnBatch(t, 1, 0, 3, "a4"+pad)) // 6: a new transaction
					mustEnd(t, l, p, 2, 0, true)                        // 7
					want := map[record.Offset]string{2: "b1" + pad, 3: "plain" + pad}
					checkCommitted(t, l, p, want, 6)
					if checkpoint {
						if err := l.Checkpoint(); err != nil {
							t.Fatal(err)
						}
					}
					mode := vfs.KeepNothing
					if d == DurabilityNone {
						mode = vfs.KeepAll
					}
					crashed := mem.Crash(nil, mode)
					mustClose(t, l)
					mem, cfg.FS = crashed, crashed
					if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
						t.Fatalf("check: %v %v", found, err)
					}
					l = mustOpen(t, cfg)
					checkCommitted(t, l, p, want, 6)
					states, err := l.Producers(t.Context(), p)
					if err != nil || len(states) != 2 || states[0].TxnStart != 6 || states[1].TxnStart != -1 || states[0].LastSequence != 3 || states[1].CoordinatorEpoch != 0 {
						t.Fatalf("%+v %v", states, err)
					}
					if res := mustAppend(t, l, p, txnBatch(t, 1, 0, 3, "a4"+pad)); !res.Duplicate || res.Base != 6 {
						t.Fatalf("retry: %+v", res)
					}
					mustEnd(t, l, p, 1, 1, false) // 8: by a coordinator that fences
					checkCommitted(t, l, p, want, 9)
					mustClose(t, l)
					l = mustOpen(t, cfg)
					checkCommitted(t, l, p, want, 9)
					if all, _ := mustRead(t, l, p); len(all) != 9 {
						t.Fatalf("%d records with the markers", len(all))
					}
					mustClose(t, l)
				})
			}
		}
	}
}

// TestTxnFencing tells what does not fit a transaction or comes from a producer of the past.
func TestTxnFencing(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	p := tp("t", 0)
	try := func(what string, want error, raw []byte) {
		t.Helper()
		if _, err := appendEither(t, l, p, raw); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	marker := func(what string, want error, m broker.TxnMarker) record.Offset {
		t.Helper()
		o, err := l.AppendMarker(t.Context(), p, m)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		return o
	}
	mustAppend(t, l, p, txnBatch(t, 1, 3, 0, "x"))
	try("plain batch in a transaction", broker.ErrTxnState, producedBatch(t, 1, 3, 1, "y"))
	try("newer epoch before the older one's transaction has ended", broker.ErrTxnState, txnBatch(t, 1, 4, 0, "y"))
	marker("older epoch", broker.ErrProducerFenced, broker.TxnMarker{ProducerID: 1, Epoch: 2})
	if o := marker("end", nil, broker.TxnMarker{ProducerID: 1, Epoch: 4, CoordinatorEpoch: 7, Commit: true}); o != 1 {
		t.Errorf("marker at %d", o)
	}
	if o := marker("again", nil, broker.TxnMarker{ProducerID: 1, Epoch: 4, CoordinatorEpoch: 7, Commit: true}); o != -1 {
		t.Errorf("a second marker at %d", o)
	}
	marker("older coordinator", broker.ErrProducerFenced, broker.TxnMarker{ProducerID: 1, Epoch: 4, CoordinatorEpoch: 6})
	try("late batch of the epoch that has ended", broker.ErrProducerFenced, txnBatch(t, 1, 3, 1, "z"))
	try("new epoch begins with another number", broker.ErrOutOfOrder, txnBatch(t, 1, 4, 1, "z"))
	try("new epoch", nil, txnBatch(t, 1, 4, 0, "z"))
	marker("unknown producer", nil, broker.TxnMarker{ProducerID: 9, Epoch: 5})
	try("fenced before its first batch", broker.ErrProducerFenced, txnBatch(t, 9, 4, 0, "w"))
	marker("no producer", broker.ErrInvalidRecord, broker.TxnMarker{ProducerID: -1})
	if _, err := l.AppendMarker(t.Context(), tp("no", 0), broker.TxnMarker{ProducerID: 1}); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("unknown topic: %v", err)
	}
}

// TestCommittedFetchWaits lets a read_committed fetch wait for the marker, not for the batch.
func TestCommittedFetchWaits(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	p := tp("t", 0)
	fetch := func(wait time.Duration) broker.Fetched {
		got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: p}}, broker.FetchOptions{MinBytes: 1, MaxWait: wait, Isolation: broker.ReadCommitted})
		if err != nil || got[0].Err != nil {
			t.Errorf("fetch: %v %v", err, got)
		}
		return got[0]
	}
	done := make(chan broker.Fetched, 1)
	go func() { done <- fetch(time.Minute) }()
	mustAppend(t, l, p, txnBatch(t, 1, 0, 0, "x"))
	if got := fetch(time.Millisecond); len(got.Batches) != 0 || got.Bounds.Stable != 0 || got.Bounds.End != 1 {
		t.Errorf("before the marker: %+v", got)
	}
	mustEnd(t, l, p, 1, 0, false)
	got := <-done
	if len(got.Batches) == 0 || got.Bounds.Stable != 2 || cmp.Diff([]broker.AbortedTxn{{ProducerID: 1, First: 0}}, got.Aborted) != "" {
		t.Errorf("after the marker: %+v", got)
	}
}

// TestTxnRetention keeps undecided records, forgets aborted transactions with their segments, and leaves no
// .txnindex behind.
func TestTxnRetention(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{SegmentBytes: broker.MinSegmentBytes, RetentionBytes: 1})
	p := tp("t", 0)
	retain := func(want record.Offset) {
		t.Helper()
		if err := l.EnforceRetention(); err != nil {
			t.Fatal(err)
		}
		if b, err := l.Bounds(t.Context(), p); err != nil || b.Start != want {
			t.Fatalf("bounds %v %v, want a start of %d", b, err, want)
		}
	}
	mustAppend(t, l, p, txnBatch(t, 1, 0, 0, strings.Repeat("a", 900)))
	for range 5 {
		fill(t, l, p, 1)
	}
	retain(0)
	mustEnd(t, l, p, 1, 0, false) // 6
	fill(t, l, p, 2)              // 7, 8
	retain(8)
	part, err := l.partition(p)
	if err != nil || len(part.txns.aborted) != 0 {
		t.Fatalf("%v %v", part.txns.aborted, err)
	}
	entries, err := mem.ReadDir("/log/data/t-0")
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segment.TxnIndexSuffix) {
			t.Errorf("%s is left", e.Name())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
}

// TestDeleteInsideTxn lets a client delete the beginning of an open transaction: the marks stay in order.
func TestDeleteInsideTxn(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{})
	p := tp("t", 0)
	mustAppend(t, l, p, txnBatch(t, 1, 0, 0, "a", "b", "c"))
	mustAppend(t, l, p, batchOf(t, "d"))
	if _, err := l.DeleteRecords(t.Context(), p, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, err := l.Bounds(t.Context(), p)
		if err != nil || b.Start != 1 || b.Stable != 1 || b.End != 4 {
			t.Fatalf("%v %v", b, err)
		}
		got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: p, From: 1}}, broker.FetchOptions{Isolation: broker.ReadCommitted})
		if err != nil || got[0].Err != nil || len(got[0].Batches) > 0 {
			t.Fatalf("%+v %v", got, err)
		}
		mem = mem.Crash(nil, vfs.KeepNothing)
		mustClose(t, l)
		l = mustOpen(t, smallConfig(mem))
	}
	mustEnd(t, l, p, 1, 0, true)
	got, b, err := readCommitted(l, p, 1, 1000)
	if err != nil || b.Stable != 5 || cmp.Diff(map[record.Offset]string{1: "b", 2: "c", 3: "d"}, got) != "" {
		t.Fatalf("%v %v %v", got, b, err)
	}
	mustClose(t, l)
}

// TestManyAborted compares the list that a fetch gives with all that overlap (read off the marks themselves).
func TestManyAborted(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{})
	p := tp("t", 0)
	want := map[record.Offset]string{}
	seq, seq2 := int32(0), int32(0)
	for i := range 120 {
		v := fmt.Sprint(i)
		if i%10 == 0 {
			mustAppend(t, l, p, txnBatch(t, 2, 0, seq2, "long")) // one that lies over many
			seq2++
		}
		res := mustAppend(t, l, p, txnBatch(t, 1, 0, seq, v))
		seq++
		if i%3 == 0 {
			want[res.Base] = v
		}
		mustEnd(t, l, p, 1, 0, i%3 == 0)
		if i%10 == 7 {
			mustEnd(t, l, p, 2, 0, false)
		}
	}
	mustEnd(t, l, p, 2, 0, false)
	for range 2 {
		b, err := l.Bounds(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for from := record.Offset(0); from < b.End; from += 7 {
			got, _, err := readCommitted(l, p, from, 150)
			if err != nil {
				t.Fatal(err)
			}
			part := maps.Clone(want)
			maps.DeleteFunc(part, func(o record.Offset, _ string) bool { return o < from })
			if diff := cmp.Diff(part, got); diff != "" {
				t.Fatalf("from %d:\n%s", from, diff)
			}
		}
		mustClose(t, l)
		bases, err := segment.List(mem, "/log/data/t-0")
		if err != nil || len(bases) < 3 {
			t.Fatalf("%v %v", bases, err)
		}
		l = mustOpen(t, smallConfig(mem))
	}
	mustClose(t, l)
	// A .txnindex that is gone is damage: its transactions would become visible.
	entries, err := mem.ReadDir("/log/data/t-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segment.TxnIndexSuffix) {
			if err := mem.Remove("/log/data/t-0/" + e.Name()); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	var damage *segment.DamageError
	if _, err := Open(t.Context(), smallConfig(mem)); !errors.As(err, &damage) {
		t.Fatalf("open: %v", err)
	}
	if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) != 1 {
		t.Fatalf("check: %v %v", found, err)
	}
}
