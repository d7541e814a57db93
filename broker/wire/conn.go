package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

const (
	maxControlBytes = 4 << 20 // frames other than Produce: their arrays decode to many times their size
	controlWeight   = 8       // ... so they count so many times against the budget
	decodeWeight    = 96      // ... and so many times while they are decoded: unknown tags are kept till then

	smallestControlLimit = 64 << 10 // whatever the budget
	pipelineDepth        = 16       // requests read ahead of the one in work
	ioChunk              = 1 << 20
)

var errFrame = errors.New("bad frame")

// conn is one client connection: a reader goroutine hands frames to a worker that answers them in order, but for what
// waiting lets the reader begin by itself.
type conn struct {
	s       *Server
	nc      net.Conn // with TLS where it is configured
	raw     net.Conn // without
	br      *bufio.Reader
	peer    string
	host    string // of the peer, as access rules are compared with it
	local   string // host of our end
	frames  chan frame
	ahead   pipeline
	waiting waiting
	gathers bool          // the connection sends many parts at once
	up      *upstreamConn // of a gateway; the goroutine that answers uses it

	proof  proof
	proven atomic.Bool // the reader takes large frames
	limit  *time.Timer // for the handshakes; nil when there are none

	// ctx ends long polls: when the connection dies or the server drains.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	draining bool
}

type frame struct {
	body   []byte
	key    int16
	weight int64 // in bytes of memory, about
	held   int64 // of the budget
	away   bool  // it is with the cluster behind a gateway
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, raw: nc, peer: nc.RemoteAddr().String(), frames: make(chan frame, pipelineDepth)}
	c.waiting.c, c.waiting.wake = c, make(chan struct{}, 1)
	c.ahead = pipeline{fewer: make(chan struct{}, 1), most: s.cfg.aheadMemory()}
	if s.cfg.TLS != nil {
		c.nc = tls.Server(nc, s.cfg.TLS)
	}
	_, tcp := nc.(*net.TCPConn)
	c.gathers = tcp && s.cfg.TLS == nil
	c.br = bufio.NewReaderSize(c.nc, 16<<10)
	c.proven.Store(!s.guarded())
	c.local, _, _ = net.SplitHostPort(nc.LocalAddr().String())
	c.host, _, _ = net.SplitHostPort(c.peer)
	c.host = acl.Host(c.host)
	c.proof.principal = anonymous
	c.ctx, c.cancel = context.WithCancelCause(s.pollCtx)
	return c
}

// serve runs until the connection ends and both goroutines are gone.
func (c *conn) serve() {
	defer c.proved()
	if err := c.handshake(); err != nil {
		c.cancel(err)
		_ = c.raw.Close()
		c.logEnd(err)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.frames)
		err := c.readLoop()
		if c.isDraining() {
			return // what was read is still answered
		}
		c.cancel(err)
		c.logEnd(err)
	}()
	err := c.answerLoop()
	if c.up != nil {
		c.up.close()
		if tcp, ok := c.raw.(*net.TCPConn); ok && errors.Is(err, errUpstream) {
			_ = tcp.SetLinger(0) // a reset, as of a node that is down: clients take a mere end at the start for other TLS or SASL settings
		}
	}
	c.cancel(err)
	_ = c.nc.Close() // ends the reader
	for f := range c.frames {
		c.s.budget.Release(f.held)
	}
	<-done
	c.waiting.abandon()
	c.logEnd(err)
}

// logEnd says why a connection ended, unless the peer just went away.
func (c *conn) logEnd(err error) {
	if errors.Is(err, errUpstream) && !c.s.gateway.tells.now() {
		return
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errPollCut) &&
		!errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		c.s.lg.Warn("kafka connection closed", "peer", c.peer, "err", err)
	}
}

// drain stops reading; frames read before are answered.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

func (c *conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// readDeadline sets the deadline unless the connection drains: then the past one stays.
func (c *conn) readDeadline(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		_ = c.nc.SetReadDeadline(time.Now().Add(d))
	}
}

func (c *conn) readLoop() error {
	for {
		size, err := c.readSize()
		if err != nil {
			return err
		}
		f, err := c.readFrame(size)
		if err != nil {
			return err
		}
		if taken, err := c.waiting.take(&f); taken || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		c.waiting.left.Add(1)
		select {
		case c.frames <- f:
		case <-c.ctx.Done():
			c.s.budget.Release(f.held)
			return nil
		}
	}
}

// readSize waits for the next frame. A connection is idle only when nothing of it is in work.
func (c *conn) readSize() (int, error) {
	for {
		c.readDeadline(c.s.cfg.IdleTimeout)
		head, err := c.br.Peek(4)
		switch {
		case err == nil:
			size := int32(binary.BigEndian.Uint32(head))
			_, _ = c.br.Discard(4)
			if most := c.frameLimit(); size < 8 || int(size) > most {
				return 0, fmt.Errorf("%w: length %d, want 8 to %d: not a Kafka client, or one with other TLS or SASL settings?", errFrame, size, most)
			}
			return int(size), nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !c.isDraining():
			if c.ahead.busy() {
				continue
			}
			return 0, io.EOF // idle: closed without a word
		case errors.Is(err, io.EOF) && c.br.Buffered() > 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, err
		}
	}
}

// readFrame takes the frame's weight from the budget before it takes memory (I8).
func (c *conn) readFrame(size int) (frame, error) {
	c.readDeadline(c.s.cfg.IOTimeout)
	head, err := c.br.Peek(2)
	if err != nil {
		return frame{}, fmt.Errorf("read request: %w", err)
	}
	f := frame{key: int16(binary.BigEndian.Uint16(head)), weight: int64(size)}
	if c.reuses(f.key) {
		f.weight = int64(c.s.buffers.size(size))
	}
	if f.key != keyProduce {
		if most := c.s.cfg.controlLimit(); size > most {
			return frame{}, fmt.Errorf("%w: key %d with %d bytes, at most %d", errFrame, f.key, size, most)
		}
		f.weight = min(controlWeight*f.weight, c.s.cfg.pollMemory())
	}
	if err := c.ahead.enter(c.ctx, &f); err != nil {
		return frame{}, fmt.Errorf("wait for the requests before: %w", err)
	}
	if err := c.s.budget.Acquire(c.ctx, f.weight); err != nil {
		return frame{}, fmt.Errorf("wait for request memory: %w", context.Cause(c.ctx))
	}
	body := c.frameBody(f.key, size)
	for at := 0; at < size; {
		end := min(at+ioChunk, size)
		c.readDeadline(c.s.cfg.IOTimeout)
		if _, err := io.ReadFull(c.br, body[at:end]); err != nil {
			c.s.budget.Release(f.weight)
			return frame{}, fmt.Errorf("read request of %d bytes: %w", size, err)
		}
		at = end
	}
	f.body, f.held = body, f.weight
	c.s.metrics.request(f.key)
	c.s.metrics.in.Add(int64(size) + 4)
	return f, nil
}

// frameBody gives the memory of a frame.
func (c *conn) frameBody(key int16, size int) []byte {
	if c.reuses(key) {
		return c.s.buffers.get(size)
	}
	return make([]byte, size)
}

// reuses says whether the memory of a frame is for the next one when it is answered. A gateway sends it on.
func (c *conn) reuses(key int16) bool { return key == keyProduce && c.up == nil }

func (c *conn) answerLoop() error {
	if c.up != nil {
		return c.relayLoop()
	}
	return c.waiting.loop()
}

// answer does all for one frame.
func (c *conn) answer(f *frame) error {
	if err := c.waiting.begin(*f); err != nil {
		return err
	}
	return c.waiting.finishAll()
}
