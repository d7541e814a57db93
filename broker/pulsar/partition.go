package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// partition is what a Source knows of one partition.
type partition struct {
	s     *Source
	tp    record.TopicPartition
	topic string // of the partition alone, as Pulsar names it

	holdMu sync.Mutex // of hold, which waits for the broker
	holder *wire.Consumer
	acked  MessageID

	mu      sync.Mutex
	streams []*stream // that nobody reads now; used last, last
	places  []noted   // by offset: ends of batches that were given lately
	base    record.Offset
	based   bool          // base is the offset of the oldest message, found without a table
	hollow  bool          // 0 was told as the start when no message told the base: offsets below it are not lost then, there are none
	end     record.Offset // behind the last message that was met
	loss    lossRange
	failing time.Time // since when nothing can be had
	sealed  int64     // ledgers up to this one are closed; with Config.SealedOnly
	asked   time.Time // when the broker was asked for it
}

// noted is a place with what may be acknowledged once it is in a table.
type noted struct {
	Place
	ack MessageID // the entry before the first one that is needed to begin at the place; Ledger -1: none is known
}

// lossRange are offsets [from, to) that were given up for messages that are gone.
type lossRange struct{ from, to record.Offset }

// noPlace is before the oldest message, when nothing has an offset yet.
var noPlace = Place{Offset: -1, Lost: true, Index: -1}

const (
	maxStreams = 4      // that are kept open for a partition while nobody reads them
	maxPlaces  = 16_384 // that are remembered; the table knows the others
)

func (p *partition) fetch(ctx context.Context, from record.Offset, limit int) ([]byte, broker.Bounds, error) {
	if err := p.lost(from); err != nil {
		return nil, broker.Bounds{}, err
	}
	st, err := p.take(ctx, from)
	if err != nil {
		return nil, p.boundsFrom(from), p.s.known(p.failed(err))
	}
	batches, err := st.read(ctx, limit)
	p.put(st)
	switch {
	case len(batches) > 0: // a fault is met again behind what was read
		err = nil
		p.worked()
	case err != nil:
		err = p.failed(err)
	default:
		p.worked()
		err = p.lost(from)
	}
	return batches, p.boundsFrom(from), p.s.known(err)
}

// failed forgives faults that may pass, until they have lasted too long.
func (p *partition) failed(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !passing(err) {
		return err
	}
	if p.failing.IsZero() {
		p.failing = time.Now()
	}
	if time.Since(p.failing) > p.s.cfg.RetryTimeout {
		p.failing = time.Time{}
		return err
	}
	p.s.cfg.Logger.Debug("pulsar: try again", "partition", p.tp.String(), "error", err)
	return nil
}

func (p *partition) worked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = time.Time{}
}

// lost says that messages with these offsets are gone.
func (p *partition) lost(from record.Offset) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case from >= p.loss.from && from < p.loss.to:
		return &broker.OutOfRangeError{TP: p.tp, Offset: from, Bounds: broker.Bounds{Start: p.loss.to, Stable: max(p.end, p.loss.to), End: max(p.end, p.loss.to)}}
	case p.based && from < p.base && !p.hollow:
		return &broker.OutOfRangeError{TP: p.tp, Offset: from, Bounds: broker.Bounds{Start: p.base, Stable: max(p.end, p.base), End: max(p.end, p.base)}}
	}
	return nil
}

// inTable says that offsets from one up to end are in the table, and no more in Pulsar.
func (p *partition) inTable(from, end record.Offset) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = max(p.end, end)
	return &broker.OutOfRangeError{TP: p.tp, Offset: from, Bounds: broker.Bounds{Start: end, Stable: p.end, End: p.end}}
}

// boundsFrom are the bounds for one who reads at from.
func (p *partition) boundsFrom(from record.Offset) broker.Bounds {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := broker.Bounds{Start: from, Stable: max(p.end, from)}
	if p.based {
		b.Start = min(from, p.base)
	}
	b.End = b.Stable
	return b
}

func (p *partition) bounds(ctx context.Context) (broker.Bounds, error) {
	at, ok, err := p.tableEnd(ctx)
	if err != nil {
		return broker.Bounds{}, err
	}
	if !ok {
		if at, err = p.findBase(ctx); err != nil {
			return broker.Bounds{}, err
		}
	}
	b := p.boundsFrom(at)
	return b, nil
}

func (p *partition) tableEnd(ctx context.Context) (record.Offset, bool, error) {
	if p.s.cfg.Index == nil {
		return 0, false, nil
	}
	at, ok, err := p.s.cfg.Index.End(ctx, p.tp)
	if err != nil {
		err = fmt.Errorf("end of %s in the table: %w", p.tp, err)
	}
	return at, ok, err
}

