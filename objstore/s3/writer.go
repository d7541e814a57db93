package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ledgerlake/ledgerlake/objstore"
)

const (
	maxParts     = 10_000
	abortTimeout = 30 * time.Second
)

// Create starts a new object. What fits into one part is sent by one PUT at Close; more goes up in parts, one
// in flight while the next is filled.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	k, err := s.key(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, store: s, name: key, key: k}, nil
}

type writer struct {
	ctx   context.Context //nolint:containedctx // Write and Close have no other way to get it
	store *Store
	name  string
	key   *string

	buf, spare []byte
	upload     *string // id of the multipart upload, nil before the first full part
	parts      []types.CompletedPart
	flight     chan sent // the result of the part in flight, nil when there is none
	err        error     // the first failure; nothing is published after it
	done       bool
}

// sent is the result of one part.
type sent struct {
	etag *string
	err  error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("write %s: the writer is closed", w.name)
	}
	n := 0
	for w.err == nil && n < len(p) {
		if w.buf == nil {
			w.buf = make([]byte, 0, w.store.cfg.PartSize)
		}
		c := copy(w.buf[len(w.buf):cap(w.buf)], p[n:])
		w.buf = w.buf[:len(w.buf)+c]
		n += c
		if len(w.buf) == cap(w.buf) {
			w.err = w.sendPart()
		}
	}
	return n, w.err
}

// sendPart waits for the part in flight and sends the filled buffer.
func (w *writer) sendPart() error {
	if w.upload == nil {
		out, err := w.store.client.CreateMultipartUpload(w.ctx, &s3.CreateMultipartUploadInput{Bucket: &w.store.cfg.Bucket, Key: w.key})
		if err != nil {
			return fmt.Errorf("start upload of %s: %w", w.name, Explain(err))
		}
		w.upload = out.UploadId
	}
	if err := w.wait(); err != nil {
		return err
	}
	if len(w.parts) == maxParts {
		return fmt.Errorf("upload %s: more than %d parts of %d bytes", w.name, maxParts, w.store.cfg.PartSize)
	}
	body := w.buf
	w.buf, w.spare = w.spare, body
	if w.buf != nil {
		w.buf = w.buf[:0]
	}
	w.parts = append(w.parts, types.CompletedPart{PartNumber: aws.Int32(int32(len(w.parts) + 1))})
	in := &s3.UploadPartInput{
		Bucket: &w.store.cfg.Bucket, Key: w.key, UploadId: w.upload,
		PartNumber: aws.Int32(int32(len(w.parts))), Body: bytes.NewReader(body),
	}
	flight := make(chan sent, 1)
	w.flight = flight
	go func() { // ends with the request; wait takes the result before the writer ends
		out, err := w.store.client.UploadPart(w.ctx, in)
		if err != nil {
			flight <- sent{err: err}
			return
		}
		flight <- sent{etag: out.ETag}
	}()
	return nil
}

// wait waits for the part in flight.
func (w *writer) wait() error {
	if w.flight == nil {
		return nil
	}
	res := <-w.flight
	w.flight = nil
	if res.err != nil {
		return fmt.Errorf("upload part %d of %s: %w", len(w.parts), w.name, Explain(res.err))
	}
	w.parts[len(w.parts)-1].ETag = res.etag
	return nil
}

// Close publishes the object.
func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.name)
	}
	if w.upload == nil && w.err == nil {
		w.done = true
		return w.store.Put(w.ctx, w.name, w.buf)
	}
	if w.err == nil && len(w.buf) > 0 {
		w.err = w.sendPart()
	}
	if w.err == nil {
		w.err = w.wait()
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	_, err := w.store.client.CompleteMultipartUpload(w.ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &w.store.cfg.Bucket, Key: w.key, UploadId: w.upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: w.parts},
	})
	w.done = err == nil
	if err == nil {
		return nil
	}
	if status(err) == http.StatusNotFound { // a repetition of the call after the first answer was lost
		err = fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, err)
	}
	return errors.Join(writeError("complete upload of", w.name, err), w.Abort())
}

// Abort drops the parts that went up. It may be called again.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	_ = w.wait() // its failure does not matter any more
	w.buf, w.spare = nil, nil
	if w.upload == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	_, err := w.store.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &w.store.cfg.Bucket, Key: w.key, UploadId: w.upload})
	if err != nil && status(err) != http.StatusNotFound {
		return fmt.Errorf("abort upload of %s: %w", w.name, err)
	}
	return nil
}
