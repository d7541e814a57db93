package offload

import (
	"context"

	"github.com/ledgerlake/ledgerlake/objstore"
)

const firstWindow, mostWindow = 64 << 10, 4 << 20

// ahead reads a range of an object from its beginning, one window ahead of who takes it. It is for one goroutine.
type ahead struct {
	store objstore.Store
	key   string
	ctx   context.Context // of the reader's life

	pos  int64 // of the next byte that is taken
	from int64 // of the next window
	end  int64 // behind the range
	size int64 // of the next window
	rest []byte
	next chan window // nil: none is under way
}

type window struct {
	data []byte
	err  error
}

func newAhead(ctx context.Context, store objstore.Store, key string, from, end int64) *ahead {
	a := &ahead{store: store, key: key, ctx: ctx, pos: from, from: from, end: end, size: firstWindow}
	a.fetch()
	return a
}

// fetch begins the next window.
func (a *ahead) fetch() {
	if a.from >= a.end {
		a.next = nil
		return
	}
	from, n := a.from, min(a.size, a.end-a.from)
	a.from += n
	a.size = min(2*a.size, mostWindow)
	next := make(chan window, 1)
	a.next = next
	go func() {
		data, err := a.store.GetRange(a.ctx, a.key, from, n)
		next <- window{data, err}
	}()
}

// fill makes the next window the one that is taken from.
func (a *ahead) fill() error {
	w := <-a.next
	if w.err != nil {
		a.next <- w // it is the answer to the next call too
		return w.err
	}
	a.rest = w.data
	a.fetch()
	return nil
}

// take gives the next n bytes, which must lie in the range. They are the caller's.
func (a *ahead) take(n int) ([]byte, error) {
	if n <= len(a.rest) {
		out := a.rest[:n:n]
		a.rest, a.pos = a.rest[n:], a.pos+int64(n)
		return out, nil
	}
	out := append(make([]byte, 0, n), a.rest...)
	for len(out) < n {
		if err := a.fill(); err != nil {
			return nil, err
		}
		k := min(n-len(out), len(a.rest))
		out = append(out, a.rest[:k]...)
		a.rest = a.rest[k:]
	}
	a.pos += int64(n)
	return out, nil
}

// skip leaves out what comes before a place at or behind this one.
func (a *ahead) skip(to int64) error {
	for a.pos < to {
		if len(a.rest) == 0 {
			if err := a.fill(); err != nil {
				return err
			}
		}
		k := min(to-a.pos, int64(len(a.rest)))
		a.rest, a.pos = a.rest[k:], a.pos+k
	}
	return nil
}
