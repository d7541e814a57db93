package pulsar

import (
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// A batch that is under way when ledgers turn out to be gone ends before them: one that went on over their offsets would call
// them empty, and who reads would never look into the table, which has them (I4).
func TestBatchEndsBeforeALoss(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	s := openTest(t, b, &rows{})
	for i := range int64(3) {
		b.Append(brokerName, 1, pulsartest.Message(i, "here"))
	}
	fetchAll(t, s, 0, 3)
	p, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.take(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	deliver := func(ledger, at int64, sequence int64) *wire.Delivery {
		d := &wire.Delivery{ID: MessageID{Ledger: ledger, Entry: at, Batch: -1}}
		d.Entry, d.Corrupt = entry.Parse(pulsartest.Message(sequence, "there"))
		return d
	}
	if err := st.process(t.Context(), deliver(st.at.Ledger, st.at.Entry+1, 3), true); err != nil {
		t.Fatal(err)
	}
	b.Roll(brokerName, 1)
	b.Append(brokerName, 1, pulsartest.Message(4, "gone"))
	b.Roll(brokerName, 1)
	b.Append(brokerName, 1, pulsartest.Message(5, "behind"))
	b.Trim(brokerName, st.at.Ledger+2)
	st.stash = deliver(st.at.Ledger+2, 0, 5)
	out, err := st.read(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if batch, err := record.ReadBatch(out); err != nil || batch.BaseOffset != 3 || batch.LastOffset() != 3 || batch.Size() != len(out) {
		t.Errorf("the batch before the loss is [%d, %d], in %d of %d bytes, %v; want offset 3 alone", batch.BaseOffset, batch.LastOffset(), batch.Size(), len(out), err)
	}
	if out, err := st.read(t.Context(), 1<<20); !errors.Is(err, errLost) || len(out) > 0 {
		t.Errorf("behind the batch came %d bytes, %v", len(out), err)
	}
	var gone *broker.OutOfRangeError
	if err := p.lost(4); !errors.As(err, &gone) || gone.Bounds.Start != 5 {
		t.Errorf("offset 4 is %v", err)
	}
}
