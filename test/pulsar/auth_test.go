package pulsar_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// tokenOf signs a token for a role, as the tool of Pulsar does it: a JWT by HMAC-SHA-256.
func tokenOf(secret []byte, role string) string {
	return signed(secret, fmt.Sprintf(`{"sub":%q}`, role))
}

func signed(secret []byte, claims string) string {
	enc := base64.RawURLEncoding
	body := enc.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + enc.EncodeToString([]byte(claims))
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(body))
	return body + "." + enc.EncodeToString(h.Sum(nil))
}

// writeFile writes a file of a test and gives its path.
func writeFile(t *testing.T, name string, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate gives the files of a certificate of a name, for 127.0.0.1, and of its key, which the JVM wants as PKCS 8.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		writeFile(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// issuer gives tokens for the client credentials "lake" and "sesame", as an OAuth2 server does, and counts them.
func issuer(t *testing.T, token string) (url string, given *atomic.Int64) {
	t.Helper()
	given = &atomic.Int64{}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"token_endpoint": srv.URL + "/token"})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "client_credentials" || r.FormValue("client_id") != "lake" || r.FormValue("client_secret") != "sesame" || r.FormValue("audience") != "pulsar" {
			http.Error(w, "who is that?", http.StatusUnauthorized)
			return
		}
		given.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "expires_in": 3600, "token_type": "Bearer"})
	})
	return srv.URL, given
}

// TestARealPulsarThatAsksWhoWeAre: TLS with tokens from a file, from an OAuth2 issuer and from the environment; a
// pattern of topics, and sealed ledgers by the admin API; the role may consume, and no more. Who has no right or no token
// is told so (I4).
func TestARealPulsarThatAsksWhoWeAre(t *testing.T) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	admin, lakeRole := tokenOf(secret, "admin"), tokenOf(secret, "lake")
	t.Setenv("PULSAR_TOKEN", admin)
	cert, key := certificate(t, "127.0.0.1")
	ours, ourKey := certificate(t, "certified")
	tlsPort := harness.FreePort(t, 0)
	p := harness.Pulsar(t, 50, "authenticationEnabled=true", "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken,org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
		"tlsTrustCertsFilePath="+ours, "authenticationRefreshCheckSeconds=1",
		"tokenSecretKey=data:;base64,"+base64.StdEncoding.EncodeToString(secret), "authorizationEnabled=true", "superUserRoles=admin",
		"brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken", "brokerClientAuthenticationParameters=token:"+admin,
		fmt.Sprintf("brokerServicePortTls=%d", tlsPort), "tlsCertificateFilePath="+cert, "tlsKeyFilePath="+key)
	keepAll(t, p)
	p.Admin(t, "POST", "namespaces/public/default/permissions/lake", []string{"consume"})
	p.Admin(t, "POST", "namespaces/public/default/permissions/certified", []string{"consume"})
	p.Admin(t, "PUT", "persistent/public/default/orders-eu/partitions", 2)
	p.Tool(t, "produce", "public/default/orders-eu", "0", "300", "batch=10", "keys=20")
	p.Tool(t, "produce", "public/default/orders-us", "0", "170", "keys=20")
	p.Tool(t, "produce", "public/default/other", "0", "10")
	want := p.ReadPartitions(t, "public/default/orders-eu-partition-0", "public/default/orders-eu-partition-1", "public/default/orders-us")

	secure := fmt.Sprintf("pulsar+ssl://127.0.0.1:%d/public/default/", tlsPort)
	root := t.TempDir()
	file := writeFile(t, "token", []byte(lakeRole+"\n"))
	harness.Run(t, nil, "ingest", secure+"~orders-.*", root, "--tls-ca", cert, "--pulsar-token-file", file, "--format", "raw", "--until-latest", "--log-level", "warn")
	compareRows(t, filepath.Join(root, "orders-eu"), want[:2])
	compareRows(t, filepath.Join(root, "orders-us"), want[2:])
	if _, err := os.Stat(filepath.Join(root, "other")); err == nil {
		t.Error("a topic that the pattern does not match has a table")
	}

	url, given := issuer(t, lakeRole)
	keyFile := writeFile(t, "key.json", []byte(`{"type":"client_credentials","client_id":"lake","client_secret":"sesame","issuer_url":"`+url+`"}`))
	rows := 0
	for range harness.Rows(t, "read", secure+"orders-us", "--tls-ca", cert, "--pulsar-oauth2-key", keyFile, "--pulsar-oauth2-audience", "pulsar", "--columns", "_offset") {
		rows++
	}
	if rows != 170 || given.Load() == 0 {
		t.Errorf("by OAuth2: %d rows, %d tokens were given", rows, given.Load())
	}

	certified := filepath.Join(t.TempDir(), "certified")
	harness.Run(t, nil, "ingest", secure+"orders-us", certified, "--tls-ca", cert, "--tls-cert", ours, "--tls-key", ourKey, "--format", "raw", "--until-latest", "--log-level", "warn")
	compareRows(t, certified, want[2:])
	stranger, strangersKey := certificate(t, "certified") // the name, and nobody vouches for it

	for _, bad := range []struct {
		name string
		args []string
		say  string
	}{
		{"no token", nil, "uthenticat"},
		{"a token of somebody else", []string{"--pulsar-token", tokenOf([]byte("another secret of 32 bytes......"), "lake")}, "uthenticat"},
		{"a role without the right", []string{"--pulsar-token", tokenOf(secret, "stranger")}, "uthoriz"},
		{"a certificate that nobody vouches for", []string{"--tls-cert", stranger, "--tls-key", strangersKey}, ""},
		{"a wrong secret at the issuer", []string{"--pulsar-oauth2-key", writeFile(t, "bad.json", []byte(`{"client_id":"lake","client_secret":"x","issuer_url":"`+url+`"}`))}, "who is that?"},
	} {
		_, err := harness.TryRun(t, nil, append([]string{"read", secure + "orders-us", "--tls-ca", cert}, bad.args...)...)
		if err == nil || !strings.Contains(err.Error(), bad.say) {
			t.Errorf("%s: %v", bad.name, err)
		} else {
			t.Logf("%s: %v", bad.name, err)
		}
	}
	if _, err := harness.TryRun(t, nil, "read", secure+"orders-us", "--pulsar-token", lakeRole); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a broker whose certificate nobody vouches for: %v", err)
	}
	expires(t, p, secret)
	sealedLedgers(t, p, lakeRole)
}

