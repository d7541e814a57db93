package objstore

import (
	"context"
	"fmt"
	"io"
)

// ReadRange is GetRange for stores that speak HTTP, which cannot name an empty range: get is called for others only,
// and what it gives must have the length that was asked for.
func ReadRange(ctx context.Context, s interface {
	Head(ctx context.Context, key string) (Info, error)
}, key string, off, length int64, get func() ([]byte, error)) ([]byte, error) {
	if off < 0 || length < 0 {
		return nil, fmt.Errorf("get %s: bytes [%d, %d+%d): %w", key, off, off, length, io.ErrUnexpectedEOF)
	}
	if length == 0 {
		info, err := s.Head(ctx, key)
		if err == nil && off > info.Size {
			err = fmt.Errorf("get %s: byte %d of %d: %w", key, off, info.Size, io.ErrUnexpectedEOF)
		}
		return []byte{}, err
	}
	b, err := get()
	if err == nil && int64(len(b)) != length {
		return nil, fmt.Errorf("get %s: bytes [%d, %d) gave %d: %w", key, off, off+length, len(b), io.ErrUnexpectedEOF)
	}
	return b, err
}
