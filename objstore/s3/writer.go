package s3

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/upload"
)

// maxParts is the limit of the service.
const maxParts = 10_000

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
	return upload.New(ctx, key, s.cfg.PartSize, &multipart{store: s, name: key, key: k}), nil
}

// multipart is an object on its way up.
type multipart struct {
	store *Store
	name  string
	key   *string
	id    *string // of the upload
	parts []types.CompletedPart
}

func (m *multipart) Put(ctx context.Context, data []byte) error {
	return m.store.Put(ctx, m.name, data)
}

func (m *multipart) Begin(ctx context.Context) error {
	out, err := m.store.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &m.store.cfg.Bucket, Key: m.key})
	if err != nil {
		return Explain(err)
	}
	m.id = out.UploadId
	return nil
}

func (m *multipart) Send(ctx context.Context, n int, _ int64, part []byte) error {
	if n == maxParts {
		return fmt.Errorf("more than %d parts of %d bytes", maxParts, m.store.cfg.PartSize)
	}
	number := aws.Int32(int32(n + 1))
	out, err := m.store.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &m.store.cfg.Bucket, Key: m.key, UploadId: m.id, PartNumber: number, Body: bytes.NewReader(part),
	})
	if err != nil {
		return Explain(err)
	}
	m.parts = append(m.parts, types.CompletedPart{PartNumber: number, ETag: out.ETag})
	return nil
}

func (m *multipart) Finish(ctx context.Context, n int, off int64, last []byte) error {
	if err := m.Send(ctx, n, off, last); err != nil {
		return fmt.Errorf("upload last part of %s: %w", m.name, err)
	}
	_, err := m.store.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &m.store.cfg.Bucket, Key: m.key, UploadId: m.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: m.parts},
	})
	if status(err) == http.StatusNotFound { // a repetition of the call after the first answer was lost
		err = fmt.Errorf("%w: %w", objstore.ErrUnknownOutcome, err)
	}
	return writeError("complete upload of", m.name, err)
}

func (m *multipart) Abort(ctx context.Context) error {
	_, err := m.store.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &m.store.cfg.Bucket, Key: m.key, UploadId: m.id})
	if status(err) == http.StatusNotFound {
		return nil
	}
	return Explain(err)
}
