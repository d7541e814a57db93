package pulsar

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// readerName is the name of a subscription that nobody else has.
func readerName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "ledgerlake-reader-" + hex.EncodeToString(b[:])
}

// lose gives offsets up for messages between the anchor and d that are gone: as many as the running index says, at
// least one. d is the next message then. Nothing is lost that the table has by now: who is that far behind is sent there.
func (st *stream) lose(ctx context.Context, d *wire.Delivery) error {
	if st.b.Len() > 0 { // a batch under way ends before the loss: one that went over it would call its offsets empty (I4)
		st.stash = d
		return errBatchFirst
	}
	if err := st.overtaken(ctx); err != nil {
		return err
	}
	n := int64(1)
	const believable = 1 << 40
	if first := firstIndex(d); first >= 0 && st.anchor.Index >= 0 {
		if m := first - st.anchor.Index - 1; m > 0 && m < believable {
			n = m
		}
	}
	from := st.anchor.Offset + 1
	to := max(from+record.Offset(n), st.emit+1)
	st.p.s.cfg.Logger.Warn("pulsar: messages are gone that were not read", "partition", st.p.tp.String(), "behind", st.anchor.ID.String(),
		"before", d.ID.String(), "offset", from, "offsets_given_up", to-from)
	st.p.mu.Lock()
	st.p.loss = lossRange{from, to}
	st.p.end = max(st.p.end, to)
	st.p.mu.Unlock()
	st.anchor = noted{Place: Place{Offset: to - 1, Lost: true, Index: -1}, ack: wire.Earliest}
	st.next, st.emit = to, to
	st.verify, st.catching, st.at = false, false, wire.Earliest
	st.farthest = true // what is before d has offsets already, or is gone
	clear(st.chunks)
	st.stash = d
	return errLost
}

// overtaken sends who is asked for what the table has by now to the table: its ledgers may be gone because the table has them,
// and then nothing tells which offset the message has that comes.
func (st *stream) overtaken(ctx context.Context) error {
	end, ok, err := st.p.tableEnd(ctx)
	if err != nil || !ok || end <= max(st.anchor.Offset+1, st.emit) {
		return err
	}
	return st.p.inTable(st.emit, end)
}

// errBatchFirst ends a read before a loss, which the next one meets.
var errBatchFirst = errors.New("the batch under way comes first")

// errLost ends a read at a loss: asking for the offsets tells of it.
var errLost = fmt.Errorf("%w: messages are gone", wire.ErrLost)

// firstIndex is the running index of an entry's first message; -1 when it is unknown or cannot be right.
func firstIndex(d *wire.Delivery) int64 {
	if d.Corrupt != nil || d.Entry.Index < 0 || d.Entry.Transaction && d.Entry.Count > 1 {
		return -1
	}
	return max(d.Entry.Index+1-int64(d.Entry.Count), -1)
}

// prove says whether nothing can be missing between the last entry and d, which is of another ledger: the ledger of
// the last one is still there, so no younger one was dropped either.
func (st *stream) prove(ctx context.Context, d *wire.Delivery) (bool, error) {
	k, err := st.p.s.feed.Open(ctx, st.p.topic, st.at, nil)
	if err != nil {
		return false, err
	}
	defer k.Close()
	wait, cancel := context.WithTimeout(ctx, st.p.s.cfg.Timeout)
	defer cancel()
	for {
		got, err := k.Receive(wait)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				err = fmt.Errorf("%w: no answer to where %s is", wire.ErrLost, st.at)
			}
			return false, err
		}
		if c := compareEntries(got.ID, st.at); c == 0 {
			return true, nil
		} else if c > 0 {
			break
		}
	}
	// Nothing holds the ledgers of a reader without a table; then an index that goes on is the only sign.
	return st.p.s.cfg.Index == nil && st.anchor.Index >= 0 && !st.anchor.Lost && firstIndex(d) == st.anchor.Index+1, nil
}

