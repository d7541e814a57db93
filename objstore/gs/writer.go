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
	"github.com/ledgerlake/ledgerlake/objstore/upload"
)

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
	return upload.New(ctx, key, s.cfg.PartSize, &resumable{store: s, key: key, start: u}), nil
}

// resumable is an object on its way up.
type resumable struct {
	store   *Store
	key     string
	start   string // the URL that begins an upload
	session string // the URL of the upload
}

func (r *resumable) Put(ctx context.Context, data []byte) error { return r.store.Put(ctx, r.key, data) }

func (r *resumable) Begin(ctx context.Context) error {
	a, err := r.store.call(ctx, request{method: http.MethodPost, url: r.start, repeat: true})
	if err != nil {
		return err
	}
	if r.session = a.header.Get("Location"); r.session == "" {
		return errors.New("the store names no place for it")
	}
	return nil
}

func (r *resumable) Send(ctx context.Context, _ int, off int64, part []byte) error {
	return r.store.sendRange(ctx, r.session, part, off, false)
}

func (r *resumable) Finish(ctx context.Context, _ int, off int64, last []byte) error {
	return writeError("complete upload of", r.key, r.store.sendRange(ctx, r.session, last, off, true))
}

func (r *resumable) Abort(ctx context.Context) error {
	_, err := r.store.call(ctx, request{method: http.MethodDelete, url: r.session, repeat: true})
	// 499 is Google's answer to it. A store that keeps the parts for a while shows nothing of them.
	if code := status(err); code == 499 || code == http.StatusNotFound || code == http.StatusMethodNotAllowed {
		return nil
	}
	return err
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
