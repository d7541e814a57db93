// Package entry decodes what Pulsar stores: an entry of a ledger holds one message, a batch of messages, or one chunk
// of a large message. Brokers send entries to consumers as they are stored, and the offloaders keep them so.
//
// # Format
//
// All numbers are big-endian; the messages are those of PulsarApi.proto.
//
//	[0x0e02][size u32][BrokerEntryMetadata]   optional: what the broker added (PIP-70)
//	[0x0e01][crc32c u32]                      optional; of all that follows
//	[size u32][MessageMetadata][payload]
//
// The payload of a batch is, decompressed, for each message [size u32][SingleMessageMetadata][value].
//
// Sizes are checked before they are used, and what is decompressed is bounded by what the entry says and by a limit
// (I8). Nothing is kept between entries but buffers.
package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

const (
	magicBroker = 0x0e02
	magicCRC    = 0x0e01
)

// ErrCorrupt is wrapped by every error about an entry's bytes.
var ErrCorrupt = errors.New("corrupt entry")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Compression is how a payload is compressed.
type Compression uint8

// Values as on the wire.
const (
	None   Compression = 0
	LZ4    Compression = 1
	Zlib   Compression = 2
	Zstd   Compression = 3
	Snappy Compression = 4
)

// MarkerKind says what a mark of the broker means. Others are of its own business.
type MarkerKind uint64

// Values as on the wire. They end the transaction that the metadata names.
const (
	CommitMarker MarkerKind = 21
	AbortMarker  MarkerKind = 22
)

// Property is one of a message's properties. Keys may repeat and keep their order.
type Property struct{ Key, Value []byte }

// Entry is a parsed entry. Its bytes alias what was parsed.
type Entry struct {
	Index      int64 // the broker's running index, of the last message of a batch; -1: the broker does not count
	BrokerTime int64 // ms; -1: none
	RawMeta    []byte
	Payload    []byte  // as stored: perhaps compressed, perhaps encrypted
	Sealed     []Chunk // of a message put together of chunks, some of them encrypted: what Payload is made of
	Metadata
}

// Chunk is a part of a payload: each chunk of a message is encrypted by itself.
type Chunk struct {
	Size    int
	RawMeta []byte // by which it is encrypted; nil: it is not
}

// Metadata describes a message or a batch. Of a batch, what differs from message to message stands beside each.
type Metadata struct {
	Producer         []byte
	Sequence         int64
	PublishTime      int64 // ms
	EventTime        int64 // ms; 0: none
	Properties       []Property
	Key              []byte // nil: none
	OrderingKey      []byte
	SchemaVersion    []byte
	Compression      Compression
	UncompressedSize int64
	NullValue        bool
	Batched          bool // several messages, or a batch of one
	Count            int  // of messages; 1 when not batched
	Encrypted        bool
	Marker           bool // not a message but a mark of the broker's own
	MarkerKind       MarkerKind
	Transaction      bool
	TxnMost          int64
	TxnLeast         int64
	UUID             []byte // of a chunked message
	Chunks           int    // above 1: this is one of so many chunks
	Chunk            int
	ChunkedSize      int64 // of all chunks together, as they are stored
}

// Parse reads an entry. It checks the sum over it when there is one.
func Parse(b []byte) (Entry, error) {
	e := Entry{Index: -1, BrokerTime: -1}
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicBroker {
		n := int64(binary.BigEndian.Uint32(b[2:]))
		if n > int64(len(b)-6) {
			return e, fmt.Errorf("%w: broker metadata of %d bytes in an entry of %d", ErrCorrupt, n, len(b))
		}
		if err := e.broker(b[6 : 6+n]); err != nil {
			return e, err
		}
		b = b[6+n:]
	}
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicCRC {
		want := binary.BigEndian.Uint32(b[2:])
		b = b[6:]
		if got := crc32.Checksum(b, castagnoli); got != want {
			return e, fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, want)
		}
	}
	if len(b) < 4 {
		return e, fmt.Errorf("%w: %d bytes where the size of the metadata should be", ErrCorrupt, len(b))
	}
	n := int64(binary.BigEndian.Uint32(b))
	if n > int64(len(b)-4) {
		return e, fmt.Errorf("%w: metadata of %d bytes where %d are left", ErrCorrupt, n, len(b)-4)
	}
	e.RawMeta, e.Payload = b[4:4+n], b[4+n:]
	return e, e.Metadata.parse(e.RawMeta)
}

func (e *Entry) broker(b []byte) error {
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			e.BrokerTime = f.Int()
		case 2:
			e.Index = f.Int()
		}
	}
	if r.Err() != nil {
		return fmt.Errorf("%w: broker metadata: %w", ErrCorrupt, r.Err())
	}
	return nil
}

func (m *Metadata) parse(b []byte) error {
	m.Count = 1
	hasKey, nullKey, encoded := false, false, false
	r := pbfield.Read(b)
	for r.Next() {
		f := r.Field()
		switch f.Num {
		case 1:
			m.Producer = f.Bytes
		case 2:
			m.Sequence = f.Int()
		case 3:
			m.PublishTime = f.Int()
		case 4:
			p, err := property(f.Bytes)
			if err != nil {
				return err
			}
			m.Properties = append(m.Properties, p)
		case 6:
			m.Key, hasKey = f.Bytes, true
		case 8:
			m.Compression = Compression(min(f.Uint, 255))
		case 9:
			m.UncompressedSize = int64(uint32(f.Uint))
		case 11:
			m.Count, m.Batched = int(int32(f.Uint)), true
		case 12:
			m.EventTime = f.Int()
		case 13:
			m.Encrypted = true
		case 16:
			m.SchemaVersion = f.Bytes
		case 17:
			encoded = f.Bool()
		case 18:
			m.OrderingKey = f.Bytes
		case 20:
			m.Marker, m.MarkerKind = true, MarkerKind(f.Uint)
		case 22:
			m.TxnLeast, m.Transaction = f.Int(), true
		case 23:
			m.TxnMost, m.Transaction = f.Int(), true
		case 25:
			m.NullValue = f.Bool()
		case 26:
			m.UUID = f.Bytes
		case 27:
			m.Chunks = int(int32(f.Uint))
		case 28:
			m.ChunkedSize = int64(int32(f.Uint))
		case 29:
			m.Chunk = int(int32(f.Uint))
		case 30:
			nullKey = f.Bool()
		}
	}
	if r.Err() != nil {
		return fmt.Errorf("%w: message metadata: %w", ErrCorrupt, r.Err())
	}
	m.Key = keyOf(m.Key, hasKey, nullKey, encoded)
	if m.Batched && (m.Count < 0 || m.Count > maxCount) {
		return fmt.Errorf("%w: a batch of %d messages", ErrCorrupt, m.Count)
	}
	if m.Chunks > 1 && (m.Chunk < 0 || m.Chunk >= m.Chunks || m.ChunkedSize < 0) {
		return fmt.Errorf("%w: chunk %d of %d, %d bytes together", ErrCorrupt, m.Chunk, m.Chunks, m.ChunkedSize)
	}
	return nil
}

// maxCount bounds a batch far above what brokers take.
const maxCount = 16 << 20

// property reads a KeyValue. Key and value are never nil.
func property(b []byte) (p Property, err error) {
	p.Key, p.Value = []byte{}, []byte{}
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			p.Key = f.Bytes
		case 2:
			p.Value = f.Bytes
		}
	}
	if r.Err() != nil {
		return p, fmt.Errorf("%w: property: %w", ErrCorrupt, r.Err())
	}
	return p, nil
}
