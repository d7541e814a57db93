package ingest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sup := NewSupervisor(ctx, SupervisorConfig{Once: true})
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_gauge"}))
	s, err := Serve(ctx, ServerConfig{Listen: "127.0.0.1:0", Supervisor: sup, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	ended, goOn := make(chan struct{}), make(chan struct{})
	waits, comes := make(chan struct{}), make(chan struct{})
	sup.Apply([]Job{{Name: "x", Run: func(_ context.Context, tell Teller) error {
		tell.Waits("a first record")
		close(waits)
		<-comes
		tell.Ready()
		close(ended)
		<-goOn
		return errors.New("broken at last")
	}}})
	<-waits
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, `"waitsFor":"a first record"`) {
		t.Errorf("readyz before anything came: %d %s", code, body)
	}
	close(comes)
	<-ended
	if code, body := get("/readyz"); code != 200 || !strings.Contains(body, `"state":"running"`) || strings.Contains(body, "waitsFor") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if _, body := get("/metrics"); !strings.Contains(body, "some_gauge 0") {
		t.Errorf("metrics: %s", body)
	}
	close(goOn)
	if err := sup.Wait(); err == nil {
		t.Error("no error")
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "broken at last") {
		t.Errorf("readyz after a failure: %d %s", code, body)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("healthz: %d", code)
	}
	if code, _ := get("/debug/pprof/heap"); code != 404 {
		t.Errorf("profiles that nobody asked for: %d", code)
	}
}

// Profiles are shown when they are asked for, and are what go tool pprof reads: gzip.
func TestServerProfiles(t *testing.T) {
	s, err := Serve(t.Context(), ServerConfig{Listen: "127.0.0.1:0", Supervisor: NewSupervisor(t.Context(), SupervisorConfig{}), Registry: prometheus.NewRegistry(), Profiles: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"heap?gc=1", "allocs", "goroutine"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr().String()+"/debug/pprof/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "\x1f\x8b") {
			t.Errorf("%s: status %d, %d bytes, %v", name, resp.StatusCode, len(body), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
