package protobuf_test

import (
	"os"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/decodetest"
)

// testdata/google.ndjson is what test/e2e/encodeproto.py 4 8 3 printed with protobuf 7.36.2 for Python; test/e2e makes
// others.
func TestVectorsOfGoogle(t *testing.T) {
	vectors, err := os.ReadFile("testdata/google.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	decodetest.CheckProtobuf(t, vectors)
}
