package record

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// scanBuffer is how much of the decompressed records a Scan holds beside what the codec needs.
const scanBuffer = 32 << 10

// scanWindow is the largest zstd window that needs no special decoder: compressors use more only when asked.
const scanWindow = 8 << 20

// keepHeaders is how many headers of a record a pooled Iterator may keep room for.
const keepHeaders = 1 << 12

// keepBlock is the largest snappy block whose memory is kept for the next batch.
const keepBlock = 1 << 20

// Shape is what Scan tells of one record.
type Shape struct {
	Delta     int32 // offset in the batch
	HasKey    bool  // the key is not null
	Timestamp int64 // ms; the batch's where the broker stamped that
}

// Pools of what a Scan uses; see the note at the pools of compressors.
var (
	windows     = sync.Pool{New: func() any { return &scanWindowed{buf: make([]byte, scanBuffer)} }}
	iterators   = sync.Pool{New: func() any { return new(Iterator) }}
	zstdStreams = sync.Pool{New: func() any { return newZstdStream(scanWindow) }}
)

// newZstdStream gives a decoder that holds a window and a block, and starts no goroutine.
func newZstdStream(window uint64) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return nil // constant options: cannot be; Scan turns it into an error
	}
	return d
}

// ScanMemory gives about how many bytes Scan holds at once for a batch, whatever its records decompress to. It
// depends on what the compressor asks of a decompressor, so a caller that scans for others can bound the sum (I8).
func (b Batch) ScanMemory() int64 {
	if len(b.Raw) < HeaderSize {
		return scanBuffer
	}
	src := b.Raw[HeaderSize:]
	switch b.Codec() {
	case None:
		return 24 * int64(len(src)) // a batch of nothing but headers, see maxHeaders
	case Snappy:
		return scanBuffer + int64(largestSnappyBlock(src))
	case LZ4:
		return scanBuffer + 9<<20 // two blocks of the largest size
	case Zstd:
		if zstdWindow(src) > scanWindow {
			return scanBuffer + 2*DefaultMaxBytes
		}
		return scanBuffer + 2*scanWindow
	}
	return scanBuffer + 64<<10
}

// zstdWindow gives the window that the first frame asks for.
func zstdWindow(src []byte) uint64 {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return 0 // decoding will say what is wrong
	}
	if h.SingleSegment {
		return h.FrameContentSize
	}
	return h.WindowSize
}

// snappyBlocks calls visit for each raw snappy block, until it says no.
func snappyBlocks(src []byte, visit func(block []byte) error) error {
	if !isXerial(src) {
		return visit(src)
	}
	for src = src[len(xerialHeader):]; len(src) > 0; {
		if len(src) < 4 {
			return io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return io.ErrUnexpectedEOF
		}
		if err := visit(src[4 : 4+n]); err != nil {
			return err
		}
		src = src[4+n:]
	}
	return nil
}

func largestSnappyBlock(src []byte) (most int) {
	_ = snappyBlocks(src, func(block []byte) error { // decoding will say what is wrong
		if n, err := s2.DecodedLen(block); err == nil {
			most = max(most, min(n, 64*len(block)))
		}
		return nil
	})
	return most
}

// Scan checks the records of a batch exactly as Iterator does and calls visit for each, but never holds them: its
// memory does not depend on what they decompress to (see ScanMemory). maxBytes bounds their size all the same; 0
// means DefaultMaxBytes. It does not verify the CRC. An error of visit ends it.
func Scan(b Batch, maxBytes int, visit func(Shape) error) error {
	if len(b.Raw) < HeaderSize || len(b.Raw) < b.Size() {
		return ErrTruncated
	}
	if err := b.check(); err != nil {
		return err
	}
	body := b.Raw[HeaderSize:b.Size()]
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	if b.Codec() == None {
		return scanPlain(b, visit)
	}
	w := windows.Get().(*scanWindowed)
	defer windows.Put(w)
	w.reset(b.Codec(), maxBytes)
	defer w.reset(None, 0)
	switch codec := b.Codec(); {
	case codec > Zstd:
		return corrupt(posAttributes, int64(Zstd), int64(codec), "compression codec")
	case b.Count == 0 && len(body) == 0: // what is left of a batch after compaction
		return nil
	}
	release, err := w.open(body)
	if err != nil {
		return w.failed(err)
	}
	defer release()
	s := scan{w: w, h: b.BatchHeader, visit: visit}
	return s.run()
}

// scanPlain scans a batch that is not compressed: the Iterator is faster, and holds nothing but headers.
func scanPlain(b Batch, visit func(Shape) error) error {
	it := iterators.Get().(*Iterator)
	defer func() {
		if cap(it.headers) > keepHeaders {
			it.headers = nil
		}
		it.data, it.rec = nil, Record{}
		iterators.Put(it)
	}()
	if err := it.Reset(b); err != nil {
		return err
	}
	for it.Next() {
		if err := visit(Shape{Delta: int32(it.rec.Offset - b.BaseOffset), HasKey: it.rec.Key != nil, Timestamp: it.rec.Timestamp}); err != nil {
			return err
		}
	}
	return it.Err()
}
