package entry

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zstdDecoders read as a stream, so that no more comes out than was asked for, whatever the frame says of itself.
var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil { // the options are fixed, so this cannot depend on input
		panic(err)
	}
	return d
}}

// decompress appends to dst, which is empty, exactly size bytes.
func decompress(dst, src []byte, c Compression, size int) ([]byte, error) {
	if cap(dst) < size {
		dst = make([]byte, 0, size)
	}
	var err error
	n := 0
	switch c {
	case LZ4:
		n, err = lz4.UncompressBlock(src, dst[:size])
		dst = dst[:max(n, 0)]
	case Zlib:
		var r io.ReadCloser
		if r, err = zlib.NewReader(bytes.NewReader(src)); err == nil {
			dst, err = readExactly(dst, r, size)
		}
	case Zstd:
		d := zstdDecoders.Get().(*zstd.Decoder)
		defer zstdDecoders.Put(d)
		if err = d.Reset(bytes.NewReader(src)); err == nil {
			dst, err = readExactly(dst, d, size)
		}
	case Snappy:
		if n, err = s2.DecodedLen(src); err == nil && n != size {
			err = fmt.Errorf("it says %d bytes", n)
		}
		if err == nil {
			dst, err = s2.Decode(dst[:size], src)
		}
	default:
		err = fmt.Errorf("unknown compression %d", c)
	}
	if err == nil && len(dst) != size {
		err = fmt.Errorf("%d bytes", len(dst))
	}
	if err != nil {
		return dst[:0], fmt.Errorf("%w: decompress to %d bytes: %w", ErrCorrupt, size, err)
	}
	return dst, nil
}

// readExactly fills dst with size bytes, behind which r must end.
func readExactly(dst []byte, r io.Reader, size int) ([]byte, error) {
	n, err := io.ReadFull(r, dst[:size])
	if err != nil {
		return dst[:n], err
	}
	var more [1]byte
	if k, _ := r.Read(more[:]); k > 0 {
		return dst[:size], fmt.Errorf("more than %d bytes", size)
	}
	return dst[:size], nil
}
