package model

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/reader"
)

// A call of Next that was cut off by its context, in the table, ends nothing: the next one goes on from there (I4).
func TestNextGoesOnAfterItsContext(t *testing.T) {
	w := filled(t, 100, 100)
	cfg := w.config()
	cfg.BatchRows = 10
	c := open(t, cfg)
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that ended: %v", err)
	}
	wantRun(t, offsets(t, c), 10, 100)
}

// A time between two milliseconds is behind the records of the first one, on both sides of the seam and with any sign: a record
// is before it, or not.
func TestTimesBetweenMilliseconds(t *testing.T) {
	w := filled(t, 100, 50)
	for _, n := range []int{20, 70} {
		between := time.UnixMilli(int64(1000 + n)).Add(time.Microsecond / 2)
		cfg := w.config()
		cfg.From = reader.AtTime(between)
		wantRun(t, offsets(t, open(t, cfg)), int64(n+1), 100)
		cfg.From, cfg.Until = reader.Earliest(), reader.AtTime(between)
		wantRun(t, offsets(t, open(t, cfg)), 0, int64(n+1))
	}
}
