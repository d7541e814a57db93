package gs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// abortTimeout bounds the request that drops an upload.
const abortTimeout = 30 * time.Second

// Create starts a new object. What fits into one part is sent by one request at Close; more goes up in parts of
// one resumable upload, one in flight while the next is filled.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	u, err := s.upload(key, "resumable", false)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, store: s, key: key, start: u}, nil
}

type writer struct {
	ctx   context.Context //nolint:containedctx // Write and Close have no other way to get it
	store *Store
	key   string
	start string // the URL that begins an upload

	buf, spare []byte
	session    string     // the URL of the upload, empty before the first full part
	sent       int64      // bytes before the buffer
	flight     chan error // the result of the part in flight, nil when there is none
	err        error      // the first failure; nothing is published after it
	done       bool
}

func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("write %s: the writer is closed", w.key)
	}
	n := 0
	for w.err == nil && n < len(p) {
		if w.buf == nil {
			w.buf = make([]byte, 0, w.store.cfg.PartSize)
		}
		if len(w.buf) == cap(w.buf) { // only now is it sure that this is not the last part
			w.err = w.sendPart()
			continue
		}
		c := copy(w.buf[len(w.buf):cap(w.buf)], p[n:])
		w.buf = w.buf[:len(w.buf)+c]
		n += c
	}
	return n, w.err
}

// sendPart waits for the part in flight and sends the filled buffer.
func (w *writer) sendPart() error {
	if w.session == "" {
		a, err := w.store.call(w.ctx, request{method: http.MethodPost, url: w.start, repeat: true})
		if err != nil {
			return fmt.Errorf("start upload of %s: %w", w.key, err)
		}
		if w.session = a.header.Get("Location"); w.session == "" {
			return fmt.Errorf("start upload of %s: the store names no place for it", w.key)
		}
	}
	if err := w.wait(); err != nil {
		return err
	}
	part, off := w.buf, w.sent
	w.sent += int64(len(part))
	w.buf, w.spare = w.spare, part
	if w.buf == nil {
		w.buf = make([]byte, 0, w.store.cfg.PartSize)
	}
	w.buf = w.buf[:0]
	flight := make(chan error, 1)
	w.flight = flight
	go func() { flight <- w.store.sendRange(w.ctx, w.session, part, off, false) }() // wait takes it before the writer ends
	return nil
}

// wait waits for the part in flight.
func (w *writer) wait() error {
	if w.flight == nil {
		return nil
	}
	err := <-w.flight
	w.flight = nil
	if err != nil {
		return fmt.Errorf("upload %s: %w", w.key, err)
	}
	return nil
}

// sendRange sends bytes of an upload, the last ones or not. When an answer is lost it asks the store how much of
// them it has, and goes on there.
func (s *Store) sendRange(ctx context.Context, session string, data []byte, off int64, last bool) error {
	end := off + int64(len(data))
	total := "*"
	if last {
		total = strconv.FormatInt(end, 10)
	}
	have := off
	for try := 1; ; try++ {
		span := "*"
		if have < end {
			span = fmt.Sprintf("%d-%d", have, end-1)
		}
		a, err := s.call(ctx, request{
			method: http.MethodPut, url: session, body: data[have-off:], header: http.Header{"Content-Range": {"bytes " + span + "/" + total}},
		})
		if err == nil && a.status != http.StatusPermanentRedirect {
			return nil // the object is there
		}
		if code := status(err); err != nil && code != 0 && code < 500 || try == tries || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			if err := pause(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
				return err
			}
			if a, err = s.call(ctx, request{method: http.MethodPut, url: session, repeat: true, header: http.Header{"Content-Range": {"bytes */" + total}}}); err != nil {
				return err
			}
			if a.status != http.StatusPermanentRedirect {
				return nil
			}
		}
		got, err := received(a.header)
		if err != nil || got < have || got > end {
			return errors.Join(err, fmt.Errorf("the store has %d bytes, of %d to %d", got, off, end))
		}
		if have = got; have == end && !last {
			return nil
		}
	}
}

// received is how many bytes of an upload the store has.
func received(h http.Header) (int64, error) {
	r := h.Get("Range")
	if r == "" {
		return 0, nil
	}
	last, ok := strings.CutPrefix(r, "bytes=0-")
	if !ok {
		return 0, fmt.Errorf("the store has the range %q", r)
	}
	n, err := strconv.ParseInt(last, 10, 64)
	return n + 1, err
}

// Close publishes the object.
func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.key)
	}
	if w.session == "" && w.err == nil {
		w.done = true
		return w.store.Put(w.ctx, w.key, w.buf)
	}
	if w.err == nil {
		w.err = w.wait()
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	err := w.store.sendRange(w.ctx, w.session, w.buf, w.sent, true)
	if err == nil {
		w.done = true
		return nil
	}
	return errors.Join(writeError("complete upload of", w.key, err), w.Abort())
}

// Abort drops the parts that went up. It may be called again.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	_ = w.wait() // its failure does not matter any more
	w.buf, w.spare = nil, nil
	if w.session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	_, err := w.store.call(ctx, request{method: http.MethodDelete, url: w.session, repeat: true})
	// 499 is Google's answer to it. A store that keeps the parts for a while shows nothing of them.
	if code := status(err); err != nil && code != 499 && code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
		return fmt.Errorf("abort upload of %s: %w", w.key, err)
	}
	return nil
}
