package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The pools below are caches, not state: each compressor holds up to some megabytes, and a server has one
// Builder a partition.
var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}
	lz4Writers  = sync.Pool{New: func() any { return newLZ4Writer() }}
	zstdWriters = sync.Pool{New: func() any { return newZstdWriter() }}
)

// newLZ4Writer makes frames that Java's reader takes: independent blocks of 64 KiB, which is also what keeps
// the reader's buffers small. The batch has its own CRC, so the frame needs none.
func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(io.Discard)
	// The options are constants and valid; Apply fails only on a writer in use.
	_ = w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
	return w
}

func newZstdWriter() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
	if err != nil {
		return nil // constant options: cannot be; compressZstd turns it into an error
	}
	return w
}

// appendWriter is an io.Writer over a growing slice.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// appendCompressed appends src to dst, compressed by codec.
func appendCompressed(dst, src []byte, codec Codec) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		out := appendWriter{dst}
		w.Reset(&out)
		return writeAll(&out, w, src)
	case Snappy:
		return appendXerial(dst, src), nil
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		out := appendWriter{dst}
		w.Reset(&out)
		return writeAll(&out, w, src)
	case Zstd:
		w, _ := zstdWriters.Get().(*zstd.Encoder)
		if w == nil {
			return dst, fmt.Errorf("compress records: no zstd encoder")
		}
		defer zstdWriters.Put(w)
		return w.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("compress records: %s is not supported", codec)
}

func writeAll(out *appendWriter, w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return out.b, fmt.Errorf("compress records: %w", err)
	}
	if err := w.Close(); err != nil {
		return out.b, fmt.Errorf("compress records: %w", err)
	}
	return out.b, nil
}

// xerialMagic begins the framing that snappy-java gives its streams, and xerialHeader is the whole of it with
// the version and the oldest compatible version, both 1.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	xerialBlock  = 32 << 10
)

// appendXerial writes snappy as the Java client does: a header, then blocks of at most 32 KiB with their
// length. Clients that know only raw snappy do not exist among Kafka's.
func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at := len(dst)
		bound := s2.MaxEncodedLen(n)
		dst = append(dst, make([]byte, 4+bound)...)
		block := s2.EncodeSnappy(dst[at+4:], src[:n])
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		dst = dst[:at+4+len(block)]
		src = src[n:]
	}
	return dst
}

// isXerial says whether src has snappy-java's framing.
func isXerial(src []byte) bool {
	return len(src) >= len(xerialHeader) && bytes.Equal(src[:len(xerialMagic)], []byte(xerialMagic))
}
