package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// bodyTries bounds the repetitions of a read whose body broke off; the SDK repeats only up to the headers.
const bodyTries = 4

func readError(verb, key string, err error) error {
	err = Explain(err)
	switch code := status(err); {
	case errors.Is(err, ErrNoBucket):
	case code == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", verb, key, objstore.ErrNotFound)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s %s: %w", verb, key, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.get(ctx, key, nil, -1)
}

// GetRange reads length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	return objstore.ReadRange(ctx, s, key, off, length, func() ([]byte, error) {
		return s.get(ctx, key, aws.String(fmt.Sprintf("bytes=%d-%d", off, off+length-1)), length)
	})
}

func (s *Store) get(ctx context.Context, key string, bytesRange *string, length int64) ([]byte, error) {
	k, err := s.key(key)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: k, Range: bytesRange})
		if err != nil {
			return nil, readError("get", key, err)
		}
		if length >= 0 && out.ContentLength != nil && *out.ContentLength > length {
			return nil, errors.Join(fmt.Errorf("get %s: the store ignored the range and sends %d bytes", key, *out.ContentLength), out.Body.Close())
		}
		b, err := readBody(out)
		if err == nil {
			return b, nil
		}
		if try == bodyTries || ctx.Err() != nil {
			return nil, fmt.Errorf("get %s: %w", key, err)
		}
		if err := pause(ctx, time.Duration(try)*50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func readBody(out *s3.GetObjectOutput) (_ []byte, err error) {
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	const trust = 64 << 20 // take the announced length at its word up to here
	size := aws.ToInt64(out.ContentLength)
	if size <= 0 || size > trust {
		return io.ReadAll(out.Body)
	}
	b := make([]byte, size)
	_, err = io.ReadFull(out.Body, b)
	return b, err
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	k, err := s.key(key)
	if err != nil {
		return objstore.Info{}, err
	}
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: k})
	if err != nil {
		return objstore.Info{}, readError("head", key, err)
	}
	return objstore.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified)}, nil
}

// List pages through the bucket in ascending order of keys. Folder markers of other tools are left out.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: aws.String(s.root() + opts.Prefix)}
		if opts.StartAfter != "" {
			in.StartAfter = aws.String(s.root() + opts.StartAfter)
		}
		if opts.Flat {
			in.Delimiter = aws.String("/")
		}
		for pages := s3.NewListObjectsV2Paginator(s.client, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(objstore.Info{}, fmt.Errorf("list %s: %w", opts.Prefix, Explain(err)))
				return
			}
			for _, o := range page.Contents {
				key := strings.TrimPrefix(aws.ToString(o.Key), s.root())
				if key == "" || strings.HasSuffix(key, "/") || strings.HasPrefix(key, probePrefix) || !opts.Match(key) {
					continue
				}
				if !yield(objstore.Info{Key: key, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}
