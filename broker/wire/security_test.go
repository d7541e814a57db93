package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	kscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ledgerlake/ledgerlake/internal/scram"
)

// certificate makes one for 127.0.0.1, good for both sides and its own authority.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func userList(t *testing.T, text string) func() *scram.Users {
	t.Helper()
	name := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := scram.ReadUsers(name, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return func() *scram.Users { return u }
}

func mechanisms(user, password string) map[string]sasl.Mechanism {
	s := kscram.Auth{User: user, Pass: password}
	return map[string]sasl.Mechanism{
		"PLAIN": plain.Auth{User: user, Pass: password}.AsMechanism(), "SCRAM-SHA-256": s.AsSha256Mechanism(), "SCRAM-SHA-512": s.AsSha512Mechanism(),
	}
}

// ping asks for metadata, once.
func ping(t *testing.T, s *Server, opts ...kgo.Opt) error {
	t.Helper()
	cl := client(t, s, append(opts, kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
	_, err := kmsg.NewPtrMetadataRequest().RequestWith(within(t, 10*time.Second), cl)
	return err
}

// Each mechanism logs in, with and without TLS, and the records of a produce come back.
func TestSASLMechanisms(t *testing.T) {
	cert, pool := certificate(t)
	for _, secure := range []bool{false, true} {
		s := start(t, newMemLog(t), func(c *Config) {
			c.Users = userList(t, "ann:s,e=cret:\n")
			if secure {
				c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			}
		})
		var opts []kgo.Opt
		if secure {
			opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
		}
		for name, m := range mechanisms("ann", "s,e=cret:") {
			t.Run(fmt.Sprintf("%s tls=%v", name, secure), func(t *testing.T) {
				ctx := within(t, 10*time.Second)
				with := append([]kgo.Opt{kgo.SASL(m)}, opts...)
				produce(t, ctx, client(t, s, with...), name, 50)
				cl := client(t, s, append(with, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
				if got := consume(t, ctx, cl, 50); len(got) != 50 {
					t.Errorf("%d records, want 50", len(got))
				}
			})
		}
	}
}

// A wrong password, an unknown user and a mechanism that is not offered each end with Kafka's own error.
func TestSASLRefusals(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.Users = userList(t, "ann:secret") })
	for _, c := range [][2]string{{"ann", "Secret"}, {"eve", "secret"}} {
		for name, m := range mechanisms(c[0], c[1]) {
			if err := ping(t, s, kgo.SASL(m)); !errors.Is(err, kerr.SaslAuthenticationFailed) || !strings.Contains(err.Error(), scram.ErrAuth.Error()) {
				t.Errorf("%s as %s: %v", name, c[0], err)
			}
		}
	}
	if err := ping(t, s, kgo.SASL(oauth.Auth{Token: "x"}.AsMechanism())); err == nil {
		t.Error("OAUTHBEARER was taken")
	}
	only := start(t, newMemLog(t), func(c *Config) {
		c.Users, c.Mechanisms = userList(t, "ann:secret"), []string{"SCRAM-SHA-512"}
	})
	for name, m := range mechanisms("ann", "secret") {
		if err := ping(t, only, kgo.SASL(m)); (err == nil) != (name == "SCRAM-SHA-512") {
			t.Errorf("%s where it is not offered: %v", name, err)
		}
	}
	open := start(t, newMemLog(t), nil) // a client with SASL settings that needs none is told so
	if err := ping(t, open, kgo.SASL(mechanisms("ann", "secret")["PLAIN"])); err == nil {
		t.Error("a server without users authenticated somebody")
	}
	for name, change := range map[string]func(*Config){
		"no certificate": func(c *Config) { c.TLS = &tls.Config{} },
		"no mechanism":   func(c *Config) { c.Users, c.Mechanisms = userList(t, "a:b"), []string{} },
		"mechanism":      func(c *Config) { c.Mechanisms = []string{"GSSAPI"} },
		"lifetime":       func(c *Config) { c.SessionLifetime = -1 },
		"unproven":       func(c *Config) { c.MaxUnproven = -1 },
	} {
		cfg := Config{Listen: "127.0.0.1:0", Log: newMemLog(t)}
		change(&cfg)
		if s, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: opened", name)
			_ = s.Close()
		}
	}
}

// ask sends one request and reads its answer; an error when the connection ends.
func ask(nc net.Conn, req kmsg.Request, version int16) (kmsg.Response, error) {
	if _, err := nc.Write(frameOf(req, version, 1)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[2])<<8+int(head[3])-4)
	if _, err := io.ReadFull(nc, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() && req.Key() != keyAPIVersions {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

func handshake(t *testing.T, nc net.Conn, mechanism string) int16 {
	t.Helper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	resp, err := ask(nc, req, 1)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.SASLHandshakeResponse).ErrorCode
}

func authenticate(t *testing.T, nc net.Conn, version int16, in string) *kmsg.SASLAuthenticateResponse {
	t.Helper()
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = []byte(in)
	resp, err := ask(nc, req, version)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.SASLAuthenticateResponse)
}

func wantClosed(t *testing.T, nc net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, nc); n != 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection is open: %d bytes, %v", n, err)
	}
}

