package record

import (
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// FirstAt finds the record that a walk over all of them finds, with the broker's time as well.
func TestFirstAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.New(t), 5))
	for _, codec := range codecs {
		for round := range 40 {
			var recs []Record
			for range 1 + rng.IntN(30) {
				recs = append(recs, Record{Timestamp: 100 + rng.Int64N(20), Value: make([]byte, rng.IntN(200))})
			}
			raw := build(t, codec, 7, recs)
			if round%4 == 0 {
				StampAppendTime(raw, 110)
			}
			b, err := ReadBatch(raw)
			if err != nil {
				t.Fatal(err)
			}
			from, ms := b.BaseOffset+Offset(rng.IntN(32)), 95+rng.Int64N(30)
			want, wantTime := Offset(-1), int64(-1)
			var it Iterator
			if err := it.Reset(b); err != nil {
				t.Fatal(err)
			}
			for it.Next() && want < 0 {
				if r := it.Record(); r.Offset >= from && r.Timestamp >= ms {
					want, wantTime = r.Offset, r.Timestamp
				}
			}
			if o, ts, err := FirstAt(b, from, ms); err != nil || o != want || ts != wantTime {
				t.Fatalf("%s, from %d at %d: %d at %d, %v; want %d at %d", codec, from, ms, o, ts, err, want, wantTime)
			}
		}
	}
}
