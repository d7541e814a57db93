package record

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOriginComesBackAsItWas(t *testing.T) {
	for _, want := range []Origin{
		{Batch: -1, FirstLedger: -1, FirstEntry: -1, Index: -1},
		{Ledger: 12, Entry: 3, Batch: 7, FirstLedger: -1, FirstEntry: -1, Index: 99, EventTime: 1, Sequence: 5, Producer: []byte("p"), OrderingKey: []byte{}, SchemaVersion: []byte{0, 1}},
		{Ledger: math.MaxInt64, Entry: math.MinInt64, Batch: math.MaxInt32, FirstLedger: 1, FirstEntry: 2, Index: math.MaxInt64, Sequence: math.MinInt64},
	} {
		b := want.AppendTo(nil)
		var got Origin
		if err := got.Parse(b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		for i := range b { // I8: a part of it is an error, never a shorter origin
			if got.Parse(b[:i]) == nil {
				t.Errorf("%d of %d bytes were taken for an origin", i, len(b))
			}
		}
		if got.Parse(append(b, 0)) == nil {
			t.Error("a byte too much was taken")
		}
	}
}

func FuzzOrigin(f *testing.F) {
	f.Add((&Origin{Producer: []byte("p")}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o, again Origin
		if o.Parse(b) != nil {
			return
		}
		if err := again.Parse(o.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(o, again); d != "" {
			t.Error(d)
		}
	})
}
