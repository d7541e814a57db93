package openstore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
	"github.com/ledgerlake/ledgerlake/objstore/s3/dynamolog"
)

func openS3(ctx context.Context, scheme, bucket, prefix string, opts Options) (objstore.Store, error) {
	kind := cmp.Or(opts.LogStore, os.Getenv("AWS_S3_LOCKING_PROVIDER"), "conditional")
	if kind != "conditional" && kind != "dynamodb" {
		return nil, fmt.Errorf("open %s://%s: log store %q (--log-store or AWS_S3_LOCKING_PROVIDER) is neither conditional nor dynamodb",
			scheme, bucket, kind)
	}
	store, err := s3.Open(ctx, s3.Config{
		Bucket: bucket, Prefix: prefix, Endpoint: opts.S3Endpoint, Region: opts.S3Region,
		PathStyle: opts.S3PathStyle, AccessKey: opts.S3AccessKey, SecretKey: opts.S3SecretKey,
	})
	if err != nil {
		return nil, err
	}
	if kind == "conditional" {
		return dynamolog.Guard(store), nil
	}
	lock, err := dynamolog.OpenDynamoDB(ctx, dynamolog.DynamoConfig{
		Table:    cmp.Or(opts.DynamoTable, os.Getenv("DELTA_DYNAMO_TABLE_NAME")),
		Endpoint: opts.DynamoEndpoint, Region: cmp.Or(opts.DynamoRegion, opts.S3Region),
		AccessKey: opts.S3AccessKey, SecretKey: opts.S3SecretKey, Create: opts.DynamoCreate,
	})
	if err != nil {
		return nil, err
	}
	// The scheme that the user wrote: the entries of Spark's tables stand under s3a://.
	return dynamolog.New(store, lock, dynamolog.Config{TablePath: strings.TrimSuffix(scheme+"://"+bucket+"/"+prefix, "/")})
}
