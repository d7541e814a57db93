// Package pulsartest is a Pulsar broker in memory for tests of the packages beside it: topics are ledgers of entries,
// that are served, trimmed from the front and lost with their connections, as a real one does it. It speaks only what a
// reader of topics asks; the real broker's own answers are checked by test/pulsar.
package pulsartest

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// ID is the place of an entry.
type ID struct{ Ledger, Entry int64 }

func (a ID) below(b ID) bool {
	return a.Ledger < b.Ledger || a.Ledger == b.Ledger && a.Entry < b.Entry
}

// Broker is a running broker.
type Broker struct {
	t      testing.TB
	listen net.Listener

	mu     sync.Mutex
	topics map[string]*topic
	conns  map[*client]bool
	still  bool // no messages are sent
}

type topic struct {
	next    ID // of the next entry
	index   int64
	entries []stored
	acked   map[string]ID // by durable subscription
}

type stored struct {
	id    ID
	count int
	raw   []byte

	hidden bool // no reader gets it
}

// Start runs a broker until the test ends.
func Start(t testing.TB) *Broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{t: t, listen: l, topics: map[string]*topic{}, conns: map[*client]bool{}}
	t.Cleanup(func() {
		_ = l.Close()
		b.Disconnect()
	})
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := &client{b: b, nc: nc, readers: map[uint64]*reader{}}
			b.mu.Lock()
			b.conns[c] = true
			b.mu.Unlock()
			go c.serve()
		}
	}()
	return b
}

// Addr is the broker's host:port.
func (b *Broker) Addr() string { return b.listen.Addr().String() }

// Create makes a topic: persistent://TENANT/NAMESPACE/NAME.
func (b *Broker) Create(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[name] = &topic{next: ID{Ledger: 1}, acked: map[string]ID{}}
}

// Append stores an entry of count messages, made by Message, Batch or Chunk.
func (b *Broker) Append(name string, count int, e []byte) ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.topics[name]
	p.index += int64(count)
	m := pbfield.AppendInt(pbfield.AppendInt(nil, 1, 1234), 2, p.index-1)
	raw := binary.BigEndian.AppendUint16(nil, 0x0e02)
	raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(m))), m...)
	id := p.next
	p.entries = append(p.entries, stored{id: id, count: count, raw: append(raw, e...)})
	p.next.Entry++
	for c := range b.conns {
		c.push()
	}
	return id
}

// Hide makes the last n entries such that no reader gets: of an aborted transaction, or gone by compaction. The topic ends with
// them still.
func (b *Broker) Hide(name string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.topics[name].entries
	for i := range all[len(all)-n:] {
		all[len(all)-1-i].hidden = true
	}
}

// Roll seals the topic's ledger: the next entry is in another one, whose id is some numbers higher.
func (b *Broker) Roll(name string, by int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.topics[name]
	p.next = ID{Ledger: p.next.Ledger + by}
}

// Trim drops the ledgers below one.
func (b *Broker) Trim(name string, ledger int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.topics[name]
	p.entries = slices.DeleteFunc(p.entries, func(e stored) bool { return e.id.Ledger < ledger })
}

// TrimAcked drops the ledgers that a durable subscription has acknowledged, the open one excepted.
func (b *Broker) TrimAcked(name, subscription string) {
	b.mu.Lock()
	acked, open := b.topics[name].acked[subscription], b.topics[name].next.Ledger
	last := ID{Ledger: -1}
	for _, e := range b.topics[name].entries {
		if e.id.Ledger == acked.Ledger {
			last = e.id
		}
	}
	b.mu.Unlock()
	if !acked.below(last) && last.Ledger >= 0 { // all of it
		b.Trim(name, min(acked.Ledger+1, open))
	} else {
		b.Trim(name, min(acked.Ledger, open))
	}
}

// Stall stops the sending of messages, or lets it go on: so does a broker whose bookies do not answer. All else is answered.
func (b *Broker) Stall(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.still = on
	for c := range b.conns {
		c.push()
	}
}

// Disconnect cuts all connections.
func (b *Broker) Disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.nc.Close()
	}
	clear(b.conns)
}

// client is one connection. Its readers are guarded by the broker's lock.
type client struct {
	b       *Broker
	nc      net.Conn
	readers map[uint64]*reader
}

type reader struct {
	p       *topic
	name    string
	durable bool
	next    ID
	credit  int64
	got     bool // a message
	acked   ID   // by the broker itself: what it hides before the first message
}

func (c *client) serve() {
	in := bufio.NewReader(c.nc)
	for {
		var head [8]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[4:]))
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		cmd := uint64(0)
		for r := pbfield.Read(body); r.Next(); {
			if f := r.Field(); f.Num == 1 {
				cmd = f.Uint
			} else if uint64(f.Num) == cmd {
				c.answer(cmd, f.Bytes)
			}
		}
	}
}

func (c *client) send(cmd int, body, payload []byte) {
	m := pbfield.AppendBytes(pbfield.AppendUint(nil, 1, uint64(cmd)), cmd, body)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(m)+4+len(payload)))
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(m))), m...)
	_, _ = c.nc.Write(append(b, payload...)) // one that went away asks for no more
}

// fields gives the numbers and texts of a command by their field numbers.
func fields(body []byte) (n map[int]uint64, s map[int][]byte) {
	n, s = map[int]uint64{}, map[int][]byte{}
	for r := pbfield.Read(body); r.Next(); {
		f := r.Field()
		n[f.Num], s[f.Num] = f.Uint, f.Bytes
	}
	return n, s
}

