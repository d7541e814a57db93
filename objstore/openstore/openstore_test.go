package openstore_test

import (
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/openstore"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

func TestOpen(t *testing.T) {
	root := t.TempDir()
	opts := openstore.Options{S3Endpoint: "http://127.0.0.1:1", S3AccessKey: "a", S3SecretKey: "b"}
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
	t.Setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
	t.Setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
	for location, want := range map[string]string{
		"gs://bucket/lake": "gs://bucket/lake",
		"az://lake/t/":     "az://lake/t",
		"abfss://lake@account.dfs.core.windows.net/t": "az://lake/t",
		root:                              root,
		root + "/a b":                     root + "/a b",
		"file://" + root + "/a%20b":       root + "/a b",
		"file://localhost" + root:         root,
		"mem://x":                         "mem://",
		"s3://bucket":                     "s3://bucket",
		"s3://bucket/lake/orders/":        "s3://bucket/lake/orders",
		"s3a://bucket/lake":               "s3://bucket/lake",
		filepath.Join(root, "sub", "..x"): filepath.Join(root, "sub", "..x"),
	} {
		s, err := openstore.Open(t.Context(), location, opts)
		if err != nil || s.URL() != want {
			t.Errorf("Open(%q) = %v, %v; want %q", location, s, err, want)
		}
	}
	for location, want := range map[string]string{
		"":                   "no folder",
		"file://relative":    "absolute",
		"s3://":              "bucket",
		"s3://user:pw@host/": "bucket name",
		"s3://b/x/../y":      "invalid object key",
		"hdfs://nn/lake":     "hdfs:// is not supported",
		"https://host/lake":  "--s3-endpoint",
		"gcs://bucket/lake":  "gs://",
		"gs://":              "bucket",
		"az://":              "container",
		"wasbs://c@a.b/lake": "abfss://",
		"abfss://c@a/lake":   "container@account",
		"abfss://c@other.dfs.core.windows.net/lake": "AZURE_STORAGE_ACCOUNT_NAME",
		"s3n://bucket/lake":                         "s3a://",
		"s3:/bucket/lake":                           "two slashes",
		"file:/lake":                                "two slashes",
	} {
		if _, err := openstore.Open(t.Context(), location, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want an error with %q", location, err, want)
		}
	}
}

// A newcomer's first mistakes on S3: each error names the cause and the remedy.
func TestS3Mistakes(t *testing.T) {
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
		"AWS_S3_LOCKING_PROVIDER": "", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	with := func(endpoint string) openstore.Options {
		return openstore.Options{S3Endpoint: endpoint, S3PathStyle: true, S3AccessKey: "a", S3SecretKey: "b"}
	}
	for name, c := range map[string]struct {
		opts openstore.Options
		want error
	}{
		"no credentials":      {openstore.Options{S3Endpoint: server.URL, S3PathStyle: true}, s3.ErrCredentials},
		"nothing listens":     {with("http://127.0.0.1:1"), s3.ErrUnreachable},
		"no such host":        {with("http://no-such-host.invalid"), s3.ErrUnreachable},
		"no bucket":           {with(server.URL), s3.ErrNoBucket},
		"https is not spoken": {with(strings.Replace(server.URL, "http://", "https://", 1)), s3.ErrScheme},
	} {
		s, err := openstore.Open(t.Context(), "s3://bucket/t", c.opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, err = range s.List(t.Context(), objstore.ListOptions{}) {
			break
		}
		_, getErr := s.Get(t.Context(), "k")
		putErr := s.PutIfAbsent(t.Context(), "k", nil)
		for what, err := range map[string]error{"List": err, "Get": getErr, "PutIfAbsent": putErr} {
			if !errors.Is(err, c.want) || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrUnknownOutcome) {
				t.Errorf("%s: %s = %v, want %v", name, what, err, c.want)
			}
		}
	}
}

// What orders versions is chosen by option or by delta-rs's environment; nonsense is refused.
func TestLogStoreChoice(t *testing.T) {
	opts := openstore.Options{S3AccessKey: "a", S3SecretKey: "b", S3Region: "us-east-1", DynamoEndpoint: "http://127.0.0.1:1"}
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	t.Setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
	t.Setenv("DELTA_DYNAMO_TABLE_NAME", "locks")
	if _, err := openstore.Open(t.Context(), "s3://b/t", opts); !errors.Is(err, s3.ErrUnreachable) || !strings.Contains(err.Error(), "lock table locks") {
		t.Errorf("from the environment: %v", err)
	}
	opts.LogStore = "conditional"
	if _, err := openstore.Open(t.Context(), "s3://b/t", opts); err != nil {
		t.Errorf("the option comes first: %v", err)
	}
	opts.LogStore = "zookeeper"
	if _, err := openstore.Open(t.Context(), "s3://b/t", opts); err == nil || !strings.Contains(err.Error(), "neither conditional nor dynamodb") {
		t.Errorf("nonsense: %v", err)
	}
}
