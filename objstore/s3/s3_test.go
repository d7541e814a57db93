package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/objstoretest"
	"github.com/ledgerlake/ledgerlake/objstore/s3"
)

// fake starts a server in process; wrap may stand between, to make failures.
func fake(t *testing.T, wrap func(http.Handler) http.Handler) s3.Config {
	t.Helper()
	h := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return s3.Config{Bucket: "bucket", Prefix: "lake/t 1", Endpoint: srv.URL, PathStyle: true, AccessKey: "a", SecretKey: "b"}
}

func open(t *testing.T, cfg s3.Config) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return open(t, fake(t, nil)) })
}

// TestConformanceReal runs the suite on a server outside of this process, such as versitygw.
func TestConformanceReal(t *testing.T) {
	endpoint := os.Getenv("LEDGERLAKE_S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("LEDGERLAKE_S3_ENDPOINT is not set (with LEDGERLAKE_S3_ACCESS and LEDGERLAKE_S3_SECRET)")
	}
	access, secret := os.Getenv("LEDGERLAKE_S3_ACCESS"), os.Getenv("LEDGERLAKE_S3_SECRET")
	bucket := "conformance-" + uuid.NewString()
	client := awss3.New(awss3.Options{
		BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return open(t, s3.Config{
			Bucket: bucket, Prefix: strings.ReplaceAll(t.Name(), "/", "-"), Endpoint: endpoint, PathStyle: true,
			AccessKey: access, SecretKey: secret,
		})
	})
}

func TestListPages(t *testing.T) {
	s := open(t, fake(t, nil))
	var want []string
	for i := range 1100 {
		key := fmt.Sprintf("log/%05d", i)
		want = append(want, key)
		if err := s.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for info, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "log/", StartAfter: "log/00010", Flat: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if !slices.Equal(got, want[11:]) {
		t.Errorf("listed %d keys, want %d", len(got), len(want)-11)
	}
}

// conditional says whether a request is the PUT of a version.
func conditional(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".json")
}

func TestPutIfAbsentFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fail     func(w http.ResponseWriter, r *http.Request, next http.Handler)
		unknown  bool
		requests int32
		there    bool
	}{
		"answer lost": {func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}, true, 1, true},
		"503": {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, true, 1, false},
		"403": {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusForbidden)
		}, false, 1, false},
		"409 for ever": {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusConflict)
		}, false, 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			s := open(t, fake(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if conditional(r) {
						requests.Add(1)
						c.fail(w, r, next)
						return
					}
					next.ServeHTTP(w, r)
				})
			}))
			err := s.PutIfAbsent(t.Context(), "0.json", []byte("x"))
			if err == nil || errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrUnknownOutcome) != c.unknown {
				t.Errorf("PutIfAbsent = %v; want an error, with an unknown outcome: %v", err, c.unknown)
			}
			if got := requests.Load(); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			if _, err := s.Get(t.Context(), "0.json"); (err == nil) != c.there {
				t.Errorf("Get afterwards = %v, want it there: %v", err, c.there)
			}
		})
	}
}

func TestConflictIsRepeated(t *testing.T) {
	var requests atomic.Int32
	s := open(t, fake(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conditional(r) && requests.Add(1) < 3 {
				w.WriteHeader(http.StatusConflict)
				return
			}
			next.ServeHTTP(w, r)
		})
	}))
	if err := s.PutIfAbsent(t.Context(), "0.json", []byte("x")); err != nil || requests.Load() != 3 {
		t.Fatalf("PutIfAbsent = %v after %d requests", err, requests.Load())
	}
}

// TestUnsafeStoreIsRefused proves I5: a store that ignores the condition gets no version.
func TestUnsafeStoreIsRefused(t *testing.T) {
	var versions atomic.Int32
	ignoring := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conditional(r) {
				versions.Add(1)
			}
			r.Header.Del("If-None-Match")
			next.ServeHTTP(w, r)
		})
	}
	refusing := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotImplemented)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	for name, wrap := range map[string]func(http.Handler) http.Handler{"ignores": ignoring, "refuses": refusing} {
		s := open(t, fake(t, wrap))
		if err := s.PutIfAbsent(t.Context(), "0.json", nil); !errors.Is(err, s3.ErrNoConditionalPut) {
			t.Errorf("a store that %s the condition: %v, want ErrNoConditionalPut", name, err)
		}
		for info := range s.List(t.Context(), objstore.ListOptions{}) {
			t.Errorf("a probe is listed: %s", info.Key)
		}
	}
	if versions.Load() != 0 {
		t.Errorf("%d versions were sent", versions.Load())
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]s3.Config{
		"no bucket":     {},
		"part size":     {Bucket: "b", PartSize: 1},
		"together":      {Bucket: "b", AccessKey: "a"},
		"invalid objec": {Bucket: "b", Prefix: "a/../b"},
	} {
		if _, err := s3.Open(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%+v) = %v, want %q", cfg, err, want)
		}
	}
}
