package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/broker"
)

// ErrClosed is returned by a server that was closed already.
var ErrClosed = errors.New("wire server is closed")

// Server is a running Kafka protocol server. Its methods may be called concurrently.
type Server struct {
	cfg   Config
	log   broker.Log
	lg    *slog.Logger
	ln    net.Listener
	host  string
	port  int32
	table map[int16]api

	gateway     *gateway // nil unless an external Kafka has the log; then of what follows only sessions and memory are here
	topics      *topicCache
	offsets     *offsetStore
	groups      *coordinator
	shares      *shareStore
	sessions    *fetchSessions
	reading     *shareSessions
	quotas      *quotas
	tuned       *tunedGroups
	brokers     *tunedBrokers // nil of a gateway
	credentials *credentials
	txns        *txnCoordinator     // nil when the Log takes no transactions
	access      *access             // nil when everyone may do everything
	budget      *semaphore.Weighted // request bytes
	buffers     frameBuffers        // of Produce requests, for the next ones
	polls       *semaphore.Weighted // those of them that long polls hold
	decoding    *semaphore.Weighted // what requests may decode to
	answers     *semaphore.Weighted // bytes of answers
	metrics     *counters
	failing     seldom              // appends
	hashing     *semaphore.Weighted // passwords that are hashed at a time: strangers must not take the processors

	// pollCtx ends when the server drains: it ends long polls. hardCtx ends when the drain time is over.
	pollCtx context.Context
	poll    context.CancelFunc
	hardCtx context.Context
	hard    context.CancelFunc

	alter sync.Mutex // a change of settings reads, changes and writes them

	mu       sync.Mutex
	conns    map[*conn]struct{}
	closed   bool
	unproven int // connections that have not shown who they are
	wg       sync.WaitGroup
}

// Open loads the committed offsets from the Log, listens and serves until Close. ctx bounds the opening only.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	s, err := newServer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	s.ln, err = lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for Kafka clients: %w", err)
	}
	advertise := s.cfg.Advertise
	if advertise == "" {
		advertise = s.ln.Addr().String()
	}
	if s.host, s.port, err = splitAddr(advertise); err != nil {
		return nil, errors.Join(fmt.Errorf("read the advertised address: %w", err), s.ln.Close())
	}
	if ip := net.ParseIP(s.host); s.host == "" || ip != nil && ip.IsUnspecified() {
		s.host = "" // each client is told the address that it came to
	}
	if s.port == 0 { // host:0 means: the port that was bound
		if _, s.port, err = splitAddr(s.ln.Addr().String()); err != nil {
			return nil, errors.Join(err, s.ln.Close())
		}
	}
	if s.gateway != nil {
		if err := s.gateway.open(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	} else {
		s.wg.Go(s.expireOffsets)
	}
	s.wg.Go(func() { s.accept(s.ln, anyNode) })
	if s.txns != nil {
		s.wg.Go(s.sweepTxns)
	}
	s.lg.Info("kafka protocol server listens", "addr", s.ln.Addr().String(), "advertised", advertise)
	return s, nil
}

