package model

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// compacting is a log whose cleaner takes a batch out, once it is told to.
type compacting struct {
	broker.Source
	base record.Offset // of the batch
	ran  atomic.Bool
}

func (c *compacting) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := c.Source.Fetch(ctx, ranges, opts)
	if err != nil || !c.ran.Load() {
		return got, err
	}
	for i := range got {
		var keep []byte
		for raw := got[i].Batches; len(raw) > 0; {
			b, err := record.ReadBatch(raw)
			if err != nil {
				return nil, err
			}
			if b.BaseOffset != c.base {
				keep = append(keep, raw[:b.Size()]...)
			}
			raw = raw[b.Size():]
		}
		got[i].Batches = keep
	}
	return got, nil
}

func (w *world) single(key, value string) {
	w.t.Helper()
	b := record.NewBuilder(record.None)
	b.Append(1000, []byte(key), []byte(value), nil)
	raw, err := b.Build(0)
	if err == nil {
		_, err = w.log.Append(w.t.Context(), tp(0), raw)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A record of the state that the cleaner takes while the state is read is never left out in silence: the read ends with
// an error that says so, or gives the newer record too (I4).
func TestLatestByKeyOfALogThatIsCompacted(t *testing.T) {
	for name, c := range map[string]struct {
		where       string
		follow      bool
		skipMissing bool
		compact     bool
		rows        int // of the first table column, n
		fails       bool
	}{
		"untouched":             {rows: 4},
		"untouched, filtered":   {where: "n >= 2", rows: 3},
		"compacted":             {compact: true, fails: true},
		"compacted, filtered":   {compact: true, where: "n >= 2", fails: true},
		"compacted, left out":   {compact: true, where: "n > 100", fails: true}, // nobody knows what the record was
		"compacted, followed":   {compact: true, follow: true, rows: 4},
		"compacted, as allowed": {compact: true, skipMissing: true, rows: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
			w.single("old", `{"n":1}`)
			w.single("kept", `{"n":2}`)
			w.tierWith(0)
			w.single("a", `{"n":3}`) // offset 2, in the log alone
			w.single("b", `{"n":4}`)
			src := &compacting{Source: w.log, base: 2}
			cfg := w.config()
			cfg.Source, cfg.Partitions, cfg.Where, cfg.Follow, cfg.SkipMissing, cfg.Columns = src, []int32{0}, c.where, c.follow, c.skipMissing, []string{"n"}
			l, err := reader.OpenLatestByKey(t.Context(), reader.LatestByKeyConfig{Config: cfg})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			if c.compact {
				w.single("a", `{"n":5}`) // behind the state
				src.ran.Store(true)
			}
			var got []int64
			for err == nil && (!c.follow || len(got) < c.rows) {
				var rb arrow.RecordBatch
				if rb, err = l.Next(t.Context()); err == nil {
					got = append(got, rb.Column(0).(*array.Int64).Int64Values()...)
				}
			}
			switch {
			case c.fails:
				if !errors.Is(err, reader.ErrStateCompacted) {
					t.Errorf("rows %v, then %v", got, err)
				}
			case !c.follow && !errors.Is(err, io.EOF), len(got) != c.rows:
				t.Errorf("rows %v, then %v; want %d rows", got, err, c.rows)
			case c.follow && got[3] != 5:
				t.Errorf("rows %v: the newer record does not come", got)
			}
		})
	}
}
