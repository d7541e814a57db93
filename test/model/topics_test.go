package model

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// several are worlds whose topics are read as one.
func several(t *testing.T, rng *rand.Rand) (worlds []*world) {
	for range 1 + rng.IntN(3) {
		w := newWorld(t, rng)
		for range rng.IntN(30) {
			[]func(){w.produce, w.produce, w.tier, w.retire, w.optimize}[rng.IntN(5)]()
		}
		worlds = append(worlds, w)
	}
	return worlds
}

func streamsOf(worlds []*world) (out []reader.Stream) {
	for i, w := range worlds {
		out = append(out, reader.Stream{Name: fmt.Sprint("w", i), Config: reader.Config{Table: w.table, Source: w.log, Topic: topic, BatchRows: 1 + w.rng.IntN(20)}})
	}
	return out
}

// next checks that rows are the ones that are due in their topic and partition, bad values left out (I4).
func (w *world) next(next map[int32]record.Offset, rb arrow.RecordBatch, row int) {
	w.t.Helper()
	col := func(name string) arrow.Array { return rb.Column(rb.Schema().FieldIndices(name)[0]) }
	p, o := col("_partition").(*array.Int32).Value(row), record.Offset(col("_offset").(*array.Int64).Value(row))
	for next[p] < o && w.want[p][next[p]].bad {
		next[p]++
	}
	if o != next[p] || string(col("_value").(*array.Binary).Value(row)) != w.want[p][o].value {
		w.fail("partition %d gives offset %d, want %d", p, o, next[p])
	}
	next[p]++
}

// over checks that nothing but bad values is left.
func (w *world) over(next map[int32]record.Offset) {
	w.t.Helper()
	for p, entries := range w.want {
		for _, e := range entries[next[int32(p)]:] {
			if !e.bad {
				w.fail("partition %d ended at %d of %d", p, next[int32(p)], len(entries))
			}
		}
	}
}

// Several topics in one reader: each comes whole and in its order, also when it is read in pieces that go on from a
// token (I4).
func TestReaderOfSeveralTopics(t *testing.T) {
	overSeeds(t, 30, func(t *testing.T, seed uint64) *world {
		worlds := several(t, rand.New(rand.NewPCG(seed, 9)))
		rng := worlds[0].rng
		next := make([]map[int32]record.Offset, len(worlds))
		for i := range next {
			next[i] = map[int32]record.Offset{}
		}
		cfg := reader.TopicsConfig{Streams: streamsOf(worlds)}
		for ended := false; !ended; {
			cfg.MaxRows = int64(1 + rng.IntN(40))
			rows, stop := 0, rng.IntN(60)
			r, err := reader.OpenTopics(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for rows < stop {
				rb, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					ended = int64(rows) < cfg.MaxRows
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				names := rb.Column(rb.Schema().FieldIndices(reader.TopicColumn)[0]).(*array.String)
				for row := range int(rb.NumRows()) {
					i := int(names.Value(row)[1] - '0')
					if names.Value(row) != r.Name() {
						t.Fatalf("a row of %s in a batch of %s", names.Value(row), r.Name())
					}
					worlds[i].next(next[i], rb, row)
				}
				rows += int(rb.NumRows())
			}
			if int64(rows) > cfg.MaxRows {
				t.Fatalf("%d rows, the limit was %d", rows, cfg.MaxRows)
			}
			cfg.Token = r.Token()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i, w := range worlds {
			w.over(next[i])
			w.starts = starts{1, 1} // this test counts none
		}
		return worlds[0]
	})
}

// In the order of time each topic comes whole too, and no record before one that is older than those before it.
func TestReaderOfSeveralTopicsByTime(t *testing.T) {
	overSeeds(t, 20, func(t *testing.T, seed uint64) *world {
		worlds := several(t, rand.New(rand.NewPCG(seed, 10)))
		next := make([]map[int32]record.Offset, len(worlds))
		for i := range next {
			next[i] = map[int32]record.Offset{}
		}
		r, err := reader.OpenTopicsByTime(t.Context(), reader.TopicsConfig{Streams: streamsOf(worlds)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		for {
			rb, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names := rb.Column(rb.Schema().FieldIndices(reader.TopicColumn)[0]).(*array.String)
			times := rb.Column(rb.Schema().FieldIndices("_timestamp")[0]).(*array.Timestamp)
			for row := range int(rb.NumRows()) {
				i := int(names.Value(row)[1] - '0')
				worlds[i].next(next[i], rb, row)
				if now := int64(times.Value(row)); now < at {
					t.Fatalf("time %d after %d", now, at)
				} else {
					at = now
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for i, w := range worlds {
			w.over(next[i])
			w.starts = starts{1, 1}
		}
		return worlds[0]
	})
}

// Columns come together by name; what cannot is refused with a remedy, and tokens of other reads are too.
func TestReaderOfSeveralTopicsRefusals(t *testing.T) {
	w := filled(t, 30, 10)
	one := reader.Config{Table: w.table, Source: w.log, Topic: topic}
	alone := reader.Config{Source: w.log, Topic: topic} // without a table: no column n
	r, err := reader.OpenTopics(t.Context(), reader.TopicsConfig{Streams: []reader.Stream{{Name: "a", Config: one}, {Name: "b", Config: alone}}, Columns: []string{"n", "_topic", "_value"}})
	if err != nil {
		t.Fatal(err)
	}
	rows, nulls := map[string]int{}, 0
	for {
		rb, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(rb.Schema().Field(0).Name, rb.Schema().Field(1).Name, rb.Schema().Field(2).Name); got != "n_topic_value" {
			t.Fatalf("columns %s", got)
		}
		rows[rb.Column(1).(*array.String).Value(0)] += int(rb.NumRows())
		nulls += rb.Column(0).NullN()
	}
	token := r.Token()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if rows["a"] != 30 || rows["b"] != 30 || nulls != 30 {
		t.Errorf("%v rows, %d without n", rows, nulls)
	}
	if _, err := reader.AtToken(token, topic); !errors.Is(err, reader.ErrBadToken) {
		t.Errorf("a token of several as one of a topic: %v", err)
	}
	for name, cfg := range map[string]reader.TopicsConfig{
		"a name twice":       {Streams: []reader.Stream{{Config: one}, {Config: one}}},
		"none":               {},
		"an unknown column":  {Streams: []reader.Stream{{Config: one}}, Columns: []string{"nope"}},
		"a token of others":  {Streams: []reader.Stream{{Config: one}}, Token: token},
		"a token of one":     {Streams: []reader.Stream{{Config: one}}, Token: open(t, one).Token()},
		"too few of a token": {Streams: []reader.Stream{{Name: "a", Config: one}}, Token: token},
	} {
		if r, err := reader.OpenTopics(t.Context(), cfg); err == nil {
			t.Errorf("%s: accepted", name)
			_ = r.Close()
		}
	}
}
