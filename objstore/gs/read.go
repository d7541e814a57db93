package gs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	u, err := s.object(key, url.Values{"alt": {"media"}})
	if err != nil {
		return nil, err
	}
	a, err := s.call(ctx, request{method: http.MethodGet, url: u, repeat: true})
	if err != nil {
		return nil, readError("get", key, err)
	}
	return a.body, nil
}

// GetRange reads length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	return objstore.ReadRange(ctx, s, key, off, length, func() ([]byte, error) { return s.getRange(ctx, key, off, length) })
}

func (s *Store) getRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	u, err := s.object(key, url.Values{"alt": {"media"}})
	if err != nil {
		return nil, err
	}
	a, err := s.call(ctx, request{
		method: http.MethodGet, url: u, repeat: true, limit: length,
		header: http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", off, off+length-1)}},
	})
	if err != nil {
		return nil, readError("get", key, err)
	}
	if a.status != http.StatusPartialContent && off > 0 {
		return nil, fmt.Errorf("get %s: the store ignored the range", key)
	}
	return a.body, nil
}

// object is the description of one.
type object struct {
	Name    string
	Size    string
	Updated time.Time
}

func (o object) info(key string) (objstore.Info, error) {
	size, err := strconv.ParseInt(o.Size, 10, 64)
	if err != nil || size < 0 {
		return objstore.Info{}, fmt.Errorf("the store gives the size %q", o.Size)
	}
	return objstore.Info{Key: key, Size: size, ModTime: o.Updated}, nil
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	u, err := s.object(key, url.Values{"fields": {"name,size,updated"}})
	if err != nil {
		return objstore.Info{}, err
	}
	a, err := s.call(ctx, request{method: http.MethodGet, url: u, repeat: true})
	if err != nil {
		return objstore.Info{}, readError("head", key, err)
	}
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	info, err := o.info(key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return info, nil
}

// List pages through the bucket in ascending order of keys. Folder markers of other tools are left out.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if err := s.list(ctx, opts, yield); err != nil && !errors.Is(err, errEnough) {
			yield(objstore.Info{}, fmt.Errorf("list %s: %w", opts.Prefix, err))
		}
	}
}

// errEnough says that the caller takes no more.
var errEnough = errors.New("enough")

func (s *Store) list(ctx context.Context, opts objstore.ListOptions, yield func(objstore.Info, error) bool) error {
	q := url.Values{"prefix": {s.root() + opts.Prefix}, "fields": {"nextPageToken,items(name,size,updated)"}}
	if opts.StartAfter != "" {
		q.Set("startOffset", s.root()+opts.StartAfter) // this one is left out by Match
	}
	if opts.Flat {
		q.Set("delimiter", "/")
	}
	for {
		a, err := s.call(ctx, request{
			method: http.MethodGet, repeat: true, url: s.base + "/storage/v1/b/" + url.PathEscape(s.cfg.Bucket) + "/o?" + q.Encode(),
		})
		if err != nil {
			return err
		}
		var page struct {
			NextPageToken string
			Items         []object
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			return err
		}
		for _, o := range page.Items {
			key, ok := strings.CutPrefix(o.Name, s.root())
			if !ok || key == "" || strings.HasSuffix(key, "/") || !opts.Match(key) {
				continue
			}
			info, err := o.info(key)
			if err != nil {
				return err
			}
			if !yield(info, nil) {
				return errEnough
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		q.Set("pageToken", page.NextPageToken)
	}
}
