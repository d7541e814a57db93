// Package gs keeps objects in a bucket of Google Cloud Storage, by its JSON protocol.
//
// PutIfAbsent is an upload with ifGenerationMatch=0, which the store takes from one writer (I5). It is sent once:
// a repetition after a lost answer would look like a lost race. A failure that leaves the outcome open wraps
// objstore.ErrUnknownOutcome. Objects of unknown size go up in parts of one resumable upload, and are there when
// Close has sent the last. All methods may be called concurrently.
//
// Credentials are those of Google's own chain: the file that GOOGLE_APPLICATION_CREDENTIALS names, else what
// `gcloud auth application-default login` left, else the service account of the machine. An endpoint that is not
// Google's, as STORAGE_EMULATOR_HOST names one, gets none.
package gs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Config of a store.
type Config struct {
	Bucket   string // required
	Prefix   string // root within the bucket, without slashes at its ends
	Endpoint string // URL of a server that is not Google's and asks for no credentials; default STORAGE_EMULATOR_HOST
	// Tokens are the credentials; default Google's chain.
	Tokens   oauth2.TokenSource
	PartSize int           // of uploads; default 8 MiB, a multiple of 256 KiB
	Timeout  time.Duration // for the first byte of an answer; default 60 s
}

const (
	partUnit = 256 << 10 // the protocol's own
	maxPart  = 512 << 20
	scope    = "https://www.googleapis.com/auth/devstorage.read_write"
)

func (c Config) withDefaults() Config {
	c.Prefix = strings.Trim(c.Prefix, "/")
	if c.Endpoint == "" && c.Tokens == nil {
		c.Endpoint = os.Getenv("STORAGE_EMULATOR_HOST")
	}
	if c.Endpoint != "" && !strings.Contains(c.Endpoint, "://") {
		c.Endpoint = "http://" + c.Endpoint
	}
	c.Endpoint = strings.TrimSuffix(c.Endpoint, "/")
	if c.PartSize == 0 {
		c.PartSize = 8 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}

func (c Config) validate() error {
	if c.Bucket == "" {
		return errors.New("no bucket is given")
	}
	if c.Prefix != "" {
		if err := objstore.CheckKey(c.Prefix); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	if c.PartSize < partUnit || c.PartSize > maxPart || c.PartSize%partUnit != 0 {
		return fmt.Errorf("part size %d is not a multiple of %d up to %d", c.PartSize, partUnit, maxPart)
	}
	if _, err := url.Parse(c.Endpoint); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return nil
}

// Store is an object store in a bucket.
type Store struct {
	cfg    Config
	base   string // of all URLs
	client *http.Client
}

var _ objstore.Store = (*Store)(nil)

// Open makes a store. It sends nothing to the bucket yet.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open gs store: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = cfg.Timeout
	transport.MaxIdleConnsPerHost = 64
	transport.DisableCompression = true // an object comes as it is stored
	s := &Store{cfg: cfg, base: cfg.Endpoint, client: &http.Client{Transport: transport}}
	if s.base == "" {
		s.base = "https://storage.googleapis.com"
		if cfg.Tokens == nil {
			found, err := google.FindDefaultCredentials(ctx, scope)
			if err != nil {
				return nil, fmt.Errorf("open gs://%s: %w: %w", cfg.Bucket, ErrCredentials, err)
			}
			cfg.Tokens = found.TokenSource
		}
	}
	if cfg.Tokens != nil {
		s.client.Transport = &oauth2.Transport{Source: tokens{cfg.Tokens}, Base: transport}
	}
	return s, nil
}

// tokens makes its failures wrap ErrCredentials.
type tokens struct{ source oauth2.TokenSource }

func (t tokens) Token() (*oauth2.Token, error) {
	token, err := t.source.Token()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return token, err
}

// URL is gs://bucket/prefix.
func (s *Store) URL() string {
	if s.cfg.Prefix == "" {
		return "gs://" + s.cfg.Bucket
	}
	return "gs://" + s.cfg.Bucket + "/" + s.cfg.Prefix
}

// root is what every key of the store begins with in the bucket.
func (s *Store) root() string {
	if s.cfg.Prefix == "" {
		return ""
	}
	return s.cfg.Prefix + "/"
}

// object is the URL of a checked key.
func (s *Store) object(key string, query url.Values) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	return s.base + "/storage/v1/b/" + url.PathEscape(s.cfg.Bucket) + "/o/" + url.PathEscape(s.root()+key) + "?" + query.Encode(), nil
}

// upload is the URL that takes a new object.
func (s *Store) upload(key, kind string, absent bool) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	q := url.Values{"uploadType": {kind}, "name": {s.root() + key}}
	if absent {
		q.Set("ifGenerationMatch", "0")
	}
	return s.base + "/upload/storage/v1/b/" + url.PathEscape(s.cfg.Bucket) + "/o?" + q.Encode(), nil
}

// Put publishes data, replacing what is there. It is the same when it is repeated.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	u, err := s.upload(key, "media", false)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, request{method: http.MethodPost, url: u, body: data, repeat: true})
	return writeError("put", key, err)
}

// PutIfAbsent publishes data unless key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	u, err := s.upload(key, "media", true)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, request{method: http.MethodPost, url: u, body: data})
	if status(err) == http.StatusPreconditionFailed {
		return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	}
	return writeError("put", key, err)
}

// Delete removes key if it is there.
func (s *Store) Delete(ctx context.Context, key string) error {
	u, err := s.object(key, nil)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, request{method: http.MethodDelete, url: u, repeat: true})
	if err != nil && (status(err) != http.StatusNotFound || errors.Is(err, ErrNoBucket)) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
