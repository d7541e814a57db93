package az

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/upload"
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
	return upload.New(ctx, key, s.cfg.PartSize, &blocks{store: s, key: key, blob: b, id: uuid.NewString()}), nil
}

// blocks are an object on its way up.
type blocks struct {
	store *Store
	key   string
	blob  *blockblob.Client
	id    string   // tells our blocks from those of another writer of the same key
	ids   []string // of those that were sent
}

func (b *blocks) Put(ctx context.Context, data []byte) error { return b.store.Put(ctx, b.key, data) }

func (b *blocks) Begin(context.Context) error { return nil }

func (b *blocks) Send(ctx context.Context, n int, _ int64, part []byte) error {
	if n == maxBlocks {
		return fmt.Errorf("more than %d blocks of %d bytes", maxBlocks, b.store.cfg.PartSize)
	}
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", b.id, n))
	b.ids = append(b.ids, id)
	_, err := b.blob.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(part)), nil)
	return explain(err)
}

// Finish makes the object. The same list again, should the SDK repeat it, makes the same object.
func (b *blocks) Finish(ctx context.Context, n int, off int64, last []byte) error {
	if err := b.Send(ctx, n, off, last); err != nil {
		return fmt.Errorf("upload last block of %s: %w", b.key, err)
	}
	_, err := b.blob.CommitBlockList(ctx, b.ids, nil)
	return writeError("complete upload of", b.key, err)
}

// Abort has nothing to do: the service drops blocks of which nothing was made.
func (b *blocks) Abort(context.Context) error { return nil }
