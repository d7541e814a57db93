package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
)

// storeFlags are the flags of every command that opens a table.
type storeFlags struct{ opts openstore.Options }

func (s *storeFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.opts.S3Endpoint, "s3-endpoint", "", "S3 endpoint URL of a store that is not AWS")
	f.StringVar(&s.opts.S3Region, "s3-region", "", "S3 region; default from the AWS environment")
	f.StringVar(&s.opts.LogStore, "log-store", "", "what orders versions on S3: conditional (PUT if absent, the default) or dynamodb, the lock table of Spark and delta-rs; default from AWS_S3_LOCKING_PROVIDER")
	f.StringVar(&s.opts.DynamoTable, "dynamodb-table", "", "lock table of --log-store dynamodb; default from DELTA_DYNAMO_TABLE_NAME, else delta_log")
	f.StringVar(&s.opts.DynamoEndpoint, "dynamodb-endpoint", "", "DynamoDB endpoint URL that is not AWS; default from AWS_ENDPOINT_URL_DYNAMODB")
	f.BoolVar(&s.opts.DynamoCreate, "dynamodb-create", false, "make the lock table when it is not there")
	f.BoolVar(&s.opts.S3PathStyle, "s3-path-style", false, "bucket in the path instead of the host name; on when --s3-endpoint is set")
}

func (s *storeFlags) open(ctx context.Context, url string) (objstore.Store, error) {
	opts := s.opts
	if opts.S3Endpoint != "" {
		opts.S3PathStyle = true
	}
	store, err := openstore.Open(ctx, url, opts)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	return store, nil
}
