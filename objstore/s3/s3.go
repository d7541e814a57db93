// Package s3 keeps objects in a bucket of Amazon S3 or of a store that speaks its protocol.
//
// PutIfAbsent is a PUT with "If-None-Match: *". Before the first one, the store is asked to prove that it
// honours the condition; one that does not is refused, since two writers could both win a version (I5). A
// conditional PUT is never repeated by the SDK: a repetition after a lost answer would look like a lost race.
// A failure that leaves the outcome open wraps objstore.ErrUnknownOutcome. Objects of unknown size go up in
// parts, the last write being published whole by Close. All methods may be called concurrently.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// Config of a store. Credentials and region come from the SDK's own chain (environment, files, instance
// role) unless they are given.
type Config struct {
	Bucket    string // required
	Prefix    string // root within the bucket, without slashes at its ends
	Endpoint  string // URL of a store that is not AWS
	Region    string // default: the SDK's chain; us-east-1 when Endpoint is set and the chain has none
	PathStyle bool   // bucket in the path, not in the host name
	AccessKey string // with SecretKey: use these credentials
	SecretKey string
	PartSize  int           // of uploads; default 8 MiB, at least 5 MiB
	Timeout   time.Duration // for the first byte of an answer; default 60 s
}

const (
	minPart = 5 << 20 // the protocol's own limit
	maxPart = 512 << 20
)

func (c Config) withDefaults() Config {
	c.Prefix = strings.Trim(c.Prefix, "/")
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
	if c.PartSize < minPart || c.PartSize > maxPart {
		return fmt.Errorf("part size %d is not between %d and %d", c.PartSize, minPart, maxPart)
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("access key and secret key must be given together")
	}
	return nil
}

// Store is an object store in a bucket.
type Store struct {
	cfg    Config
	client *s3.Client

	probeMu sync.Mutex
	probed  bool
}

var _ objstore.Store = (*Store)(nil)

// Open makes a store. It sends nothing to the bucket yet.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open s3 store: %w", err)
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = cfg.Timeout
		t.MaxIdleConnsPerHost = 64
	})
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if cfg.Region != "" {
		load = append(load, config.WithRegion(cfg.Region))
	}
	if cfg.AccessKey != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, "")))
	}
	if cfg.Endpoint != "" { // many stores do not know the newer checksums
		load = append(load, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired))
	}
	ac, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("open s3 store: %w", err)
	}
	if ac.Region == "" {
		if cfg.Endpoint == "" {
			return nil, fmt.Errorf("open s3://%s: no region is set: give --s3-region, or set AWS_REGION", cfg.Bucket)
		}
		ac.Region = "us-east-1"
	}
	ac.Credentials = ExplainCredentials(ac.Credentials)
	return &Store{cfg: cfg, client: s3.NewFromConfig(ac, func(o *s3.Options) {
		o.UsePathStyle = cfg.PathStyle
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
	})}, nil
}

// URL is s3://bucket/prefix.
func (s *Store) URL() string {
	if s.cfg.Prefix == "" {
		return "s3://" + s.cfg.Bucket
	}
	return "s3://" + s.cfg.Bucket + "/" + s.cfg.Prefix
}

// root is what every key of the store begins with in the bucket.
func (s *Store) root() string {
	if s.cfg.Prefix == "" {
		return ""
	}
	return s.cfg.Prefix + "/"
}

func (s *Store) key(key string) (*string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, err
	}
	return aws.String(s.root() + key), nil
}

// Put publishes data, replacing what is there. It is the same when it is repeated, so the SDK may do that.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	k, err := s.key(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: k, Body: bytes.NewReader(data)})
	return writeError("put", key, err)
}

// Delete removes key if it is there.
func (s *Store) Delete(ctx context.Context, key string) error {
	k, err := s.key(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: k})
	if err != nil && status(err) != http.StatusNotFound {
		return fmt.Errorf("delete %s: %w", key, Explain(err))
	}
	return nil
}
