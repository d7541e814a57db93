package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

// I8: the epoch above the last one fences, and is nobody's. A client that takes it for its own must not get a transaction
// with it: to abort that the epoch would have to grow once more, out of its range, and nobody could end the transaction
// or, since the next start refuses such a state, open the log again.
func TestTxnEpochThatIsNobodys(t *testing.T) {
	ctx := t.Context()
	now := time.Now()
	log := txnLog(t)
	c := testTxns(t, log, &now)
	p, err := c.init(ctx, "x", time.Minute, nop)
	if err != nil {
		t.Fatal(err)
	}
	c.find("x").state.epoch, p.epoch = maxProducerEpoch, maxProducerEpoch
	begin := func() error { return c.add(ctx, "x", p, []record.TopicPartition{tp0}, false) }
	timeOut := func() {
		now = now.Add(2 * time.Minute)
		c.sweep(ctx)
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	timeOut()
	p.epoch++
	if st, _ := c.describe("x"); st.current() != p || st.state != txnCompleteAbort {
		t.Fatalf("after the time of the last epoch's transaction: %+v", st)
	}
	if err := begin(); !errors.Is(err, errTxnFenced) {
		t.Errorf("a transaction of an epoch that nobody was given: %v", err)
	}
	if err := c.hold(ctx, "x", p, "g", groupOffsets{tp0: {offset: 7}}, true); !errors.Is(err, errTxnFenced) {
		t.Errorf("positions of it: %v", err)
	}
	timeOut()
	c = testTxns(t, log, &now)
	next, err := c.init(ctx, "x", time.Minute, nop)
	if err != nil || next.id == p.id || next.epoch != 0 {
		t.Fatalf("the next producer is %+v %v", next, err)
	}
}
