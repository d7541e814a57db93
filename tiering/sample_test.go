package tiering_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
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

// counting is a source that knows no end before it has read up to it, as Pulsar's.
type counting struct{ broker.Source }

func (s counting) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	b, err := s.Source.Bounds(ctx, tp)
	b.Stable, b.End = b.Start, b.Start
	return b, err
}

func (s counting) CountEnd(ctx context.Context, tp record.TopicPartition) (record.Offset, error) {
	b, err := s.Source.Bounds(ctx, tp)
	return b.Stable, err
}

// A bounded look at a source that counts by reading sees what is there: it does not take the end that is not known yet for
// that of an empty topic (I4).
func TestSampleOfASourceThatCounts(t *testing.T) {
	r := newRig(t, 2)
	cfg := tiering.SampleConfig{UntilEnd: true, Settle: time.Hour}
	if _, err := tiering.Sample(t.Context(), counting{r.log}, "orders", cfg); !errors.Is(err, tiering.ErrNoRecords) {
		t.Fatalf("a look at an empty log: %v", err)
	}
	r.fill(10, 5)
	if values, err := tiering.Sample(t.Context(), counting{r.log}, "orders", cfg); err != nil || len(values) != 20 {
		t.Fatalf("a bounded look at 20 records gives %d, %v", len(values), err)
	}
}