// expires: a token that runs out while messages come is tried some more, since its file may get a new one: then the run goes
// on. When it gets none, the run ends with an error that says so.
func expires(t *testing.T, p *harness.RealPulsar, secret []byte) {
	t.Helper()
	for _, renewed := range []bool{true, false} {
		short := signed(secret, fmt.Sprintf(`{"sub":"lake","exp":%d}`, time.Now().Unix()+15))
		file, lake := writeFile(t, "short", []byte(short)), filepath.Join(t.TempDir(), "expires")
		x := harness.Start(t, "ingest", p.URL()+"/public/default/other", lake, "--pulsar-token-file", file, "--format", "raw", "--flush-age", "200ms", "--log-level", "debug")
		harness.Eventually(t, harness.RunTimeout, func() error {
			if !x.Said("not authenticated") {
				return errors.New("the broker takes the token still")
			}
			return nil
		})
		if !renewed {
			harness.Eventually(t, harness.RunTimeout, func() error {
				select {
				case <-x.Done():
					return nil
				default:
					return errors.New("the run goes on without credentials")
				}
			})
			lines := strings.Split(strings.TrimSpace(x.Log()), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, "not authenticated") {
				t.Errorf("the run ended with %q", last)
			} else {
				t.Logf("the run ended with %q", last)
			}
			return
		}
		if err := os.WriteFile(file, []byte(tokenOf(secret, "lake")), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Tool(t, "produce", "public/default/other", "10", "5")
		harness.Eventually(t, harness.RunTimeout, func() error {
			out, err := harness.TryRun(t, nil, "read", lake, "--columns", "_offset")
			if n := strings.Count(string(out), "\n"); err != nil || n != 15 {
				return fmt.Errorf("%d rows, want 15: %w", n, err)
			}
			return nil
		})
		x.Kill()
	}
}

// sealedLedgers: with --sealed-ledgers what is in the open ledger stays out of the table until it is sealed.
func sealedLedgers(t *testing.T, p *harness.RealPulsar, token string) {
	t.Helper()
	t.Setenv("LEDGERLAKE_PULSAR_TOKEN", token)
	lake := filepath.Join(t.TempDir(), "sealed")
	ingest := harness.Start(t, "ingest", p.URL()+"/public/default/orders-us", lake, "--sealed-ledgers", "--pulsar-admin", p.Web, "--format", "raw", "--flush-age", "200ms", "--log-level", "warn")
	count := func() (rows int, err error) {
		out, err := harness.TryRun(t, nil, "read", lake, "--columns", "_ledger", "--output", "ndjson")
		return strings.Count(string(out), "\n"), err
	}
	all := ledgers(t, p, "public/default/orders-us")
	wait := func(want int) {
		t.Helper()
		harness.Eventually(t, harness.RunTimeout, func() error {
			if rows, err := count(); err != nil || rows != want {
				return fmt.Errorf("%d rows, want %d: %w", rows, want, err)
			}
			return nil
		})
	}
	wait(150) // of 170: three ledgers of 50 are sealed
	p.Admin(t, "PUT", "persistent/public/default/orders-us/unload", nil)
	p.Tool(t, "produce", "public/default/orders-us", "170", "5") // something is confirmed behind the sealed one
	wait(170)
	ingest.Kill()
	for row := range harness.Rows(t, "read", lake, "--columns", "_ledger") {
		if id := number(t, row["_ledger"]); id > all[len(all)-1] {
			t.Errorf("ledger %d is in the table, and it is open", id)
		}
	}
}
