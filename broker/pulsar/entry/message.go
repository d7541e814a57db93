package entry

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// Message is one message. Its bytes alias the entry, or the Messages that gave it, and live until its next Open.
type Message struct {
	Batch       int32 // index in the batch, -1 when the message was not batched
	Key         []byte
	OrderingKey []byte
	Value       []byte // nil: null
	Properties  []Property
	EventTime   int64 // ms; 0: none
	Sequence    int64
}

// Messages goes over the messages of one entry after another. The zero value is ready.
type Messages struct {
	MaxBytes int // of a decompressed payload; 0: DefaultMaxBytes

	e    *Entry
	rest []byte
	i    int
	msg  Message
	err  error
	buf  []byte
	keys []byte // decoded ones
}

// DefaultMaxBytes bounds what one payload may decompress to.
const DefaultMaxBytes = 256 << 20

// keepBuffer is the largest buffer that is kept for the next entry.
const keepBuffer = 16 << 20

// Open goes before the first message of e. e must stay as it is until the last Next. The payload of a chunked message
// is put together before: e is then any of its chunks with the whole payload. An encrypted entry is one message with
// the payload as it is, however many it holds.
func (m *Messages) Open(e *Entry) error {
	m.e, m.i, m.err, m.rest = e, 0, nil, e.Payload
	m.msg.Properties = m.msg.Properties[:0]
	m.keys = m.keys[:0]
	if e.Encrypted || e.Compression == None {
		return nil
	}
	limit := int64(m.MaxBytes)
	if limit == 0 {
		limit = DefaultMaxBytes
	}
	if e.UncompressedSize > limit {
		m.err = fmt.Errorf("%w: it decompresses to %d bytes, and %d is the limit", ErrCorrupt, e.UncompressedSize, limit)
		return m.err
	}
	if cap(m.buf) > keepBuffer && e.UncompressedSize <= keepBuffer {
		m.buf = nil
	}
	m.buf, m.err = decompress(m.buf[:0], e.Payload, e.Compression, int(e.UncompressedSize))
	m.rest = m.buf
	return m.err
}

// Err is what ended the entry before its end; nil after the last message.
func (m *Messages) Err() error { return m.err }

// Message is the one that the last Next came to; overwritten by the following Next.
func (m *Messages) Message() *Message { return &m.msg }

// Next goes to the next message; false at the end and on damage, which Err tells apart. Messages that compaction took
// out of a batch are passed over.
func (m *Messages) Next() bool {
	e := m.e
	if m.err != nil || e == nil {
		return false
	}
	if !e.Batched || e.Encrypted {
		if m.i > 0 {
			return false
		}
		m.i++
		m.msg = Message{Batch: -1, Key: e.Key, OrderingKey: e.OrderingKey, Value: present(m.rest), EventTime: e.EventTime,
			Sequence: e.Sequence, Properties: append(m.msg.Properties[:0], e.Properties...)}
		if e.NullValue {
			m.msg.Value = nil
		}
		return true
	}
	for m.i < e.Count {
		out, err := m.single()
		if err != nil {
			m.err = fmt.Errorf("message %d of %d: %w", m.i, e.Count, err)
			return false
		}
		m.i++
		if !out {
			return true
		}
	}
	if len(m.rest) > 0 {
		m.err = fmt.Errorf("%w: %d bytes behind the last message", ErrCorrupt, len(m.rest))
	}
	return false
}

// single reads the next message of a batch and says whether compaction took it out.
func (m *Messages) single() (out bool, err error) {
	if len(m.rest) < 4 {
		return false, fmt.Errorf("%w: the batch ends early", ErrCorrupt)
	}
	n := int64(binary.BigEndian.Uint32(m.rest))
	if n > int64(len(m.rest)-4) {
		return false, fmt.Errorf("%w: metadata of %d bytes where %d are left", ErrCorrupt, n, len(m.rest)-4)
	}
	meta, body := m.rest[4:4+n], m.rest[4+n:]
	m.msg = Message{Batch: int32(m.i), Sequence: m.e.Sequence + int64(m.i), Properties: m.msg.Properties[:0]}
	size, null, hasKey, nullKey, encoded := int64(-1), false, false, false, false
	r := pbfield.Read(meta)
	for r.Next() {
		f := r.Field()
		switch f.Num {
		case 1:
			p, err := property(f.Bytes)
			if err != nil {
				return false, err
			}
			m.msg.Properties = append(m.msg.Properties, p)
		case 2:
			m.msg.Key, hasKey = f.Bytes, true
		case 3:
			size = int64(int32(f.Uint))
		case 4:
			out = f.Bool()
		case 5:
			m.msg.EventTime = f.Int()
		case 6:
			encoded = f.Bool()
		case 7:
			m.msg.OrderingKey = f.Bytes
		case 8:
			m.msg.Sequence = f.Int()
		case 9:
			null = f.Bool()
		case 10:
			nullKey = f.Bool()
		}
	}
	if r.Err() != nil {
		return false, fmt.Errorf("%w: %w", ErrCorrupt, r.Err())
	}
	if null {
		size = max(size, 0) // clients write 0, or -1
	}
	if size < 0 || size > int64(len(body)) {
		return false, fmt.Errorf("%w: a value of %d bytes where %d are left", ErrCorrupt, size, len(body))
	}
	m.msg.Key = keyOf(m.msg.Key, hasKey, nullKey, encoded)
	m.msg.Value = present(body[:size:size])
	if null {
		m.msg.Value = nil
	}
	m.rest = body[size:]
	return out, nil
}

// present makes sure that an empty value is not taken for null.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// keyOf gives the bytes of a key: nil when there is none. A key of bytes travels as base64; what does not decode is
// kept as it came.
func keyOf(key []byte, has, null, encoded bool) []byte {
	if !has || null {
		return nil
	}
	if encoded {
		if raw, err := base64.StdEncoding.AppendDecode(make([]byte, 0, len(key)), key); err == nil {
			return raw
		}
	}
	return present(key)
}
