package offload

import (
	"context"
	"errors"
	"io"
	"sort"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// entries are those of a partition, as a consumer would have got them: a pulsar.Entries.
type entries struct {
	walk   walk
	fates  *fates
	cancel context.CancelFunc
	ended  bool
}

// TryReceive gives the next entry. It waits for the store, and gives none at the end.
func (k *entries) TryReceive() (wire.Delivery, bool, error) {
	for !k.ended {
		d, ok, err := k.walk.next()
		if err != nil {
			return d, false, err
		}
		switch e := &d.Entry; {
		case !ok:
			k.ended = true
		case d.Corrupt != nil:
			return d, true, nil
		case e.Marker:
			if e.MarkerKind == entry.CommitMarker || e.MarkerKind == entry.AbortMarker {
				k.fates.end(e)
			}
		case !e.Transaction:
			return d, true, nil
		default:
			committed, known, err := k.fates.of(e, d.ID)
			if err != nil {
				k.walk.again(d)
				return d, false, err
			}
			if !known {
				k.walk.p.hide(d.ID)
				k.ended = true
			}
			if committed {
				return d, true, nil
			}
		}
	}
	return wire.Delivery{}, false, nil
}

// Receive is TryReceive, with an error at the end: nothing will come.
func (k *entries) Receive(ctx context.Context) (wire.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return wire.Delivery{}, err
	}
	d, ok, err := k.TryReceive()
	if err == nil && !ok {
		err = context.DeadlineExceeded
	}
	return d, err
}

// Queued is 1 until the end: there is more, and nothing was sent ahead.
func (k *entries) Queued() int {
	if k.ended {
		return 0
	}
	return 1
}

// Last is the last entry that is given, or one behind it that is not seen.
func (k *entries) Last(context.Context) (wire.MessageID, bool, error) {
	id := k.walk.p.last()
	return id, id.Ledger >= 0, nil
}

// Close ends the reads under way.
func (k *entries) Close() { k.cancel() }

// walk goes over all entries of a partition, marks and aborted ones among them.
type walk struct {
	f    *Feed
	p    *partition
	ctx  context.Context
	at   int   // ledger
	from int64 // entry of that ledger to begin with
	r    *ledgerReader
	held *wire.Delivery

	before int64 // the running index of the last entry; -1: unknown
	began  bool  // an entry was given
}

// newWalk begins at an entry, or the first one behind it.
func newWalk(ctx context.Context, f *Feed, p *partition, start wire.MessageID) walk {
	w := walk{f: f, p: p, ctx: ctx, before: -1}
	w.at = sort.Search(len(p.ledgers), func(i int) bool { return p.ledgers[i].id >= start.Ledger })
	if w.at < len(p.ledgers) && p.ledgers[w.at].id == start.Ledger {
		if w.from = max(start.Entry, 0); w.from > p.ledgers[w.at].last {
			w.at, w.from = w.at+1, 0
		}
	}
	return w
}

// again makes next give d once more.
func (w *walk) again(d wire.Delivery) { w.held = &d }

// next gives the next entry; false at the end, or at a gap.
func (w *walk) next() (wire.Delivery, bool, error) {
	if d := w.held; d != nil {
		w.held = nil
		return *d, true, nil
	}
	for w.at < w.p.end() {
		l := w.p.ledgers[w.at]
		if w.r == nil {
			r, err := l.read(w.ctx, w.f.store, w.from)
			if err != nil {
				return wire.Delivery{}, false, err
			}
			w.r = r
		}
		id, raw, err := w.r.entry()
		if errors.Is(err, io.EOF) {
			w.r, w.from, w.at = nil, 0, w.at+1
			continue
		}
		if err != nil {
			w.r, w.from = nil, w.r.next // the next call begins here
			return wire.Delivery{}, false, err
		}
		d := wire.Delivery{ID: wire.MessageID{Ledger: l.id, Entry: id, Batch: -1}, Raw: raw}
		d.Entry, d.Corrupt = entry.Parse(raw)
		if id == 0 && w.began && !w.p.follows(w.at, w.before, &d) {
			return wire.Delivery{}, false, nil
		}
		w.began, w.before = true, -1
		if d.Corrupt == nil {
			w.before = d.Entry.Index
		}
		return d, true, nil
	}
	return wire.Delivery{}, false, nil
}

// firstIndex is the running index of an entry's first message; -1: unknown. A batch of a transaction counts as one.
func firstIndex(d *wire.Delivery) int64 {
	if d.Corrupt != nil || d.Entry.Index < 0 {
		return -1
	}
	if d.Entry.Transaction {
		return d.Entry.Index
	}
	return d.Entry.Index + 1 - int64(d.Entry.Count)
}
