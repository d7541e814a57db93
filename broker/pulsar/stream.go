package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// stream reads one partition from a place on and counts offsets. It is used by one goroutine at a time.
//
// It begins, and after a lost connection begins again, at its anchor: the last message whose offset is known. That
// one has to come first. Until it has, the stream is catching up: what it meets has offsets below.
type stream struct {
	p    *partition
	next record.Offset // of the next message
	emit record.Offset // offsets below are counted and not given

	anchor   noted // the last message that was counted
	verify   bool  // nothing came yet
	catching bool  // the anchor did not come yet

	k        Entries        // nil: not open
	stash    *wire.Delivery // received, and not yet worked on
	at       MessageID      // the last entry met; Ledger -1: none
	before   MessageID      // the one before it
	proven   int            // so many entries are known to come without a gap between ledgers
	damaged  MessageID      // an entry that is being fetched again, in case it was damaged on the way
	chunks   map[string]*chunks
	hopeless map[string]bool // messages in chunks whose beginning is gone
	rewind   record.Offset   // how far it went back last to find the beginning of one
	farthest bool            // it began at the oldest entry
	since    time.Time       // pass waits in vain

	msgs    entry.Messages
	clear   []byte      // a payload that was encrypted
	plain   entry.Entry // the entry with it
	b       *record.Builder
	headers []record.Header
	origin  []byte
}

func newStream(p *partition, at Place, from record.Offset) *stream {
	st := &stream{p: p, next: max(at.Offset+1, 0), emit: from, anchor: noted{Place: at, ack: wire.Earliest}, at: wire.Earliest, before: wire.Earliest,
		chunks: map[string]*chunks{}, hopeless: map[string]bool{}, b: record.NewBuilder(record.None)}
	st.msgs.MaxBytes = p.s.cfg.MaxMessageBytes
	if from > st.next {
		st.next = from // where it is to stand: streams are found by it
	}
	return st
}

// open begins at the anchor.
func (st *stream) open(ctx context.Context) error {
	if st.k != nil {
		return nil
	}
	start := wire.Earliest
	if !st.anchor.Lost {
		start = st.anchor.First
		// Messages in chunks that were not whole at the anchor begin before it, but not before what is acknowledged.
		acked, ok, err := st.p.held(ctx)
		if err != nil {
			return err
		}
		if ok && compareEntries(acked, start) < 0 {
			start = acked
		}
	}
	return st.openAt(ctx, start)
}

// openAt begins at an entry at or before the anchor.
func (st *stream) openAt(ctx context.Context, start MessageID) error {
	k, err := st.p.s.feed.Open(ctx, st.p.topic, start, st.p.s.news.tell)
	if err != nil {
		return err
	}
	st.k, st.stash, st.proven = k, nil, 0
	st.farthest = start.Ledger < 0
	st.verify, st.catching = !st.anchor.Lost, !st.anchor.Lost
	st.at, st.before = wire.Earliest, wire.Earliest
	clear(st.chunks)
	return nil
}

func (st *stream) close() {
	if st.k != nil {
		st.k.Close()
		st.k = nil
	}
}

// read gives batches of what is here, of about limit bytes, and does not wait for more.
func (st *stream) read(ctx context.Context, limit int) (out []byte, err error) {
	for err == nil && len(out)+st.b.Bytes() < limit {
		if st.b.Len() > 0 && (st.verify || st.catching) {
			break // it went back: the batch ends here, so that a loss is met with none under way, whatever was noted of its entry
		}
		if err = st.open(ctx); err != nil {
			break
		}
		var d wire.Delivery
		var ok bool
		if d, ok, err = st.receive(ctx); err != nil || !ok {
			break
		}
		if err = st.process(ctx, &d, true); err == nil && st.b.Bytes() >= st.p.s.cfg.BatchBytes {
			if out, err = st.flush(out); err == nil && len(out) < limit && st.k.Queued() > 0 {
				// There is more: room for all of it at once, since growing by and by copies it again and again.
				out = slices.Grow(out, limit-len(out)+2*st.p.s.cfg.BatchBytes)
			}
		}
	}
	if errors.Is(err, errBatchFirst) {
		err = nil
	}
	if err != nil && !errors.Is(err, errLost) { // behind a loss it goes on with what told of it
		st.close()
	}
	if st.b.Len() > 0 {
		var bad error
		if out, bad = st.flush(out); bad != nil {
			err = bad
		}
	}
	return out, err
}

