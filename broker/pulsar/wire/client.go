package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// Config says how to reach a Pulsar.
type Config struct {
	Service string        // host:port, or several with commas: any brokers or proxies of the cluster
	TLS     *tls.Config   // nil: plain text
	Auth    Auth          // zero: none
	Timeout time.Duration // of dialing and of each request; default 30 s
	Window  int           // bytes that may wait in one Consumer; default 4 MiB
}

// Auth says who we are. The zero value says nothing.
type Auth struct {
	Method string                                    // "token", or "tls" when the certificate says it all
	Data   func(ctx context.Context) ([]byte, error) // asked at each log-in; nil: none
}

func (a Auth) login(ctx context.Context) (string, []byte, error) {
	if a.Data == nil {
		return a.Method, nil, nil
	}
	data, err := a.Data(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("get credentials: %w", err)
	}
	return a.Method, data, nil
}

func (c *Config) dial(ctx context.Context, addr string) (net.Conn, error) {
	if c.TLS == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{Config: c.TLS}).DialContext(ctx, "tcp", addr)
}

// Client reads topics of one Pulsar. Make it with New.
type Client struct {
	cfg Config

	mu     sync.Mutex
	conns  map[target]*slot
	closed bool
}

// target is a broker, and how it is reached.
type target struct{ addr, proxyTo string }

// slot holds the connection to a target. Its lock is held while it is dialed, so that one does it for all.
type slot struct {
	mu sync.Mutex
	c  *conn
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("pulsar client is closed")

// New makes a client. It dials on first use.
func New(cfg Config) (*Client, error) {
	if cfg.Service == "" {
		return nil, errors.New("pulsar: no service address; want host:port")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Window == 0 {
		cfg.Window = 4 << 20
	}
	return &Client{cfg: cfg, conns: map[target]*slot{}}, nil
}

// Close ends all connections.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	conns := c.conns
	c.conns = map[target]*slot{}
	c.mu.Unlock()
	for _, s := range conns {
		s.mu.Lock()
		if s.c != nil {
			s.c.fail(ErrClosed)
		}
		s.mu.Unlock()
	}
}

// get gives the connection to a broker, and makes it when there is none.
func (c *Client) get(ctx context.Context, t target) (*conn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	s := c.conns[t]
	if s == nil {
		s = &slot{}
		c.conns[t] = s
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil && s.c.failure() == nil {
		return s.c, nil
	}
	k, err := dial(ctx, &c.cfg, t.addr, t.proxyTo)
	if err != nil {
		return nil, err
	}
	s.c = k
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		k.fail(ErrClosed)
		return nil, ErrClosed
	}
	return k, nil
}

// service gives a connection to the first service address that answers.
func (c *Client) service(ctx context.Context) (*conn, string, error) {
	var errs []error
	for _, addr := range strings.Split(c.cfg.Service, ",") {
		k, err := c.get(ctx, target{addr: addr})
		if err == nil {
			return k, addr, nil
		}
		errs = append(errs, err)
	}
	return nil, "", errors.Join(errs...)
}

// Ping makes sure that a broker or proxy answers and takes us in.
func (c *Client) Ping(ctx context.Context) error {
	_, _, err := c.service(ctx)
	return err
}

// broker looks up who serves a topic.
func (c *Client) broker(ctx context.Context, topic string) (*conn, error) {
	k, at, err := c.service(ctx)
	authoritative := false
	const hops = 20
	for range hops {
		if err != nil {
			return nil, err
		}
		var l lookup
		if l, err = k.lookup(ctx, topic, authoritative); err != nil {
			return nil, fmt.Errorf("look up %s: %w", topic, err)
		}
		to, err2 := l.address(c.cfg.TLS != nil)
		if err2 != nil {
			return nil, fmt.Errorf("look up %s: %w", topic, err2)
		}
		t := target{addr: to}
		if l.proxy {
			t = target{addr: at, proxyTo: to}
		}
		k, err = c.get(ctx, t)
		if !l.redirect {
			return k, err
		}
		authoritative = l.authoritative
	}
	return nil, fmt.Errorf("look up %s: more than %d redirections", topic, hops)
}

// lookup is a broker's answer to where a topic is.
type lookup struct {
	url, tls                       string
	redirect, authoritative, proxy bool
}

func (l *lookup) address(secure bool) (string, error) {
	s := l.url
	if secure {
		s = l.tls
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the broker gave the address %q", s)
	}
	return u.Host, nil
}

func (c *conn) lookup(ctx context.Context, topic string, authoritative bool) (l lookup, err error) {
	a, err := c.call(ctx, cmdLookup, func(id uint64) []byte {
		b := pbfield.AppendUint(pbfield.AppendString(nil, 1, topic), 2, id)
		return pbfield.AppendBool(b, 3, authoritative)
	})
	if err != nil {
		return l, err
	}
	const redirect, failed = 0, 2
	kind := uint64(failed)
	r := pbfield.Read(a.body)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			l.url = string(f.Bytes)
		case 2:
			l.tls = string(f.Bytes)
		case 3:
			kind = f.Uint
		case 5:
			l.authoritative = f.Bool()
		case 8:
			l.proxy = f.Bool()
		}
	}
	if r.Err() != nil {
		return l, r.Err()
	}
	l.redirect = kind == redirect
	if kind == failed {
		if err := refusal(a.body, 6, 7); err != nil {
			return l, err
		}
		return l, errors.New("the look-up failed")
	}
	return l, nil
}

