package model

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Between two versions of a table lies what came after the first and is in the second, with positions and without, whatever
// came since; behind a version the stream goes on over the seam (I4).
func TestReaderAtVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	w := newWorld(t, rng)
	type place struct {
		version deltalog.Version
		ends    [partitions]record.Offset
		records int64
	}
	var places []place
	clock, want, last := int64(1000), map[int64]int64{}, map[int32]int64{}
	for range 6 {
		w.timedRecords(1+rng.IntN(10), &clock, want, last)
		w.tierWith(0)
		snap, err := w.table.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := place{version: snap.Version(), records: int64(len(want))}
		for i := range p.ends {
			p.ends[i], _ = table.LakeEnd(snap, topic, int32(i))
		}
		places = append(places, p)
	}
	w.timedRecords(5, &clock, want, last)
	mapped, err := table.Open(t.Context(), w.store, table.Config{Names: table.DefaultNames()})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Log.Close()
	for i, from := range places {
		for _, until := range places[i:] {
			for name, cfg := range map[string]reader.Config{"with its log": w.config(), "alone": {Table: w.table, App: topic}, "by its rows": {Table: mapped}} {
				cfg.From, cfg.Until, cfg.Partitions, cfg.Columns = reader.AtVersion(from.version), reader.AtVersion(until.version), nil, nil
				c := open(t, cfg)
				for p, o := range c.Position() {
					if o != from.ends[p] {
						t.Fatalf("%s: behind version %d partition %d begins at %d, want %d", name, from.version, p, o, from.ends[p])
					}
				}
				if got := countRows(t, c.Next); got != until.records-from.records {
					t.Fatalf("%s: %d rows between versions %d and %d, want %d", name, got, from.version, until.version, until.records-from.records)
				}
			}
		}
		cfg := w.config()
		cfg.From, cfg.Partitions = reader.AtVersion(from.version), nil
		if got := countRows(t, open(t, cfg).Next); got != int64(len(want))-from.records {
			t.Fatalf("behind version %d: %d rows, want %d", from.version, got, int64(len(want))-from.records)
		}
	}
	cfg := w.config()
	cfg.Table, cfg.Names, cfg.From = nil, table.DefaultNames(), reader.AtVersion(1)
	if _, err := reader.Open(t.Context(), cfg); !errors.Is(err, reader.ErrBadRequest) {
		t.Errorf("a version of no table: %v", err)
	}
}
