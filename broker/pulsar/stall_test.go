package pulsar

import (
	"errors"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// openImpatient makes a source to which every silence is long.
func openImpatient(t *testing.T, b *pulsartest.Broker, retry time.Duration) *Source {
	t.Helper()
	s, err := Open(t.Context(), Config{Service: b.Addr(), RetryTimeout: retry, Window: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s.quiet = 20 * time.Millisecond
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestBaseUnderAStall: without a table the broker's index says where offsets begin, and a server that is started while the
// broker stands still concludes nothing from its silence (I2).
func TestBaseUnderAStall(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	for i := range 10 {
		appendValues(b, i, 3)
	}
	b.Roll(brokerName, 2)
	for i := range 30 {
		appendValues(b, 10+i, 3)
	}
	b.Trim(brokerName, 3) // retention took the first 30 messages
	b.Stall(true)
	s := openImpatient(t, b, 100*time.Millisecond)
	if bounds, err := s.Bounds(t.Context(), part); !errors.Is(err, wire.ErrLost) {
		t.Errorf("while the broker stands still the bounds are %v, %v", bounds, err)
	}
	b.Stall(false)
	s.quiet = quiet
	bounds, err := s.Bounds(t.Context(), part)
	if err != nil || bounds.Start != 30 {
		t.Fatalf("then they are %v, %v, want the start at 30", bounds, err)
	}
	if rows, _, err := fetch(t, s, 30); err != nil || len(rows) == 0 || rows[0].place.Offset != record.Offset(30) || rows[0].value != "10 0" {
		t.Errorf("at 30 come %v, %v", rows, err)
	}
}
