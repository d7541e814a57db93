// Package az keeps objects in a container of Azure Blob Storage.
//
// PutIfAbsent is an upload with "If-None-Match: *", which the store takes from one writer (I5). It is sent once: a
// repetition after a lost answer would look like a lost race. A failure that leaves the outcome open wraps
// objstore.ErrUnknownOutcome. Objects of unknown size go up in blocks, which Close makes an object; the service
// drops blocks of which nothing was made after a week. All methods may be called concurrently.
//
// Credentials are an account key or a SAS token when one is given, else those of Azure's own chain: environment
// (AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or a certificate), workload identity, managed
// identity, `az login`.
//
// Keys with a backslash, or with a part that ends in a dot, are refused: the service would change them.
//
// The service cannot begin a listing in the middle: one with StartAfter reads all keys with its prefix.
package az

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Config of a store.
type Config struct {
	Account   string // required
	Container string // required
	Prefix    string // root within the container, without slashes at its ends
	Endpoint  string // of the account; default https://ACCOUNT.blob.core.windows.net
	Key       string // of the account; with neither this nor SAS: Azure's chain
	SAS       string // a token of a shared access signature, such as sv=...&sig=...
	PartSize  int    // of uploads; default 8 MiB
	Timeout   time.Duration
}

const (
	minPart = 64 << 10
	maxPart = 512 << 20
)

func (c Config) withDefaults() Config {
	c.Prefix = strings.Trim(c.Prefix, "/")
	if c.Endpoint == "" {
		c.Endpoint = "https://" + c.Account + ".blob.core.windows.net"
	}
	c.Endpoint = strings.TrimSuffix(c.Endpoint, "/")
	c.SAS = strings.TrimPrefix(c.SAS, "?")
	if c.PartSize == 0 {
		c.PartSize = 8 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}

func (c Config) validate() error {
	if c.Container == "" {
		return errors.New("no container is given")
	}
	if c.Account == "" {
		return errors.New("no account is given: set AZURE_STORAGE_ACCOUNT_NAME, or name it in the URL, as in abfss://container@account.dfs.core.windows.net/path")
	}
	if c.Prefix != "" {
		if err := objstore.CheckKey(c.Prefix); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	if c.PartSize < minPart || c.PartSize > maxPart {
		return fmt.Errorf("part size %d is not between %d and %d", c.PartSize, minPart, maxPart)
	}
	if c.Key != "" && c.SAS != "" {
		return errors.New("an account key and a SAS token are given: one of them is enough")
	}
	return nil
}

// Store is an object store in a container.
type Store struct {
	cfg    Config
	client *container.Client
}

var _ objstore.Store = (*Store)(nil)

// Open makes a store. It sends nothing to the container yet.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open az store: %w", err)
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, fmt.Errorf("open az://%s: %w", cfg.Container, explain(err))
	}
	return &Store{cfg: cfg, client: client}, nil
}

func connect(cfg Config) (*container.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = cfg.Timeout
	transport.MaxIdleConnsPerHost = 64
	opts := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: transport},
		Retry:     policy.RetryOptions{MaxRetries: 5, RetryDelay: 100 * time.Millisecond, MaxRetryDelay: 5 * time.Second},
	}}
	u := cfg.Endpoint + "/" + url.PathEscape(cfg.Container)
	switch {
	case cfg.Key != "":
		cred, err := container.NewSharedKeyCredential(cfg.Account, cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: the account key: %w", ErrCredentials, err)
		}
		return container.NewClientWithSharedKeyCredential(u, cred, opts)
	case cfg.SAS != "":
		return container.NewClientWithNoCredential(u+"?"+cfg.SAS, opts)
	}
	cred, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return container.NewClient(u, credential{cred}, opts)
}

// credential makes the failures of one wrap ErrCredentials.
type credential struct{ azcore.TokenCredential }

func (c credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.TokenCredential.GetToken(ctx, o)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return token, err
}

// URL is az://container/prefix.
func (s *Store) URL() string {
	if s.cfg.Prefix == "" {
		return "az://" + s.cfg.Container
	}
	return "az://" + s.cfg.Container + "/" + s.cfg.Prefix
}

// root is what every key of the store begins with in the container.
func (s *Store) root() string {
	if s.cfg.Prefix == "" {
		return ""
	}
	return s.cfg.Prefix + "/"
}

// blob gives the client of a checked key.
func (s *Store) blob(key string) (*blockblob.Client, error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, err
	}
	if strings.Contains(key, `\`) || strings.HasSuffix(key, ".") || strings.Contains(key, "./") {
		return nil, fmt.Errorf("%w %q: Azure takes no backslash, and no part that ends in a dot", objstore.ErrInvalidKey, key)
	}
	return s.client.NewBlockBlobClient(s.root() + key), nil
}

// Put publishes data, replacing what is there. It is the same when it is repeated, so the SDK may do that.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	b, err := s.blob(key)
	if err != nil {
		return err
	}
	_, err = b.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), nil)
	return writeError("put", key, err)
}

// PutIfAbsent publishes data unless key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	b, err := s.blob(key)
	if err != nil {
		return err
	}
	all := azcore.ETagAny
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	_, err = b.Upload(once, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &all}},
	})
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	}
	return writeError("put", key, err)
}

// Delete removes key if it is there.
func (s *Store) Delete(ctx context.Context, key string) error {
	b, err := s.blob(key)
	if err != nil {
		return err
	}
	if _, err = b.Delete(ctx, nil); err != nil && !bloberror.HasCode(err, bloberror.BlobNotFound) {
		return fmt.Errorf("delete %s: %w", key, explain(err))
	}
	return nil
}