// I8: before the log-in nothing but its own requests is answered, in an order that makes sense, and no large frame read.
func TestBeforeAuthentication(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) { c.Users = userList(t, "ann:secret") })
	for _, a := range s.table {
		if a.key == keyAPIVersions || a.key == keySASLHandshake || a.key == keySASLAuthenticate {
			continue
		}
		for _, chosen := range []bool{false, true} {
			nc := dial(t, s)
			if _, err := ask(nc, kmsg.NewPtrApiVersionsRequest(), 3); err != nil {
				t.Fatal(err)
			}
			if chosen && handshake(t, nc, "PLAIN") != 0 {
				t.Fatal("PLAIN is not offered")
			}
			if _, err := nc.Write(frameOf(kmsg.RequestForKey(a.key), a.max, 1)); err != nil {
				t.Fatal(err)
			}
			wantClosed(t, nc)
		}
	}
	t.Run("large", func(t *testing.T) {
		nc := dial(t, s)
		if _, err := nc.Write([]byte{0, 0x10, 0, 0, 0, 36, 0, 2, 0, 0, 0, 1}); err != nil {
			t.Fatal(err)
		}
		wantClosed(t, nc)
	})
	t.Run("authenticate first", func(t *testing.T) {
		nc := dial(t, s)
		if resp := authenticate(t, nc, 2, "\x00ann\x00secret"); resp.ErrorCode != codeIllegalSASLState {
			t.Fatalf("code %d", resp.ErrorCode)
		}
		wantClosed(t, nc)
	})
	t.Run("two handshakes", func(t *testing.T) {
		nc := dial(t, s)
		if handshake(t, nc, "PLAIN") != 0 || handshake(t, nc, "PLAIN") != codeIllegalSASLState {
			t.Fatal("the second handshake was taken")
		}
		wantClosed(t, nc)
	})
	t.Run("unknown mechanism", func(t *testing.T) {
		nc := dial(t, s)
		if code := handshake(t, nc, "GSSAPI"); code != codeUnsupportedSASL {
			t.Fatalf("code %d", code)
		}
		wantClosed(t, nc)
	})
	for _, m := range s.cfg.Mechanisms {
		t.Run("garbage for "+m, func(t *testing.T) {
			nc := dial(t, s)
			if handshake(t, nc, m) != 0 {
				t.Fatal("not offered")
			}
			if resp := authenticate(t, nc, 1, "\x00\xff,,=,"); resp.ErrorCode != codeSASLFailed || resp.ErrorMessage == nil {
				t.Fatalf("answer %+v", resp)
			}
			wantClosed(t, nc)
		})
	}
	t.Run("again without a session limit", func(t *testing.T) {
		nc := dial(t, s)
		if handshake(t, nc, "PLAIN") != 0 || authenticate(t, nc, 0, "\x00ann\x00secret").ErrorCode != 0 {
			t.Fatal("no log-in")
		}
		if _, err := ask(nc, kmsg.NewPtrMetadataRequest(), 7); err != nil {
			t.Fatal(err)
		}
		if code := handshake(t, nc, "PLAIN"); code != codeIllegalSASLState {
			t.Fatalf("code %d", code)
		}
		wantClosed(t, nc)
	})
}

