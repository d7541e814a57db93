package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Builder encodes records into one batch after another. Append copies what it is given. Errors are kept until
// Build, which starts over whatever its outcome.
type Builder struct {
	// Fields of the header. NewBuilder sets the three producer fields to -1 and the epoch to 0; Reset and
	// Build leave them as they are.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	LeaderEpoch   int32
	Transactional bool
	Control       bool

	codec    Codec
	recs     []byte
	count    int
	baseTime int64
	maxTime  int64
	first    Offset // of the first AppendAt; -1 in a batch of Append
	last     Offset // delta of the last record, or what ExtendTo asked for
	err      error
}

// maxRecords keeps the size of the uncompressed records below what the length fields can say.
const maxRecords = math.MaxInt32 - HeaderSize

// NewBuilder makes an encoder that compresses with codec.
func NewBuilder(codec Codec) *Builder {
	b := &Builder{codec: codec, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	b.Reset()
	return b
}

// Reset forgets the records.
func (b *Builder) Reset() {
	b.recs, b.count, b.err = b.recs[:0], 0, nil
	b.baseTime, b.maxTime = -1, -1
	b.first, b.last = -1, -1
}

// Len is the number of records appended.
func (b *Builder) Len() int { return b.count }

// Bytes is the size of the batch before compression.
func (b *Builder) Bytes() int { return HeaderSize + len(b.recs) }

// Append adds a record at the offset after the last one.
func (b *Builder) Append(ts int64, key, value []byte, headers []Header) {
	b.add(b.last+1, ts, key, value, headers)
}

// AppendAt adds a record at a given offset, which must be above the last one; the first makes the base of the
// batch. A batch is made by Append or by AppendAt, not by both.
func (b *Builder) AppendAt(offset Offset, ts int64, key, value []byte, headers []Header) {
	if b.count == 0 {
		b.first = offset
	}
	if b.first < 0 || offset < b.first {
		b.fail(fmt.Errorf("%w: offset %d after base %d", ErrUnencodable, offset, b.first))
		return
	}
	b.add(offset-b.first, ts, key, value, headers)
}

// ExtendTo makes the batch cover offsets up to last, as compaction leaves it, so that readers go on behind a
// hole. It belongs to batches of AppendAt.
func (b *Builder) ExtendTo(last Offset) {
	if b.first < 0 || last-b.first < b.last || last-b.first > math.MaxInt32 {
		b.fail(fmt.Errorf("%w: extend from base %d to %d", ErrUnencodable, b.first, last))
		return
	}
	b.last = last - b.first
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Builder) add(delta Offset, ts int64, key, value []byte, headers []Header) {
	if b.err != nil {
		return
	}
	if delta <= b.last || delta > math.MaxInt32 {
		b.fail(fmt.Errorf("%w: offset delta %d after %d", ErrUnencodable, delta, b.last))
		return
	}
	if b.count == 0 {
		b.baseTime, b.maxTime = ts, ts
	}
	b.maxTime = max(b.maxTime, ts)
	tsDelta := ts - b.baseTime
	size := 1 + varlongLen(tsDelta) + varlongLen(int64(delta)) + fieldLen(key) + fieldLen(value) + varlongLen(int64(len(headers)))
	for i := range headers {
		size += varlongLen(int64(len(headers[i].Key))) + len(headers[i].Key) + fieldLen(headers[i].Value)
	}
	if size > maxRecords-len(b.recs)-binary.MaxVarintLen32 {
		b.fail(fmt.Errorf("%w: %d bytes after %d", ErrUnencodable, size, len(b.recs)))
		return
	}
	r := appendVarlong(b.recs, int64(size))
	r = append(r, 0)
	r = appendVarlong(r, tsDelta)
	r = appendVarlong(r, int64(delta))
	r = appendField(r, key)
	r = appendField(r, value)
	r = appendVarlong(r, int64(len(headers)))
	for i := range headers {
		r = appendVarlong(r, int64(len(headers[i].Key))) // a header key is never null
		r = append(r, headers[i].Key...)
		r = appendField(r, headers[i].Value)
	}
	b.recs = r
	b.last = delta
	b.count++
}

func fieldLen(p []byte) int {
	if p == nil {
		return 1
	}
	return varlongLen(int64(len(p))) + len(p)
}

func appendField(b, p []byte) []byte {
	if p == nil {
		return appendVarlong(b, -1)
	}
	return append(appendVarlong(b, int64(len(p))), p...)
}

// Build gives the batch at offset base, in memory that the caller owns, and resets the Builder. A batch of
// AppendAt has its base already: base must be the same or -1.
func (b *Builder) Build(base Offset) ([]byte, error) {
	size := HeaderSize + len(b.recs)
	if b.codec != None {
		size = HeaderSize + len(b.recs)/2
	}
	return b.BuildTo(make([]byte, 0, size), base)
}

// BuildTo is Build with the batch appended to dst.
func (b *Builder) BuildTo(dst []byte, base Offset) ([]byte, error) {
	defer b.Reset()
	if b.err != nil {
		return dst, b.err
	}
	if b.count == 0 {
		return dst, ErrEmptyBatch
	}
	if b.first >= 0 && base >= 0 && base != b.first {
		return dst, fmt.Errorf("%w: records begin at offset %d, not %d", ErrUnencodable, b.first, base)
	}
	if b.first >= 0 {
		base = b.first
	}
	if base < 0 || base >= math.MaxInt64-b.last {
		return dst, fmt.Errorf("%w: base offset %d", ErrUnencodable, base)
	}
	at := len(dst)
	var header [HeaderSize]byte
	out, err := appendCompressed(append(dst, header[:]...), b.recs, b.codec)
	if err != nil {
		return dst, err
	}
	raw := out[at:]
	if len(raw)-lengthEnd > math.MaxInt32-lengthEnd {
		return dst, fmt.Errorf("%w: %d bytes", ErrUnencodable, len(raw))
	}
	b.putHeader(raw, base)
	return out, nil
}

func (b *Builder) putHeader(raw []byte, base Offset) {
	attrs := uint16(b.codec) & codecMask
	if b.Transactional {
		attrs |= attrTransactional
	}
	if b.Control {
		attrs |= attrControl
	}
	be := binary.BigEndian
	be.PutUint64(raw[posBaseOffset:], uint64(base))
	be.PutUint32(raw[posLength:], uint32(len(raw)-lengthEnd))
	be.PutUint32(raw[posEpoch:], uint32(b.LeaderEpoch))
	raw[posMagic] = byte(magicV2)
	be.PutUint16(raw[posAttributes:], attrs)
	be.PutUint32(raw[posLastDelta:], uint32(b.last))
	be.PutUint64(raw[posBaseTime:], uint64(b.baseTime))
	be.PutUint64(raw[posMaxTime:], uint64(b.maxTime))
	be.PutUint64(raw[posProducerID:], uint64(b.ProducerID))
	be.PutUint16(raw[posProdEpoch:], uint16(b.ProducerEpoch))
	be.PutUint32(raw[posSequence:], uint32(b.BaseSequence))
	be.PutUint32(raw[posCount:], uint32(b.count))
	be.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
}
