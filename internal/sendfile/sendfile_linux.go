package sendfile

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

const msgMore = 0x8000 // MSG_MORE of socket.h: what comes next may go into the same packet

// Head writes b to conn, of which Send follows at once: where the system can, both go out together. conn's write deadline holds.
func Head(conn net.Conn, b []byte) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_, err := conn.Write(b)
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, err := syscall.SendmsgN(int(fd), b, nil, nil, msgMore|syscall.MSG_NOSIGNAL)
			switch {
			case err == nil:
				b = b[n:]
			case errors.Is(err, syscall.EAGAIN):
				return false
			case !errors.Is(err, syscall.EINTR):
				failed = os.NewSyscallError("sendmsg", err)
				return true
			}
		}
		return true
	})
	return errors.Join(failed, err)
}

// direct gives how much was sent; errors.ErrUnsupported when the rest is to be copied.
func direct(conn net.Conn, file io.ReaderAt, pos int64, size int) (done int, err error) {
	tcp, ok := conn.(*net.TCPConn)
	from, has := file.(syscall.Conn)
	if !ok || !has {
		return 0, errors.ErrUnsupported
	}
	dst, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	src, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	send := func(in, out uintptr) (ready bool) {
		for done < size {
			n, err := syscall.Sendfile(int(out), int(in), &pos, size-done)
			switch {
			case n > 0:
				done += n
			case err == nil:
				failed = io.ErrUnexpectedEOF
				return true
			case errors.Is(err, syscall.EAGAIN):
				return false
			case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP):
				failed = errors.ErrUnsupported // of this file system
				return true
			case !errors.Is(err, syscall.EINTR):
				failed = os.NewSyscallError("sendfile", err)
				return true
			}
		}
		return true
	}
	var sent error
	err = src.Control(func(in uintptr) { sent = dst.Write(func(out uintptr) bool { return send(in, out) }) })
	return done, errors.Join(failed, sent, err)
}
