//go:build !unix

package vfs

import (
	"errors"
	"io"
	"os"
)

// Lock is refused where there is no flock.
func (osFS) Lock(name string) (io.Closer, error) {
	return nil, &os.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}
