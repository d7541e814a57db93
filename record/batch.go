package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// HeaderSize is the length of a v2 batch header: everything before the first record.
const HeaderSize = 61

// lengthEnd is the end of the length field: Length counts the bytes after it.
const lengthEnd = 12

// Positions of the fields in a batch.
const (
	posBaseOffset = 0
	posLength     = 8
	posEpoch      = 12
	posMagic      = 16
	posCRC        = 17
	posAttributes = 21
	posLastDelta  = 23
	posBaseTime   = 27
	posMaxTime    = 35
	posProducerID = 43
	posProdEpoch  = 51
	posSequence   = 53
	posCount      = 57
)

// Bits of the attributes field; the low three are the codec.
const (
	codecMask              = 0x07
	attrLogAppendTime      = 0x08
	attrTransactional      = 0x10
	attrControl            = 0x20
	magicV2           int8 = 2
)

// BatchHeader is the header of a v2 batch, field by field.
type BatchHeader struct {
	BaseOffset      Offset
	Length          int32 // bytes after the length field
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32 // CRC-32C of everything from Attributes on
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64 // -1 when the producer is not idempotent
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// Codec gives the compression of the records. It may be one that this package does not know.
func (h BatchHeader) Codec() Codec { return Codec(h.Attributes & codecMask) }

// Control says whether the batch holds a transaction marker or another record that clients never see.
func (h BatchHeader) Control() bool { return h.Attributes&attrControl != 0 }

// Transactional says whether the batch is part of a transaction.
func (h BatchHeader) Transactional() bool { return h.Attributes&attrTransactional != 0 }

// LogAppendTime says whether all records have the broker's time, MaxTimestamp.
func (h BatchHeader) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// LastOffset is the last offset that the batch covers, whether or not a record still has it.
func (h BatchHeader) LastOffset() Offset { return h.BaseOffset + Offset(h.LastOffsetDelta) }

// Size is the length of the whole batch in bytes.
func (h BatchHeader) Size() int { return lengthEnd + int(h.Length) }

// Batch is one whole batch. Raw aliases the bytes that it was read from.
type Batch struct {
	BatchHeader
	Raw []byte
}

// ParseHeader reads the header at the start of b. Older message formats (magic 0 and 1), lengths that cannot
// be, and offsets out of bounds are a *CorruptError; ErrTruncated when b is shorter than a header. What it
// accepts has 0 <= BaseOffset <= LastOffset, so a caller that goes on at LastOffset()+1 always makes progress.
func ParseHeader(b []byte) (BatchHeader, error) {
	if len(b) > posMagic && int8(b[posMagic]) != magicV2 {
		return BatchHeader{}, corrupt(posMagic, int64(magicV2), int64(int8(b[posMagic])), "message format version")
	}
	if len(b) >= lengthEnd {
		if n := int32(binary.BigEndian.Uint32(b[posLength:])); n < HeaderSize-lengthEnd || n > math.MaxInt32-lengthEnd {
			return BatchHeader{}, corrupt(posLength, HeaderSize-lengthEnd, int64(n), "batch length")
		}
	}
	if len(b) < HeaderSize {
		return BatchHeader{}, ErrTruncated
	}
	h := BatchHeader{
		BaseOffset:      Offset(binary.BigEndian.Uint64(b[posBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(b[posLength:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[posEpoch:])),
		Magic:           int8(b[posMagic]),
		CRC:             binary.BigEndian.Uint32(b[posCRC:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[posLastDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[posBaseTime:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[posMaxTime:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[posProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[posProdEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[posSequence:])),
		Count:           int32(binary.BigEndian.Uint32(b[posCount:])),
	}
	return h, h.check()
}

// check refuses headers whose numbers contradict each other.
func (h BatchHeader) check() error {
	if h.LastOffsetDelta < 0 {
		return corrupt(posLastDelta, 0, int64(h.LastOffsetDelta), "last offset delta")
	}
	if h.BaseOffset < 0 || h.BaseOffset >= math.MaxInt64-Offset(h.LastOffsetDelta) {
		return corrupt(posBaseOffset, 0, int64(h.BaseOffset), "base offset")
	}
	// Compaction takes records out but keeps the offsets, so there may be fewer records, never more.
	if h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1 {
		return corrupt(posCount, int64(h.LastOffsetDelta)+1, int64(h.Count), "record count for the offsets of the batch")
	}
	return nil
}

// ReadBatch gives the first batch of b, without checking its CRC. ErrTruncated when b ends inside it. The next
// batch begins at b[batch.Size():].
func ReadBatch(b []byte) (Batch, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Batch{}, err
	}
	if len(b) < h.Size() {
		return Batch{}, ErrTruncated
	}
	return Batch{BatchHeader: h, Raw: b[:h.Size():h.Size()]}, nil
}

// castagnoli is the CRC-32C table; crc32 uses the processor's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VerifyCRC compares the checksum of the batch with the stored one.
func (b Batch) VerifyCRC() error {
	if len(b.Raw) < HeaderSize {
		return ErrTruncated
	}
	if got := crc32.Checksum(b.Raw[posAttributes:], castagnoli); got != b.CRC {
		return corrupt(posCRC, int64(b.CRC), int64(got), "CRC-32C")
	}
	return nil
}

// SetBaseOffset moves a batch to another offset. The CRC does not cover the field. A raw that is shorter than
// a header is left alone.
func SetBaseOffset(raw []byte, o Offset) {
	if len(raw) >= HeaderSize {
		binary.BigEndian.PutUint64(raw[posBaseOffset:], uint64(o))
	}
}

// SetLeaderEpoch stamps the epoch of the partition's leader. The CRC does not cover the field. A raw that is
// shorter than a header is left alone.
func SetLeaderEpoch(raw []byte, e int32) {
	if len(raw) >= HeaderSize {
		binary.BigEndian.PutUint32(raw[posEpoch:], uint32(e))
	}
}

// StampAppendTime gives all records of a batch the broker's time ms, as message.timestamp.type=LogAppendTime
// asks, and computes the CRC again. raw is exactly one batch; one shorter than a header is left alone.
func StampAppendTime(raw []byte, ms int64) {
	if len(raw) < HeaderSize {
		return
	}
	attrs := binary.BigEndian.Uint16(raw[posAttributes:])
	binary.BigEndian.PutUint16(raw[posAttributes:], attrs|attrLogAppendTime)
	binary.BigEndian.PutUint64(raw[posMaxTime:], uint64(ms))
	binary.BigEndian.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
}
