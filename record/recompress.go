package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// recompressWindow is the zstd window of Recompress: a batch is rarely larger, and a compressor holds twice of it.
const recompressWindow = 1 << 20

// zstdWriterStreams are compressors of Recompress; see the note at the pools of compressors.
var zstdWriterStreams = sync.Pool{New: func() any {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
		zstd.WithWindowSize(recompressWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil // constant options: cannot be; compressor turns it into an error
	}
	return w
}}

// Recompress gives the batch with its records in another codec, in memory of its own: their bytes stay as they are, and so
// does the header but for length, codec and CRC. The records pass through; what it holds is about ScanMemory, what a
// compressor needs (4 MiB at most) and the result, which is no larger than maxSize: ErrTooLarge. maxBytes bounds the
// decompressed size; 0 means DefaultMaxBytes. It does not verify the CRC, and does not look at the records: see Scan.
func Recompress(b Batch, codec Codec, maxBytes, maxSize int) ([]byte, error) {
	if len(b.Raw) < HeaderSize || len(b.Raw) < b.Size() {
		return nil, ErrTruncated
	}
	if b.Codec() > Zstd {
		return nil, corrupt(posAttributes, int64(Zstd), int64(b.Codec()), "compression codec")
	}
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	w := windows.Get().(*scanWindowed)
	defer windows.Put(w)
	w.reset(b.Codec(), maxBytes)
	defer w.reset(None, 0)
	release, err := w.open(b.Raw[HeaderSize:b.Size()])
	if err != nil {
		return nil, w.failed(err)
	}
	defer release()
	out := boundedBuffer{b: append(make([]byte, 0, min(b.Size()+b.Size()/8, maxSize)), b.Raw[:HeaderSize]...), most: maxSize}
	if err := w.compressTo(&out, codec); err != nil {
		return nil, err
	}
	raw := out.b
	attrs := binary.BigEndian.Uint16(raw[posAttributes:])&^codecMask | uint16(codec)
	binary.BigEndian.PutUint32(raw[posLength:], uint32(len(raw)-lengthEnd))
	binary.BigEndian.PutUint16(raw[posAttributes:], attrs)
	binary.BigEndian.PutUint32(raw[posCRC:], crc32.Checksum(raw[posAttributes:], castagnoli))
	return raw, nil
}

// compressTo passes all that the window reads through a compressor.
func (w *scanWindowed) compressTo(out *boundedBuffer, codec Codec) error {
	to, release, err := compressor(out, codec)
	if err != nil {
		return err
	}
	defer release()
	for {
		n, rerr := w.r.Read(w.buf)
		if w.limit -= n; w.limit < 0 {
			rerr = errTooLarge
		}
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return w.failed(rerr)
		}
		_, err := to.Write(w.buf[:n])
		if err == nil && rerr != nil {
			err = to.Close()
		}
		switch {
		case out.full:
			return fmt.Errorf("%w: more than %d bytes with codec %s", ErrTooLarge, out.most, codec)
		case err != nil:
			return fmt.Errorf("compress records: %w", err)
		case rerr != nil:
			return nil
		}
	}
}

// compressor gives what compresses to out. It is closed at the end of the records, and released at the end in any case.
func compressor(out io.Writer, codec Codec) (w io.WriteCloser, release func(), err error) {
	switch codec {
	case None:
		return plainWriter{out}, func() {}, nil
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		w.Reset(out)
		return w, func() { w.Reset(io.Discard); gzipWriters.Put(w) }, nil
	case Snappy:
		w := xerialWriters.Get().(*xerialWriter)
		w.to, w.begun, w.block = out, false, w.block[:0]
		return w, func() { w.to = nil; xerialWriters.Put(w) }, nil
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		w.Reset(out)
		return w, func() { w.Reset(io.Discard); lz4Writers.Put(w) }, nil
	case Zstd:
		w, _ := zstdWriterStreams.Get().(*zstd.Encoder)
		if w == nil {
			return nil, nil, errors.New("compress records: no zstd encoder")
		}
		w.Reset(out)
		return w, func() { w.Reset(nil); zstdWriterStreams.Put(w) }, nil
	}
	return nil, nil, fmt.Errorf("compress records: %s is not supported", codec)
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

var xerialWriters = sync.Pool{New: func() any { return &xerialWriter{block: make([]byte, 0, xerialBlock)} }}

// xerialWriter writes snappy as appendXerial does.
type xerialWriter struct {
	to    io.Writer
	begun bool // the header is written
	block []byte
	out   []byte
}

func (w *xerialWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		k := min(len(p), xerialBlock-len(w.block))
		w.block = append(w.block, p[:k]...)
		p = p[k:]
		n += k
		if len(w.block) == xerialBlock {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *xerialWriter) flush() error {
	w.out = appendXerial(w.out[:0], w.block)
	w.block = w.block[:0]
	out := w.out
	if w.begun {
		out = out[len(xerialHeader):]
	}
	w.begun = true
	_, err := w.to.Write(out)
	return err
}

func (w *xerialWriter) Close() error {
	if w.begun && len(w.block) == 0 {
		return nil
	}
	return w.flush()
}

// boundedBuffer takes so many bytes and no more.
type boundedBuffer struct {
	b    []byte
	most int
	full bool
}

func (w *boundedBuffer) Write(p []byte) (int, error) {
	if len(p) > w.most-len(w.b) {
		w.full = true
		return 0, ErrTooLarge
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