// chunks is a message of which not all chunks have come.
type chunks struct {
	first MessageID
	ack   MessageID // the entry before the first one
	came  int
	body  []byte
	parts []entry.Chunk
}

const maxPending = 100 // messages in chunks at a time; of more, the one that began first is given up

// assemble adds a chunk, and gives the whole message with the last one. Its place is that of the last chunk.
func (st *stream) assemble(ctx context.Context, d *wire.Delivery, place *noted) (*entry.Entry, error) {
	e := &d.Entry
	key := string(e.UUID)
	c := st.chunks[key]
	switch {
	case e.Chunk == 0:
		delete(st.hopeless, key)
		if e.ChunkedSize > int64(st.p.s.cfg.MaxMessageBytes) {
			st.hopeless[key] = true
			st.warn(d, fmt.Sprintf("a message of %d bytes in chunks is above the limit of %d", e.ChunkedSize, st.p.s.cfg.MaxMessageBytes))
			return nil, nil
		}
		c = &chunks{first: d.ID, ack: st.before}
		st.drop(d)
		st.chunks[key] = c
	case st.hopeless[key]:
		return nil, nil
	case c == nil && st.catching:
		return nil, nil
	case c == nil:
		return nil, st.goBack(ctx, d, key)
	case e.Chunk < c.came: // sent twice
		return nil, nil
	case e.Chunk > c.came:
		delete(st.chunks, key)
		st.warn(d, fmt.Sprintf("chunk %d of a message came behind chunk %d", e.Chunk, c.came-1))
		return nil, nil
	}
	if len(c.body)+len(e.Payload) > st.p.s.cfg.MaxMessageBytes {
		delete(st.chunks, key)
		st.hopeless[key] = true
		st.warn(d, "the chunks of a message are larger than it says")
		return nil, nil
	}
	c.body = append(c.body, e.Payload...)
	part := entry.Chunk{Size: len(e.Payload)}
	if e.Encrypted {
		part.RawMeta = bytes.Clone(e.RawMeta) // the entry's bytes are not needed any more
	}
	c.parts = append(c.parts, part)
	c.came++
	if c.came < e.Chunks {
		return nil, nil
	}
	delete(st.chunks, key)
	place.First, place.ack = c.first, c.ack
	whole := *e
	whole.Payload = c.body
	if whole.Encrypted = slices.ContainsFunc(c.parts, func(p entry.Chunk) bool { return p.RawMeta != nil }); whole.Encrypted {
		whole.Sealed = c.parts
	}
	return &whole, nil
}

// drop makes room for one more.
func (st *stream) drop(d *wire.Delivery) {
	if len(st.chunks) < maxPending {
		return
	}
	oldest := ""
	for k, c := range st.chunks {
		if oldest == "" || compareEntries(c.first, st.chunks[oldest].first) < 0 {
			oldest = k
		}
	}
	delete(st.chunks, oldest)
	st.warn(d, "too many messages in chunks at a time: the one that began first is given up")
}

func (st *stream) warn(d *wire.Delivery, what string) {
	st.p.s.cfg.Logger.Warn("pulsar: "+what, "partition", st.p.tp.String(), "id", d.ID.String())
}

// goBack begins again earlier, to find the beginning of a message in chunks that lies before the anchor: as the chunks of
// several producers mix, a message can begin before one that has its offset already. The anchor stays what it is.
func (st *stream) goBack(ctx context.Context, d *wire.Delivery, key string) error {
	if st.farthest {
		st.hopeless[key] = true
		st.warn(d, "a chunk without the beginning of its message, which is gone: the message is left out, as Pulsar's clients do")
		return nil
	}
	const first = 256
	st.rewind = max(2*st.rewind, first)
	at, err := st.p.before(ctx, max(st.anchor.Offset-st.rewind, 0))
	if err != nil {
		return err
	}
	back := wire.Earliest
	if !at.Lost {
		back = at.First
	}
	st.close()
	return st.openAt(ctx, back)
}
