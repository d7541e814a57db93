package pulsar

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
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

// readTo reads on until the mark is reached or fails; then is called once three answers in a row were empty.
func readTo(t *testing.T, s *Source, mark broker.EndMark, next record.Offset, then func()) (record.Offset, error) {
	t.Helper()
	for empty := 0; ; {
		end, reached, err := mark(t.Context(), next)
		if reached || err != nil {
			return end, err
		}
		was := next
		got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: part, From: next, MaxBytes: 4 << 10}}, broker.FetchOptions{MinBytes: 1, MaxWait: 30 * time.Millisecond})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
		for rest := got[0].Batches; len(rest) > 0; {
			h, err := record.ParseHeader(rest)
			if err != nil {
				t.Fatal(err)
			}
			next, rest = h.LastOffset()+1, rest[h.Size():]
		}
		if empty++; next > was {
			empty = 0
		}
		if empty == 5 && then != nil {
			then()
		}
	}
}

// TestStalledBrokerIsNotTheEnd: a bounded run waits out a broker that stands still, however long its silence is, and fails
// when that does not end (I4).
func TestStalledBrokerIsNotTheEnd(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	for i := range 200 {
		b.Append(brokerName, 3, pulsartest.Batch(int64(i), strings.Repeat("x", 5000), strings.Repeat("y", 5000), strings.Repeat("z", 5000)))
	}
	s := openImpatient(t, b, 20*time.Second)
	mark, err := s.MarkEnd(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	_, next, err := fetch(t, s, 0)
	if err != nil || next >= 600 {
		t.Fatalf("the first read ends at %d, %v", next, err)
	}
	b.Stall(true)
	if end, err := readTo(t, s, mark, next, func() { b.Stall(false) }); err != nil || end != 600 {
		t.Errorf("a bounded run ends at %d of 600, %v", end, err)
	}

	s = openImpatient(t, b, 200*time.Millisecond)
	s.quiet = quiet // a slow machine is none that stands still
	if mark, err = s.MarkEnd(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	s.quiet = 20 * time.Millisecond
	if _, next, err = fetch(t, s, 0); err != nil {
		t.Fatal(err)
	}
	b.Stall(true)
	if end, err := readTo(t, s, mark, next, nil); err == nil || !strings.Contains(err.Error(), "1:199") || !strings.Contains(err.Error(), "behind 1:") {
		t.Errorf("a broker that never goes on ends a run at %d, %v", end, err)
	}
	if end, err := s.CountEnd(t.Context(), part); err == nil {
		t.Errorf("and its end is counted as %d", end)
	}
}

// TestWhoWasAwayIsNotPutOff: one who asks for the end again after a long time has not waited in vain (I4).
func TestWhoWasAwayIsNotPutOff(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	appendValues(b, 0, 3)
	s := openImpatient(t, b, time.Millisecond)
	_, next, err := fetch(t, s, 0)
	if err != nil || next != 3 {
		t.Fatalf("read up to %d, %v", next, err)
	}
	b.Stall(true)
	appendValues(b, 1, 3)
	p, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.markEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first notes where the reader is
		if end, reached, err := m.reached(t.Context(), next); reached || err != nil {
			t.Fatalf("of one who was away: %d %v %v", end, reached, err)
		}
		m.since = time.Now().Add(-time.Hour)
	}
	b.Stall(false)
	if m.asked != nil { // who still looks reads s.quiet
		m.asked <- <-m.asked
	}
	s.quiet = quiet
	if end, err := readTo(t, s, m.reached, next, nil); err != nil || end != 6 {
		t.Errorf("then the end is %d, %v, want 6", end, err)
	}
}

// TestATailThatNobodySeesIsTheEnd: the broker names a last message that no reader gets.
func TestATailThatNobodySeesIsTheEnd(t *testing.T) {
	for name, roll := range map[string]bool{"aborted": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			b := pulsartest.Start(t)
			b.Create(brokerName)
			appendValues(b, 0, 3)
			if roll {
				b.Roll(brokerName, 2)
			}
			for i := range 5 {
				appendValues(b, 1+i, 3)
			}
			b.Hide(brokerName, 5)
			s := openImpatient(t, b, 20*time.Second)
			s.quiet = 200 * time.Millisecond
			mark, err := s.MarkEnd(t.Context(), part)
			if err != nil {
				t.Fatal(err)
			}
			if end, err := readTo(t, s, mark, 0, nil); err != nil || end != 3 {
				t.Errorf("the run ends at %d, %v, want 3", end, err)
			}
			if end, err := s.CountEnd(t.Context(), part); err != nil || end != 3 {
				t.Errorf("the end is counted as %d, %v, want 3", end, err)
			}
		})
	}
}

// TestATopicOfWhichNothingIsLeft: nobody gets any of its messages, and the first that comes has the offset that its index says.
func TestATopicOfWhichNothingIsLeft(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	for i := range 5 {
		appendValues(b, i, 3)
	}
	b.Hide(brokerName, 5)
	s := openImpatient(t, b, 20*time.Second)
	mark, err := s.MarkEnd(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := readTo(t, s, mark, 0, nil); err != nil || end != 0 {
		t.Errorf("the run ends at %d, %v, want 0", end, err)
	}
	appendValues(b, 5, 3)
	s.quiet = quiet
	if bounds, err := s.Bounds(t.Context(), part); err != nil || bounds.Start != 15 {
		t.Errorf("with a message more the bounds are %v, %v, want the start at 15", bounds, err)
	}
}
