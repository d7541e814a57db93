package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
)

// A filter gives the same rows on both sides of the seam, in order, and the cursor stands behind what it left out (I4).
func TestReaderWhere(t *testing.T) {
	w := filled(t, 100, 50)
	for _, c := range []struct {
		where string
		keep  func(n int64) bool
	}{
		{"n >= 40 AND n < 60", func(n int64) bool { return n >= 40 && n < 60 }},
		{"n = 49 OR n = 50 OR _offset = 99", func(n int64) bool { return n == 49 || n == 50 || n == 99 }},
		{"_timestamp >= '1970-01-01T00:00:01.045Z' AND n NOT IN (47, 70)", func(n int64) bool { return n >= 45 && n != 47 && n != 70 }},
		{"_value = '{\"n\":7}'", func(n int64) bool { return n == 7 }},
		{"n IS NULL", func(int64) bool { return false }},
	} {
		var want []int64
		for n := range int64(100) {
			if c.keep(n) {
				want = append(want, n)
			}
		}
		for _, columns := range [][]string{nil, {"_partition", "_offset"}} {
			cfg := w.config()
			cfg.Where, cfg.Columns, cfg.BatchRows = c.where, columns, 7
			cfg.OnGap = func(g reader.Gap) { t.Errorf("%s: gap %+v", c.where, g) }
			cur := open(t, cfg)
			var got []int64
			for rb, err := range cur.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if columns != nil && int(rb.NumCols()) != len(columns) {
					t.Fatalf("%d columns", rb.NumCols())
				}
				got = append(got, rb.Column(1).(*array.Int64).Int64Values()...)
			}
			if !slices.Equal(got, want) || cur.Position()[0] != 100 {
				t.Errorf("%s: %v at %v, want %v", c.where, got, cur.Position(), want)
			}
		}
	}
	cfg := w.config()
	cfg.Where = "nothing = 3"
	if _, err := reader.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an unknown column: %v", err)
	}
}

// Random filters, resumed from tokens and cut by MaxRows, give what an unfiltered read gives (I4).
func TestReaderWhereAtRandom(t *testing.T) {
	w := filled(t, 200, 120)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 1))
	for range 60 {
		a, b, limit := rng.Int64N(200), rng.Int64N(200), 1+rng.Int64N(30)
		var got []int64
		cfg := w.config()
		cfg.Where, cfg.MaxRows, cfg.BatchRows = fmt.Sprintf("n BETWEEN %d AND %d OR n = %d", a, b, a/2), limit, 1+rng.IntN(20)
		for {
			c := open(t, cfg)
			rows := offsets(t, c)
			if int64(len(rows)) > limit {
				t.Fatalf("%d rows, at most %d were asked for", len(rows), limit)
			}
			got = append(got, rows...)
			if int64(len(rows)) < limit {
				break
			}
			from, err := reader.AtToken(c.Token(), topic)
			if err != nil {
				t.Fatal(err)
			}
			cfg.From = from
		}
		var want []int64
		for n := range int64(200) {
			if n >= a && n <= b || n == a/2 {
				want = append(want, n)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s in pieces of %d: %v, want %v", cfg.Where, limit, got, want)
		}
	}
}

// A plan names the seam, the lost offsets, and the files that a read touches.
func TestReaderPlan(t *testing.T) {
	w := filled(t, 100, 50)
	cfg := w.config()
	cfg.From = reader.AtOffsets(map[int32]record.Offset{0: 10})
	p, err := open(t, cfg).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Partitions) != 1 || p.Partitions[0].From != 10 || p.Partitions[0].Seam != 50 || p.Partitions[0].Until != 100 {
		t.Errorf("partitions %+v", p.Partitions)
	}
	if p.Version < 1 || p.OfFiles < 1 || len(p.Files) == 0 || len(p.Files) > p.OfFiles || p.Rows < 40 {
		t.Errorf("plan %+v", p)
	}
	for _, f := range p.Files {
		if f.Chosen == nil || f.Chosen.Groups != 1 || f.Chosen.OfGroups != 1 || f.Rows < 1 || f.Bytes < 1 || len(f.Ranges) == 0 {
			t.Errorf("file %+v", f)
		}
	}
	cfg.Where = "n > 1000"
	if p, err = open(t, cfg).Plan(t.Context()); err != nil || len(p.Files) != 0 {
		t.Errorf("a filter that no file can match: %+v, %v", p.Files, err)
	}
}
