package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// appenderEnv holds the job of a process that is one of our writers: the test's own binary, started again.
const appenderEnv = "LEDGERLAKE_TEST_APPENDER"

func TestMain(m *testing.M) {
	if job := os.Getenv(appenderEnv); job != "" {
		if err := runAppender(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	harness.Main(m)
}

// appender is a writer that appends one row a commit: n = From..To-1.
type appender struct {
	URL      string
	Writer   int
	From, To int
	Seed     uint64
	Faults   int           // of a hundred commits, how many get no or a lost answer
	Pace     time.Duration // between commits, at most; zero: none
}

func runAppender(job string) error {
	var a appender
	if err := json.Unmarshal([]byte(job), &a); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := openURL(ctx, a.URL)
	if err != nil {
		return err
	}
	if a.Faults > 0 {
		store = &flaky{Store: store, percent: a.Faults, rng: rand.New(rand.NewPCG(a.Seed, uint64(a.Writer)))}
	}
	return a.run(ctx, store)
}

// openURL takes the S3 server from the environment, as delta-rs does.
func openURL(ctx context.Context, url string) (objstore.Store, error) {
	return openstore.Open(ctx, url, openstore.Options{S3Endpoint: os.Getenv("AWS_ENDPOINT_URL"), S3PathStyle: true, DynamoCreate: true,
		DynamoEndpoint: os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")})
}

func logConfig() deltalog.Config {
	return deltalog.Config{MaxAttempts: 10_000, RetryBase: time.Millisecond, RetryMax: 100 * time.Millisecond}
}

// run says "ack WRITER N VERSION" for each commit, and "unknown WRITER N" for one of which it was never told.
func (a appender) run(ctx context.Context, store objstore.Store) error {
	l, err := deltalog.Open(ctx, store, logConfig())
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // all writers begin when it is closed
		return err
	}
	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.Writer)))
	for n := a.From; n < a.To; n++ {
		if a.Pace > 0 { // so that a slow writer beside us meets us all along
			time.Sleep(time.Duration(rng.Int64N(int64(a.Pace))))
		}
		v, err := appendRow(ctx, l, store, a.Writer, n)
		switch {
		case err == nil:
			fmt.Println("ack", a.Writer, n, v)
		case errors.Is(err, objstore.ErrUnknownOutcome):
			fmt.Println("unknown", a.Writer, n)
		default:
			return fmt.Errorf("writer %d, row %d: %w", a.Writer, n, err)
		}
	}
	return nil
}

func dataName(writer, n int) string { return fmt.Sprintf("w%d-n%d.parquet", writer, n) }

func appendRow(ctx context.Context, l *deltalog.Log, store objstore.Store, writer, n int) (deltalog.Version, error) {
	data, err := rowFile(int64(writer), int64(n))
	if err != nil {
		return 0, err
	}
	name := dataName(writer, n)
	if err := store.Put(ctx, name, data); err != nil {
		return 0, errors.New(err.Error()) // not an outcome of the commit
	}
	return l.Commit(ctx, deltalog.Commit{Operation: "WRITE", BlindAppend: true, Adds: []deltalog.Add{{
		Path: name, Size: int64(len(data)), ModificationTime: time.Now().UnixMilli(), DataChange: true,
		PartitionValues: map[string]*string{}, Stats: `{"numRecords":1}`,
	}}})
}

// rowFile is a Parquet file of one row.
func rowFile(w, n int64) ([]byte, error) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "w", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(w)
	b.Field(1).(*array.Int64Builder).Append(n)
	rec := b.NewRecordBatch()
	defer rec.Release()
	var buf bytes.Buffer
	pw, err := pqarrow.NewFileWriter(schema, &buf, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	err = errors.Join(pw.Write(rec), pw.Close())
	return buf.Bytes(), err
}

// createTable makes the table that all writers append to.
func createTable(t *testing.T, url string) objstore.Store {
	t.Helper()
	store, err := openURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: &deltalog.StructType{Fields: []deltalog.StructField{
		{Name: "w", Type: deltalog.Long, Nullable: true}, {Name: "n", Type: deltalog.Long, Nullable: true},
	}}}, logConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return store
}

// flaky loses requests and answers of commits, and delays some until long after it has said that it does not know.
type flaky struct {
	objstore.Store
	percent int
	rng     *rand.Rand // the log has one commit under way at a time
}

func (f *flaky) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if f.rng.IntN(100) >= f.percent {
		return f.Store.PutIfAbsent(ctx, key, data)
	}
	lost := fmt.Errorf("injected: %w", objstore.ErrUnknownOutcome)
	switch f.rng.IntN(3) {
	case 0: // never sent
	case 1: // done, the answer lost
		_ = f.Store.PutIfAbsent(ctx, key, data)
	case 2: // under way for a while: it may meet the repetition
		delay := time.Duration(f.rng.IntN(50)) * time.Millisecond
		ctx := context.WithoutCancel(ctx)
		time.AfterFunc(delay, func() { _ = f.Store.PutIfAbsent(ctx, key, data) })
	}
	return lost
}