// findBase gives the offset of the oldest message when no table says what has one. While there is none it is 0, and the base
// stays open: the first message that comes has the offset that its index says, for who looks then as for who waited (I2).
func (p *partition) findBase(ctx context.Context) (record.Offset, error) {
	p.mu.Lock()
	base, known := p.base, p.based
	p.mu.Unlock()
	if known {
		return base, nil
	}
	st, err := p.take(ctx, 0) // who waits for the first message stands there
	if err != nil {
		return 0, err
	}
	if err := st.open(ctx); err != nil {
		return 0, err
	}
	if err := st.begin(ctx); err != nil {
		st.close()
		return 0, err
	}
	p.mu.Lock()
	p.hollow = p.hollow || !p.based
	p.mu.Unlock()
	base = st.next
	p.put(st) // another may read it from here on
	return base, nil
}

// take gives the stream that stands at an offset, or makes one.
func (p *partition) take(ctx context.Context, from record.Offset) (*stream, error) {
	p.mu.Lock()
	if p.based { // below the base there is nothing, and no stream stands there
		from = max(from, p.base)
	}
	for i := len(p.streams) - 1; i >= 0; i-- {
		if st := p.streams[i]; st.next == from {
			p.streams = slices.Delete(p.streams, i, i+1)
			p.mu.Unlock()
			return st, nil
		}
	}
	p.mu.Unlock()
	at, err := p.before(ctx, from)
	if err != nil {
		return nil, err
	}
	return newStream(p, at, from), nil
}

// put keeps a stream for the next call.
func (p *partition) put(st *stream) {
	var over *stream
	p.mu.Lock()
	p.streams = append(p.streams, st)
	if len(p.streams) > maxStreams {
		over = p.streams[0]
		p.streams = slices.Delete(p.streams, 0, 1)
	}
	p.mu.Unlock()
	if over != nil {
		over.close()
	}
}

