package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// ErrLost is wrapped by errors of subscriptions and requests whose connection ended, or whose topic went to another
// broker. Opening them again, with a new look-up, may help.
var ErrLost = errors.New("connection to the broker lost")

const (
	protocolVersion = 20
	pingEvery       = 30 * time.Second
	silence         = 75 * time.Second // a broker that says nothing for so long is gone: it answers each ping
	maxCommand      = 1 << 20
	frameSlack      = 64 << 10 // what a frame may have beside the message
	firstFrame      = 5<<20 + frameSlack
)

// conn is one connection to a broker.
type conn struct {
	nc       net.Conn
	auth     Auth
	maxFrame int

	wmu sync.Mutex // of writes

	mu        sync.Mutex
	nextID    uint64
	calls     map[uint64]chan answer
	consumers map[uint64]*Consumer
	err       error
	done      chan struct{}
}

type answer struct {
	cmd  int
	body []byte
}

// dial connects and logs in. proxyTo is the broker behind a proxy, else empty.
func dial(ctx context.Context, cfg *Config, addr, proxyTo string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	nc, err := cfg.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to %s: %w", ErrLost, addr, err)
	}
	c := &conn{nc: nc, auth: cfg.Auth, maxFrame: firstFrame, calls: map[uint64]chan answer{}, consumers: map[uint64]*Consumer{}, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	in := bufio.NewReaderSize(nc, 64<<10)
	err = c.hello(ctx, in, proxyTo)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("log in to %s: %w", addr, err)
	}
	go c.read(in)
	go c.ping()
	return c, nil
}

// hello exchanges CONNECT and CONNECTED, with the challenges that some methods have in between.
func (c *conn) hello(ctx context.Context, in *bufio.Reader, proxyTo string) error {
	b := pbfield.AppendString(nil, 1, "ledgerlake")
	method, data, err := c.auth.login(ctx)
	if err != nil {
		return err
	}
	if method != "" {
		b = pbfield.AppendString(b, 5, method)
		b = pbfield.AppendBytes(b, 3, data)
	}
	b = pbfield.AppendInt(b, 4, protocolVersion)
	if proxyTo != "" {
		b = pbfield.AppendString(b, 6, proxyTo)
	}
	features := pbfield.AppendBool(nil, 1, true)     // the broker may ask for a new token
	features = pbfield.AppendBool(features, 2, true) // entries with what the broker added to them
	if err := c.send(cmdConnect, pbfield.AppendBytes(b, 10, features)); err != nil {
		return err
	}
	for {
		cmd, body, _, err := c.frame(in)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		switch cmd {
		case cmdConnected:
			r := pbfield.Read(body)
			for r.Next() {
				if f := r.Field(); f.Num == 3 && f.Int() > 0 && f.Int() < 1<<30 {
					c.maxFrame = int(f.Int()) + frameSlack
				}
			}
			return r.Err()
		case cmdAuthChallenge:
			if err := c.answerChallenge(ctx); err != nil {
				return err
			}
		case cmdError:
			return refusal(body, 2, 3)
		default:
			return fmt.Errorf("command %d before the log-in was answered", cmd)
		}
	}
}

func (c *conn) answerChallenge(ctx context.Context) error {
	method, data, err := c.auth.login(ctx)
	if err != nil {
		return err
	}
	b := pbfield.AppendString(nil, 1, "ledgerlake")
	b = pbfield.AppendBytes(b, 2, pbfield.AppendBytes(pbfield.AppendString(nil, 1, method), 2, data))
	return c.send(cmdAuthResponse, pbfield.AppendInt(b, 3, protocolVersion))
}

