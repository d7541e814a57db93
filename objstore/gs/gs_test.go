package gs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/gs"
)

// bucket is what failures need of the protocol: uploads whole and in parts, and reads. The suite of all stores
// runs in test/stores, on a server that has all of it.
type bucket struct {
	mu       sync.Mutex
	objects  map[string][]byte
	sessions map[string][]byte
	fault    func(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter)) // may answer instead
	requests int
}

func (b *bucket) setFault(f func(http.ResponseWriter, *http.Request, func(http.ResponseWriter))) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

func (b *bucket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.requests++
	fault := b.fault
	b.mu.Unlock()
	serve := func(w http.ResponseWriter) { b.serve(w, r, body) }
	if fault != nil {
		fault(w, r, serve)
		return
	}
	serve(w)
}

func (b *bucket) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Get("uploadType") == "media":
		if _, ok := b.objects[q.Get("name")]; ok && q.Get("ifGenerationMatch") == "0" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		b.objects[q.Get("name")] = body
	case r.Method == http.MethodPost:
		b.sessions[q.Get("name")] = nil
		w.Header().Set("Location", "http://"+r.Host+"/session?name="+q.Get("name"))
	case r.Method == http.MethodPut:
		b.part(w, q.Get("name"), r.Header.Get("Content-Range"), body)
	case r.Method == http.MethodDelete:
		delete(b.sessions, q.Get("name"))
		w.WriteHeader(499)
	case q.Get("alt") == "media":
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/o/")+3:]
		data, ok := b.objects[name]
		if !ok {
			http.Error(w, "No such object", http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	default:
		http.Error(w, "what?", http.StatusBadRequest)
	}
}

func (b *bucket) part(w http.ResponseWriter, name, span string, body []byte) {
	have, ok := b.sessions[name]
	if _, done := b.objects[name]; done && !ok {
		return // all of it was there before
	}
	var first, last, total int
	if n, _ := fmt.Sscanf(span, "bytes %d-%d/%d", &first, &last, &total); n >= 2 && first == len(have) {
		have = append(have, body...)
		b.sessions[name] = have
	}
	if n, _ := fmt.Sscanf(span[strings.Index(span, "/"):], "/%d", &total); n == 1 && total == len(have) {
		b.objects[name] = have
		delete(b.sessions, name)
		return
	}
	if len(have) > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(have)-1))
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}

func open(t *testing.T) (*gs.Store, *bucket) {
	t.Helper()
	b := &bucket{objects: map[string][]byte{}, sessions: map[string][]byte{}}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	s, err := gs.Open(t.Context(), gs.Config{Bucket: "lake", Endpoint: srv.URL, PartSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

func lose(_ http.ResponseWriter, _ *http.Request, next func(http.ResponseWriter)) {
	next(httptest.NewRecorder())
	panic(http.ErrAbortHandler)
}

func answer(code int) func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) {
	return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { w.WriteHeader(code) }
}

// TestPutIfAbsentFailures: what is not known is called so and sent once; what the rate limit refused is repeated.
func TestPutIfAbsentFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fault    func(http.ResponseWriter, *http.Request, func(http.ResponseWriter))
		unknown  bool
		requests int
		there    bool
	}{
		"answer lost": {lose, true, 1, true},
		"503":         {answer(http.StatusServiceUnavailable), true, 1, false},
		"403":         {answer(http.StatusForbidden), false, 1, false},
		"429":         {answer(http.StatusTooManyRequests), false, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := open(t)
			b.setFault(c.fault)
			err := s.PutIfAbsent(t.Context(), "0.json", []byte("x"))
			if err == nil || errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrUnknownOutcome) != c.unknown {
				t.Errorf("PutIfAbsent = %v; want an error, with an unknown outcome: %v", err, c.unknown)
			}
			if got := b.count(); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			b.setFault(nil)
			if _, err := s.Get(t.Context(), "0.json"); (err == nil) != c.there {
				t.Errorf("Get afterwards = %v, want it there: %v", err, c.there)
			}
		})
	}
}

// TestUploadFailures loses answers, and requests, of the parts of an upload: the object is whole all the same.
func TestUploadFailures(t *testing.T) {
	data := make([]byte, 5*(256<<10)+17)
	for i := range data {
		data[i] = byte(i * 7 >> 5)
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)){
		"answer lost": lose, "503": answer(http.StatusServiceUnavailable),
	} {
		for _, size := range []int{len(data), 4 * (256 << 10)} { // the last part is full, or not
			s, b := open(t)
			n := 0
			b.setFault(func(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter)) {
				if r.Method == http.MethodPut && !strings.Contains(r.Header.Get("Content-Range"), "bytes */") {
					if n++; n%2 == 1 {
						fault(w, r, next)
						return
					}
				}
				next(w)
			})
			w, err := s.Create(t.Context(), "part")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data[:size]); err != nil {
				t.Fatalf("%s: Write = %v", name, err)
			}
			if err := w.Close(); err != nil {
				t.Fatalf("%s: Close = %v", name, err)
			}
			b.setFault(nil)
			if got, err := s.Get(t.Context(), "part"); err != nil || !bytes.Equal(got, data[:size]) {
				t.Errorf("%s: %d bytes of %d, %v, or they differ", name, len(got), size, err)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	bad := filepath.Join(t.TempDir(), "none.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", bad)
	if _, err := gs.Open(t.Context(), gs.Config{Bucket: "b"}); !errors.Is(err, gs.ErrCredentials) {
		t.Errorf("a missing file: %v", err)
	}
	s, err := gs.Open(t.Context(), gs.Config{Bucket: "b", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, gs.ErrUnreachable) || errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("nothing listens: %v", err)
	}
	said, _ := json.Marshal(map[string]any{"error": map[string]any{"message": "The specified bucket does not exist."}})
	s, b := open(t)
	b.setFault(func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(said)
	})
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, gs.ErrNoBucket) || errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("no bucket: %v", err)
	}
	s, err = gs.Open(t.Context(), gs.Config{Bucket: "b", Endpoint: "http://127.0.0.1:1", Tokens: noToken{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "k", nil); !errors.Is(err, gs.ErrCredentials) || !objstore.Refused(err) || errors.Is(err, objstore.ErrUnknownOutcome) {
		t.Errorf("no token: %v", err)
	}
	s, b = open(t)
	for status, want := range map[int]error{http.StatusUnauthorized: objstore.ErrCredentials, http.StatusForbidden: objstore.ErrDenied} {
		b.setFault(func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { w.WriteHeader(status) })
		if _, err := s.GetRange(t.Context(), "k", 0, 1); !errors.Is(err, want) || !objstore.Refused(err) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	for _, cfg := range []gs.Config{{}, {Bucket: "b", PartSize: 1}, {Bucket: "b", Prefix: "a/../b"}} {
		if _, err := gs.Open(context.Background(), cfg); err == nil {
			t.Errorf("Open(%+v) is fine", cfg)
		}
	}
}

type noToken struct{}

func (noToken) Token() (*oauth2.Token, error) { return nil, errors.New("refused") }
