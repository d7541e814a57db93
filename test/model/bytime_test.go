package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// timedRecords appends records whose times grow, with some that are older than those before; it gives n -> the largest
// time so far of its partition.
func (w *world) timedRecords(n int, clock *int64, want map[int64]int64, last map[int32]int64) {
	w.t.Helper()
	for range n {
		p := int32(w.rng.IntN(partitions))
		b := record.NewBuilder(record.None)
		for range 1 + w.rng.IntN(15) {
			*clock += w.rng.Int64N(3)
			at := *clock
			if w.rng.IntN(10) == 0 {
				at -= 20
			}
			last[p] = max(last[p], at)
			want[int64(len(want))] = last[p]
			b.Append(at, []byte("k"), fmt.Appendf(nil, `{"n":%d}`, len(want)-1), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(w.t.Context(), tp(p), raw)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// By time, every record comes once, each partition in the order of its offsets (I4), and none before one that is older.
func TestReaderByTime(t *testing.T) {
	seedtest.Each(t, 20, func(t *testing.T, seed uint64) {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		clock, want, last := int64(1000), map[int64]int64{}, map[int32]int64{}
		w.timedRecords(w.rng.IntN(30), &clock, want, last)
		w.tierWith(0)
		w.timedRecords(w.rng.IntN(30), &clock, want, last)
		if w.rng.IntN(2) == 0 {
			w.retire()
		}
		cfg := reader.ByTimeConfig{Config: w.config()}
		cfg.Partitions, cfg.BatchRows = nil, 1+w.rng.IntN(20)
		if w.rng.IntN(2) == 0 {
			cfg.Columns = []string{"_partition", "_offset", "n"}
		}
		b, err := reader.OpenByTime(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		next, seen, at := map[int32]int64{}, 0, int64(0)
		for {
			rb, err := b.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			col := func(name string) int { return rb.Schema().FieldIndices(name)[0] }
			for j := range int(rb.NumRows()) {
				p, o := rb.Column(col("_partition")).(*array.Int32).Value(j), rb.Column(col("_offset")).(*array.Int64).Value(j)
				n := rb.Column(col("n")).(*array.Int64).Value(j)
				if o != next[p] || want[n] < at {
					t.Fatalf("partition %d offset %d (want %d) of time %d after %d", p, o, next[p], want[n], at)
				}
				next[p], at = o+1, want[n]
				seen++
			}
			if got := b.Watermark(); !got.Equal(time.UnixMilli(at)) {
				t.Fatalf("watermark %v, want %v", got, time.UnixMilli(at))
			}
		}
		if seen != len(want) {
			t.Fatalf("%d records, want %d", seen, len(want))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A read in the order of time that stops anywhere goes on from its token as if it had not: the same rows in the same order,
// each once (I4).
func TestReaderByTimeGoesOn(t *testing.T) {
	seedtest.Each(t, 20, func(t *testing.T, seed uint64) {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		clock, want, last := int64(1000), map[int64]int64{}, map[int32]int64{}
		w.timedRecords(1+w.rng.IntN(30), &clock, want, last)
		w.tierWith(0)
		w.timedRecords(w.rng.IntN(30), &clock, want, last)
		cfg := reader.ByTimeConfig{Config: w.config()}
		cfg.Partitions, cfg.Columns = nil, [][]string{nil, {"n"}}[w.rng.IntN(2)]
		whole, _ := w.someByTime(cfg)
		var pieces []int64
		for len(pieces) < len(whole) {
			cfg.MaxRows, cfg.BatchRows = 1+w.rng.Int64N(int64(len(whole))), 1+w.rng.IntN(20)
			got, token := w.someByTime(cfg)
			pieces = append(pieces, got...)
			var err error
			if cfg.From, err = reader.AtToken(token, cfg.Topic); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(pieces, whole) {
			t.Fatalf("in pieces\n%v\nat once\n%v", pieces, whole)
		}
	})
}

// someByTime gives the numbers of a read, and the token behind it.
func (w *world) someByTime(cfg reader.ByTimeConfig) (got []int64, token string) {
	w.t.Helper()
	b, err := reader.OpenByTime(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		rb, err := b.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, rb.Column(rb.Schema().FieldIndices("n")[0]).(*array.Int64).Int64Values()...)
	}
	token = b.Token()
	if err := b.Close(); err != nil {
		w.t.Fatal(err)
	}
	return got, token
}

// While the log is followed, a partition where nothing happens holds the others back for a while only.
func TestReaderByTimeIdle(t *testing.T) {
	w := filled(t, 30, 10) // partition 0 alone has records
	cfg := reader.ByTimeConfig{Config: w.config(), Idle: time.Millisecond}
	cfg.Partitions, cfg.Follow, cfg.MaxWait = nil, true, time.Millisecond
	b, err := reader.OpenByTime(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for len(got) < 30 {
		rb, err := b.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rb.Column(1).(*array.Int64).Int64Values()...)
	}
	wantRun(t, got, 0, 30)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// All partitions together keep to a number of rows and to a rate, and gaps of several partitions are told one at a time.
func TestReaderByTimeIsOneRead(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	for p := range int32(partitions) {
		b := record.NewBuilder(record.None)
		for n := range 20 {
			b.Append(int64(1000+n), nil, []byte("no JSON"), nil)
			b.Append(int64(1000+n), nil, fmt.Appendf(nil, `{"n":%d}`, n), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(t.Context(), tp(p), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, rows := range []int64{0, 1, 7, 20*partitions + 5} {
		var inside atomic.Int32
		gaps := map[int32]int{} // unguarded: the race detector sees two at once
		cfg := reader.ByTimeConfig{Config: w.config()}
		cfg.Partitions, cfg.MaxRows, cfg.Rate = nil, rows, reader.Rate{Records: 100_000, Bytes: 1 << 30}
		cfg.OnGap = func(g reader.Gap) {
			if inside.Add(1) > 1 {
				t.Error("gaps are told by two goroutines at once")
			}
			for range 10 {
				runtime.Gosched()
			}
			gaps[g.Partition]++
			inside.Add(-1)
		}
		b, err := reader.OpenByTime(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		want, got := int64(20*partitions), int64(0)
		if rows > 0 {
			want = min(want, rows)
		}
		for {
			rb, err := b.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got += rb.NumRows()
		}
		if err := b.Close(); err != nil || got != want {
			t.Errorf("%d rows with a bound of %d, want %d (%v)", got, rows, want, err)
		}
		if rows == 0 && (len(gaps) != partitions || gaps[0] != 20) {
			t.Errorf("gaps %v", gaps)
		}
	}
	cfg := reader.ByTimeConfig{Config: w.config()}
	cfg.Rate = reader.Rate{Records: 1000}
	b, err := reader.OpenByTime(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if rb, err := b.Next(t.Context()); err != nil || rb.NumRows() > 100 {
		t.Fatal("a batch is more than a tenth of a second's", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the next batch is due later, and a read that is called off gives %v", err)
	}
}

// A read whose own context has ended says so, at once and ever again, instead of waiting for batches that nobody reads.
func TestByTimeEndsWithItsContext(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(1, 0)))
	clock := int64(1000)
	w.timedRecords(30, &clock, map[int64]int64{}, map[int32]int64{})
	for _, several := range []bool{false, true} {
		for _, waiting := range []bool{false, true} {
			cfg := reader.ByTimeConfig{Config: w.config(), Idle: time.Hour}
			cfg.Partitions, cfg.Follow, cfg.Until = nil, true, reader.Bound{}
			ctx, cancel := context.WithCancel(t.Context())
			b, err := reader.OpenByTime(ctx, cfg)
			if several {
				b, err = reader.OpenTopicsByTime(ctx, reader.TopicsConfig{Streams: []reader.Stream{{Config: cfg.Config}}}, cfg.Idle)
			}
			if err != nil {
				t.Fatal(err)
			}
			if waiting {
				time.AfterFunc(50*time.Millisecond, cancel)
			} else {
				cancel()
			}
			limit, stop := context.WithTimeout(t.Context(), time.Minute)
			for err = nil; err == nil; {
				_, err = b.Next(limit)
			}
			_, again := b.Next(limit)
			if limit.Err() != nil || !errors.Is(err, context.Canceled) || !errors.Is(again, context.Canceled) {
				t.Errorf("several %v, waiting %v: %v, then %v", several, waiting, err, again)
			}
			stop()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
