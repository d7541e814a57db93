package avro_test

import (
	"os"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/decodetest"
)

// testdata/fastavro.ndjson is what test/e2e/encodeavro.py 5 12 3 printed with fastavro 1.13.1; test/e2e makes others.
func TestVectorsOfFastavro(t *testing.T) {
	vectors, err := os.ReadFile("testdata/fastavro.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	decodetest.CheckAvro(t, vectors)
}
