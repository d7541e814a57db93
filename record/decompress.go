package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// errTooLarge is wrapped by decompress when the content is larger than the limit.
var errTooLarge = errors.New("decompressed records are larger than the limit")

// Caches of decompressors; see the note at the pools of compressors.
var (
	gzipReaders  = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zstdReaders  = sync.Pool{New: func() any { return newZstdReader(DefaultMaxBytes) }}
	bytesReaders = sync.Pool{New: func() any { return new(bytes.Reader) }}
)

// newZstdReader gives a decoder that starts no goroutine and refuses frames above limit.
func newZstdReader(limit int) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(limit, 1<<20))))
	if err != nil {
		return nil // constant options: cannot be; decompressZstd turns it into an error
	}
	return d
}

// decompress fills dst[:0] with the content of src, at most limit bytes, and gives it back; dst is kept where
// it is large enough.
func decompress(dst, src []byte, codec Codec, limit int) ([]byte, error) {
	switch codec {
	case Gzip:
		return decompressGzip(dst, src, limit)
	case Snappy:
		if isXerial(src) {
			return decompressXerial(dst[:0], src[len(xerialHeader):], limit)
		}
		return appendSnappy(dst[:0], src, limit)
	case LZ4:
		return decompressLZ4(dst, src, limit, lz4Checked)
	case Zstd:
		return decompressZstd(dst, src, limit)
	}
	return dst, fmt.Errorf("%s is not supported", codec)
}

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	in := bytesReaders.Get().(*bytes.Reader)
	defer putBytesReader(in)
	in.Reset(src)
	r := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(r)
	if err := r.Reset(in); err != nil {
		return dst, err
	}
	return readBounded(dst, r, 4*len(src), limit)
}

func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	var d *zstd.Decoder
	if limit > DefaultMaxBytes {
		d = newZstdReader(limit)
	} else {
		d, _ = zstdReaders.Get().(*zstd.Decoder)
	}
	if d == nil {
		return dst, errors.New("no zstd decoder")
	}
	if limit <= DefaultMaxBytes {
		defer zstdReaders.Put(d)
	}
	out, err := d.DecodeAll(src, dst[:0])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || (err == nil && len(out) > limit) {
		return dst, errTooLarge
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func putBytesReader(r *bytes.Reader) {
	r.Reset(nil) // do not keep the batch alive
	bytesReaders.Put(r)
}

// readBounded reads r to its end into dst. guess is the first size to try.
func readBounded(dst []byte, r io.Reader, guess, limit int) ([]byte, error) {
	const least = 4 << 10
	dst = dst[:0]
	if cap(dst) < least {
		dst = slices.Grow(dst, max(least, min(guess, limit, 1<<20)))
	}
	for {
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst) > limit {
			return dst, errTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(1, min(len(dst), limit+1-len(dst))))
		}
	}
}

func decompressXerial(dst, src []byte, limit int) ([]byte, error) {
	for len(src) > 0 {
		if len(src) < 4 {
			return dst, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst, io.ErrUnexpectedEOF
		}
		var err error
		if dst, err = appendSnappy(dst, src[:n], limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// appendSnappy appends the content of one raw snappy block.
func appendSnappy(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	// A snappy element of two bytes yields 64 at most, so the claimed length is bounded by the input too and a
	// few bytes cannot make us allocate the whole limit.
	if n > limit-len(dst) {
		return dst, errTooLarge
	}
	if n > 64*len(src) {
		return dst, fmt.Errorf("snappy block of %d bytes claims %d", len(src), n)
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	if _, err := s2.Decode(dst[at:], src); err != nil {
		return dst[:at], err
	}
	return dst, nil
}
