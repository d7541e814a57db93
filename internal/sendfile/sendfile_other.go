//go:build !linux

package sendfile

import (
	"errors"
	"io"
	"net"
)

// Head writes b to conn, of which Send follows at once. conn's write deadline holds.
func Head(conn net.Conn, b []byte) error {
	_, err := conn.Write(b)
	return err
}

func direct(net.Conn, io.ReaderAt, int64, int) (int, error) { return 0, errors.ErrUnsupported }
