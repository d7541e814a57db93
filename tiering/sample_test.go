package tiering_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/tiering"
)

// A bounded look ends at the ends of the log: with what is there, or with the word that nothing is. An endless one says
// that it waits, once, and goes on when a record comes.
func TestSample(t *testing.T) {
	r := newRig(t, 2)
	if _, err := tiering.Sample(t.Context(), r.log, "orders", tiering.SampleConfig{UntilEnd: true, Settle: time.Hour}); !errors.Is(err, tiering.ErrNoRecords) {
		t.Fatalf("a look at an empty log: %v", err)
	}
	waits := 0
	values, err := tiering.Sample(t.Context(), r.log, "orders", tiering.SampleConfig{Settle: time.Millisecond, Waits: func() {
		waits++
		r.fill(10, 5)
	}})
	if err != nil || len(values) == 0 || waits != 1 {
		t.Fatalf("%d values, %v, waited %d times", len(values), err, waits)
	}
	if values, err = tiering.Sample(t.Context(), r.log, "orders", tiering.SampleConfig{UntilEnd: true, Settle: time.Hour}); err != nil || len(values) != 20 {
		t.Fatalf("a bounded look at 20 records gives %d, %v", len(values), err)
	}
}
