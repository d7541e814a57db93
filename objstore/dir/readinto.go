package dir

import (
	"context"
	"errors"
	"io"

	"github.com/ledgerlake/ledgerlake/objstore"
)

var _ objstore.IntoReader = (*Store)(nil)

// ReadInto implements objstore.IntoReader, for readers of large objects that use their memory again.
func (s *Store) ReadInto(ctx context.Context, key string, off int64, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := s.path(key)
	if err != nil {
		return err
	}
	f, err := s.cfg.FS.OpenRead(name)
	if err != nil {
		return readError("get", key, err)
	}
	defer f.Close()
	if n, err := f.ReadAt(buf, off); n < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return readError("get", key, err)
	}
	return nil
}

// GetInto implements objstore.IntoReader, for readers of many objects that use their memory again.
func (s *Store) GetInto(ctx context.Context, key string, buf []byte) ([]byte, error) {
	return s.read(ctx, key, 0, -1, buf)
}
