package pulsar

import (
	"context"
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// sifted is a table whose filter left records out at its end.
type sifted struct {
	rows
	end record.Offset
}

func (s *sifted) End(context.Context, record.TopicPartition) (record.Offset, bool, error) {
	return s.end, true, nil
}

// TestWhatIsLeftOutIsNotLost: the last messages of a table are not in it, or none is. Held at the last one that is, they stay, and
// every start counts on from it; what comes before it may go (I2, I4, I6).
func TestWhatIsLeftOutIsNotLost(t *testing.T) {
	const n = 10
	for kept := range n + 1 {
		t.Run(fmt.Sprint(kept, " rows"), func(t *testing.T) {
			b := pulsartest.Start(t)
			b.Create(brokerName)
			table := &sifted{end: n}
			s := openTest(t, b, nil)
			for i := range int64(n) {
				b.Append(brokerName, 1, pulsartest.Message(i, fmt.Sprint(i)))
				if got := fetchAll(t, s, record.Offset(i), 1); i < int64(kept) {
					table.list = append(table.list, got...)
				}
				if i%3 == 2 {
					b.Roll(brokerName, 1)
				}
			}
			if err := s.Hold(t.Context(), part, record.Offset(kept)); err != nil {
				t.Fatal(err)
			}
			b.Roll(brokerName, 1)
			b.Append(brokerName, 1, pulsartest.Message(n, fmt.Sprint(n)))
			b.TrimAcked(brokerName, "hold")
			late := openTest(t, b, table)
			if got := fetchAll(t, late, n, 1); got[0].value != fmt.Sprint(n) || got[0].place.Offset != n {
				t.Errorf("behind the table came %+v", got)
			}
			if bounds, err := openTest(t, b, nil).Bounds(t.Context(), part); err != nil || bounds.Start != record.Offset(max(kept-1, 0)/3*3) {
				t.Errorf("the oldest message left is %d, %v; the last row is %d", bounds.Start, err, kept-1)
			}
		})
	}
}
