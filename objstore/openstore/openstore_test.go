package openstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore/openstore"
)

func TestOpen(t *testing.T) {
	root := t.TempDir()
	opts := openstore.Options{S3Endpoint: "http://127.0.0.1:1", S3AccessKey: "a", S3SecretKey: "b"}
	for location, want := range map[string]string{
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
	} {
		if _, err := openstore.Open(t.Context(), location, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want an error with %q", location, err, want)
		}
	}
}
