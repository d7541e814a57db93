// Package sendfile sends parts of files over TCP without a copy of them in this process, where the system can.
package sendfile

import (
	"errors"
	"io"
	"net"
	"sync"
)

// copyBytes is how much is read at once where the system cannot send from the file.
const copyBytes = 64 << 10

var buffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// Send writes size bytes of a file from a position on to conn. A TCP connection and a file of the system meet in the
// kernel; anything else is copied. conn's write deadline holds. io.ErrUnexpectedEOF when the file ends before. After an
// error a part of the bytes may have been sent.
func Send(conn net.Conn, file io.ReaderAt, pos int64, size int) error {
	done, err := direct(conn, file, pos, size)
	if done == size || err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return Copy(conn, file, pos+int64(done), size-done)
}

// Copy is Send through memory of this process.
func Copy(w io.Writer, file io.ReaderAt, pos int64, size int) error {
	buf := buffers.Get().(*[copyBytes]byte)
	defer buffers.Put(buf)
	for size > 0 {
		part := buf[:min(size, copyBytes)]
		if n, err := file.ReadAt(part, pos); n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		pos, size = pos+int64(len(part)), size-len(part)
	}
	return nil
}