// KIP-368: a session that is over ends at the next request, unless the same user has logged in again.
func TestSessionLifetime(t *testing.T) {
	s := start(t, newMemLog(t), func(c *Config) {
		c.Users, c.SessionLifetime = userList(t, "ann:secret\nbob:secret"), time.Hour
	})
	login := func() net.Conn {
		nc := dial(t, s)
		if handshake(t, nc, "PLAIN") != 0 {
			t.Fatal("not offered")
		}
		if resp := authenticate(t, nc, 2, "\x00ann\x00secret"); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != time.Hour.Milliseconds() {
			t.Fatalf("answer %+v", resp)
		}
		return nc
	}
	end := func(nc net.Conn) { // as if the hour were over
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			if c.peer == nc.LocalAddr().String() {
				c.proof.expires = time.Now().Add(-time.Millisecond)
			}
		}
	}
	nc := login()
	end(nc)
	if _, err := ask(nc, kmsg.NewPtrMetadataRequest(), 7); err == nil {
		t.Fatal("a session that is over was served")
	}
	nc = login()
	end(nc)
	if handshake(t, nc, "PLAIN") != 0 || authenticate(t, nc, 2, "\x00ann\x00secret").ErrorCode != 0 {
		t.Fatal("no second log-in")
	}
	if _, err := ask(nc, kmsg.NewPtrMetadataRequest(), 7); err != nil {
		t.Fatal(err)
	}
	if handshake(t, nc, "PLAIN") != 0 || authenticate(t, nc, 2, "\x00bob\x00secret").ErrorCode != codeSASLFailed {
		t.Fatal("ann became bob")
	}
	wantClosed(t, nc)
	nc = login()
	if handshake(t, nc, "SCRAM-SHA-256") != codeIllegalSASLState {
		t.Fatal("the mechanism changed")
	}
	short := start(t, newMemLog(t), func(c *Config) { // a real client logs in again on its own
		c.Users, c.SessionLifetime = userList(t, "ann:secret"), 2*time.Second
	})
	cl := client(t, short, kgo.SASL(mechanisms("ann", "secret")["SCRAM-SHA-256"]))
	ctx := within(t, 10*time.Second)
	for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
		produce(t, ctx, cl, "t", 1)
	}
}

// TLS: versions below 1.2, clients without it and clients without the certificate that is asked for are refused; a
// long poll outlives the idle limit, and the drain ends a handshake.
func TestTLSListener(t *testing.T) {
	cert, pool := certificate(t)
	s := start(t, newMemLog(t), func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10}
		c.IdleTimeout = 50 * time.Millisecond
	})
	for name, c := range map[string]*tls.Config{
		"plain": nil, "1.1": {RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "authority": {RootCAs: x509.NewCertPool()},
	} {
		if c == nil {
			if err := ping(t, s); err == nil {
				t.Error("a client without TLS was served")
			}
		} else if err := ping(t, s, kgo.DialTLSConfig(c)); err == nil {
			t.Errorf("%s was served", name)
		}
	}
	produce(t, within(t, 10*time.Second), client(t, s, kgo.DialTLSConfig(&tls.Config{RootCAs: pool})), "t", 10)
	wait := client(t, s, kgo.DialTLSConfig(&tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12}))
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes = 300, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = 1 << 20
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	if _, err := wait.Broker(1).RetriableRequest(within(t, 5*time.Second), req); err != nil {
		t.Errorf("a long poll over TLS: %v", err)
	}

	mutual := start(t, newMemLog(t), func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	})
	other, _ := certificate(t)
	for name, certs := range map[string][]tls.Certificate{"none": nil, "other": {other}, "right": {cert}} {
		if err := ping(t, mutual, kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: certs})); (err == nil) != (name == "right") {
			t.Errorf("certificate %s: %v", name, err)
		}
	}
	quiet := dial(t, mutual)
	if err := mutual.Close(); err != nil {
		t.Error(err)
	}
	wantClosed(t, quiet)
}

// I8: peers that say nothing, or a byte at a time, are cut in time, before and after the TLS handshake; there are only
// so many of them, and they do not count any longer when they are gone.
func TestSlowHandshakes(t *testing.T) {
	cert, pool := certificate(t)
	s := start(t, newMemLog(t), func(c *Config) {
		c.TLS, c.Users = &tls.Config{Certificates: []tls.Certificate{cert}}, userList(t, "ann:secret")
		c.AuthTimeout, c.MaxUnproven = time.Second, 3
	})
	begin := time.Now()
	quiet, slow := dial(t, s), dial(t, s)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // a record header of a handshake, then its bytes, slowly
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for b := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}; ; b = []byte{0} {
			if _, err := slow.Write(b); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	var after *tls.Conn
	until(t, within(t, patience), "a handshake in its time", func() bool {
		after = tls.Client(dial(t, s), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
		return after.Handshake() == nil
	})
	wantClosed(t, dial(t, s)) // the fourth
	for _, nc := range []net.Conn{quiet, after, slow} {
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("not cut: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	if took := time.Since(begin); took < time.Second {
		t.Errorf("cut after %s, want not before the limit", took)
	}
	cl := client(t, s, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.SASL(mechanisms("ann", "secret")["SCRAM-SHA-512"]))
	for range 5 { // and who is in stays in, and is not counted
		produce(t, within(t, 10*time.Second), cl, "t", 5)
	}
	ctx, tick := within(t, 5*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for left := 1; left != 0; {
		s.mu.Lock()
		left = s.unproven
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d connections still count as unproven", left)
		}
	}
}
