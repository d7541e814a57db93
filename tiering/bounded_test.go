package tiering_test

import (
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// A bounded run whose last record cannot be judged for a while is not over before that record is in the table, also when all
// had been fetched by the time that it stood (I1).
func TestABoundedRunWaitsForItsLastRecord(t *testing.T) {
	for range 60 {
		r := newRig(t, 1)
		var down atomic.Bool
		var met atomic.Int64
		down.Store(true)
		r.cfg.UntilEnd = true
		r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
			d, err := decode.ForTable(payload)
			return unknown{d, &down, &met, 3}, err
		}
		r.log.append(t, 0, record.None, []byte(`{"n":1}`), []byte(`{"s":"new schema"}`))
		r.mustRun()
		_, snap := rows(t, r.store)
		if end, ok := table.LakeEnd(snap, "orders", 0); !ok || end != 2 {
			t.Fatalf("the run is over with the table at %d of 2", end)
		}
	}
}
