package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// Attributes of an entry. complete is a string: "true" or "false".
const (
	attrPath     = "tablePath"
	attrFile     = "fileName"
	attrTemp     = "tempPath"
	attrComplete = "complete"
	attrExpire   = "expireTime"
)

// DynamoConfig says where the lock table is. Region and credentials come from the SDK's own chain, the
// endpoint from AWS_ENDPOINT_URL_DYNAMODB or AWS_ENDPOINT_URL, unless they are given.
type DynamoConfig struct {
	Table     string // default delta_log, as for Spark and delta-rs
	Endpoint  string
	Region    string
	AccessKey string // with SecretKey
	SecretKey string
	Create    bool // make the table when it is not there
}

// DynamoDB is a lock table in Amazon DynamoDB, or in a server that speaks its protocol.
type DynamoDB struct {
	client *dynamodb.Client
	table  string
}

var _ LockTable = (*DynamoDB)(nil)

// OpenDynamoDB opens the lock table, which must be there unless Create is set.
func OpenDynamoDB(ctx context.Context, cfg DynamoConfig) (*DynamoDB, error) {
	if cfg.Table == "" {
		cfg.Table = "delta_log"
	}
	if (cfg.AccessKey == "") != (cfg.SecretKey == "") {
		return nil, errors.New("open lock table: access key and secret key must be given together")
	}
	var load []func(*config.LoadOptions) error
	if cfg.Region != "" {
		load = append(load, config.WithRegion(cfg.Region))
	}
	if cfg.AccessKey != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, "")))
	}
	ac, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("open lock table: %w", err)
	}
	if ac.Region == "" {
		ac.Region = "us-east-1"
	}
	ac.Credentials = s3.ExplainCredentials(ac.Credentials)
	d := &DynamoDB{table: cfg.Table, client: dynamodb.NewFromConfig(ac, func(o *dynamodb.Options) {
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
	})}
	if err := d.ensure(ctx, cfg.Create, ac.Region); err != nil {
		return nil, fmt.Errorf("open lock table %s: %w", cfg.Table, err)
	}
	return d, nil
}

// Name is the table's name.
func (d *DynamoDB) Name() string { return d.table }

// ensure checks that the table has the keys of the scheme, and makes it when it may.
func (d *DynamoDB) ensure(ctx context.Context, create bool, region string) error {
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	var missing *types.ResourceNotFoundException
	switch {
	case err == nil:
		return checkKeys(out.Table)
	case errors.As(err, &missing) && create:
		return d.create(ctx)
	case errors.As(err, &missing):
		return fmt.Errorf("it does not exist in region %s; if the name is right, make it (--dynamodb-create, or Create) "+
			"with the keys %s (HASH, string) and %s (RANGE, string)", region, attrPath, attrFile)
	case errorCode(err) == "AccessDeniedException":
		return nil // a role may have no right to describe it; its first use shows what is wrong
	}
	return s3.Explain(err)
}

func checkKeys(t *types.TableDescription) error {
	keys := map[string]types.KeyType{}
	for _, k := range t.KeySchema {
		keys[aws.ToString(k.AttributeName)] = k.KeyType
	}
	if len(keys) != 2 || keys[attrPath] != types.KeyTypeHash || keys[attrFile] != types.KeyTypeRange {
		return fmt.Errorf("its keys are %v, not %s (HASH) and %s (RANGE), so it is no lock table of this scheme", keys, attrPath, attrFile)
	}
	return nil
}

func (d *DynamoDB) create(ctx context.Context) error {
	_, err := d.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &d.table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrPath), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrFile), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrPath), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrFile), KeyType: types.KeyTypeRange},
		},
	})
	var inUse *types.ResourceInUseException
	if err != nil && !errors.As(err, &inUse) { // another one makes it just now
		return s3.Explain(err)
	}
	return dynamodb.NewTableExistsWaiter(d.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 2*time.Second
	}).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &d.table}, time.Minute)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func itemKey(tablePath, file string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrPath: text(tablePath), attrFile: text(file)}
}

