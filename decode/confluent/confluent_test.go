package confluent_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// answers is a registry as Confluent's: an id that is no 32 bit integer with a sign is its router's 404, without a code
// of the registry's own.
func answers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	id, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/schemas/ids/"), 10, 32)
	answer, status := `{"error_code":404,"message":"HTTP 404 Not Found"}`, http.StatusNotFound
	switch {
	case r.URL.Path == "/subjects/xml/versions/1":
		answer, status = `{"subject":"xml","version":1,"id":7,"schemaType":"XML","schema":"<x/>"}`, http.StatusOK
	case err != nil:
	case id == 7:
		answer, status = `{"schemaType":"XML","schema":"<x/>"}`, http.StatusOK
	case id == 8:
		var refs []string
		for i := range 1001 {
			refs = append(refs, fmt.Sprintf(`{"name":"r%d","subject":"r%d","version":1}`, i, i))
		}
		answer, status = `{"schema":"\"long\"","references":[`+strings.Join(refs, ",")+`]}`, http.StatusOK
	case id == 9:
		answer, status = `{"schema":"\"long\"","references":[{"name":"x","subject":"xml","version":1}]}`, http.StatusOK
	case id == 10:
		answer, status = "busy", http.StatusServiceUnavailable
	default:
		answer = `{"error_code":40403,"message":"Schema not found"}`
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(answer))
}

// I7: a partition waits for a registry that gives no answer, and for nothing else: whatever will never be is a bad
// record at once, and is not asked for again and again.
func TestWhatWillNeverBeIsABadRecord(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answers(w, r)
	}))
	defer srv.Close()
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	s := confluent.NewSchemas(reg, registry.Avro, func(s *registry.Schema) (string, error) { return s.Text, nil })
	for _, c := range []struct {
		value, want string
		requests    int64
	}{
		{"\x00\x00\x00\x00\x07", "its type", 1},
		{"\x00\x00\x00\x00\x08", "more than 1000 references", 1},
		{"\x00\x00\x00\x00\x09", "reference x", 2},
		{"\x00\x00\x00\x00\x63", "no such schema", 1},
		{"\x00\x7f\xff\xff\xff", "no such schema", 1},
		{"\x00\x80\x00\x00\x00", "ids up to 2147483647", 0},
		{"\x00\xff\xff\xff\xff", "schema id 4294967295", 0},
		{"\x00\x00\x00\x00", "too few", 0},
		{"\x01\x00\x00\x00\x01", "begins with 0", 0},
	} {
		requests.Store(0)
		for range 3 {
			err := lookup(s, c.value)
			var bad *decode.Error
			if !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.want) {
				t.Errorf("value %x: %v, want a *decode.Error with %q", c.value, err, c.want)
			}
		}
		if n := requests.Load(); n != c.requests {
			t.Errorf("value %x: %d requests, want %d", c.value, n, c.requests)
		}
	}
	var away *decode.UnavailableError
	if err := lookup(s, "\x00\x00\x00\x00\x0a"); !errors.As(err, &away) {
		t.Errorf("a registry that is busy: %v, want a *decode.UnavailableError", err)
	}
}

func lookup(s *confluent.Schemas[string], value string) error {
	id, bad := confluent.ID([]byte(value))
	if bad != nil {
		return bad
	}
	_, err := s.ByID(id)
	return err
}
