package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

//go:embed page
var page embed.FS

// Engine is what is shown: a log, its tables, and what moves records from one to the other.
type Engine interface {
	broker.Source
	Topics(ctx context.Context) ([]broker.TopicInfo, error)
}

// Config of a Server.
type Config struct {
	Listen string // host:port; port 0 takes a free one
	Engine Engine
	// Table gives the open table of a topic, false when it has none (yet).
	Table func(topic string) (*table.Table, bool)
	// Tiering gives the counters of a topic, false when nothing tiers it.
	Tiering func(topic string) (tiering.Stats, bool)
	// Registry takes the metrics of the log, and is what /metrics shows.
	Registry   *prometheus.Registry
	Version    string // of the program
	Kafka      string // address of the Kafka port
	Lake       string // where the tables are
	MaxStreams int    // record streams at one time; default 64
	// WriteTimeout is how long a client may take nothing of what is written to it; default 30 s.
	WriteTimeout time.Duration
	Logger       *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxStreams == 0 {
		c.MaxStreams = 64
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Engine == nil || c.Table == nil || c.Tiering == nil {
		return errors.New("web: Engine, Table and Tiering are needed")
	}
	if c.MaxStreams < 0 {
		return fmt.Errorf("web: MaxStreams %d is below 0", c.MaxStreams)
	}
	if c.WriteTimeout < 0 {
		return fmt.Errorf("web: WriteTimeout %s is below 0", c.WriteTimeout)
	}
	return nil
}

// Server is a running HTTP server.
type Server struct {
	cfg      Config
	started  time.Time
	listener net.Listener
	http     *http.Server
	reports  *reports
	streams  chan struct{} // a place for each stream
	done     chan error
}

// Open listens and serves until Close.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	s := &Server{cfg: cfg, started: time.Now(), listener: l, reports: newReports(), streams: make(chan struct{}, cfg.MaxStreams), done: make(chan error, 1)}
	if err := cfg.Registry.Register(&logCollector{s}); err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics: %w", err), l.Close())
	}
	// Streams may last for ever, so there is no write timeout for a whole answer, but for each write (patient).
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends all streams and returns when nothing is served any more.
func (s *Server) Close() error {
	err := s.http.Close() // ends the streams' contexts too
	if serveErr := <-s.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func (s *Server) handler() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/topics/{topic}", s.topic)
	mux.HandleFunc("GET /v1/topics/{topic}/records", s.records)
	mux.HandleFunc("GET /v1/records", s.records) // of several topics as one stream
	return s.guard(mux)
}

// guard refuses other sites' names for a loopback address, tells browsers to run nothing but our own files, and
// waits for no client without end.
func (s *Server) guard(next http.Handler) http.Handler {
	addr, _ := s.listener.Addr().(*net.TCPAddr)
	local := addr != nil && addr.IP.IsLoopback()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local && !loopbackName(r.Host) {
			http.Error(w, fmt.Sprintf("this server listens on a loopback address and does not answer to the host name %q", r.Host), http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		p := newPatient(w, s.cfg.WriteTimeout)
		next.ServeHTTP(p, r)
		_ = p.extend() // for what the server still holds, and trailers; no failure matters any more
	})
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if _, err := s.cfg.Engine.Topics(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// failure is the form of every error answer.
type failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, err error) { answer(w, code, failure{err.Error()}) }

func answer(w http.ResponseWriter, code int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		code, raw = http.StatusInternalServerError, []byte(`{"error":"the answer has no JSON form"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(raw, '\n')) // the client may be gone
}
