package parquet

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Codec is how pages are compressed; the numbers are the format's.
type Codec int

// The codecs that are written.
const (
	Uncompressed Codec = 0
	Snappy       Codec = 1
	Zstd         Codec = 6
)

// String is the codec's name, as it stands in file names.
func (c Codec) String() string {
	switch c {
	case Uncompressed:
		return "uncompressed"
	case Snappy:
		return "snappy"
	case Zstd:
		return "zstd"
	case Gzip:
		return "gzip"
	case LZ4:
		return "lz4"
	case LZ4Raw:
		return "lz4_raw"
	}
	return fmt.Sprintf("codec %d", int(c))
}

// compressor compresses pages. All columns of a writer share it.
type compressor struct {
	codec Codec
	zstd  *zstd.Encoder
}

func newCompressor(c Codec) (compressor, error) {
	switch c {
	case Uncompressed, Snappy:
		return compressor{codec: c}, nil
	case Zstd:
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		return compressor{codec: c, zstd: enc}, err
	}
	return compressor{}, fmt.Errorf("%w: %s", ErrUnsupported, c)
}

// compress gives the compressed bytes, in dst's memory when it is large enough. Snappy goes for speed: files
// are about a tenth larger than with its best and written a quarter faster.
func (c compressor) compress(dst, src []byte) ([]byte, error) {
	switch c.codec {
	case Snappy:
		if n := s2.MaxEncodedLen(len(src)); n < 0 {
			return nil, fmt.Errorf("%w: a page of %d bytes", ErrTooLarge, len(src))
		} else if cap(dst) < n {
			dst = make([]byte, n)
		}
		return s2.EncodeSnappy(dst[:cap(dst)], src), nil
	case Zstd:
		return c.zstd.EncodeAll(src, dst[:0]), nil
	}
	return append(dst[:0], src...), nil
}
