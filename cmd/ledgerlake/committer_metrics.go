package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ledgerlake/ledgerlake/committer/raft"
)

// newRegistry holds what every process shows of itself.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// serveMetrics shows the metrics of a committer over HTTP until the function that it gives is called.
func serveMetrics(cfg *raft.Config, listen string) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	registry := newRegistry()
	cfg.Registerer = registry
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(ln) }()
	cfg.Logger.Info("metrics", "addr", ln.Addr().String())
	return func() { _ = s.Close() }, nil
}
