package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Gzip is read, and not written.
const Gzip Codec = 2

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpackGzip decompresses a page, which fills dst.
func unpackGzip(dst, src []byte) error {
	r := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(r)
	err := r.Reset(bytes.NewReader(src))
	if err == nil {
		_, err = io.ReadFull(r, dst)
	}
	if err != nil {
		return err
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) { // the end has the checksum
		return fmt.Errorf("more than %d bytes, or a wrong end: %w", len(dst), err)
	}
	return nil
}
