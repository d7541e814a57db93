package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

func plainValue(o record.Offset) []byte {
	switch o % 7 {
	case 3:
		return nil // a tombstone
	case 5:
		return []byte{}
	}
	return fmt.Appendf(nil, "value %d", o)
}

var tp0 = record.TopicPartition{Topic: "t"}

// fetched checks the records of an answer against plainValue and gives their offsets.
func fetched(t testing.TB, batches []byte) []record.Offset {
	t.Helper()
	var out []record.Offset
	var it record.Iterator
	for len(batches) > 0 {
		b, err := record.ReadBatch(batches)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.VerifyCRC(); err != nil {
			t.Fatal(err)
		}
		batches = batches[b.Size():]
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			r := it.Record()
			want := plainValue(r.Offset)
			if string(r.Value) != string(want) || (r.Value == nil) != (want == nil) || string(r.Key) != fmt.Sprintf("key-%d", r.Offset) ||
				r.Timestamp != 1000+int64(r.Offset) || len(r.Headers) != 1 || string(r.Headers[0].Key) != "trace" || string(r.Headers[0].Value) != fmt.Sprint(r.Offset) {
				t.Fatalf("record %d is %+v", r.Offset, r)
			}
			out = append(out, r.Offset)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return out
}

// replay fetches from an offset to the end of the table and gives all offsets.
func replay(t testing.TB, h *History, tp record.TopicPartition, from record.Offset, maxBytes int) []record.Offset {
	t.Helper()
	var out []record.Offset
	for {
		batches, next, err := h.Fetch(t.Context(), tp, from, maxBytes)
		if err != nil {
			t.Fatalf("fetch at %d: %v", from, err)
		}
		if next == from {
			if len(batches) > 0 {
				t.Fatalf("offset %d: batches without progress", from)
			}
			return out
		}
		got := fetched(t, batches)
		if n := len(got); n > 0 && (got[0] < from || got[n-1] >= next) {
			t.Fatalf("asked for %d, got %d to %d, next %d", from, got[0], got[n-1], next)
		}
		out = append(out, got...)
		from = next
	}
}

func wantOffsets(t testing.TB, got []record.Offset, ranges ...[2]record.Offset) {
	t.Helper()
	i := 0
	for _, r := range ranges {
		for o := r[0]; o < r[1]; o++ {
			if i >= len(got) || got[i] != o {
				t.Fatalf("record %d of %d is not offset %d", i, len(got), o)
			}
			i++
		}
	}
	if i != len(got) {
		t.Fatalf("%d records, want %d", len(got), i)
	}
}

// A consumer that reads on uses one scan, whatever the size of its fetches, and gets each record once (I4).
func TestHistoryStreams(t *testing.T) {
	l := newLake(t)
	l.add(t, 0, 0, 500, plainValue)
	l.add(t, 0, 500, 1, plainValue)
	l.add(t, 0, 600, 3000, plainValue) // after a hole
	h := l.history(t, HistoryConfig{MaxStale: time.Hour})
	for _, size := range []int{1, 700, 1 << 20} {
		replay(t, h, tp0, 3500, size) // the snapshot is known from here on
		lists := countLists(l)
		wantOffsets(t, replay(t, h, tp0, 0, size), [2]record.Offset{0, 501}, [2]record.Offset{600, 3600})
		if n := countLists(l) - lists; n > 1 {
			t.Errorf("fetches of %d bytes listed the log %d times", size, n)
		}
		if n := len(h.streams.idle); n != 0 {
			t.Errorf("%d streams are left after the end", n)
		}
	}
	if h.streams.memory != 0 {
		t.Errorf("%d bytes are counted for no stream", h.streams.memory)
	}
}

func countLists(l *lake) int { return int(l.lists.Load()) }

// Random fetches of several consumers at once are right, while streams are evicted under them (I4).
func TestHistoryAtRandom(t *testing.T) {
	seed := seedtest.New(t)
	l := newLake(t)
	for p := range int32(3) {
		for f := range record.Offset(4) {
			l.add(t, p, f*400, 400, plainValue)
		}
	}
	h := l.history(t, HistoryConfig{MaxStreams: 3, MemoryBudget: 3 * (scanCostBase + 1<<20), Idle: time.Millisecond})
	var wg sync.WaitGroup
	for g := range uint64(6) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, g))
			for range 40 {
				tp := record.TopicPartition{Topic: "t", Partition: rng.Int32N(3)}
				from := record.Offset(rng.IntN(1600))
				for range 1 + rng.IntN(4) {
					batches, next, err := h.Fetch(t.Context(), tp, from, 1+rng.IntN(20_000))
					if err != nil {
						t.Error(err)
						return
					}
					if from < 1600 {
						wantOffsets(t, fetched(t, batches), [2]record.Offset{from, next})
					}
					from = next
				}
			}
		})
	}
	wg.Wait()
	if err := h.Close(); err != nil || h.streams.memory != 0 || len(h.streams.idle) != 0 {
		t.Errorf("after Close: %d bytes, %d streams, %v", h.streams.memory, len(h.streams.idle), err)
	}
	if _, _, err := h.Fetch(t.Context(), tp0, 0, 1); !errors.Is(err, errHistoryClosed) {
		t.Errorf("Fetch after Close = %v", err)
	}
}