// flush ends the batch under way.
func (st *stream) flush(out []byte) ([]byte, error) {
	if st.b.Len() == 0 {
		return out, nil
	}
	st.b.ExtendTo(st.next - 1)
	out, err := st.b.BuildTo(out, -1)
	if err != nil {
		return out, fmt.Errorf("make a batch of %s before offset %d: %w", st.p.tp, st.next, err)
	}
	st.p.note(st.anchor)
	return out, nil
}

// receive gives the next entry, if there is one to work on.
func (st *stream) receive(ctx context.Context) (wire.Delivery, bool, error) {
	var d wire.Delivery
	if st.stash != nil {
		d, st.stash = *st.stash, nil
	} else {
		var ok bool
		var err error
		if d, ok, err = st.k.TryReceive(); err != nil || !ok {
			return d, ok, err
		}
	}
	if st.p.s.cfg.SealedOnly {
		sealed, err := st.p.isSealed(ctx, d.ID.Ledger)
		if err != nil || !sealed {
			st.stash = &d
			return d, false, err
		}
	}
	return d, true, nil
}

// pass is read without giving anything: it waits for the next entry and counts it. found says that the entry is the
// one that at looks for, o being its first offset, or that the end, last, was reached.
func (st *stream) pass(ctx context.Context, last MessageID, at func(*wire.Delivery) bool) (o record.Offset, found bool, err error) {
	if !st.anchor.Lost && reached(st.anchor.ID, last) {
		st.p.note(st.anchor)
		return st.anchor.Offset + 1, true, nil
	}
	if err := st.open(ctx); err != nil {
		return 0, false, err
	}
	wait, cancel := context.WithTimeout(ctx, st.p.s.quiet)
	defer cancel()
	d, err := st.k.Receive(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return st.silence(ctx, last)
	}
	if err != nil {
		return 0, false, err
	}
	st.since = time.Time{}
	was := st.anchor.Offset
	if err := st.process(ctx, &d, false); err != nil {
		return 0, false, err
	}
	if st.verify || st.catching {
		return 0, false, nil
	}
	if st.anchor.Offset > was && !st.anchor.Lost && at(&d) {
		return was + 1, true, nil
	}
	if compareEntries(d.ID, last) < 0 {
		return 0, false, nil
	}
	if !st.anchor.Lost {
		st.p.note(st.anchor)
	}
	return st.anchor.Offset + 1, true, nil
}

// silence is pass when nothing came for a while.
func (st *stream) silence(ctx context.Context, last MessageID) (record.Offset, bool, error) {
	if st.since.IsZero() {
		st.since = time.Now()
	}
	at := st.at
	if st.verify || st.catching { // the anchor is to come, and did not
		at = wire.Earliest
	}
	end, err := st.p.silent(ctx, at, last)
	if err == nil && !end && st.farthest && st.at.Ledger < 0 {
		end, err = gone(ctx, st.k, last)
	}
	switch {
	case end && st.k.Queued() == 0:
		return st.anchor.Offset + 1, true, nil
	case err != nil && !passing(err):
		return 0, false, err
	case time.Since(st.since) > st.p.patience():
		return 0, false, st.p.stuck(st.at, last)
	}
	return 0, false, nil
}

// reached says whether id is the last message, or behind it.
func reached(id, last MessageID) bool {
	c := compareEntries(id, last)
	return c > 0 || c == 0 && id.Batch >= last.Batch
}

