package pulsartest

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/record"
)

// Records gives the records of batches, each whole, one after another, to a function, and the offset behind the last batch; 0 when
// there is none. A record is valid during the call alone.
func Records(t testing.TB, batches []byte, each func(*record.Record)) (next record.Offset) {
	t.Helper()
	for len(batches) > 0 {
		b, err := record.ReadBatch(batches)
		if err != nil {
			t.Fatal(err)
		}
		batches, next = batches[b.Size():], b.LastOffset()+1
		var it record.Iterator
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			each(it.Record())
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return next
}
