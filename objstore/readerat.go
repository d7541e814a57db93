package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ReaderAt reads an object of known size as a file: what the Parquet reader asks for. Each ReadAt is one
// GetRange, so a caller that reads small pieces should buffer.
func ReaderAt(ctx context.Context, s Store, key string, size int64) io.ReaderAt {
	return &readerAt{ctx: ctx, store: s, key: key, size: size}
}

type readerAt struct {
	ctx   context.Context //nolint:containedctx // io.ReaderAt has no other way to carry it
	store Store
	key   string
	size  int64
}

func (r *readerAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read object: negative offset")
	}
	want := min(int64(len(p)), r.size-off)
	if want <= 0 {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	b, err := r.store.GetRange(r.ctx, r.key, off, want)
	if err != nil {
		return 0, fmt.Errorf("read %s at %d: %w", r.key, off, err)
	}
	n := copy(p, b)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
