package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// writeCertificate leaves a new certificate for 127.0.0.1, its own authority, and its key in two files.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "ledgerlake test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func writeUsers(t *testing.T, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A port with TLS, client certificates and users: our commands get in with the flags, say which are missing without,
// and changed files count without a restart. I8
func TestServeWithTLSAndUsers(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeCertificate(t, in("cert"), in("key"))
	salted := string(harness.Run(t, strings.NewReader("p:w ord\n"), "user", "ann"))
	if strings.Contains(salted, "p:w ord") || strings.Count(salted, "\nann:SCRAM-SHA-512$") != 1 {
		t.Fatalf("user printed %q", salted)
	}
	writeUsers(t, in("users"), salted, "bob:clear")
	s := harness.Serve(t, in("data"), "", "--topic", "events:2", "--flush-age", "200ms", "--kafka-tls-cert", in("cert"), "--kafka-tls-key", in("key"),
		"--kafka-tls-client-ca", in("cert"), "--kafka-users", in("users"))
	trust := []string{"--tls-ca", in("cert"), "--tls-cert", in("cert"), "--tls-key", in("key")}
	as := func(user, password string, more ...string) []string {
		return append(append(more, trust...), "--sasl-user", user, "--sasl-password", password)
	}
	sent := 0
	for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", ""} {
		for user, password := range map[string]string{"ann": "p:w ord", "bob": "clear"} {
			args := as(user, password)
			if m != "" {
				args = append(args, "--sasl-mechanism", m)
			}
			if _, err := harness.TryRun(t, strings.NewReader("{\"n\":1}\n{\"n\":2}\n"), append([]string{"produce", "--brokers", s.Addr, "--topic", "events"}, args...)...); err != nil {
				t.Errorf("%s as %s: %v", m, user, err)
			}
			sent += 2
		}
	}
	out := harness.Run(t, nil, append([]string{"read", "events", "--dir", s.Dir}, as("ann", "p:w ord")...)...)
	if got := bytes.Count(out, []byte("\n")); got != sent {
		t.Errorf("read gives %d rows, want %d", got, sent)
	}
	harness.Run(t, nil, append([]string{"inspect", s.Dir}, as("bob", "clear")...)...)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no flags":          {nil, "--sasl-user"},
		"no authority":      {[]string{"--sasl-user", "ann", "--sasl-password", "p:w ord"}, "--tls-ca"},
		"no certificate":    {[]string{"--sasl-user", "ann", "--sasl-password", "p:w ord", "--tls-ca", in("cert")}, "--tls-cert"},
		"a wrong password":  {as("ann", "clear"), "wrong password"},
		"half a key":        {[]string{"--sasl-user", "ann", "--sasl-password", "p", "--tls-cert", in("cert")}, "go together"},
		"wrong authorities": {[]string{"--sasl-user", "ann", "--sasl-password", "p", "--tls-ca", in("users")}, "no certificate"},
	} {
		begin := time.Now()
		if r := harness.RunBoth(t, nil, append([]string{"read", "events", "--dir", s.Dir}, c.args...)...); r.Err == nil || !strings.Contains(string(r.Stderr), c.want) {
			t.Errorf("%s: %v\n%s", name, r.Err, r.Stderr)
		}
		t.Logf("%s: %s", name, time.Since(begin).Round(time.Millisecond))
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a wrong password": {as("ann", "clear"), "wrong password"},
		"nobody we know":   {as("eve", "new"), "unknown user"},
		"no user":          {trust, "--sasl-user"},
	} {
		begin := time.Now()
		r := harness.RunBoth(t, strings.NewReader("{\"n\":1}\n"), append([]string{"produce", "--brokers", s.Addr, "--topic", "events"}, c.args...)...)
		if took := time.Since(begin); r.Err == nil || !strings.Contains(string(r.Stderr), c.want) || took > 20*time.Second {
			t.Errorf("produce with %s: %v after %s\n%s", name, r.Err, took, r.Stderr)
		}
	}

	// The files change: bob goes, eve comes, the certificate is another.
	writeUsers(t, in("users"), salted, "eve:new")
	writeCertificate(t, in("cert2"), in("key2"))
	for a, b := range map[string]string{"cert2": "cert", "key2": "key"} {
		if err := os.Rename(in(a), in(b)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(user, password string) error {
		_, err := harness.TryRun(t, nil, append([]string{"read", "events", "--dir", s.Dir, "--limit", "1"}, as(user, password)...)...)
		return err
	}
	harness.Eventually(t, 30*time.Second, func() error { return read("eve", "new") })
	if err := read("bob", "clear"); err == nil || !strings.Contains(err.Error(), "wrong password") {
		t.Errorf("bob is still there: %v", err)
	}
	writeUsers(t, in("users"), "broken") // what was there stays
	harness.Eventually(t, 30*time.Second, func() error {
		if err := read("ann", "p:w ord"); err != nil {
			t.Fatal(err)
		}
		if !s.Said("changed files are not taken") {
			return errors.New("the server did not look at the broken file")
		}
		return nil
	})
}

// librdkafka logs in by each mechanism, with TLS and without.
func TestLibrdkafkaLogsIn(t *testing.T) {
	harness.Python(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeCertificate(t, in("cert"), in("key"))
	writeUsers(t, in("users"), "ann:secret")
	for protocol, flags := range map[string][]string{
		"SASL_PLAINTEXT": nil, "SASL_SSL": {"--kafka-tls-cert", in("cert"), "--kafka-tls-key", in("key")},
	} {
		s := harness.Serve(t, in(protocol), "", append([]string{"--no-tiering", "--kafka-users", in("users"), "--kafka-session", "1h"}, flags...)...)
		for _, m := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			t.Run(protocol+" "+m, func(t *testing.T) {
				conf, err := json.Marshal(map[string]string{"security.protocol": protocol, "ssl.ca.location": in("cert"), "sasl.mechanism": m,
					"sasl.username": "ann", "sasl.password": "secret"})
				if err != nil {
					t.Fatal(err)
				}
				t.Setenv("CLIENT_CONF", string(conf))
				const n = 200
				if acks := client(t, "produce", s.Addr, m, fmt.Sprint(n), "none"); len(acks) != n {
					t.Fatalf("%d acknowledgements, want %d", len(acks), n)
				}
				if got := client(t, "consume", s.Addr, m, "g-"+m, fmt.Sprint(n)); len(got) != n {
					t.Fatalf("%d records, want %d", len(got), n)
				}
			})
		}
	}
}
