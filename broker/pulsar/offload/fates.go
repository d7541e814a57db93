package offload

import (
	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// transaction is the id of one.
type transaction struct{ most, least int64 }

func transactionOf(e *entry.Entry) transaction { return transaction{e.TxnMost, e.TxnLeast} }

// fates says how transactions end. Their ends stand behind their messages, so a second walk goes ahead as far as it is
// asked, only where there are transactions. What it met is kept until the reader has passed it.
type fates struct {
	begin func(wire.MessageID) walk
	walk  *walk // nil: it did not begin
	ahead wire.MessageID
	known map[transaction]bool // committed or not
}

// of says whether the transaction of an entry was committed. known is false when its end is not in the ledgers.
func (f *fates) of(e *entry.Entry, at wire.MessageID) (committed, known bool, err error) {
	if committed, known = f.known[transactionOf(e)]; known {
		return committed, true, nil
	}
	if f.walk == nil || f.ahead.Ledger < at.Ledger || f.ahead.Ledger == at.Ledger && f.ahead.Entry < at.Entry {
		w := f.begin(at) // the reader went past: what lies between is of no interest
		f.walk = &w
	}
	for {
		d, ok, err := f.walk.next()
		if err != nil || !ok {
			return false, false, err
		}
		f.ahead = d.ID
		m := &d.Entry
		if d.Corrupt != nil || !m.Marker || m.MarkerKind != entry.CommitMarker && m.MarkerKind != entry.AbortMarker {
			continue
		}
		committed := m.MarkerKind == entry.CommitMarker
		f.known[transactionOf(m)] = committed
		if transactionOf(m) == transactionOf(e) {
			return committed, true, nil
		}
	}
}

// end forgets a transaction whose end the reader has passed.
func (f *fates) end(marker *entry.Entry) { delete(f.known, transactionOf(marker)) }