func id(ledger, entry int64, batch int32) []byte {
	b := pbfield.AppendInt(pbfield.AppendInt(nil, 1, ledger), 2, entry)
	return pbfield.AppendInt(b, 4, int64(batch))
}

func (c *client) answer(cmd uint64, body []byte) {
	n, s := fields(body)
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	switch cmd {
	case 2: // CONNECT
		c.send(3, pbfield.AppendString(nil, 1, "test"), nil)
	case 21: // PARTITIONED_METADATA
		c.send(22, pbfield.AppendUint(pbfield.AppendUint(nil, 1, 0), 2, n[2]), nil)
	case 32: // GET_TOPICS_OF_NAMESPACE
		b := pbfield.AppendUint(nil, 1, n[1])
		for name := range c.b.topics {
			b = pbfield.AppendString(b, 2, name)
		}
		c.send(33, b, nil)
	case 23: // LOOKUP
		b := pbfield.AppendString(nil, 1, "pulsar://"+c.b.Addr())
		c.send(24, pbfield.AppendUint(pbfield.AppendUint(b, 3, 1), 4, n[2]), nil)
	case 4: // SUBSCRIBE
		p := c.b.topics[string(s[1])]
		if p == nil {
			c.send(14, pbfield.AppendString(pbfield.AppendUint(pbfield.AppendUint(nil, 1, n[5]), 2, 11), 3, "no topic"), nil)
			return
		}
		at, _ := fields(s[9])
		r := &reader{p: p, name: string(s[2]), durable: n[8] != 0, next: ID{int64(at[1]), int64(at[2])}, acked: ID{-1, -1}}
		if _, known := p.acked[r.name]; r.durable && !known {
			p.acked[r.name] = ID{-1, -1}
		}
		c.readers[n[4]] = r
		c.send(13, pbfield.AppendUint(nil, 1, n[5]), nil)
	case 11: // FLOW
		if r := c.readers[n[1]]; r != nil {
			r.credit += int64(n[2])
			c.push()
		}
	case 29: // GET_LAST_MESSAGE_ID
		last := id(-1, -1, -1)
		if p := c.readers[n[1]].p; len(p.entries) > 0 {
			e := p.entries[len(p.entries)-1]
			batch := int32(e.count - 1)
			if e.count == 1 {
				batch = -1
			}
			last = id(e.id.Ledger, e.id.Entry, batch)
		}
		b := pbfield.AppendUint(pbfield.AppendBytes(nil, 1, last), 2, n[2])
		if r := c.readers[n[1]]; r.durable {
			b = pbfield.AppendBytes(b, 3, id(r.p.acked[r.name].Ledger, r.p.acked[r.name].Entry, -1))
		} else {
			b = pbfield.AppendBytes(b, 3, id(r.acked.Ledger, r.acked.Entry, -1))
		}
		c.send(30, b, nil)
	case 10: // ACK
		at, _ := fields(s[3])
		r := c.readers[n[1]]
		if to := (ID{int64(at[1]), int64(at[2])}); r.p.acked[r.name].below(to) {
			r.p.acked[r.name] = to
		}
		c.send(38, pbfield.AppendUint(pbfield.AppendUint(nil, 1, n[1]), 6, n[8]), nil)
	case 16: // CLOSE_CONSUMER
		delete(c.readers, n[1])
	}
}

// push sends what the readers have asked for. What they were at and is gone is passed over, as the real one does.
func (c *client) push() {
	if c.b.still {
		return
	}
	for consumer, r := range c.readers {
		for _, e := range r.p.entries {
			if r.durable || r.credit <= 0 {
				break
			}
			if e.id.below(r.next) {
				continue
			}
			r.next = ID{e.id.Ledger, e.id.Entry + 1}
			if e.hidden {
				if !r.got {
					r.acked = e.id
				}
				continue
			}
			r.got = true
			r.credit -= int64(e.count)
			c.send(9, pbfield.AppendBytes(pbfield.AppendUint(nil, 1, consumer), 2, id(e.id.Ledger, e.id.Entry, -1)), e.raw)
		}
	}
}

// sum puts metadata and payload together, with the sum over them.
func sum(meta, payload []byte) []byte {
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(meta))), meta...)
	body = append(body, payload...)
	b := binary.BigEndian.AppendUint16(nil, 0x0e01)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

func metadata(sequence int64) []byte {
	b := pbfield.AppendInt(pbfield.AppendString(nil, 1, "producer"), 2, sequence)
	return pbfield.AppendInt(b, 3, 1_700_000_000_000+sequence)
}

// Message is an entry of one message.
func Message(sequence int64, value string) []byte { return sum(metadata(sequence), []byte(value)) }

// Batch is an entry of several messages.
func Batch(sequence int64, values ...string) []byte {
	var payload []byte
	for _, v := range values {
		m := pbfield.AppendInt(nil, 3, int64(len(v)))
		payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(m))), m...)
		payload = append(payload, v...)
	}
	return sum(pbfield.AppendInt(metadata(sequence), 11, int64(len(values))), payload)
}

// Chunk is one of several chunks of a message.
func Chunk(uuid string, sequence int64, chunk, of, size int, part string) []byte {
	m := pbfield.AppendString(metadata(sequence), 26, uuid)
	m = pbfield.AppendInt(pbfield.AppendInt(m, 27, int64(of)), 28, int64(size))
	return sum(pbfield.AppendInt(m, 29, int64(chunk)), []byte(part))
}

// Damaged is an entry whose sum does not hold.
func Damaged() []byte {
	b := Message(0, "damaged")
	b[len(b)-1] ^= 1
	return b
}