// before gives the place from which offsets are counted on to reach from.
func (p *partition) before(ctx context.Context, from record.Offset) (Place, error) {
	p.mu.Lock()
	i := sort.Search(len(p.places), func(i int) bool { return p.places[i].Offset >= from })
	best, ok := noPlace, false
	if i > 0 {
		best, ok = p.places[i-1].Place, true
	}
	p.mu.Unlock()
	if p.s.cfg.Index != nil && (!ok || best.Offset < from-1) {
		at, found, err := p.s.cfg.Index.Before(ctx, p.tp, from)
		if err != nil {
			return at, fmt.Errorf("look up offset %d of %s in the table: %w", from, p.tp, err)
		}
		if found && (!ok || at.Offset > best.Offset) {
			best, ok = at, true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !ok && p.based:
		best.Offset = p.base - 1
	case best.Offset+1 >= p.loss.from && best.Offset+1 < p.loss.to: // what comes next is gone: go on behind it
		best = Place{Offset: p.loss.to - 1, Lost: true, Index: -1}
	}
	return best, nil
}

// note remembers the end of a batch.
func (p *partition) note(n noted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = max(p.end, n.Offset+1)
	i := sort.Search(len(p.places), func(i int) bool { return p.places[i].Offset >= n.Offset })
	switch {
	case i < len(p.places) && p.places[i].Offset == n.Offset:
	case i == len(p.places):
		p.places = append(p.places, n)
	default:
		p.places = slices.Insert(p.places, i, n)
	}
	if len(p.places) > maxPlaces { // every other one: what is left is still near to any offset
		kept := p.places[:0]
		for i := range p.places {
			if i%2 == 1 || i == len(p.places)-1 {
				kept = append(kept, p.places[i])
			}
		}
		p.places = kept
	}
}

// countEnd is seek to the end, from the last message that was met if that is behind the end of the table.
func (p *partition) countEnd(ctx context.Context) (record.Offset, error) {
	p.mu.Lock()
	met, ok := p.end, len(p.places) > 0 && p.places[len(p.places)-1].Offset == p.end-1
	p.mu.Unlock()
	none := func(*wire.Delivery) bool { return false }
	if !ok {
		return p.seek(ctx, none)
	}
	end, err := p.seekFrom(ctx, met, none)
	var outside *broker.OutOfRangeError
	if errors.Is(err, errLost) || errors.As(err, &outside) { // what was met is gone: the table may have it
		return p.seek(ctx, none)
	}
	return end, err
}

// endBehind asks the stream that stands at from whether the broker has anything behind it.
func (p *partition) endBehind(ctx context.Context, from record.Offset) (record.Offset, bool) {
	p.mu.Lock()
	i := slices.IndexFunc(p.streams, func(st *stream) bool { return st.next == from && st.k != nil })
	if i < 0 {
		p.mu.Unlock()
		return 0, false
	}
	st := p.streams[i]
	p.streams = slices.Delete(p.streams, i, i+1)
	p.mu.Unlock()
	defer p.put(st)
	if st.stash != nil || st.k.Queued() > 0 {
		return 0, false
	}
	last, any, err := st.k.Last(ctx)
	switch {
	case err != nil || st.k.Queued() > 0:
		return 0, false
	case !any:
		return max(st.anchor.Offset+1, 0), true
	case st.at.Ledger >= 0 && compareEntries(st.at, last) >= 0 && !st.catching && !st.verify,
		!st.anchor.Lost && reached(st.anchor.ID, last):
		return st.anchor.Offset + 1, true
	}
	return 0, false
}

// seek reads from the end of the table, or the oldest message, until at says that the entry is the one, and gives its
// first offset; the offset of the end when none is. Where the table has taken over meanwhile what it was to begin with, it
// begins again at the table's new end.
func (p *partition) seek(ctx context.Context, at func(*wire.Delivery) bool) (record.Offset, error) {
	for {
		from, ok, err := p.tableEnd(ctx)
		if err == nil && !ok {
			from, err = p.findBase(ctx)
		}
		if err != nil {
			return 0, err
		}
		o, err := p.seekFrom(ctx, from, at)
		if overtaken, is := errors.AsType[*broker.OutOfRangeError](err); is && ok && overtaken.Bounds.Start > from {
			continue
		}
		return o, err
	}
}

func (p *partition) seekFrom(ctx context.Context, from record.Offset, at func(*wire.Delivery) bool) (record.Offset, error) {
	place, err := p.before(ctx, from)
	if err != nil {
		return 0, err
	}
	st := newStream(p, place, from)
	defer st.close()
	if err := st.open(ctx); err != nil {
		return 0, err
	}
	last, any, err := st.k.Last(ctx)
	if err != nil || !any {
		return max(st.next, from), err
	}
	for {
		o, found, err := st.pass(ctx, last, at)
		if found || err != nil {
			return max(o, from), err
		}
	}
}

// hold moves the durable subscription.
func (p *partition) hold(ctx context.Context, lakeEnd record.Offset) error {
	p.holdMu.Lock()
	defer p.holdMu.Unlock()
	if err := p.subscribe(ctx); err != nil {
		return err
	}
	ack := p.ackFor(lakeEnd)
	if ack.Ledger < 0 || compareEntries(ack, p.acked) <= 0 {
		return nil
	}
	if err := p.holder.AckCumulative(ctx, ack); err != nil {
		if passing(err) {
			p.holder.Close()
			p.holder = nil
		}
		return fmt.Errorf("acknowledge %s of %s: %w", ack, p.tp, err)
	}
	p.acked = ack
	return nil
}

// subscribe makes sure that the durable subscription is open. holdMu is held.
func (p *partition) subscribe(ctx context.Context) error {
	if p.holder != nil {
		return nil
	}
	k, err := p.s.client.Subscribe(ctx, wire.Subscription{Topic: p.topic, Name: p.s.cfg.Subscription, Durable: true})
	if err != nil {
		return err
	}
	p.holder, p.acked = k, wire.Earliest
	return nil
}

// ackFor gives an entry up to which nobody needs any who begins at the message before lakeEnd: as told by the last place below
// lakeEnd that was met. Only who has read knows, as messages in chunks may have begun before and not ended. Otherwise it is none,
// and the subscription stays where it is.
func (p *partition) ackFor(lakeEnd record.Offset) MessageID {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := sort.Search(len(p.places), func(i int) bool { return p.places[i].Offset >= lakeEnd })
	if i == 0 {
		return wire.Earliest
	}
	ack := p.places[i-1].ack
	p.places = slices.Delete(p.places, 0, i-1)
	return ack
}

// held gives the entry up to which the subscription of Hold has acknowledged all; false when there is none.
func (p *partition) held(ctx context.Context) (MessageID, bool, error) {
	if p.s.cfg.Subscription == "" {
		return wire.Earliest, false, nil
	}
	p.holdMu.Lock()
	defer p.holdMu.Unlock()
	if err := p.subscribe(ctx); err != nil {
		return wire.Earliest, false, err
	}
	id, ok, err := p.holder.Acked(ctx)
	if err != nil && passing(err) {
		p.holder.Close()
		p.holder = nil
	}
	return id, ok, err
}

func compareEntries(a, b MessageID) int {
	switch {
	case a.Ledger != b.Ledger && a.Ledger < b.Ledger, a.Ledger == b.Ledger && a.Entry < b.Entry:
		return -1
	case a.Ledger == b.Ledger && a.Entry == b.Entry:
		return 0
	}
	return 1
}
