package registry_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// served is a registry in memory that counts requests and can be out of order.
type served struct {
	*srfake.Registry
	requests atomic.Int64
	broken   atomic.Int64 // status that it answers with instead
}

func serve(t *testing.T, opts ...srfake.Option) *served {
	s := &served{Registry: srfake.New(opts...)}
	t.Cleanup(s.Close)
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		s.requests.Add(1)
		status := int(s.broken.Load())
		if status == 0 {
			return false
		}
		http.Error(w, "something is wrong", status)
		return true
	})
	return s
}

func open(t *testing.T, urls ...string) *registry.Client {
	t.Helper()
	c, err := registry.Open(registry.Config{URLs: urls, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const record = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`

func (s *served) register(t *testing.T, subject, text string, typ sr.SchemaType, refs ...sr.SchemaReference) int {
	t.Helper()
	id, _, err := s.RegisterSchema(subject, sr.Schema{Schema: text, Type: typ, References: refs})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSchemaIsAskedForOnce(t *testing.T) {
	s := serve(t)
	id := s.register(t, "orders-value", record, sr.TypeAvro)
	c := open(t, s.URL())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := c.ByID(id)
			if err != nil || got.Text != record || got.Kind != registry.Avro || got.ID != id {
				t.Errorf("ByID = %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	s.broken.Store(503)
	if _, err := c.ByID(id); err != nil {
		t.Errorf("a schema that was seen is forgotten in an outage: %v", err)
	}
}

// I7: only the registry's own "there is none" makes a bad record.
func TestOutageIsNotUnknown(t *testing.T) {
	s := serve(t)
	c := open(t, s.URL())
	for range 3 {
		if _, err := c.ByID(77); !errors.Is(err, registry.ErrUnknown) {
			t.Errorf("ByID of an id that is not there = %v", err)
		}
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests for an unknown id, want 1", n)
	}
	for _, status := range []int{400, 401, 403, 404, 429, 500, 502, 503} {
		s.broken.Store(int64(status))
		if _, err := c.ByID(78); err == nil || errors.Is(err, registry.ErrUnknown) {
			t.Errorf("status %d: ByID = %v, want an error that is not ErrUnknown", status, err)
		}
	}
	s.broken.Store(0)
	id := s.register(t, "orders-value", record, sr.TypeAvro)
	if _, err := c.ByID(id); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	gone := open(t, "http://127.0.0.1:1")
	if _, err := gone.ByID(1); err == nil || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("no connection: ByID = %v", err)
	}
}

func TestReferencesComeBehindWhatTheyNeed(t *testing.T) {
	s := serve(t)
	s.register(t, "d", `{"type":"enum","name":"D","symbols":["X"]}`, sr.TypeAvro)
	d := sr.SchemaReference{Name: "D", Subject: "d", Version: 1}
	s.register(t, "b", `{"type":"record","name":"B","fields":[{"name":"d","type":"D"}]}`, sr.TypeAvro, d)
	s.register(t, "c", `{"type":"record","name":"C","fields":[{"name":"d","type":"D"}]}`, sr.TypeAvro, d)
	id := s.register(t, "a-value", `{"type":"record","name":"A","fields":[{"name":"b","type":"B"},{"name":"c","type":"C"}]}`, sr.TypeAvro,
		sr.SchemaReference{Name: "B", Subject: "b", Version: 1}, sr.SchemaReference{Name: "C", Subject: "c", Version: 1})
	c := open(t, s.URL())
	got, err := c.ByID(id)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range got.Refs {
		names = append(names, r.Name)
	}
	if strings.Join(names, " ") != "D B C" {
		t.Errorf("references %v, want D B C", names)
	}
	latest, err := c.Latest(t.Context(), "a-value")
	if err != nil || latest.Text != got.Text || len(latest.Refs) != 3 {
		t.Errorf("Latest = %+v, %v", latest, err)
	}
	if _, err := c.Latest(t.Context(), "none"); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Latest of no subject = %v", err)
	}
}

func TestBasicAuthentication(t *testing.T) {
	s := serve(t, srfake.WithAuth("Basic dXNlcjpwYXNz")) // user:pass
	id := s.register(t, "x", record, sr.TypeAvro)
	if _, err := open(t, s.URL()).ByID(id); err == nil || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("without credentials: %v", err)
	}
	u, _ := url.Parse(s.URL())
	u.User = url.UserPassword("user", "pass")
	if _, err := open(t, u.String()).ByID(id); err != nil {
		t.Errorf("credentials of the URL: %v", err)
	}
	c, err := registry.Open(registry.Config{URLs: []string{s.URL()}, User: "user", Password: "pass"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ByID(id); err != nil {
		t.Errorf("credentials: %v", err)
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, bad := range [][]string{nil, {""}, {"host:8081"}, {"ftp://host"}, {"http://user:secret@"}} {
		if _, err := registry.Open(registry.Config{URLs: bad}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v", bad, err)
		}
	}
}

// A registry that takes a request and does not answer keeps nobody for longer than he is patient, and its answer is there
// for who asks again, though nobody waited for it.
func TestPatience(t *testing.T) {
	s := serve(t)
	id := s.register(t, "a-value", record, sr.TypeAvro)
	answer := make(chan struct{})
	s.Intercept(func(http.ResponseWriter, *http.Request) bool {
		<-answer
		return false
	})
	c := open(t, s.URL())
	c.SetPatience(time.Millisecond)
	for range 3 {
		if _, err := c.ByID(id); err == nil || errors.Is(err, registry.ErrUnknown) || errors.Is(err, registry.ErrUnfit) {
			t.Fatalf("a registry that does not answer gave %v", err)
		}
	}
	if n := s.requests.Load(); n > 1 {
		t.Errorf("%d requests for one schema", n)
	}
	close(answer)
	c.SetPatience(0)
	if got, err := c.ByID(id); err != nil || got.Text == "" {
		t.Errorf("the answer is %+v, %v", got, err)
	}
}
