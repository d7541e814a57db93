// Package upload is the writer of objects that go to a service in parts.
package upload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// abortTimeout bounds the request that drops an upload.
const abortTimeout = 30 * time.Second

// Target is where one object goes. Its errors say what failed; those of Put and Finish tell an unknown outcome.
// Calls come one after the other.
type Target interface {
	// Put publishes an object that fits into one part.
	Put(ctx context.Context, data []byte) error
	// Begin starts an upload in parts.
	Begin(ctx context.Context) error
	// Send uploads part n, counted from 0, whose first byte is byte off of the object. All parts have the same size.
	Send(ctx context.Context, n int, off int64, part []byte) error
	// Finish uploads the last part, which is not empty and no larger than the others, and publishes the object.
	Finish(ctx context.Context, n int, off int64, last []byte) error
	// Abort drops what was sent since Begin. It comes once, also after a Finish that failed.
	Abort(ctx context.Context) error
}

// writer fills one buffer while the other is in flight.
type writer struct {
	ctx      context.Context //nolint:containedctx // Write and Close have no other way to get it
	key      string
	target   Target
	partSize int

	buf, spare []byte
	begun      bool
	parts      int        // that were sent, or are in flight
	off        int64      // bytes before buf
	flight     chan error // the result of the part in flight, nil when there is none
	err        error      // the first failure; nothing is published after it
	done       bool
}

// New makes a writer that holds at most two parts in memory. The object appears when Close returns nil.
func New(ctx context.Context, key string, partSize int, target Target) objstore.Writer {
	return &writer{ctx: ctx, key: key, partSize: partSize, target: target}
}

func (w *writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fmt.Errorf("write %s: the writer is closed", w.key)
	}
	n := 0
	for w.err == nil && n < len(p) {
		if w.buf == nil {
			w.buf = make([]byte, 0, w.partSize)
		}
		if len(w.buf) == cap(w.buf) { // only now is it sure that this is not the last part
			w.err = w.send()
			continue
		}
		c := copy(w.buf[len(w.buf):cap(w.buf)], p[n:])
		w.buf = w.buf[:len(w.buf)+c]
		n += c
	}
	return n, w.err
}

// send waits for the part in flight and sends the filled buffer.
func (w *writer) send() error {
	if !w.begun {
		if err := w.target.Begin(w.ctx); err != nil {
			return fmt.Errorf("start upload of %s: %w", w.key, err)
		}
		w.begun = true
	}
	if err := w.wait(); err != nil {
		return err
	}
	part, n, off := w.buf, w.parts, w.off
	w.parts++
	w.off += int64(len(part))
	w.buf, w.spare = w.spare[:0], part // nil stays nil
	flight := make(chan error, 1)
	w.flight = flight
	go func() { flight <- w.target.Send(w.ctx, n, off, part) }() // wait takes it before the writer ends
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
		return fmt.Errorf("upload part %d of %s: %w", w.parts, w.key, err)
	}
	return nil
}

// Close publishes the object.
func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.key)
	}
	if w.err == nil && !w.begun {
		w.done = true
		return w.target.Put(w.ctx, w.buf)
	}
	if w.err == nil {
		w.err = w.wait()
	}
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err == nil {
		w.err = w.target.Finish(w.ctx, w.parts, w.off, w.buf)
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	w.done = true
	return nil
}

// Abort drops the parts that went up. It may be called again.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	_ = w.wait() // its failure does not matter any more
	w.buf, w.spare = nil, nil
	if !w.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	if err := w.target.Abort(ctx); err != nil {
		return fmt.Errorf("abort upload of %s: %w", w.key, err)
	}
	return nil
}