// send writes one command.
func (c *conn) send(cmd int, body []byte) error {
	m := base(cmd, body)
	b := binary.BigEndian.AppendUint32(make([]byte, 0, len(m)+8), uint32(len(m)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(silence))
	if _, err := c.nc.Write(append(b, m...)); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// frame reads one command and what comes with it, in memory of its own.
func (c *conn) frame(in *bufio.Reader) (cmd int, body, rest []byte, err error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(silence))
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, nil, err
	}
	total, size := int64(binary.BigEndian.Uint32(head[:])), int64(binary.BigEndian.Uint32(head[4:]))
	if total > int64(c.maxFrame) || size > maxCommand || size > total-4 {
		return 0, nil, nil, fmt.Errorf("a frame of %d bytes with a command of %d", total, size)
	}
	b := make([]byte, total-4)
	if _, err := io.ReadFull(in, b); err != nil {
		return 0, nil, nil, err
	}
	cmd, body, err = parseBase(b[:size])
	return cmd, body, b[size:], err
}

// read serves the connection until it ends.
func (c *conn) read(in *bufio.Reader) {
	for {
		cmd, body, rest, err := c.frame(in)
		if err == nil {
			err = c.take(cmd, body, rest)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *conn) take(cmd int, body, rest []byte) error {
	switch cmd {
	case cmdMessage:
		return c.message(body, rest)
	case cmdPing:
		return c.send(cmdPong, nil)
	case cmdCloseConsumer, cmdActiveConsumer:
		return c.consumerEvent(cmd, body)
	case cmdAuthChallenge:
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		return c.answerChallenge(ctx)
	}
	num, ok := requestIDField[cmd]
	if !ok {
		return nil
	}
	r := pbfield.Read(body)
	for r.Next() {
		if f := r.Field(); f.Num == num {
			c.mu.Lock()
			ch := c.calls[f.Uint]
			delete(c.calls, f.Uint)
			c.mu.Unlock()
			if ch != nil {
				ch <- answer{cmd, body}
			}
			return nil
		}
	}
	return r.Err()
}

func (c *conn) message(body, rest []byte) error {
	d := delivery{raw: rest}
	var consumer uint64
	r := pbfield.Read(body)
	for r.Next() {
		var err error
		switch f := r.Field(); f.Num {
		case 1:
			consumer = f.Uint
		case 2:
			d.id, err = parseID(f.Bytes)
		}
		if err != nil {
			return err
		}
	}
	if r.Err() != nil {
		return r.Err()
	}
	c.mu.Lock()
	k := c.consumers[consumer]
	c.mu.Unlock()
	if k != nil {
		k.put(d)
	}
	return nil
}

// consumerEvent is about a subscription: the broker closes it, or it is the active one of several from now on, or not.
func (c *conn) consumerEvent(cmd int, body []byte) error {
	var id uint64
	active := false
	r := pbfield.Read(body)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			id = f.Uint
		case 2:
			active = f.Bool()
		}
	}
	c.mu.Lock()
	k := c.consumers[id]
	c.mu.Unlock()
	switch {
	case k == nil:
	case cmd == cmdCloseConsumer:
		k.end(fmt.Errorf("%w: the broker gave the topic away", ErrLost))
	default:
		k.setActive(active)
	}
	return r.Err()
}

// ping keeps the connection alive and finds out when it is not.
func (c *conn) ping() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-t.C:
			if err := c.send(cmdPing, nil); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

// call sends a request and waits for its answer. build gets the id to put into it.
func (c *conn) call(ctx context.Context, cmd int, build func(id uint64) []byte) (answer, error) {
	ch := make(chan answer, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return answer{}, c.err
	}
	c.nextID++
	id := c.nextID
	c.calls[id] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	if err := c.send(cmd, build(id)); err != nil {
		c.fail(err)
		return answer{}, err
	}
	select {
	case a := <-ch:
		if a.cmd == cmdError {
			return a, refusal(a.body, 2, 3)
		}
		return a, nil
	case <-c.done:
		return answer{}, c.failure()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection and all that waits on it.
func (c *conn) fail(err error) {
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	consumers := c.consumers
	c.consumers = map[uint64]*Consumer{}
	close(c.done)
	c.mu.Unlock()
	_ = c.nc.Close()
	for _, k := range consumers {
		k.end(err)
	}
}
