package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	ours "github.com/ledgerlake/ledgerlake/internal/scram"
)

// counted is a dialer that knows how many of its connections are open.
type counted struct{ open, made atomic.Int64 }

type countedConn struct {
	net.Conn
	by   *counted
	done atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.done.Swap(true) {
		c.by.open.Add(-1)
	}
	return c.Conn.Close()
}

func (d *counted) dial(ctx context.Context, addr string) (net.Conn, time.Time, error) {
	nc, expires, err := dialPlain(ctx, addr)
	if err == nil {
		d.open.Add(1)
		d.made.Add(1)
		nc = &countedConn{Conn: nc, by: d}
	}
	return nc, expires, err
}

// until polls for a state that a test waits for.
func until(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// The cluster goes away and comes back at the same addresses: clients get connections that end, as they would from it,
// and then are served. What clients had open there is closed with them (I8).
func TestGatewayOutlivesTheCluster(t *testing.T) {
	d := &counted{}
	c, s := throughGateway(t, &fakeLake{}, func(cfg *Config) { cfg.Upstream.Dial = d.dial })
	ctx := within(t, 60*time.Second)
	send := func(opts ...kgo.Opt) error {
		cl := client(t, s, append(opts, kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(patience))...)
		defer cl.Close()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr()
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	var ports []int
	for _, addr := range c.ListenAddrs() {
		_, port, err := splitAddr(addr)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, int(port))
	}
	c.Close()
	ping := client(t, s, kgo.RequestRetries(2), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond })).Ping(ctx)
	if settings := (*kgo.ErrFirstReadEOF)(nil); ping == nil || errors.As(ping, &settings) {
		t.Errorf("a ping without a cluster: %v, want an error that clients do not take for other settings than the server's", ping)
	}
	again := func(network, addr string) (ln net.Listener, err error) { // a connection of another program may have the port
		until(t, ctx, addr+" is free", func() bool { ln, err = net.Listen(network, addr); return err == nil })
		return ln, err
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.Ports(ports...), kfake.ListenFn(again), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := send(); err != nil {
		t.Errorf("produce after the cluster came back: %v", err)
	}
	until(t, ctx, "no connection to the cluster is left when the clients are gone", func() bool { return d.open.Load() == 0 })
}

// Producers that want no acknowledgement get none, and the connection goes on.
func TestGatewayWithoutAcknowledgement(t *testing.T) {
	c, s := throughGateway(t, &fakeLake{}, nil)
	ctx := within(t, 60*time.Second)
	cl := client(t, s, onlyOurs(t, c), kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const n = 50
	for i := range n {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, ctx, "all records are there", func() bool {
		ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "t")
		o, _ := ends.Lookup("t", 0)
		return err == nil && o.Offset == n
	})
}

// Clients log in to the gateway as its users, and the gateway to the cluster as one that they do not know. Who cannot
// log in costs the cluster nothing.
func TestGatewayLogIns(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser(kafka.ScramSHA256, "gateway", "inside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("ann:outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := ours.ReadUsers(file, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	upstream := kafka.Config{Brokers: c.ListenAddrs(), SASL: kafka.SASL{Mechanism: kafka.ScramSHA256, User: "gateway", Password: "inside"}}
	var dials atomic.Int64
	s := start(t, nil, func(cfg *Config) {
		cfg.Users = func() *ours.Users { return users }
		cfg.Upstream = &Upstream{Seeds: c.ListenAddrs(), Lake: &fakeLake{}, Dial: func(ctx context.Context, addr string) (net.Conn, time.Time, error) {
			dials.Add(1)
			return upstream.Dial(ctx, addr)
		}}
	})
	ctx := within(t, 60*time.Second)
	as := func(user, password string) *kgo.Client {
		return client(t, s, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), kgo.ProducerLinger(0))
	}
	ann := as("ann", "outside")
	if err := ann.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ann.Close()
	waitConns(t, s, 0) // whose own may still come
	before := dials.Load()
	for _, cl := range []*kgo.Client{as("gateway", "inside"), as("ann", "inside"), client(t, s)} {
		if err := cl.Ping(ctx); err == nil {
			t.Error("somebody without a log-in of the gateway's was served")
		}
	}
	if now := dials.Load(); now != before {
		t.Errorf("strangers cost the cluster %d connections", now-before)
	}
}

// The gateway goes to a cluster by TLS, with each of SASL's mechanisms, and clients come in the clear; a cluster with another
// certificate, or one that does not take the log-in, is not served from.
func TestGatewayByTLS(t *testing.T) {
	cert, pool := certificate(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(),
		kfake.Superuser(kafka.Plain, "plain", "inside"), kfake.Superuser(kafka.ScramSHA256, "gateway", "inside"), kfake.Superuser(kafka.ScramSHA512, "gateway", "inside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx := within(t, patience)
	config := func(mechanism, user, password string, roots *x509.CertPool) Config {
		up := kafka.Config{Brokers: c.ListenAddrs(), TLS: &tls.Config{RootCAs: roots}, SASL: kafka.SASL{Mechanism: mechanism, User: user, Password: password}}
		return Config{Listen: "127.0.0.1:0", Upstream: &Upstream{Seeds: c.ListenAddrs(), Lake: &fakeLake{}, Dial: up.Dial}}
	}
	for mechanism, user := range map[string]string{kafka.Plain: "plain", kafka.ScramSHA256: "gateway", kafka.ScramSHA512: "gateway"} {
		s := start(t, nil, func(cfg *Config) { *cfg = config(mechanism, user, "inside", pool) })
		if err := client(t, s, kgo.ProducerLinger(0)).ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(mechanism)}).FirstErr(); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
	for what, cfg := range map[string]Config{
		"a password that is wrong":    config(kafka.Plain, "plain", "outside", pool),
		"a certificate of a stranger": config(kafka.Plain, "plain", "inside", x509.NewCertPool()),
	} {
		if s, err := Open(ctx, cfg); err == nil {
			t.Errorf("%s: served", what)
			_ = s.Close()
		}
	}
}
