package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3/dynamolog"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// TestWeDieAtEachStep stops our writer at each request of an append, before and after its effect. Then delta-rs
// reads the table, appends, and reads again; and so do we (I1, I5).
func TestWeDieAtEachStep(t *testing.T) {
	python, s3 := harness.DynamoPython(t), harness.S3(t)
	lockTable(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // what a repetition would do is another test
	p := &tap{}
	opts := openstore.Options{S3Endpoint: p.before(t, s3.Endpoint), S3PathStyle: true, DynamoEndpoint: p.before(t, os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))}
	tables := map[string]*told{}
	var urls []string
	for _, after := range []bool{false, true} {
		for n, stopped := 1, true; stopped; n++ {
			url := fmt.Sprintf("s3://%s/ours-%v-%02d", s3.Bucket, after, n)
			createTable(t, url)
			store, err := openstore.Open(t.Context(), url, opts)
			if err != nil {
				t.Fatal(err)
			}
			cfg := logConfig()
			cfg.MaxAttempts = 2
			l, err := deltalog.Open(t.Context(), store, cfg)
			if err != nil {
				t.Fatal(err)
			}
			d := newTold()
			p.arm(n, after, nil)
			v, err := appendRow(t.Context(), l, store, 1, n)
			stopped = p.reached()
			p.arm(0, false, nil)
			if err == nil {
				d.acked[row{1, n}] = int64(v)
			} else if errors.Is(err, objstore.ErrUnknownOutcome) {
				d.unknown[row{1, n}] = true
			}
			if !stopped && err != nil {
				t.Fatalf("nothing was stopped, and the append fails: %v", err)
			}
			_ = l.Close()
			tables[url], urls = d, append(urls, url)
		}
	}
	t.Logf("stopped in %d ways", len(urls)-2)
	othersGoOn(t, python, tables, urls)
}