// What the table got since the last look is found at once, however old a snapshot may be.
func TestHistoryGrows(t *testing.T) {
	l := newLake(t)
	h := l.history(t, HistoryConfig{MaxStale: time.Hour})
	if _, ok := h.Start(t.Context(), tp0); ok {
		t.Error("an empty table has a start")
	}
	l.add(t, 0, 0, 100, plainValue)
	if _, ok := h.Start(t.Context(), tp0); !ok {
		t.Error("no start")
	}
	wantOffsets(t, replay(t, h, tp0, 0, 1000), [2]record.Offset{0, 100})
	for i := range record.Offset(5) {
		from := 100 + i*10
		l.add(t, 0, from, 10, plainValue)
		wantOffsets(t, replay(t, h, tp0, from, 100), [2]record.Offset{from, from + 10})
	}
	l.ends[0] = 200 // a hole at the end
	l.commit(t, deltalog.Commit{})
	if _, next, err := h.Fetch(t.Context(), tp0, 150, 1000); next != 200 || err != nil {
		t.Errorf("a hole at the end: next %d, %v", next, err)
	}
}

// A table that cannot be looked at now is never called empty: consumers would go on behind what it has (I4).
func TestHistoryInDoubt(t *testing.T) {
	l := newLake(t)
	l.add(t, 0, 0, 100, plainValue)
	open := false
	h, err := NewHistory(HistoryConfig{Table: func(string) (*table.Table, bool) { return l.table, open }, Opening: func(string) bool { return !open }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	doubt := func(when string) {
		t.Helper()
		if at, ok := h.Start(t.Context(), tp0); at != 0 || !ok {
			t.Errorf("%s: the start is %d, %v", when, at, ok)
		}
		if _, _, err := h.Fetch(t.Context(), tp0, 5, 100); err == nil {
			t.Errorf("%s: a fetch gives no error", when)
		}
	}
	doubt("before the table is open")
	open = true
	l.store.SetHook(func(context.Context, mem.Call) mem.Fault { return mem.Fault{Before: errors.New("bad weather")} })
	doubt("while the store has a fault")
	l.store.SetHook(nil)
	wantOffsets(t, replay(t, h, tp0, 0, 1000), [2]record.Offset{0, 100})
}

// rewrite puts the rows of files into one new file, as optimize does, and removes the old files, as vacuum does.
func (l *lake) rewrite(t testing.TB, from record.Offset, n int, old ...deltalog.Add) {
	t.Helper()
	add := l.write(t, 0, from, n, plainValue)
	add.DataChange = false
	c := deltalog.Commit{Adds: []deltalog.Add{add}}
	for i := range old {
		c.Removes = append(c.Removes, deltalog.RemoveOf(&old[i], 1, false))
	}
	l.commit(t, c)
	for _, a := range old {
		if err := l.store.Delete(t.Context(), a.Path); err != nil {
			t.Fatal(err)
		}
	}
}

// Files that are rewritten and removed under a scan cost it nothing: it goes on from where it stands (I4, I6).
func TestFilesGoneUnderAScan(t *testing.T) {
	l := newLake(t)
	var adds []deltalog.Add
	for f := range record.Offset(30) {
		adds = append(adds, l.add(t, 0, f*100, 100, plainValue))
	}
	h := l.history(t, HistoryConfig{})
	batches, next, err := h.Fetch(t.Context(), tp0, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got := fetched(t, batches)
	c, err := Open(t.Context(), Config{Table: l.table, App: "t", ReadAhead: 1, BatchRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.rewrite(t, 0, 3000, adds...)
	wantOffsets(t, append(got, replay(t, h, tp0, next, 1000)...), [2]record.Offset{0, 3000})
	at := record.Offset(64)
	for r, err := range c.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != at {
			t.Fatalf("offset %d, want %d", r.Offset, at)
		}
		at++
	}
	if at != 3000 {
		t.Errorf("the cursor ended at %d", at)
	}
}

// A file that is missing without a newer version is an error that stays.
func TestFileMissing(t *testing.T) {
	l := newLake(t)
	l.add(t, 0, 0, 100, plainValue)
	gone := l.add(t, 0, 100, 100, plainValue)
	if err := l.store.Delete(t.Context(), gone.Path); err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), Config{Table: l.table, App: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for err == nil {
		_, err = c.Next(t.Context())
	}
	if _, again := c.Next(t.Context()); again == nil || again.Error() != err.Error() || c.Position()[0] > 100 {
		t.Errorf("at %v: %v, then %v", c.Position(), err, again)
	}
}

// Streams that nobody reads on are closed, the number of the others is bounded.
func TestHistoryExpires(t *testing.T) {
	l := newLake(t)
	for p := range int32(4) {
		l.add(t, p, 0, 5000, plainValue)
	}
	synctest.Test(t, func(t *testing.T) {
		h := l.history(t, HistoryConfig{MaxStreams: 3, Idle: time.Minute})
		fetch := func(p int32) {
			if _, _, err := h.Fetch(t.Context(), record.TopicPartition{Topic: "t", Partition: p}, 0, 100); err != nil {
				t.Fatal(err)
			}
		}
		count := func() (n int) {
			h.streams.mu.Lock()
			defer h.streams.mu.Unlock()
			return len(h.streams.idle)
		}
		for p := range int32(4) {
			fetch(p)
			<-time.After(10 * time.Second)
		}
		if n := count(); n != 3 {
			t.Errorf("%d streams", n)
		}
		<-time.After(35 * time.Second) // the second one is 65 s old, the third 55 s
		synctest.Wait()
		if n := count(); n != 2 {
			t.Errorf("%d streams, want 2", n)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := count(); n != 0 || h.streams.memory != 0 || h.streams.timer != nil {
			t.Errorf("%d streams, %d bytes, timer %v", n, h.streams.memory, h.streams.timer)
		}
	})
}

// The memory of scans is bounded: one more waits, and goes on when another is given back (I8).
func TestHistoryBudget(t *testing.T) {
	x := newStreamSet(HistoryConfig{MemoryBudget: 100, MaxStreams: 10, Idle: time.Hour})
	a, b, big := &stream{cost: 60}, &stream{cost: 50}, &stream{cost: 1000}
	if err := x.admit(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.admit(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("admitted beyond the budget: %v", err)
	}
	done := make(chan error)
	go func() { done <- x.admit(t.Context(), b) }()
	x.give(a) // idle: it makes room
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if x.memory != 50 || len(x.idle) != 0 {
		t.Errorf("%d bytes, %d idle", x.memory, len(x.idle))
	}
	go func() { done <- x.admit(t.Context(), big) }()
	x.drop(b)
	if err := <-done; err != nil { // larger than the budget: alone
		t.Fatal(err)
	}
}

// OffsetForTime gives the first offset with a timestamp at or after, also where times go back.
func TestHistoryTimes(t *testing.T) {
	l := newLake(t)
	times := []int64{50, 20, 70, 10, 90, 60, 95}
	l.times = func(o record.Offset) int64 { return times[o] }
	l.add(t, 0, 0, 3, plainValue)
	l.add(t, 0, 3, 2, plainValue)
	l.add(t, 0, 5, 2, plainValue)
	h := l.history(t, HistoryConfig{})
	for ms := int64(0); ms < 100; ms++ {
		want := record.Offset(-1)
		for i, v := range times {
			if v >= ms {
				want = record.Offset(i)
				break
			}
		}
		got, ok, err := h.OffsetForTime(t.Context(), tp0, ms)
		if err != nil || ok != (want >= 0) || ok && got != want {
			t.Errorf("time %d: offset %d, %v, %v; want %d", ms, got, ok, err, want)
		}
	}
}

// A hole that one batch cannot span ends the batch.
func TestHistoryWideHole(t *testing.T) {
	l := newLake(t)
	far := record.Offset(math.MaxInt32) + 10
	l.add(t, 0, 0, 10, plainValue)
	l.add(t, 0, far, 10, plainValue)
	h := l.history(t, HistoryConfig{})
	wantOffsets(t, replay(t, h, tp0, 0, 1<<20), [2]record.Offset{0, 10}, [2]record.Offset{far, far + 10})
}

// Consumers of many partitions of a folder read on in their scans, however large the files are: a scan that is closed for want of
// memory is begun again at the next Fetch, which costs more than the records.
func TestHistoryKeepsScansOfManyPartitions(t *testing.T) {
	store, err := dir.Open(dir.Config{Root: t.TempDir(), FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.Create(t.Context(), store, nil, table.Config{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tab.Close() })
	l := &lake{table: tab, ends: map[int32]record.Offset{}}
	random, value := rand.NewChaCha8([32]byte{1}), make([]byte, 1000)
	const partitions = 12
	for p := range int32(partitions) {
		l.add(t, p, 0, 4000, func(record.Offset) []byte { _, _ = random.Read(value); return value })
	}
	h := l.history(t, HistoryConfig{MaxStale: time.Hour})
	for p := range int32(partitions) {
		if _, next, err := h.Fetch(t.Context(), record.TopicPartition{Topic: "t", Partition: p}, 0, 1<<20); err != nil || next == 0 {
			t.Fatal(next, err)
		}
	}
	if n := len(h.streams.idle); n != partitions {
		t.Errorf("%d scans of %d are open", n, partitions)
	}
}
