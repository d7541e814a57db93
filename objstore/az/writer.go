package az

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// maxBlocks is the limit of the service.
const maxBlocks = 50_000

// Create starts a new object. What fits into one block is sent by one request at Close; more goes up in blocks,
// one in flight while the next is filled.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	b, err := s.blob(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, store: s, key: key, blob: b, id: uuid.NewString()}, nil
}

type writer struct {
	ctx   context.Context //nolint:containedctx // Write and Close have no other way to get it
	store *Store
	key   string
	blob  *blockblob.Client
	id    string // tells our blocks from those of another writer of the same key

	buf, spare []byte
	blocks     []string   // ids of those that were sent
	flight     chan error // the result of the block in flight, nil when there is none
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
		c := copy(w.buf[len(w.buf):cap(w.buf)], p[n:])
		w.buf = w.buf[:len(w.buf)+c]
		n += c
		if len(w.buf) == cap(w.buf) {
			w.err = w.sendBlock()
		}
	}
	return n, w.err
}

// sendBlock waits for the block in flight and sends the filled buffer.
func (w *writer) sendBlock() error {
	if err := w.wait(); err != nil {
		return err
	}
	if len(w.blocks) == maxBlocks {
		return fmt.Errorf("upload %s: more than %d blocks of %d bytes", w.key, maxBlocks, w.store.cfg.PartSize)
	}
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", w.id, len(w.blocks)))
	w.blocks = append(w.blocks, id)
	data := w.buf
	w.buf, w.spare = w.spare, data
	if w.buf != nil {
		w.buf = w.buf[:0]
	}
	flight := make(chan error, 1)
	w.flight = flight
	go func() { // ends with the request; wait takes the result before the writer ends
		_, err := w.blob.StageBlock(w.ctx, id, streaming.NopCloser(bytes.NewReader(data)), nil)
		flight <- err
	}()
	return nil
}

// wait waits for the block in flight.
func (w *writer) wait() error {
	if w.flight == nil {
		return nil
	}
	err := <-w.flight
	w.flight = nil
	if err != nil {
		return fmt.Errorf("upload block %d of %s: %w", len(w.blocks), w.key, explain(err))
	}
	return nil
}

// Close publishes the object.
func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.key)
	}
	if len(w.blocks) == 0 && w.err == nil {
		w.done = true
		return w.store.Put(w.ctx, w.key, w.buf)
	}
	if w.err == nil && len(w.buf) > 0 {
		w.err = w.sendBlock()
	}
	if w.err == nil {
		w.err = w.wait()
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	w.done = true
	// The same list again, should the SDK repeat it, makes the same object.
	_, err := w.blob.CommitBlockList(w.ctx, w.blocks, nil)
	return writeError("complete upload of", w.key, err)
}

// Abort forgets the blocks; the service drops them. It may be called again.
func (w *writer) Abort() error {
	w.done = true
	_ = w.wait() // its failure does not matter any more
	w.buf, w.spare = nil, nil
	return nil
}
