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

// unzipper is a reader with what it reads from, which it keeps.
type unzipper struct {
	src bytes.Reader
	gz  gzip.Reader
}

var unzippers = sync.Pool{New: func() any { return new(unzipper) }}

// unpackGzip decompresses a page, which fills dst.
func unpackGzip(dst, src []byte) error {
	r := unzippers.Get().(*unzipper)
	r.src.Reset(src)
	defer func() {
		r.src.Reset(nil) // the memory of the page is used for others, or freed
		unzippers.Put(r)
	}()
	err := r.gz.Reset(&r.src)
	if err == nil {
		_, err = io.ReadFull(&r.gz, dst)
	}
	if err != nil {
		return err
	}
	var more [1]byte
	switch n, err := r.gz.Read(more[:]); { // the end has the checksum
	case n > 0:
		return fmt.Errorf("more than %d bytes", len(dst))
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("a wrong end behind %d bytes: %w", len(dst), err)
	}
	return nil
}
