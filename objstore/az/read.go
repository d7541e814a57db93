package az

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// bodyTries bounds the repetitions of a read whose body broke off; the SDK repeats only up to the headers.
const bodyTries = 4

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.get(ctx, key, blob.HTTPRange{}, -1)
}

// GetRange reads length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	return objstore.ReadRange(ctx, s, key, off, length, func() ([]byte, error) {
		return s.get(ctx, key, blob.HTTPRange{Offset: off, Count: length}, length)
	})
}

func (s *Store) get(ctx context.Context, key string, span blob.HTTPRange, length int64) ([]byte, error) {
	b, err := s.blob(key)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		out, err := b.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: span})
		if err != nil {
			return nil, readError("get", key, err)
		}
		if length >= 0 && out.ContentLength != nil && *out.ContentLength > length {
			return nil, errors.Join(fmt.Errorf("get %s: the store ignored the range and sends %d bytes", key, *out.ContentLength), out.Body.Close())
		}
		data, err := readBody(out)
		if err == nil {
			return data, nil
		}
		if try == bodyTries || ctx.Err() != nil {
			return nil, fmt.Errorf("get %s: %w", key, err)
		}
	}
}

func readBody(out blob.DownloadStreamResponse) (_ []byte, err error) {
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	const trust = 64 << 20 // take the announced length at its word up to here
	if out.ContentLength == nil || *out.ContentLength <= 0 || *out.ContentLength > trust {
		return io.ReadAll(out.Body)
	}
	b := make([]byte, *out.ContentLength)
	_, err = io.ReadFull(out.Body, b)
	return b, err
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	b, err := s.blob(key)
	if err != nil {
		return objstore.Info{}, err
	}
	out, err := b.GetProperties(ctx, nil)
	if err != nil {
		return objstore.Info{}, readError("head", key, err)
	}
	if isFolder(out.Metadata) {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, objstore.ErrNotFound)
	}
	return info(key, out.ContentLength, out.LastModified), nil
}

func info(key string, size *int64, modified *time.Time) objstore.Info {
	i := objstore.Info{Key: key}
	if size != nil {
		i.Size = *size
	}
	if modified != nil {
		i.ModTime = *modified
	}
	return i
}

// isFolder says whether this is the mark of a folder in an account with a hierarchical namespace.
func isFolder(metadata map[string]*string) bool {
	for name, value := range metadata {
		if strings.EqualFold(name, "hdi_isfolder") && value != nil && *value == "true" {
			return true
		}
	}
	return false
}

// List pages through the container in ascending order of keys. Folders are left out.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		prefix := s.root() + opts.Prefix
		for items, err := range s.pages(ctx, prefix, opts.Flat) {
			if err != nil {
				yield(objstore.Info{}, fmt.Errorf("list %s: %w", opts.Prefix, explain(err)))
				return
			}
			for _, it := range items {
				if it.Name == nil || it.Properties == nil || isFolder(it.Metadata) {
					continue
				}
				key, ok := strings.CutPrefix(*it.Name, s.root())
				if !ok || key == "" || strings.HasSuffix(key, "/") || !opts.Match(key) {
					continue
				}
				if !yield(info(key, it.Properties.ContentLength, it.Properties.LastModified), nil) {
					return
				}
			}
		}
	}
}

// pages gives the blobs with a prefix; flat ones not below a further slash.
func (s *Store) pages(ctx context.Context, prefix string, flat bool) iter.Seq2[[]*container.BlobItem, error] {
	include := container.ListBlobsInclude{Metadata: true}
	return func(yield func([]*container.BlobItem, error) bool) {
		if flat {
			for p := s.client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix, Include: include}); p.More(); {
				page, err := p.NextPage(ctx)
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(page.Segment.BlobItems, nil) {
					return
				}
			}
			return
		}
		for p := s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix, Include: include}); p.More(); {
			page, err := p.NextPage(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page.Segment.BlobItems, nil) {
				return
			}
		}
	}
}
