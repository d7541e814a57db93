package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// target keeps what it is sent, and fails where it is told to.
type target struct {
	partSize int
	fail     string
	calls    []string
	object   []byte
	whole    bool
	problems []string
}

var errTarget = errors.New("the service is out")

func (t *target) call(name string) error {
	t.calls = append(t.calls, name)
	if name == t.fail {
		return errTarget
	}
	return nil
}

func (t *target) Put(_ context.Context, data []byte) error {
	if err := t.call("put"); err != nil {
		return err
	}
	t.object, t.whole = bytes.Clone(data), true
	return nil
}

func (t *target) Begin(context.Context) error { return t.call("begin") }

func (t *target) Send(_ context.Context, n int, off int64, part []byte) error {
	if off != int64(len(t.object)) || off != int64(n*t.partSize) || len(part) != t.partSize {
		t.problems = append(t.problems, fmt.Sprintf("part %d of %d bytes at %d", n, len(part), off))
	}
	t.object = append(t.object, part...)
	return t.call(fmt.Sprint("send ", n))
}

func (t *target) Finish(_ context.Context, n int, off int64, last []byte) error {
	if off != int64(len(t.object)) || off != int64(n*t.partSize) || len(last) == 0 || len(last) > t.partSize {
		t.problems = append(t.problems, fmt.Sprintf("last part %d of %d bytes at %d", n, len(last), off))
	}
	if err := t.call("finish"); err != nil {
		return err
	}
	t.object, t.whole = append(t.object, last...), true
	return nil
}

func (t *target) Abort(ctx context.Context) error {
	if ctx.Err() != nil {
		t.problems = append(t.problems, "abort under a context that has ended")
	}
	return t.call("abort")
}

// Objects of every size about a part's, written in pieces of any length, arrive byte for byte.
func TestParts(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.New(t), 0))
	const part = 16
	for size := range 4*part + 2 {
		to := &target{partSize: part}
		w := New(t.Context(), "k", part, to)
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		for rest := want; len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 2*part+3))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("size %d: wrote %d of %d: %v", size, got, n, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		if !to.whole || !bytes.Equal(to.object, want) || len(to.problems) > 0 {
			t.Errorf("size %d: calls %v, object of %d bytes, %v", size, to.calls, len(to.object), to.problems)
		}
		if single := len(to.calls) == 1 && to.calls[0] == "put"; single != (size <= part) {
			t.Errorf("size %d: calls %v", size, to.calls)
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Errorf("size %d: a closed writer takes more", size)
		}
		if w.Close() == nil || w.Abort() != nil {
			t.Errorf("size %d: the end may come twice only as Abort", size)
		}
	}
}

// Whatever fails, the error comes out, nothing is published, and what went up is dropped once.
func TestFailures(t *testing.T) {
	for _, fail := range []string{"put", "begin", "send 0", "send 1", "finish", "abort", "cancel"} {
		ctx, cancel := context.WithCancel(t.Context())
		to := &target{partSize: 4, fail: fail}
		w := New(ctx, "k", 4, to)
		data := []byte("0123456789")
		if fail == "put" {
			data = data[:4]
		}
		_, err := w.Write(data)
		if fail == "abort" {
			err = w.Abort()
		} else if err == nil {
			if fail == "cancel" {
				cancel()
			}
			err = w.Close()
		} else if closing := w.Close(); !errors.Is(closing, errTarget) {
			t.Errorf("%s: Close after a failed Write: %v", fail, closing)
		}
		cancel()
		if !errors.Is(err, errTarget) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", fail, err)
		}
		aborts := 0
		for _, c := range to.calls {
			if c == "abort" {
				aborts++
			}
		}
		want := 1
		if fail == "put" || fail == "begin" {
			want = 0
		}
		if to.whole || aborts != want || len(to.problems) > 0 {
			t.Errorf("%s: published %v, calls %v, %v", fail, to.whole, to.calls, to.problems)
		}
	}
}
