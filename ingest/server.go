package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server shows how an ingest is:
//
//	GET /metrics   Prometheus text
//	GET /healthz   200 while the process answers
//	GET /readyz    200 when every stream is at work, else 503; both with the streams as JSON
//
// and, when it is asked for, /debug/pprof/heap, allocs, goroutine and profile for go tool pprof.
type Server struct {
	srv  *http.Server
	addr net.Addr
	done chan struct{}
}

// ServerConfig says what a Server shows.
type ServerConfig struct {
	Listen     string // address, host:port
	Supervisor *Supervisor
	Registry   *prometheus.Registry
	Profiles   bool // of the process too: they tell of its memory and calls, not of what records hold
}

// Serve begins to answer at an address.
func Serve(ctx context.Context, cfg ServerConfig) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !cfg.Supervisor.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"streams": cfg.Supervisor.Status()}) // the client has gone: nobody to tell
	})
	if cfg.Profiles {
		for _, name := range []string{"heap", "allocs", "goroutine"} {
			mux.Handle("GET /debug/pprof/"+name, pprof.Handler(name))
		}
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	s := &Server{addr: l.Addr(), done: make(chan struct{}), srv: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}}
	go func() {
		defer close(s.done)
		_ = s.srv.Serve(l) // ends with Close
	}()
	return s, nil
}

// Addr is where it answers.
func (s *Server) Addr() net.Addr { return s.addr }

// Close ends it.
func (s *Server) Close() error {
	err := s.srv.Close()
	<-s.done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
