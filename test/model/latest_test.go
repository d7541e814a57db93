package model

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// keyed appends records with few keys to all partitions; some have no value, some no key.
func (w *world) keyed(n int, newest map[string]string) {
	w.t.Helper()
	for range n {
		p := int32(w.rng.IntN(partitions))
		b := record.NewBuilder(record.LZ4)
		for range 1 + w.rng.IntN(20) {
			key, value := fmt.Appendf(nil, "k%d", w.rng.IntN(40)), fmt.Appendf(nil, `{"n":%d}`, w.rng.IntN(1e9))
			if w.rng.IntN(8) == 0 {
				value = nil
			}
			if w.rng.IntN(8) == 0 {
				key = nil
			}
			b.Append(1, key, value, nil)
			if key != nil {
				newest[fmt.Sprintf("%d/%s", p, key)] = string(value)
			}
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

// stateOf reads the state and checks that each partition's offsets grow.
func stateOf(t *testing.T, l *reader.LatestByKey) map[string]string {
	t.Helper()
	got, last := map[string]string{}, map[int32]int64{}
	for {
		rb, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rb.NumRows()) {
			p, o := rb.Column(0).(*array.Int32).Value(i), rb.Column(1).(*array.Int64).Value(i)
			k := fmt.Sprintf("%d/%s", p, rb.Column(2).(*array.Binary).Value(i))
			if before, ok := last[p]; ok && o <= before {
				t.Fatalf("offset %d after %d", o, before)
			}
			if _, ok := got[k]; ok {
				t.Fatalf("key %s comes twice", k)
			}
			last[p], got[k] = o, string(rb.Column(3).(*array.Binary).Value(i))
		}
	}
}

// The state is the newest value of each key wherever the seam lies and however little memory there is; what came
// after the state was fixed is not in it, and comes behind it to who follows (I4).
func TestLatestByKey(t *testing.T) {
	seedtest.Each(t, 20, func(t *testing.T, seed uint64) {
		w := newWorld(t, rand.New(rand.NewPCG(seed, 0)))
		newest := map[string]string{}
		w.keyed(w.rng.IntN(30), newest)
		w.tierWith(0)
		w.keyed(w.rng.IntN(30), newest)
		if w.rng.IntN(2) == 0 {
			w.retire()
		}
		cfg := reader.LatestByKeyConfig{Config: w.config(), Memory: []int64{0, 2000}[w.rng.IntN(2)], TempDir: t.TempDir(), KeepTombstones: w.rng.IntN(2) == 0}
		cfg.Partitions, cfg.BatchRows, cfg.Columns = nil, 1+w.rng.IntN(40), []string{"_partition", "_offset", "_key", "_value"}
		l, err := reader.OpenLatestByKey(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.keyed(3, map[string]string{}) // later than the state
		w.tierWith(0)
		if l.Keys() != int64(len(newest)) {
			t.Errorf("%d keys, want %d", l.Keys(), len(newest))
		}
		for k, v := range newest {
			if v == "" && !cfg.KeepTombstones {
				delete(newest, k)
			}
		}
		got := stateOf(t, l)
		if len(got) != len(newest) {
			t.Fatalf("%d keys in the state, want %d", len(got), len(newest))
		}
		for k, v := range newest {
			if got[k] != v {
				t.Fatalf("key %s is %q, want %q", k, got[k], v)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Behind the state every record comes, each once.
func TestLatestByKeyFollows(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(5, 5)))
	newest := map[string]string{}
	w.keyed(20, newest)
	w.tierWith(0)
	w.keyed(5, newest)
	cfg := reader.LatestByKeyConfig{Config: w.config()}
	cfg.Partitions, cfg.Follow, cfg.Columns = nil, true, []string{"n"}
	l, err := reader.OpenLatestByKey(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b := record.NewBuilder(record.None)
	for n := range 5 {
		b.Append(1, []byte("one key"), fmt.Appendf(nil, `{"n":%d}`, 2_000_000_000+n), nil)
	}
	raw, err := b.Build(0)
	if err == nil {
		_, err = w.log.Append(t.Context(), tp(0), raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	alive := 0
	for _, v := range newest {
		if v != "" {
			alive++
		}
	}
	state, later := 0, []int64{}
	for len(later) < 5 {
		rb, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rb.NumCols() != 1 || rb.ColumnName(0) != "n" {
			t.Fatalf("columns %v", rb.Schema())
		}
		for _, n := range rb.Column(0).(*array.Int64).Int64Values() {
			if n < 2_000_000_000 {
				state++
			} else {
				later = append(later, n-2_000_000_000)
			}
		}
	}
	wantRun(t, later, 0, 5)
	if state != alive || !l.Live() {
		t.Errorf("%d rows of the state, want %d; live: %v", state, alive, l.Live())
	}
}

// A table that keeps columns of the values alone does not say which keys are deleted: it is not read as if none was, and
// a filter says which they are.
func TestLatestByKeyWithoutValues(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(6, 6)))
	newest := map[string]string{}
	w.keyed(30, newest)
	w.tierWith(0)
	columns, err := table.Open(t.Context(), w.store, table.Config{Names: table.Names{Partition: "_partition", Offset: "_offset", Key: "_key"}})
	if err != nil {
		t.Fatal(err)
	}
	defer columns.Close()
	cfg := reader.LatestByKeyConfig{Config: reader.Config{Table: columns, Topic: topic, Columns: []string{"n"}}}
	if _, err := reader.OpenLatestByKey(t.Context(), cfg); !errors.Is(err, reader.ErrNoValues) {
		t.Fatalf("deleted keys are left out of a table that does not tell them: %v", err)
	}
	alive := 0
	for _, v := range newest {
		if v != "" {
			alive++
		}
	}
	cfg.KeepTombstones = true
	for where, want := range map[string]int{"": len(newest), "n IS NOT NULL": alive} {
		cfg.Where = where
		l, err := reader.OpenLatestByKey(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if rows := countRows(t, l.Next); rows != int64(want) {
			t.Errorf("where %q: %d rows, want %d of %d keys", where, rows, want, len(newest))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
