package sendfile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair gives both ends of a TCP connection.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	here, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

func fileOf(t *testing.T, data []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// What arrives is what was sent, in order, from a file of the system and from memory, though the reader is slow at first.
func TestSend(t *testing.T) {
	data := random(5 << 20)
	for name, file := range map[string]io.ReaderAt{"file": fileOf(t, data), "memory": bytes.NewReader(data)} {
		t.Run(name, func(t *testing.T) {
			here, there := pair(t)
			sent := make(chan error, 1)
			go func() {
				err := Head(here, []byte("head"))
				if err == nil {
					err = Send(here, file, 1000, len(data)-1000)
				}
				if err == nil {
					err = Head(here, nil)
				}
				if err == nil {
					_, err = here.Write([]byte("tail"))
				}
				sent <- errors.Join(err, here.Close())
			}()
			got, err := io.ReadAll(there)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			want := append(append([]byte("head"), data[1000:]...), "tail"...)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes arrived, want %d the same", len(got), len(want))
			}
		})
	}
}

func TestSendFaults(t *testing.T) {
	data := random(100 << 10)
	for name, file := range map[string]io.ReaderAt{"file": fileOf(t, data), "memory": bytes.NewReader(data)} {
		t.Run(name, func(t *testing.T) {
			here, there := pair(t)
			go func() { _, _ = io.Copy(io.Discard, there) }()
			if err := Send(here, file, 1000, len(data)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("behind the end of the file: %v", err)
			}
		})
		t.Run(name+", a reader that stands still", func(t *testing.T) {
			here, _ := pair(t)
			_ = here.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			var err error
			for range 1 << 12 { // 400 MB: more than any socket buffer
				if err = Send(here, file, 0, len(data)); err != nil {
					break
				}
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v, want the deadline", err)
			}
			if err := Head(here, data); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("head: %v, want the deadline", err)
			}
		})
		t.Run(name+", a connection that is closed", func(t *testing.T) {
			here, _ := pair(t)
			_ = here.Close()
			if err := Send(here, file, 0, len(data)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v, want closed", err)
			}
		})
	}
	f := fileOf(t, data)
	_ = f.Close()
	here, _ := pair(t)
	if err := Send(here, f, 0, len(data)); err == nil {
		t.Error("a file that is closed is sent")
	}
}