// newServer makes a server without a listener.
func newServer(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Log, lg: cfg.Logger, conns: map[*conn]struct{}{}, metrics: newCounters()}
	s.budget = semaphore.NewWeighted(cfg.requestMemory())
	s.buffers.most = cfg.idleMemory()
	s.polls = semaphore.NewWeighted(cfg.pollMemory())
	s.decoding = semaphore.NewWeighted(cfg.decodeMemory())
	s.answers = semaphore.NewWeighted(cfg.answerMemory())
	s.hashing = semaphore.NewWeighted(max(1, int64(runtime.GOMAXPROCS(0)/2)))
	s.pollCtx, s.poll = context.WithCancel(context.Background())
	s.hardCtx, s.hard = context.WithCancel(context.Background())
	s.sessions = newFetchSessions(&held{limit: cfg.stateMemory() / 4})
	if cfg.Upstream != nil {
		s.table, s.gateway, s.credentials = gatewayTable(), newGateway(s), newCredentials(nil, cfg.Users, nil)
		return s, nil
	}
	if err := s.loadState(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// loadState reads what the server keeps in the Log.
func (s *Server) loadState(ctx context.Context) error {
	cfg := s.cfg
	s.table = buildTable(cfg.Log)
	s.topics = &topicCache{log: cfg.Log, maxAge: time.Second}
	kept := &held{limit: cfg.stateMemory() / 16 * 11} // beside fetch sessions, and meters of quotas
	s.offsets = newOffsetStore(cfg.Log, kept)
	if err := s.offsets.load(ctx); err != nil {
		return fmt.Errorf("load committed offsets: %w", err)
	}
	if err := s.loadSettings(ctx, kept); err != nil {
		return fmt.Errorf("load settings: %w", err)
	}
	s.shares, s.reading = newShareStore(cfg.Log, kept), newShareSessions(kept)
	if err := s.shares.load(ctx); err != nil {
		return fmt.Errorf("load share groups: %w", err)
	}
	s.groups = newCoordinator(cfg, s.offsets, kept)
	s.groups.tuned, s.groups.brokers, s.groups.shared = s.tuned, s.brokers, s.shares
	if log, ok := cfg.Log.(broker.Transactor); ok {
		s.txns = newTxnCoordinator(cfg, log, s.offsets, kept)
		if err := s.txns.load(ctx); err != nil {
			return fmt.Errorf("load transactions: %w", err)
		}
	}
	return nil
}

// expireOffsets removes positions of groups that are gone, until the server closes.
func (s *Server) expireOffsets() {
	keep := s.cfg.OffsetsRetention
	if keep < 0 {
		return
	}
	tick := time.NewTicker(min(max(keep/(4*refreshParts), time.Second), time.Hour))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if err := s.offsets.expire(s.hardCtx, now, keep, s.groups.alive); err != nil {
				s.lg.Error("expire positions of groups", "err", err)
			}
		case <-s.pollCtx.Done():
			return
		}
	}
}

// sweepTxns ends transactions whose time is over, until the server closes.
func (s *Server) sweepTxns() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.txns.sweep(s.hardCtx)
		case <-s.pollCtx.Done():
			return
		}
	}
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Close stops accepting, ends long polls, lets requests in work finish for up to Config.DrainTimeout and
// closes all connections. No goroutine of the server is left when it returns. The Log stays open.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	s.poll()
	var err error
	if s.ln != nil {
		err = s.ln.Close()
	}
	if s.gateway != nil {
		err = errors.Join(err, s.gateway.close())
	} else {
		s.groups.close()
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()

	cut := time.AfterFunc(s.cfg.DrainTimeout, s.cut)
	s.wg.Wait()
	cut.Stop()
	s.hard()
	return err
}

// cut ends what the drain time did not.
func (s *Server) cut() {
	s.hard()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.raw.Close()
	}
}

// endpoint is the address that the client of a request is told to use.
func (s *Server) endpoint(r *request) (host string, port int32) {
	if s.host != "" {
		return s.host, s.port
	}
	return r.local, s.port
}

// accept serves who comes to a listener, which stands for a node or for any.
func (s *Server) accept(ln net.Listener, node int32) {
	for delay := 5 * time.Millisecond; ; {
		nc, err := ln.Accept()
		if err == nil {
			delay = 5 * time.Millisecond
			s.admit(nc, node)
			continue
		}
		if s.pollCtx.Err() != nil {
			return
		}
		// Out of file descriptors and the like: wait, others will close theirs.
		s.lg.Error("accept a connection", "err", err)
		select {
		case <-time.After(delay):
		case <-s.pollCtx.Done():
			return
		}
		delay = min(2*delay, time.Second)
	}
}

func (s *Server) admit(nc net.Conn, node int32) {
	c := newConn(s, nc)
	if s.gateway != nil {
		c.up = &upstreamConn{g: s.gateway, node: node}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most, have := s.maxConnections(), len(s.conns)
	if s.guarded() && s.unproven >= s.cfg.MaxUnproven {
		most, have = s.cfg.MaxUnproven, s.unproven // strangers must not take all the room
	}
	if s.closed || have >= most {
		if !s.closed {
			s.metrics.refused.Add(1)
			s.lg.Warn("connection refused: too many", "peer", nc.RemoteAddr().String(), "max", most)
		}
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	if s.guarded() {
		c.guard()
	}
	s.wg.Go(func() {
		c.serve()
		s.endShares(c.ctx)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}