// process counts an entry and, if it is asked to give, adds its messages to the batch under way.
func (st *stream) process(ctx context.Context, d *wire.Delivery, give bool) error {
	if st.proven > 0 {
		st.proven--
	}
	switch {
	case st.verify:
		c := compareEntries(d.ID, st.anchor.First)
		if c > 0 {
			return st.lose(ctx, d)
		}
		st.verify = c < 0
	case st.at.Ledger >= 0 && compareEntries(d.ID, st.at) <= 0:
		return nil // again
	case st.at.Ledger >= 0 && d.ID.Ledger != st.at.Ledger && st.proven == 0 && !st.p.s.feed.Gapless():
		n := st.k.Queued()
		if ok, err := st.prove(ctx, d); err != nil {
			return err
		} else if !ok {
			return st.lose(ctx, d)
		}
		st.proven = n // they were sent before the proof
	}
	if d.Corrupt != nil && !st.catching && st.damaged != d.ID { // fetch it once more
		st.damaged = d.ID
		return fmt.Errorf("%w: %s of %s: %w", wire.ErrLost, d.ID, st.p.tp, d.Corrupt)
	}
	if st.anchor.Lost { // that d comes next is so because nothing behind the anchor went
		if err := st.overtaken(ctx); err != nil {
			return err
		}
	}
	st.before, st.at = st.at, d.ID
	if st.anchor.Offset < 0 && st.anchor.Lost {
		st.rebase(d)
	}
	place := noted{Place: Place{ID: d.ID, First: d.ID, Index: d.Entry.Index}, ack: st.before}
	place.ID.Batch = -1
	e := &d.Entry
	switch {
	case d.Corrupt != nil:
		e = nil
	case e.Marker:
		return nil
	case e.Chunks > 1:
		whole, err := st.assemble(ctx, d, &place)
		if err == nil && whole == nil && st.catching && !st.verify && compareEntries(d.ID, st.anchor.ID) == 0 {
			st.catching = false // the anchor came, and has its offset, though not all its chunks came this time
		}
		if err != nil || whole == nil {
			return err
		}
		e = whole
	}
	return st.count(ctx, d, e, place, give)
}

// count gives an entry its offsets. e is nil when it is damaged. How many a batch takes stands in the clear: it is the same for who
// has its key and who has not.
func (st *stream) count(ctx context.Context, d *wire.Delivery, e *entry.Entry, place noted, give bool) error {
	first, n := st.anchor.Offset+1, 1
	if e != nil && e.Batched {
		n = e.Count
		place.ID.Batch = int32(n - 1)
	}
	if st.catching {
		c := compareEntries(d.ID, st.anchor.ID)
		if c < 0 {
			return nil
		}
		if c > 0 { // the anchor's first chunk was there, and its last is not
			return st.lose(ctx, d)
		}
		st.catching = false
		first = st.anchor.Offset - record.Offset(max(st.anchor.ID.Batch, 0))
		if e != nil && e.Encrypted && st.anchor.ID.Batch < 0 { // an older build counted the batch as one, in this table
			n, place.ID.Batch = 1, -1
		}
	}
	if n == 0 {
		return nil
	}
	place.Offset = first + record.Offset(n) - 1
	give = give && place.Offset >= st.emit
	var kept error
	if give && e != nil && e.Encrypted { // before anything is counted: who ends here begins here again
		var err error
		if e, kept, err = st.decrypt(d, e); err != nil {
			return err
		}
	}
	for _, c := range st.chunks { // what is begun is needed still
		if compareEntries(c.ack, place.ack) < 0 {
			place.ack = c.ack
		}
	}
	st.anchor = place
	if give {
		st.give(d, e, first, kept)
	}
	st.next = max(place.Offset+1, st.emit)
	st.emit = st.next
	return nil
}

// rebase begins to count at the first message that was ever met.
func (st *stream) rebase(d *wire.Delivery) {
	st.p.mu.Lock()
	base, known := st.p.base, st.p.based
	st.p.mu.Unlock()
	if !known {
		base = 0
		// The index of a batch is that of its last message, and a batch of a transaction counts as one.
		if e := &d.Entry; d.Corrupt == nil && e.Index >= 0 && (!e.Transaction || e.Count == 1) && e.Index+1 >= int64(e.Count) {
			base = record.Offset(e.Index + 1 - int64(e.Count))
		}
	}
	st.setBase(base)
}

// begin finds where to count from, of a stream from the oldest message on. The first message tells its own offset; nothing is
// concluded from there being none, nor from a broker that has messages and sends none, which may stand still (I2).
func (st *stream) begin(ctx context.Context) error {
	if st.stash != nil {
		st.rebase(st.stash)
		return nil
	}
	last, any, err := st.k.Last(ctx)
	if err != nil || !any {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, st.p.s.quiet)
	defer cancel()
	d, err := st.k.Receive(wait)
	switch {
	case err == nil:
		st.stash = &d
		st.rebase(&d)
		return nil
	case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		return err
	case st.p.s.feed.Gapless(): // nothing will ever come
		return nil
	}
	nothing, err := gone(ctx, st.k, last)
	if err != nil || nothing {
		return err
	}
	return fmt.Errorf("%w: the oldest message of %s does not come, though %s is there", wire.ErrLost, st.p.tp, last)
}

