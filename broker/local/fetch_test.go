package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, smallConfig(vfs.NewMem()))
		mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2})
		ranges := []broker.FetchRange{{TP: tp("t", 0)}, {TP: tp("t", 1)}}
		type answer struct {
			got  []broker.Fetched
			err  error
			took time.Duration
		}
		fetch := func(ctx context.Context, o broker.FetchOptions) chan answer {
			ch := make(chan answer, 1)
			begin := time.Now()
			go func() {
				got, err := l.Fetch(ctx, ranges, o)
				ch <- answer{got, err, time.Since(begin)}
			}()
			synctest.Wait()
			return ch
		}
		// Nothing comes: the answer is empty after exactly MaxWait.
		a := <-fetch(t.Context(), broker.FetchOptions{MinBytes: 1, MaxWait: time.Second})
		if a.err != nil || a.took != time.Second || len(a.got[0].Batches)+len(a.got[1].Batches) > 0 {
			t.Fatalf("empty: %+v", a)
		}
		// An append wakes it.
		ch := fetch(t.Context(), broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour})
		mustAppend(t, l, tp("t", 1), batchOf(t, "x"))
		if a := <-ch; a.err != nil || a.took != 0 || len(a.got[1].Batches) == 0 || a.got[1].Bounds.End != 1 {
			t.Fatalf("woken: %+v", a)
		}
		// MinBytes counts over all partitions.
		ch = fetch(t.Context(), broker.FetchOptions{MinBytes: 1000, MaxWait: time.Hour})
		mustAppend(t, l, tp("t", 0), batchOf(t, strings.Repeat("a", 400)))
		synctest.Wait()
		select {
		case a := <-ch:
			t.Fatalf("answered too early: %+v", a)
		default:
		}
		mustAppend(t, l, tp("t", 1), batchOf(t, strings.Repeat("b", 600)))
		if a := <-ch; a.err != nil || len(a.got[0].Batches)+len(a.got[1].Batches) < 1000 {
			t.Fatalf("min bytes: %+v", a)
		}
		// The context, a deleted topic and Close end a wait.
		ranges[0].From, ranges[1].From = 1, 2
		ctx, cancel := context.WithCancel(t.Context())
		ch = fetch(ctx, broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour})
		cancel()
		if a := <-ch; !errors.Is(a.err, context.Canceled) {
			t.Fatalf("cancel: %+v", a)
		}
		ch = fetch(t.Context(), broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour})
		if err := l.DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if a := <-ch; a.err != nil || !errors.Is(a.got[0].Err, broker.ErrUnknownTopic) {
			t.Fatalf("deleted: %+v", a)
		}
		mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2})
		ranges[0].From, ranges[1].From = 0, 0
		ch = fetch(t.Context(), broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour})
		mustClose(t, l)
		if a := <-ch; !errors.Is(a.err, broker.ErrClosed) {
			t.Fatalf("closed: %+v", a)
		}
	})
}

func TestFetchLimits(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: 2, SegmentBytes: 1 << 20})
	size := len(batchOf(t, strings.Repeat("v", 400)))
	for i := range 20 {
		mustAppend(t, l, tp("t", int32(i%2)), batchOf(t, strings.Repeat("v", 400)))
	}
	fetch := func(o broker.FetchOptions, ranges ...broker.FetchRange) []broker.Fetched {
		t.Helper()
		got, err := l.Fetch(t.Context(), ranges, o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	both := []broker.FetchRange{{TP: tp("t", 0), MaxBytes: 1}, {TP: tp("t", 1), MaxBytes: 3*size + 1}}
	// The first batch comes whole, however small the limit (KIP-74); the second partition is cut at whole batches.
	if got := fetch(broker.FetchOptions{}, both...); len(got[0].Batches) != size || len(got[1].Batches) != 3*size {
		t.Errorf("%d and %d bytes", len(got[0].Batches), len(got[1].Batches))
	}
	if got := fetch(broker.FetchOptions{MaxBytes: 1}, both...); len(got[0].Batches) != size || len(got[1].Batches) != 0 {
		t.Errorf("%d and %d bytes", len(got[0].Batches), len(got[1].Batches))
	}
	if got := fetch(broker.FetchOptions{MaxBytes: 2*size + 5}, both...); len(got[1].Batches) != size {
		t.Errorf("%d and %d bytes", len(got[0].Batches), len(got[1].Batches))
	}
	// MinBytes beyond a limit does not wait.
	if got := fetch(broker.FetchOptions{MaxBytes: 1, MinBytes: 1 << 20, MaxWait: time.Hour}, both...); len(got[0].Batches) != size {
		t.Errorf("%d bytes", len(got[0].Batches))
	}
	for _, o := range []record.Offset{-1, 11} {
		var oor *broker.OutOfRangeError
		if got := fetch(broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour}, broker.FetchRange{TP: tp("t", 0), From: o}); !errors.As(got[0].Err, &oor) {
			t.Errorf("offset %d: %v", o, got[0].Err)
		}
	}
	if got := fetch(broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour}, broker.FetchRange{TP: tp("no", 0)}); !errors.Is(got[0].Err, broker.ErrUnknownTopic) {
		t.Errorf("unknown topic: %v", got[0].Err)
	}
}

