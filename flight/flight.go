// Package flight serves the streams of an engine over Arrow Flight: any offset of any topic as Arrow record
// batches, out of the table and through the seam into the log, to Python, pandas, polars, DuckDB and whatever else
// speaks Flight.
//
// A flight is a topic. Its descriptor is the path [TOPIC], or a command: a JSON object of the fields of
// reader.Request and "topic", or "topics" for several as one stream. The ticket is such a command too, so a client may as
// well make it by itself:
//
//	{"topic": "events", "from": "0:1000,1:0", "columns": ["_offset", "amount"], "follow": true}
//	{"topics": ["orders", "payments"], "where": "amount > 100", "order": "time", "maxRate": "20MB"}
//
// Every batch bears application metadata, {"token": ..., "side": "lake" or "log"}: the token names the place behind
// the batch, and "from": "token:..." goes on there. Offsets that neither table nor log has, and that a read goes on behind
// (skipMissing, or a gap policy of who filled the table), are in "gaps" of the batch that they lie before, or of one
// without rows at the end: [{"topic": ..., "partition": 0, "from": 20, "to": 40, "reason": "lost: ..."}]. The order and the completeness of a stream are those of
// reader.Cursor (I4); there is one endpoint, because a stream has an order.
//
// Errors are gRPC's: NotFound for a topic, InvalidArgument for a request, OutOfRange for an offset beyond the end,
// DataLoss for offsets that neither table nor log hold. Everything is read only and without authentication: keep it
// on loopback or a network that you trust. All is safe for concurrent use; the number of streams is bounded. A client
// that is gone, or that takes nothing for SendTimeout, is ended, and its place and the lease of its read are given back.
package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// Engine is what is served: a log and what topics it has.
type Engine interface {
	broker.Source
	Topics(ctx context.Context) ([]broker.TopicInfo, error)
}

// Config of a Server.
type Config struct {
	Listen string // host:port; port 0 takes a free one
	Engine Engine
	// Table gives the open table of a topic, false when it has none (yet).
	Table      func(topic string) (*table.Table, bool)
	MaxStreams int // at one time; default 64
	// SendTimeout is how long a client may take nothing of what is sent to it; default 5 minutes, since who works through a
	// large batch takes nothing meanwhile. Its stream ends then with DeadlineExceeded; others of its connection go on.
	SendTimeout time.Duration
	// KeepAlive is how often a client of which nothing is heard is asked whether it is there, and how long it may take to
	// answer before its connection is ended; at least 1 s, default 20 s.
	KeepAlive time.Duration
	Logger    *slog.Logger
}

// Command is a descriptor's command, and a ticket.
type Command struct {
	Topic  string   `json:"topic,omitempty"`
	Topics []string `json:"topics,omitempty"` // instead of Topic: several as one stream
	reader.Request
}

// topics are those that are read.
func (c Command) topics() []string {
	if c.Topic != "" {
		return []string{c.Topic}
	}
	return c.Topics
}

// Metadata goes with every batch.
type Metadata struct {
	Token string `json:"token"`
	Side  string `json:"side"` // lake or log
	// Gaps are offsets without a row that lie before the end of the batch: those that are lost, or all with "gaps": true.
	Gaps []reader.TopicGap `json:"gaps,omitempty"`
}

// Server is a running Flight server.
type Server struct {
	flight.BaseFlightServer
	cfg      Config
	listener net.Listener
	grpc     *grpc.Server
	streams  chan struct{}
	running  sync.WaitGroup // answers
	done     chan error
}

// Open listens and serves until Close.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Engine == nil || cfg.Table == nil {
		return nil, errors.New("flight: Engine and Table are needed")
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 64
	}
	if cfg.SendTimeout == 0 {
		cfg.SendTimeout = 5 * time.Minute
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 20 * time.Second
	}
	if cfg.SendTimeout < 0 || cfg.KeepAlive < time.Second {
		return nil, fmt.Errorf("flight: SendTimeout %s is below 0, or KeepAlive %s below 1 s", cfg.SendTimeout, cfg.KeepAlive)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for Arrow Flight: %w", err)
	}
	s := &Server{cfg: cfg, listener: l, grpc: grpc.NewServer(cfg.options()...), streams: make(chan struct{}, cfg.MaxStreams), done: make(chan error, 1)}
	flight.RegisterFlightServiceServer(s.grpc, s)
	go func() { s.done <- s.grpc.Serve(l) }()
	return s, nil
}

// options end connections whose client is gone, and let clients ask the same of the server as often.
func (c Config) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.KeepAlive, Timeout: c.KeepAlive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.KeepAlive / 4, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends all streams and returns when nothing is served any more.
func (s *Server) Close() error {
	s.grpc.Stop()
	s.running.Wait() // for those that patience was lost with; no handler is left that could begin another
	return <-s.done
}

// parse reads a command or a ticket. Unknown fields are refused: a typing mistake must not give other rows.
func parse(raw []byte) (Command, error) {
	var c Command
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("%w: want a JSON object like {\"topic\":\"events\",\"from\":\"0:1000\"}: %w", reader.ErrBadRequest, err)
	}
	if (c.Topic == "") == (len(c.Topics) == 0) || slices.Contains(c.Topics, "") {
		return c, fmt.Errorf("%w: want a topic or topics", reader.ErrBadRequest)
	}
	return c, nil
}
