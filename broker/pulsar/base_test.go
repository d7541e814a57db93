package pulsar

import (
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestATopicThatWasEmptyIsCountedFromItsIndex: retention took all that a topic had. Who looked then, who waited for what comes
// and who looks later find the next message at one offset, that of its index; to him who was told that the topic begins at 0
// nothing is lost (I2, I4).
func TestATopicThatWasEmptyIsCountedFromItsIndex(t *testing.T) {
	kinds := map[string]func(b *pulsartest.Broker){
		"a message": func(b *pulsartest.Broker) { b.Append(brokerName, 1, pulsartest.Message(7, "x")) },
		"a batch":   func(b *pulsartest.Broker) { b.Append(brokerName, 3, pulsartest.Batch(7, "x", "y", "z")) },
		"chunks, which come one by one": func(b *pulsartest.Broker) {
			b.Append(brokerName, 1, pulsartest.Chunk("u", 7, 0, 2, 1, ""))
			b.Append(brokerName, 1, pulsartest.Chunk("u", 7, 1, 2, 1, "x"))
		},
	}
	for name, more := range kinds {
		t.Run(name, func(t *testing.T) {
			b := pulsartest.Start(t)
			b.Create(brokerName)
			for i := range 5 {
				appendValues(b, i, 3)
			}
			b.Roll(brokerName, 1)
			b.Trim(brokerName, 2)
			table := &rows{}
			waits, looked, counts := openTest(t, b, table), openTest(t, b, nil), openTest(t, b, nil)
			for _, s := range []*Source{waits, looked, counts} {
				for range 2 { // the second look finds the stream of the first
					if bounds, err := s.Bounds(t.Context(), part); err != nil || bounds != (broker.Bounds{}) {
						t.Fatalf("the bounds of nothing are %+v, %v", bounds, err)
					}
				}
				if end, err := s.CountEnd(t.Context(), part); err != nil || end != 0 {
					t.Fatalf("nothing ends at %d, %v", end, err)
				}
			}
			if got, err := waits.Fetch(t.Context(), []broker.FetchRange{{TP: part}}, broker.FetchOptions{}); err != nil || got[0].Err != nil || len(got[0].Batches) > 0 {
				t.Fatalf("of nothing came %+v, %v", got, err)
			}
			more(b)
			first := func(s *Source, from record.Offset) {
				t.Helper()
				if got := fetchAll(t, s, from, 1); got[0].place.Offset != 15 || got[0].value != "x" {
					t.Errorf("from %d on the first is %q at offset %d, want 15", from, got[0].value, got[0].place.Offset)
				}
			}
			first(waits, 0)
			if bounds, err := looked.Bounds(t.Context(), part); err != nil || bounds.Start != 15 {
				t.Errorf("looked at again the bounds are %+v, %v", bounds, err)
			}
			first(looked, 15)
			first(looked, 0)
			if end, err := counts.CountEnd(t.Context(), part); err != nil || end < 16 {
				t.Errorf("the end is counted as %d, %v", end, err)
			}
			first(counts, 0)
			later := openTest(t, b, nil)
			if bounds, err := later.Bounds(t.Context(), part); err != nil || bounds.Start != 15 {
				t.Errorf("looked at later the bounds are %+v, %v", bounds, err)
			}
			first(later, 15)
			if _, _, err := fetch(t, later, 0); err == nil {
				t.Error("to one who was never told that it begins at 0, offsets below 15 are not there")
			}
		})
	}
}

// TestWhoWasToldZeroFindsHisStreamAgain: one who asks below the base waits with one reader, however often he asks.
func TestWhoWasToldZeroFindsHisStreamAgain(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	appendValues(b, 0, 3)
	b.Roll(brokerName, 1)
	b.Trim(brokerName, 2)
	s := openTest(t, b, nil)
	if bounds, err := s.Bounds(t.Context(), part); err != nil || bounds.Start != 0 {
		t.Fatalf("the bounds of nothing are %+v, %v", bounds, err)
	}
	appendValues(b, 1, 3)
	if end, err := s.CountEnd(t.Context(), part); err != nil || end != 6 {
		t.Fatalf("the end is counted as %d, %v", end, err)
	}
	first(t, s)
	p, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	b.Stall(true)
	appendValues(b, 2, 3)
	var streams []*stream
	for i := range 4 {
		if got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: part}}, broker.FetchOptions{}); err != nil || got[0].Err != nil || len(got[0].Batches) > 0 {
			t.Fatalf("of a broker that stands still came %+v, %v", got, err)
		}
		p.mu.Lock()
		if i > 0 && !slices.Equal(streams, p.streams) {
			t.Errorf("another question opens another reader: %d, then %d", len(streams), len(p.streams))
		}
		streams = slices.Clone(p.streams)
		p.mu.Unlock()
	}
	b.Stall(false)
	first(t, s)
}

// first reads from 0 on, where the base is 3.
func first(t *testing.T, s *Source) {
	t.Helper()
	if got := fetchAll(t, s, 0, 1); got[0].place.Offset != 3 || got[0].value != "1 0" {
		t.Errorf("the first is %q at offset %d, want 3", got[0].value, got[0].place.Offset)
	}
}

// TestSealedLedgersOfATopicThatWasEmpty: the first message is known before it may be given, and tells the base alone.
func TestSealedLedgersOfATopicThatWasEmpty(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	appendValues(b, 0, 3)
	b.Roll(brokerName, 1)
	b.Trim(brokerName, 2)
	s := openTest(t, b, nil)
	s.cfg.SealedOnly = true
	tp, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	tp.asked = time.Now().Add(time.Hour) // that nothing is sealed was said, and is not asked again
	if bounds, err := s.Bounds(t.Context(), part); err != nil || bounds.Start != 0 {
		t.Fatalf("the bounds of nothing are %+v, %v", bounds, err)
	}
	appendValues(b, 1, 1)
	appendValues(b, 2, 1)
	for held := false; !held; {
		got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: part}}, broker.FetchOptions{MinBytes: 1, MaxWait: 20 * time.Millisecond})
		if err != nil || got[0].Err != nil || len(got[0].Batches) > 0 {
			t.Fatalf("of the open ledger came %+v, %v", got, err)
		}
		tp.mu.Lock()
		held = tp.streams[len(tp.streams)-1].stash != nil
		tp.mu.Unlock()
	}
	if bounds, err := s.Bounds(t.Context(), part); err != nil || bounds.Start != 3 {
		t.Errorf("the bounds are %+v, %v, want the start at 3", bounds, err)
	}
}
