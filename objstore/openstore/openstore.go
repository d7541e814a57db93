// Package openstore opens the object store that a URL names.
//
// Known are folders (a path or file://), s3://bucket/prefix (s3a:// too, as Hadoop writes it), gs://bucket/prefix,
// az://container/prefix, abfss://container@account.dfs.core.windows.net/prefix and mem://, which is a new store in
// memory at each call. Anything else is refused by name, with what to do instead.
//
// Credentials come from each vendor's own chain (packages s3, gs and az say which). For Azure the names that
// delta-rs knows are taken, too: AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN,
// AZURE_STORAGE_ENDPOINT.
//
// On S3 the versions of a table are ordered by conditional PUT, or by a lock table in DynamoDB that Spark and
// delta-rs share (package dynamolog). All writers of a table must do the same; a mismatch that shows is refused
// at the first commit.
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
)

// Options are settings of backends that a URL does not carry.
type Options struct {
	FS vfs.FS // of folders; default vfs.OS()

	S3Endpoint  string
	S3Region    string
	S3PathStyle bool
	S3AccessKey string // with S3SecretKey; default: the SDK's chain
	S3SecretKey string

	// LogStore says what orders the versions of a table on S3: "conditional" (PUT if absent) or "dynamodb". The
	// default is what AWS_S3_LOCKING_PROVIDER says, as for delta-rs, else conditional.
	LogStore       string
	DynamoTable    string // default DELTA_DYNAMO_TABLE_NAME, else delta_log
	DynamoEndpoint string // default AWS_ENDPOINT_URL_DYNAMODB, else AWS_ENDPOINT_URL, else AWS
	DynamoRegion   string // default S3Region
	DynamoCreate   bool   // make the lock table when it is not there
}

// known is what messages offer.
const known = "a path, file://, s3://, gs://, az://, abfss:// or mem://"

// Open gives the store at a path or URL.
func Open(ctx context.Context, location string, opts Options) (objstore.Store, error) {
	scheme, rest, ok := strings.Cut(location, "://")
	if !ok {
		if err := checkPath(location); err != nil {
			return nil, err
		}
		return openDir(location, opts)
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "file":
		path, err := filePath(rest)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", location, err)
		}
		return openDir(path, opts)
	case "mem":
		return mem.New(), nil
	case "s3", "s3a":
		bucket, prefix, err := bucketOf(location, rest)
		if err != nil {
			return nil, err
		}
		return openS3(ctx, scheme, bucket, prefix, opts)
	case "gs":
		bucket, prefix, err := bucketOf(location, rest)
		if err != nil {
			return nil, err
		}
		return openGS(ctx, bucket, prefix)
	case "az", "abfs", "abfss":
		return openAZ(location, scheme, rest)
	}
	return nil, fmt.Errorf("open %s: %s:// is not supported%s; use %s", location, scheme, instead(scheme), known)
}

// bucketOf takes what follows the scheme apart.
func bucketOf(location, rest string) (bucket, prefix string, err error) {
	bucket, prefix, _ = strings.Cut(rest, "/")
	if bucket == "" {
		return "", "", fmt.Errorf("open %s: no bucket is given", location)
	}
	if strings.ContainsAny(bucket, "@:?#") {
		return "", "", fmt.Errorf("open %s: %q is not a bucket name", location, bucket)
	}
	return bucket, strings.Trim(prefix, "/"), nil
}

// instead says what people who write this scheme may want.
func instead(scheme string) string {
	switch scheme {
	case "s3n":
		return " (write s3a:// or s3://)"
	case "http", "https":
		return " (for a store that speaks the S3 protocol write s3://bucket/prefix and give the URL as --s3-endpoint)"
	case "gcs":
		return " (write gs://)"
	case "azure", "adls", "wasb", "wasbs", "adl":
		return " (write az://container/path or abfss://container@account.dfs.core.windows.net/path)"
	case "hdfs", "dbfs":
		return " (no put-if-absent is known for it)"
	}
	return ""
}

// checkPath refuses URLs that lost a slash: they would silently become folders.
func checkPath(path string) error {
	for _, scheme := range []string{"s3", "s3a", "gs", "az", "abfs", "abfss", "file", "mem"} {
		if rest, ok := strings.CutPrefix(strings.ToLower(path), scheme+":"); ok {
			return fmt.Errorf("open %s: after %s: two slashes must follow, as in %s://%s; for a folder of this name write ./%s",
				path, scheme, scheme, strings.TrimLeft(rest, "/"), path)
		}
	}
	return nil
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
