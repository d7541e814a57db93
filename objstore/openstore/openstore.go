// Package openstore opens the object store that a URL names.
//
// Known are folders (a path or file://), s3://bucket/prefix (s3a:// too, as Hadoop writes it) and mem://,
// which is a new store in memory at each call. Anything else is refused by name.
package openstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// Options are settings of backends that a URL does not carry.
type Options struct {
	FS          vfs.FS // of folders; default vfs.OS()
	S3Endpoint  string
	S3Region    string
	S3PathStyle bool
	S3AccessKey string // with S3SecretKey; default: the SDK's chain
	S3SecretKey string
}

// Open gives the store at a path or URL.
func Open(ctx context.Context, location string, opts Options) (objstore.Store, error) {
	scheme, rest, ok := strings.Cut(location, "://")
	if !ok {
		return openDir(location, opts)
	}
	switch strings.ToLower(scheme) {
	case "file":
		path, err := filePath(rest)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", location, err)
		}
		return openDir(path, opts)
	case "mem":
		return mem.New(), nil
	case "s3", "s3a":
		bucket, prefix, _ := strings.Cut(rest, "/")
		if strings.ContainsAny(bucket, "@:?#") {
			return nil, fmt.Errorf("open %s: %q is not a bucket name", location, bucket)
		}
		return s3.Open(ctx, s3.Config{
			Bucket: bucket, Prefix: prefix, Endpoint: opts.S3Endpoint, Region: opts.S3Region,
			PathStyle: opts.S3PathStyle, AccessKey: opts.S3AccessKey, SecretKey: opts.S3SecretKey,
		})
	}
	return nil, fmt.Errorf("open %s: %s:// is not supported; use a path, file://, s3:// or mem://", location, scheme)
}

// filePath takes what follows file://: an absolute path, percent-encoded, of this machine.
func filePath(rest string) (string, error) {
	rest = strings.TrimPrefix(rest, "localhost")
	if !strings.HasPrefix(rest, "/") {
		return "", errors.New("file:// needs an absolute path, as in file:///lake/table")
	}
	return url.PathUnescape(rest)
}

func openDir(path string, opts Options) (objstore.Store, error) {
	if opts.FS == nil {
		opts.FS = vfs.OS()
	}
	return dir.Open(dir.Config{Root: path, FS: opts.FS})
}
