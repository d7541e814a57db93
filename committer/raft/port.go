package raft

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	hraft "github.com/hashicorp/raft"
)

// port is one listening address for two kinds of peers: nodes send one byte first that no HTTP/2 client sends. So a
// member has one address, and who finds the leader of the group knows where to send requests.
type port struct {
	ln        net.Listener
	advertise addr
	server    *tls.Config
	client    *tls.Config
	nodes     *side
	writers   *side
	slots     chan struct{} // connections that have not said yet what they are
	wg        sync.WaitGroup
}

// nodeByte opens a connection between nodes. An HTTP/2 client begins with 'P', a TLS hello with 0x16.
const nodeByte = 0x01

const helloLimit = 10 * time.Second

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// side is a listener that gives the connections of one kind.
type side struct {
	p     *port
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (s *side) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *side) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *side) Addr() net.Addr { return s.p.advertise }

func (s *side) give(c net.Conn) {
	select {
	case s.conns <- c:
	case <-s.done:
		_ = c.Close()
	}
}

// Dial connects to another node; it is what the raft library asks for.
func (s *side) Dial(address hraft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout}
	var c net.Conn
	var err error
	if s.p.client == nil {
		c, err = d.Dial("tcp", string(address))
	} else {
		c, err = (&tls.Dialer{NetDialer: d, Config: s.p.client}).Dial("tcp", string(address))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to node %s: %w", address, err)
	}
	if _, err := c.Write([]byte{nodeByte}); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to node %s: %w", address, err), c.Close())
	}
	return c, nil
}

func openPort(cfg Config) (*port, error) {
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open port: %w", err)
	}
	p := &port{ln: ln, advertise: addr(cfg.Advertise), client: cfg.ClientTLS, slots: make(chan struct{}, 256)}
	if cfg.ServerTLS != nil {
		p.server = cfg.ServerTLS.Clone()
		p.server.NextProtos = []string{"h2"} // gRPC asks for it; nodes do not care
	}
	if cfg.Advertise == cfg.Listen { // port 0 is known only now
		p.advertise = addr(ln.Addr().String())
	}
	p.nodes = &side{p: p, conns: make(chan net.Conn), done: make(chan struct{})}
	p.writers = &side{p: p, conns: make(chan net.Conn), done: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *port) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pause(context.Background(), 50*time.Millisecond) // too many open files: others will close theirs
			continue
		}
		p.slots <- struct{}{}
		p.wg.Go(func() {
			defer func() { <-p.slots }()
			p.sort(c)
		})
	}
}

// sort finds out what a connection is. Whoever does not say so in time is cut off.
func (p *port) sort(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(helloLimit))
	if p.server != nil {
		c = tls.Server(c, p.server)
	}
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil { // does the handshake too
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	if first[0] == nodeByte {
		p.nodes.give(c)
		return
	}
	p.writers.give(&peeked{Conn: c, first: first[:]})
}

// peeked gives the first byte back.
type peeked struct {
	net.Conn
	first []byte
}

func (c *peeked) Read(b []byte) (int, error) {
	if len(c.first) > 0 && len(b) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func (p *port) close() error {
	err := p.ln.Close()
	_ = p.nodes.Close()
	_ = p.writers.Close()
	p.wg.Wait()
	return err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
