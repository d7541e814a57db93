package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/committer/raft"
)

// Metrics are not shown to a network that nobody called trusted, as the port of the group is not.
func TestMetricsStayOnLoopback(t *testing.T) {
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "10.1.2.3:9090", "nodes.invalid:9090"} {
		cfg := &raft.Config{Logger: slog.New(slog.DiscardHandler)}
		stop, err := serveMetrics(cfg, listen, false)
		if err == nil {
			stop()
		}
		if err == nil || !strings.Contains(err.Error(), "is not on loopback") || cfg.Registerer != nil {
			t.Errorf("%s = %v", listen, err)
		}
	}
	for _, listen := range []string{"", "127.0.0.1:0", "localhost:0"} {
		stop, err := serveMetrics(&raft.Config{Logger: slog.New(slog.DiscardHandler)}, listen, false)
		if err != nil {
			t.Errorf("%q = %v", listen, err)
			continue
		}
		stop()
	}
}

// Beyond loopback the metrics are behind the TLS of the group: who shows no certificate of it sees nothing.
func TestMetricsOverTLS(t *testing.T) {
	server, client := groupCertificates(t)
	var said bytes.Buffer
	cfg := &raft.Config{ServerTLS: server, ClientTLS: client, Logger: slog.New(slog.NewJSONHandler(&said, nil))}
	stop, err := serveMetrics(cfg, "0.0.0.0:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var line struct {
		Addr string
		TLS  bool
	}
	if err := json.Unmarshal(said.Bytes(), &line); err != nil || !line.TLS {
		t.Fatalf("%s: %v", said.String(), err)
	}
	_, port, err := net.SplitHostPort(line.Addr)
	if err != nil {
		t.Fatal(err)
	}
	get := func(scheme string, conf *tls.Config) (string, error) {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		resp, err := c.Get(scheme + "://127.0.0.1:" + port + "/metrics")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("status %d: %s", resp.StatusCode, b)
		}
		return string(b), err
	}
	if got, err := get("https", client); err != nil || !strings.Contains(got, "go_goroutines") {
		t.Errorf("with a certificate of the group = %q, %v", got, err)
	}
	if got, err := get("https", &tls.Config{RootCAs: client.RootCAs}); err == nil {
		t.Errorf("without a certificate: let in, %q", got)
	}
	if got, err := get("http", nil); err == nil {
		t.Errorf("without TLS: let in, %q", got)
	}
}

// groupCertificates makes the settings of a group whose members share one certificate.
func groupCertificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flags := tlsFlags{prefix: "tls", cert: write("node.pem", "CERTIFICATE", der), key: write("node.key", "PRIVATE KEY", private), ca: write("group.pem", "CERTIFICATE", der)}
	if server, client, err = flags.load(); err != nil {
		t.Fatal(err)
	}
	return server, client
}
