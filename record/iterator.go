package record

import "errors"

// maxHeaders bounds the headers of one record: the smallest takes two bytes on the wire and 48 in memory, so
// a batch of nothing but headers would otherwise cost 24 times its size (I8).
const maxHeaders = 1 << 20

// keepBuffer is the largest buffer that an Iterator keeps for the next batch, so that one huge batch does not
// hold its memory for as long as the Iterator lives.
const keepBuffer = 16 << 20

// Iterator decodes the records of one batch after another and allocates nothing a record. The zero value is
// ready. What it gives aliases its buffer, or the batch itself when that is not compressed, and is valid until
// the next call of Next or Reset; the bytes of Key, Value and Headers live until Reset.
type Iterator struct {
	MaxBytes int // bound on the decompressed size of a batch; 0 means DefaultMaxBytes
	// Verified says that the caller has verified the CRC of the batches. Checksums of the same bytes inside of LZ4 data are
	// not looked at again then; Kafka's own consumer leaves them out too.
	Verified bool

	h       BatchHeader
	data    []byte // the records, decompressed
	pos     int
	left    int32 // records not yet given
	delta   int64 // offset delta of the last one, -1 before the first
	rec     Record
	headers []Header
	buf     []byte // decompression buffer, kept from batch to batch
	err     error
}

// Reset goes to the first record of b. It decompresses, but does not verify the CRC.
func (it *Iterator) Reset(b Batch) error {
	it.h, it.data, it.pos, it.left, it.delta, it.err = b.BatchHeader, nil, 0, 0, -1, nil
	it.rec = Record{}
	if err := it.open(b); err != nil {
		it.err = err
		return err
	}
	it.left = b.Count
	return nil
}

func (it *Iterator) open(b Batch) error {
	if len(b.Raw) < HeaderSize || len(b.Raw) < b.Size() {
		return ErrTruncated
	}
	if err := b.check(); err != nil {
		return err
	}
	body := b.Raw[HeaderSize:b.Size()]
	codec := b.Codec()
	if codec == None {
		it.data = body
		return nil
	}
	if codec > Zstd {
		return corrupt(posAttributes, int64(Zstd), int64(codec), "compression codec")
	}
	if b.Count == 0 && len(body) == 0 { // what is left of a batch after compaction
		return nil
	}
	limit := it.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	if cap(it.buf) > keepBuffer {
		it.buf = nil
	}
	data, err := it.decompress(body, codec, limit)
	it.buf = data[:0]
	if errors.Is(err, errTooLarge) {
		return corrupt(HeaderSize, int64(limit), int64(limit)+1, "decompressed size above the limit")
	}
	if err != nil {
		return corrupt(HeaderSize, int64(len(body)), int64(len(data)), codec.String()+" data: "+err.Error())
	}
	it.data = data
	return nil
}

func (it *Iterator) decompress(body []byte, codec Codec, limit int) ([]byte, error) {
	if codec == LZ4 && it.Verified {
		return decompressLZ4(it.buf, body, limit, lz4Trusted)
	}
	return decompress(it.buf, body, codec, limit)
}

// Err is the error that ended the iteration; nil after the last record.
func (it *Iterator) Err() error { return it.err }

// Record is the record that the last Next came to. It is overwritten by the following Next.
func (it *Iterator) Record() *Record { return &it.rec }

// Next goes to the next record. It returns false at the end and on damage, which Err tells apart. Offsets only
// grow within a batch, and a batch is refused when bytes are left over or records are missing.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	if it.left == 0 {
		if it.pos != len(it.data) {
			it.fail(it.pos, int64(it.pos), int64(len(it.data)), "bytes behind the last record")
		}
		return false
	}
	size, pos := readVarint(it.data, it.pos)
	if pos < 0 {
		return it.fail(it.pos, int64(it.h.Count), int64(it.h.Count-it.left), "records in the batch, or a bad varint")
	}
	if size < 0 || int(size) > len(it.data)-pos {
		return it.fail(it.pos, int64(len(it.data)-pos), int64(size), "record length")
	}
	end := pos + int(size)
	if !it.decode(it.data[:end], pos) {
		return false
	}
	it.pos = end
	it.left--
	return true
}

// decode reads the record b[pos:], which must end where b ends.
func (it *Iterator) decode(b []byte, pos int) bool {
	if pos >= len(b) {
		return it.fail(pos, 1, 0, "record attributes")
	}
	timeDelta, next := readVarlong(b, pos+1)
	if next < 0 {
		return it.fail(pos+1, 0, 0, "timestamp delta")
	}
	pos = next
	offsetDelta, next := readVarint(b, pos)
	if next < 0 || int64(offsetDelta) <= it.delta || offsetDelta > it.h.LastOffsetDelta {
		return it.fail(pos, it.delta+1, int64(offsetDelta), "offset delta")
	}
	it.delta = int64(offsetDelta)
	r := &it.rec
	if r.Key, pos = it.field(b, next, "key"); pos < 0 {
		return false
	}
	if r.Value, pos = it.field(b, pos, "value"); pos < 0 {
		return false
	}
	if pos = it.readHeaders(b, pos); pos < 0 {
		return false
	}
	if pos != len(b) {
		return it.fail(pos, int64(pos), int64(len(b)), "bytes behind the headers of a record")
	}
	r.Offset = it.h.BaseOffset + Offset(offsetDelta)
	r.Timestamp = it.h.BaseTimestamp + timeDelta
	if it.h.LogAppendTime() {
		r.Timestamp = it.h.MaxTimestamp
	}
	return true
}

// field reads a length and that many bytes; a length below zero is null. The position is < 0 on damage.
func (it *Iterator) field(b []byte, pos int, what string) ([]byte, int) {
	n, next := readVarint(b, pos)
	if next < 0 || n < -1 || int(n) > len(b)-next {
		it.fail(pos, int64(len(b)-max(next, pos)), int64(n), what+" length")
		return nil, -1
	}
	if n < 0 {
		return nil, next
	}
	end := next + int(n)
	return b[next:end:end], end
}

func (it *Iterator) readHeaders(b []byte, pos int) int {
	n, next := readVarint(b, pos)
	const least = 2 // bytes of a header with an empty key and value
	if next < 0 || n < 0 || int(n) > (len(b)-next)/least || n > maxHeaders {
		it.fail(pos, int64((len(b)-max(next, pos))/least), int64(n), "number of headers")
		return -1
	}
	pos = next
	it.headers = it.headers[:0]
	for range n {
		var h Header
		if h.Key, pos = it.field(b, pos, "header key"); pos < 0 {
			return -1
		}
		if h.Key == nil {
			it.fail(pos, 0, -1, "header key length")
			return -1
		}
		if h.Value, pos = it.field(b, pos, "header value"); pos < 0 {
			return -1
		}
		it.headers = append(it.headers, h)
	}
	it.rec.Headers = it.headers
	return pos
}

// fail records damage at a position in the records and returns false.
func (it *Iterator) fail(pos int, want, got int64, reason string) bool {
	it.err = corrupt(int64(HeaderSize+pos), want, got, reason)
	it.left = 0
	return false
}
