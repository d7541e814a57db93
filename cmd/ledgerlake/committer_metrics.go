package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ledgerlake/ledgerlake/committer/raft"
)

// newRegistry holds what every process shows of itself. What each collection leaves of the heap (go_gc_heap_live_bytes) tells of
// a leak, which what is allocated at a moment does not.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// serveMetrics shows the metrics of a committer over HTTP until the function that it gives is called. Beyond loopback they
// are behind the TLS of the group, or plain when insecure says that the network is trusted.
func serveMetrics(cfg *raft.Config, listen string, insecure bool) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	secure := !loopback(listen) && cfg.ServerTLS != nil
	if !loopback(listen) && !secure && !insecure {
		return nil, fmt.Errorf("--metrics-listen %s is not on loopback: give --tls-cert, --tls-key and --tls-ca, or --insecure when the network is trusted", listen)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	if secure {
		ln = tls.NewListener(ln, cfg.ServerTLS)
	}
	registry := newRegistry()
	cfg.Registerer = registry
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Error("the metrics are not served any more; start the node again", "addr", ln.Addr().String(), "error", err)
		}
	}()
	cfg.Logger.Info("metrics", "addr", ln.Addr().String(), "tls", secure)
	return func() { _ = s.Close() }, nil
}