// Subscribe opens a subscription of one partition.
func (c *Client) Subscribe(ctx context.Context, sub Subscription) (*Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	k, err := c.broker(ctx, sub.Topic)
	if err != nil {
		return nil, err
	}
	return k.subscribe(ctx, sub, c.cfg.Window)
}

// Partitions gives the number of partitions of a topic; 0 when it has none, or is not there.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	k, _, err := c.service(ctx)
	if err != nil {
		return 0, err
	}
	a, err := k.call(ctx, cmdPartitions, func(id uint64) []byte {
		b := pbfield.AppendUint(pbfield.AppendString(nil, 1, topic), 2, id)
		return pbfield.AppendBool(b, 6, false) // do not make it
	})
	if err == nil {
		err = refusal(a.body, 4, 5)
	}
	if err != nil {
		return 0, fmt.Errorf("partitions of %s: %w", topic, err)
	}
	r := pbfield.Read(a.body)
	for r.Next() {
		if f := r.Field(); f.Num == 1 {
			return int(f.Uint), nil
		}
	}
	return 0, r.Err()
}

// Topics gives the persistent topics of a namespace that match a pattern, partitions one by one.
func (c *Client) Topics(ctx context.Context, namespace, pattern string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("topic pattern %q: %w", pattern, err)
	}
	k, _, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	a, err := k.call(ctx, cmdTopics, func(id uint64) []byte {
		return pbfield.AppendString(pbfield.AppendUint(nil, 1, id), 2, namespace)
	})
	if err != nil {
		return nil, fmt.Errorf("topics of %s: %w", namespace, err)
	}
	var topics []string
	r := pbfield.Read(a.body)
	for r.Next() {
		if f := r.Field(); f.Num == 2 && re.Match(f.Bytes) {
			topics = append(topics, string(f.Bytes))
		}
	}
	return topics, r.Err()
}

// Schema is what a topic's registry says about its values.
type Schema struct {
	Name       string
	Type       int // numbers of PulsarApi's Schema.Type
	Data       []byte
	Version    []byte
	Properties map[string]string
}

// Schema gives a version of a topic's schema; nil is the newest. A *ServerError with CodeTopicNotFound says that the
// topic has none.
func (c *Client) Schema(ctx context.Context, topic string, version []byte) (Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	k, _, err := c.service(ctx)
	if err != nil {
		return Schema{}, err
	}
	a, err := k.call(ctx, cmdSchema, func(id uint64) []byte {
		b := pbfield.AppendString(pbfield.AppendUint(nil, 1, id), 2, topic)
		if version != nil {
			b = pbfield.AppendBytes(b, 3, version)
		}
		return b
	})
	if err == nil {
		err = refusal(a.body, 2, 3)
	}
	if err != nil {
		return Schema{}, fmt.Errorf("schema of %s: %w", topic, err)
	}
	var s Schema
	r := pbfield.Read(a.body)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 4:
			if err := s.parse(f.Bytes); err != nil {
				return s, err
			}
		case 5:
			s.Version = f.Bytes
		}
	}
	return s, r.Err()
}

func (s *Schema) parse(b []byte) error {
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			s.Name = string(f.Bytes)
		case 3:
			s.Data = f.Bytes
		case 4:
			s.Type = int(f.Uint)
		case 5:
			key, value, err := keyValue(f.Bytes)
			if err != nil {
				return err
			}
			if s.Properties == nil {
				s.Properties = map[string]string{}
			}
			s.Properties[key] = value
		}
	}
	return r.Err()
}

func keyValue(b []byte) (key, value string, err error) {
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			key = string(f.Bytes)
		case 2:
			value = string(f.Bytes)
		}
	}
	return key, value, r.Err()
}
