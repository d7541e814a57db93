package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// IntoReader is a store that can read into the caller's memory. It has its objects near: reading them in small pieces
// costs little.
type IntoReader interface {
	// ReadInto fills buf with the object's bytes at off, or says why not.
	ReadInto(ctx context.Context, key string, off int64, buf []byte) error
	// GetInto is Get into buf's memory, from its start and up to its capacity; an object that is larger comes in new memory.
	GetInto(ctx context.Context, key string, buf []byte) ([]byte, error)
}

// ReaderAt reads an object of known size as a file: what the Parquet reader asks for. Each ReadAt is one
// ReadInto, or one GetRange where the store has no such thing, so a caller that reads small pieces should buffer.
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
	if err := r.fill(p[:want], off); err != nil {
		return 0, fmt.Errorf("read %s at %d: %w", r.key, off, err)
	}
	if want < int64(len(p)) {
		return int(want), io.EOF
	}
	return int(want), nil
}

func (r *readerAt) fill(p []byte, off int64) error {
	if s, ok := r.store.(IntoReader); ok {
		return s.ReadInto(r.ctx, r.key, off, p)
	}
	b, err := r.store.GetRange(r.ctx, r.key, off, int64(len(p)))
	if err == nil && copy(p, b) < len(p) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
