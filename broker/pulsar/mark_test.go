package pulsar

import (
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestAMarkIsReachedByReading: the end is noted by the id of the last message, and told when all below it was read, whatever
// came behind it meanwhile (I4).
func TestAMarkIsReachedByReading(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	for i := range 30 {
		if i%7 == 6 {
			b.Roll(brokerName, 2)
		}
		appendValues(b, i, 3)
	}
	s := openTest(t, b, nil)
	mark, err := s.MarkEnd(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	appendValues(b, 99, 3)
	next, reads := record.Offset(0), 0
	for {
		end, reached, err := mark(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		if reached {
			if end < 90 || end > 93 {
				t.Errorf("the mark is reached at %d, want 90, or what was read in one go with it", end)
			}
			break
		}
		if next >= 90 {
			t.Fatalf("the mark is not reached at %d", next)
		}
		if _, next, err = fetch(t, s, next); err != nil {
			t.Fatal(err)
		}
		reads++
	}
	if reads == 0 {
		t.Error("the mark was reached before anything was read")
	}
}

// TestAnEmptyTopicIsAtItsMark: nothing is to be read.
func TestAnEmptyTopicIsAtItsMark(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	s := openTest(t, b, nil)
	mark, err := s.MarkEnd(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	if end, reached, err := mark(t.Context(), 0); err != nil || !reached || end != 0 {
		t.Errorf("the mark of an empty topic: %d %v %v", end, reached, err)
	}
}

// TestEndBehind tells the end of a topic from something that is still to come.
func TestEndBehind(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	appendValues(b, 0, 3)
	s := openTest(t, b, nil)
	if _, known := s.EndBehind(t.Context(), part, 0); known {
		t.Error("the end is known before anything was opened")
	}
	_, next, err := fetch(t, s, 0)
	if err != nil || next != 3 {
		t.Fatalf("read up to %d, %v", next, err)
	}
	if end, known := s.EndBehind(t.Context(), part, next); !known || end != 3 {
		t.Errorf("at the end: %d %v", end, known)
	}
	appendValues(b, 1, 3)
	if end, known := s.EndBehind(t.Context(), part, next); known {
		t.Errorf("with three messages more the end is %d", end)
	}
	if end, err := s.CountEnd(t.Context(), part); err != nil || end != 6 {
		t.Errorf("CountEnd: %d %v", end, err)
	}
}

// appendValues adds a batch of n messages.
func appendValues(b *pulsartest.Broker, sequence, n int) {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(sequence, " ", i)
	}
	b.Append(brokerName, n, pulsartest.Batch(int64(sequence), values...))
}

// TestAMarkOfWhatATableHas is reached without a read, for him who knows all of the table; who does not has to read the rest (I4).
func TestAMarkOfWhatATableHas(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	for i := range 5 {
		appendValues(b, i, 3)
	}
	table := &rows{}
	s := openTest(t, b, table)
	table.list = fetchAll(t, s, 0, 15)
	s = openTest(t, b, table)
	mark, err := s.MarkEnd(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	for next, want := range map[record.Offset]bool{15: true, 12: false} {
		if end, reached, err := mark(t.Context(), next); err != nil || reached != want || want && end != next {
			t.Errorf("of one who has read all below %d the mark says %d %v %v", next, end, reached, err)
		}
	}
}