func (st *stream) setBase(base record.Offset) {
	st.p.mu.Lock()
	defer st.p.mu.Unlock()
	st.p.base, st.p.based = base, true
	st.p.end = max(st.p.end, base)
	st.anchor.Offset, st.anchor.Lost = base-1, true
	st.next = max(base, st.emit)
	st.emit = st.next
}

// give adds the messages of an entry whose offsets are not below emit. kept is what is wrong with one that stays encrypted.
func (st *stream) give(d *wire.Delivery, e *entry.Entry, first record.Offset, kept error) {
	if e == nil {
		st.damage(d, first, -1, d.Corrupt)
		return
	}
	o := record.Origin{Ledger: d.ID.Ledger, Entry: d.ID.Entry, Index: -1, FirstLedger: -1, FirstEntry: -1, Producer: e.Producer, SchemaVersion: e.SchemaVersion}
	if st.anchor.First != st.anchor.ID && e.Chunks > 1 {
		o.FirstLedger, o.FirstEntry = st.anchor.First.Ledger, st.anchor.First.Entry
	}
	met := int32(-1)
	err := st.msgs.Open(e)
	for err == nil && st.msgs.Next() {
		m := st.msgs.Message()
		if e.Encrypted && e.Batched { // it stands for all that are to be given
			m.Batch = int32(max(st.emit-first, 0))
		}
		met = max(m.Batch, 0)
		offset := first + record.Offset(met)
		if offset < st.emit {
			continue
		}
		o.Batch, o.EventTime, o.Sequence, o.OrderingKey = m.Batch, m.EventTime, m.Sequence, m.OrderingKey
		if e.Index >= 0 {
			o.Index = max(e.Index-int64(e.Count)+1+int64(met), -1)
		}
		st.origin = o.AppendTo(st.origin[:0])
		st.headers = append(st.headers[:0], record.Header{Key: originKey, Value: st.origin})
		if st.p.s.cfg.NoOrigin {
			st.headers = st.headers[:0]
		}
		if e.Encrypted {
			st.keep(e, kept)
		}
		for _, p := range m.Properties {
			st.headers = append(st.headers, record.Header{Key: p.Key, Value: p.Value})
		}
		st.b.AppendAt(offset, e.PublishTime, m.Key, m.Value, st.headers)
	}
	if err == nil {
		err = st.msgs.Err()
	}
	if err != nil {
		offset, batch := max(first+record.Offset(met+1), st.emit), int32(-1)
		if e.Batched { // who begins at this record counts back to the first of the batch
			batch = int32(offset - first)
		}
		st.damage(d, offset, batch, err)
	}
}

// damage gives an entry that cannot be read as one record with its bytes (I7). Its other offsets stay empty.
func (st *stream) damage(d *wire.Delivery, offset record.Offset, batch int32, cause error) {
	if offset > st.anchor.Offset {
		return
	}
	o := record.Origin{Ledger: d.ID.Ledger, Entry: d.ID.Entry, Batch: batch, Index: -1, FirstLedger: -1, FirstEntry: -1}
	st.origin = o.AppendTo(st.origin[:0])
	st.headers = append(st.headers[:0], record.Header{Key: originKey, Value: st.origin}, record.Header{Key: errorKey, Value: []byte(cause.Error())})
	if st.p.s.cfg.NoOrigin {
		st.headers = st.headers[1:]
	}
	st.b.AppendAt(offset, max(d.Entry.PublishTime, -1), nil, d.Raw, st.headers)
}

// Keys of headers that are none of the message's properties.
var (
	originKey   = []byte(record.OriginHeader)
	metadataKey = []byte("__metadata") // of an encrypted entry: Pulsar's MessageMetadata, with all that is needed to decrypt; of one in chunks, that of each
	sizesKey    = []byte("__chunks")   // of an encrypted message in chunks: their sizes in bytes
	errorKey    = []byte("__error")    // of a damaged entry: what is wrong
)