// Get reads an entry, consistently.
func (d *DynamoDB) Get(ctx context.Context, tablePath, file string) (Entry, bool, error) {
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &d.table, Key: itemKey(tablePath, file), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return Entry{}, false, fmt.Errorf("read lock table %s: %w", d.table, s3.Explain(err))
	}
	if out.Item == nil {
		return Entry{}, false, nil
	}
	e, err := d.parse(out.Item)
	return e, err == nil, err
}

// Latest reads the newest entry, consistently.
func (d *DynamoDB) Latest(ctx context.Context, tablePath string) (Entry, bool, error) {
	out, err := d.client.Query(ctx, &dynamodb.QueryInput{
		TableName: &d.table, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
		KeyConditionExpression:    aws.String(attrPath + " = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(tablePath)},
	})
	if err != nil {
		return Entry{}, false, fmt.Errorf("read lock table %s: %w", d.table, s3.Explain(err))
	}
	if len(out.Items) == 0 {
		return Entry{}, false, nil
	}
	e, err := d.parse(out.Items[0])
	return e, err == nil, err
}

// parse checks what others wrote (I8).
func (d *DynamoDB) parse(item map[string]types.AttributeValue) (Entry, error) {
	get := func(name string) string {
		if s, ok := item[name].(*types.AttributeValueMemberS); ok {
			return s.Value
		}
		return ""
	}
	e := Entry{File: get(attrFile), Temp: get(attrTemp), Complete: get(attrComplete) == "true"}
	if _, ok := parseFile(e.File); !ok || objstore.CheckKey(e.Temp) != nil || !e.Complete && get(attrComplete) != "false" {
		return Entry{}, fmt.Errorf("lock table %s: the entry of %s file %q is not one of a Delta log: temporary file %q, complete %q",
			d.table, get(attrPath), e.File, e.Temp, get(attrComplete))
	}
	if n, ok := item[attrExpire].(*types.AttributeValueMemberN); ok {
		if sec, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			e.Expire = time.Unix(sec, 0)
		}
	}
	return e, nil
}

// addTries bounds the repetitions of an Add that was refused because of the rate of requests.
const addTries = 6

// Add adds an entry. The SDK must not repeat it: a repetition after a lost answer would look like a lost race.
func (d *DynamoDB) Add(ctx context.Context, tablePath string, e Entry) error {
	item := itemKey(tablePath, e.File)
	item[attrTemp], item[attrComplete] = text(e.Temp), text("false")
	for try := 1; ; try++ {
		_, err := d.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &d.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(" + attrFile + ")"),
		}, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		if err == nil {
			return nil
		}
		var taken *types.ConditionalCheckFailedException
		if errors.As(err, &taken) {
			return ErrTaken
		}
		if !throttled(err) || try == addTries {
			return addError(d.table, err)
		}
		if err := pause(ctx, time.Duration(try*try)*50*time.Millisecond); err != nil {
			return err
		}
	}
}

// addError tells failures that certainly wrote nothing from those that leave it open.
func addError(table string, err error) error {
	err = s3.Explain(err)
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= 300 && answer.HTTPStatusCode() < 500 ||
		errors.Is(err, s3.ErrCredentials) || errors.Is(err, s3.ErrUnreachable) || errors.Is(err, s3.ErrScheme) {
		return fmt.Errorf("write lock table %s: %w", table, err)
	}
	return fmt.Errorf("write lock table %s: %w: %w", table, objstore.ErrUnknownOutcome, err)
}

// Complete marks the entry. It is the same when it is repeated, so the SDK may do that.
func (d *DynamoDB) Complete(ctx context.Context, tablePath string, e Entry) error {
	_, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: itemKey(tablePath, e.File),
		UpdateExpression:    aws.String("SET " + attrComplete + " = :yes, " + attrExpire + " = :at"),
		ConditionExpression: aws.String(attrTemp + " = :temp"), // not of another writer, should this one have been taken back
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":yes": text("true"), ":temp": text(e.Temp), ":at": &types.AttributeValueMemberN{Value: strconv.FormatInt(e.Expire.Unix(), 10)},
		},
	})
	var gone *types.ConditionalCheckFailedException
	if err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("write lock table %s: %w", d.table, s3.Explain(err))
	}
	return nil
}

func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func throttled(err error) bool {
	switch errorCode(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return false
}