// othersGoOn lets delta-rs and us read each table, append to it, and read it again.
func othersGoOn(t *testing.T, python string, tables map[string]*told, urls []string) {
	t.Helper()
	for url, rows := range rivalRows(t, python, urls...) {
		tables[url].check(t, "delta-rs, at once, "+url, rows)
	}
	cmd := exec.Command(python, append([]string{"rival.py", "each", "100"}, urls...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := harness.RunCommand(t, cmd); err != nil {
		t.Fatalf("delta-rs: %v\n%s", err, out.String())
	}
	for _, url := range urls {
		d := tables[url]
		d.acked[row{100, 0}] = -1
		d.acked[row{2, 0}] = int64(appendOne(t, url, 2, 0))
	}
	for url, rows := range rivalRows(t, python, urls...) {
		tables[url].check(t, "delta-rs, in the end, "+url, rows)
		store, l := openLog(t, url)
		s, err := l.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.NumFiles() != len(rows) { // each file has one row
			t.Errorf("%s: we see %d files, delta-rs %d rows", url, s.NumFiles(), len(rows))
		}
		tables[url].checkLog(t, store)
	}
}

func openLog(t *testing.T, url string) (objstore.Store, *deltalog.Log) {
	t.Helper()
	store, err := openURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := deltalog.Open(t.Context(), store, logConfig())
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return store, l
}

func appendOne(t *testing.T, url string, w, n int) deltalog.Version {
	t.Helper()
	store, l := openLog(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	v, err := appendRow(ctx, l, store, w, n)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return v
}

// TestDeltaRSDiesAtEachStep kills delta-rs before each request of an append that changes a store: then we read the
// table and append, and delta-rs after us.
func TestDeltaRSDiesAtEachStep(t *testing.T) {
	python, s3 := harness.DynamoPython(t), harness.S3(t)
	lockTable(t)
	p := &tap{counts: writes}
	tapS3, tapDynamo := p.before(t, s3.Endpoint), p.before(t, os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))
	tables := map[string]*told{}
	var urls []string
	for n, stopped := 1, true; stopped; n++ {
		url := fmt.Sprintf("s3://%s/theirs-%02d", s3.Bucket, n)
		createTable(t, url)
		d := newTold()
		d.unknown[row{50, 0}] = true
		cmd := exec.Command(python, "rival.py", "append", url, "50", "0", "1")
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+tapS3, "AWS_ENDPOINT_URL_DYNAMODB="+tapDynamo)
		w := start(t, d, "delta-rs", cmd)
		<-w.ready
		p.arm(n, false, func() { _ = cmd.Process.Kill() })
		if err := w.begin.Close(); err != nil {
			t.Fatal(err)
		}
		err := <-w.done
		if stopped = p.reached(); !stopped && err != nil {
			t.Fatalf("nothing was stopped, and delta-rs fails: %v", err)
		}
		p.arm(0, false, nil)
		d.acked[row{2, n}] = int64(appendOne(t, url, 2, n))
		tables[url], urls = d, append(urls, url)
	}
	t.Logf("killed in %d ways", len(urls)-1)
	othersGoOn(t, python, tables, urls)
}

// TestLockTable: what a lock table must be, and that one with other keys, or none, is refused.
func TestLockTable(t *testing.T) {
	endpoint := harness.DynamoDB(t)
	cfg := dynamolog.DynamoConfig{Table: "locks", Endpoint: endpoint, Region: "us-east-1", AccessKey: "a", SecretKey: "b"}
	if _, err := dynamolog.OpenDynamoDB(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing table: %v", err)
	}
	cfg.Create = true
	lock, err := dynamolog.OpenDynamoDB(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Create = false
	if _, err := dynamolog.OpenDynamoDB(t.Context(), cfg); err != nil {
		t.Errorf("the table that we made: %v", err)
	}
	const path = "s3://lake/t"
	entry := func(v int) dynamolog.Entry {
		return dynamolog.Entry{File: fmt.Sprintf("%020d.json", v), Temp: fmt.Sprintf(".tmp/%d", v)}
	}
	if _, ok, err := lock.Latest(t.Context(), path); ok || err != nil {
		t.Fatalf("Latest of nothing = %v, %v", ok, err)
	}
	for _, v := range []int{9, 10, 11} {
		if err := lock.Add(t.Context(), path, entry(v)); err != nil {
			t.Fatal(err)
		}
	}
	other := entry(10)
	other.Temp = ".tmp/other"
	if err := lock.Add(t.Context(), path, other); !errors.Is(err, dynamolog.ErrTaken) {
		t.Errorf("a version twice: %v", err)
	}
	if err := lock.Add(t.Context(), path+"2", entry(99)); err != nil { // another table
		t.Fatal(err)
	}
	if e, ok, err := lock.Latest(t.Context(), path); e != entry(11) || !ok || err != nil {
		t.Errorf("Latest = %+v, %v, %v", e, ok, err)
	}
	other.Expire = time.Unix(2_000_000_000, 0)
	if err := lock.Complete(t.Context(), path, other); err != nil { // not its entry: nothing happens
		t.Error(err)
	}
	if e, _, err := lock.Get(t.Context(), path, entry(10).File); e != entry(10) || err != nil {
		t.Errorf("the entry of another writer became %+v, %v", e, err)
	}
	done := entry(10)
	done.Complete, done.Expire = true, other.Expire
	if err := lock.Complete(t.Context(), path, done); err != nil {
		t.Error(err)
	}
	if e, ok, err := lock.Get(t.Context(), path, done.File); e != done || !ok || err != nil {
		t.Errorf("Get = %+v, %v, %v", e, ok, err)
	}
	if err := lock.Complete(t.Context(), path, dynamolog.Entry{File: entry(77).File, Temp: "x"}); err != nil {
		t.Error(err)
	}
	if _, ok, _ := lock.Get(t.Context(), path, entry(77).File); ok {
		t.Error("Complete made an entry")
	}
}

// A process without the lock table is refused on a table that has one, and so is the other way after it.
func TestLogStoreMismatch(t *testing.T) {
	s3 := harness.S3(t)
	lockTable(t)
	url := "s3://" + s3.Bucket + "/table"
	createTable(t, url)
	appendOne(t, url, 1, 1)
	t.Setenv("AWS_S3_LOCKING_PROVIDER", "")
	store, l := openLog(t, url)
	if _, err := appendRow(t.Context(), l, store, 1, 2); !errors.Is(err, dynamolog.ErrMixedWriters) {
		t.Errorf("an append without the lock table: %v", err)
	}
	t.Setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
	t.Setenv("DELTA_DYNAMO_TABLE_NAME", "misspelt")
	store, l = openLog(t, url)
	if _, err := appendRow(t.Context(), l, store, 1, 2); !errors.Is(err, dynamolog.ErrMixedWriters) {
		t.Errorf("an append with another lock table: %v", err)
	}
}