func TestOffsetForTime(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	base := start.UnixMilli() - 1000
	var times []int64
	for i := range 60 {
		b := record.NewBuilder(record.None)
		for j := range 3 {
			ts := base + int64(i*3+j)*2
			if i%7 == 3 {
				ts -= 40 // time goes back now and then
			}
			times = append(times, ts)
			b.Append(ts, nil, []byte(strings.Repeat("v", 60)), nil)
		}
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, tp("t", 0), raw)
	}
	for ms := base - 3; ms < base+400; ms++ {
		want := record.Offset(len(times))
		for i, ts := range times {
			if ts >= ms {
				want = record.Offset(i)
				break
			}
		}
		if got, err := l.OffsetForTime(t.Context(), tp("t", 0), ms); err != nil || got != want {
			t.Fatalf("time %d: offset %d, want %d, %v", ms-base, got, want, err)
		}
	}
}

// TestFetchWaitsBehindCleaned: a fetch whose records compaction has left out, with an open transaction behind
// them, waits as it was asked to and does not answer with nothing at once; the end of the transaction wakes it.
func TestFetchWaitsBehindCleaned(t *testing.T) {
	now := newClock()
	cfg := smallConfig(vfs.NewMem())
	cfg.Clock = now.time
	l := mustOpen(t, cfg)
	defer mustClose(t, l)
	p := tp("t", 0)
	mustCreate(t, l, "t", compactConfig())
	pad := strings.Repeat("x", 600)
	for i := range 4 {
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", i), pad}))
	}
	for i := range 40 { // deletes of them, over and over
		mustAppend(t, l, p, kvBatch(t, record.None, kv{fmt.Sprint("k", i%4), "-"}))
	}
	txn := record.NewBuilder(record.None)
	txn.ProducerID, txn.ProducerEpoch, txn.BaseSequence, txn.Transactional = 1, 0, 0, true
	txn.Append(start.UnixMilli(), []byte("open"), []byte(strings.Repeat("y", 1200)), nil)
	raw, err := txn.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	open := mustAppend(t, l, p, raw)
	mustAppend(t, l, p, kvBatch(t, record.None, kv{"z", pad}))
	for range 2 {
		mustCompact(t, l)
		now.pass(2 * time.Hour)
	}
	b, err := l.Bounds(t.Context(), p)
	if err != nil || b.Stable != open.Base || b.Stable >= b.End {
		t.Fatalf("%+v %v", b, err)
	}
	ranges := []broker.FetchRange{{TP: p, From: 10, MaxBytes: 1 << 20}}
	opts := broker.FetchOptions{MinBytes: 1, MaxWait: time.Hour, Isolation: broker.ReadCommitted}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := l.Fetch(gone, ranges, opts); !errors.Is(err, context.Canceled) {
		t.Fatalf("nothing is there, and it does not wait: %d bytes, %v", len(got[0].Batches), err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.AppendMarker(t.Context(), p, broker.TxnMarker{ProducerID: 1, Commit: true})
		ended <- err
	}()
	got, err := l.Fetch(t.Context(), ranges, opts)
	if err != nil || got[0].Err != nil || len(got[0].Batches) == 0 {
		t.Fatalf("after the end: %v %v", got, err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// I3: who says which topic it means is not given the records of another one that has its name.
func TestFetchOfATopicMadeAgain(t *testing.T) {
	l := mustOpen(t, smallConfig(vfs.NewMem()))
	defer mustClose(t, l)
	var ids [2][16]byte
	for i := range ids {
		if i > 0 {
			if err := l.DeleteTopic(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
		in, err := l.CreateTopic(t.Context(), "t", broker.TopicConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = in.ID
		mustAppend(t, l, tp("t", 0), batchOf(t, "v"))
	}
	for id, want := range map[[16]byte]error{ids[0]: broker.ErrUnknownTopic, ids[1]: nil, {}: nil} {
		got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp("t", 0), ID: id}}, broker.FetchOptions{})
		if err != nil || !errors.Is(got[0].Err, want) || (want == nil) != (len(got[0].Batches) > 0) {
			t.Errorf("topic %x: %v %v, want %v", id, got, err, want)
		}
	}
}

// deletesOnOpen deletes records when a segment is opened for the first time.
type deletesOnOpen struct {
	vfs.FS
	before func()
}

func (d *deletesOnOpen) OpenRead(name string) (vfs.File, error) {
	if d.before != nil && path.Ext(name) == segment.LogSuffix {
		before := d.before
		d.before = nil
		before()
	}
	return d.FS.OpenRead(name)
}

// A time that is looked up while retention overtakes the look-up is found behind it: "out of range" is no answer to it.
func TestOffsetForTimeOvertaken(t *testing.T) {
	fsys := &deletesOnOpen{FS: vfs.NewMem()}
	l := mustOpen(t, smallConfig(fsys))
	defer mustClose(t, l)
	mustCreate(t, l, "t", broker.TopicConfig{})
	for i := range 12 { // three batches a segment
		b := record.NewBuilder(record.None)
		ms := start.UnixMilli() + int64(i)
		if i == 0 {
			ms += 50 // the first segment promises a time that its rest does not have
		}
		b.Append(ms, nil, make([]byte, 900), nil)
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, tp("t", 0), raw)
	}
	remove := func(before record.Offset) {
		if _, err := l.DeleteRecords(t.Context(), tp("t", 0), before); err != nil {
			t.Error(err)
		}
	}
	remove(1)
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	fsys.before = func() { remove(8) }
	if o, err := l.OffsetForTime(t.Context(), tp("t", 0), start.UnixMilli()+4); err != nil || o != 8 {
		t.Errorf("offset %d, %v; want 8", o, err)
	}
}
