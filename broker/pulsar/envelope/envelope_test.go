package envelope

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
)

func write(t testing.TB, path string, raw []byte) string {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, path string) *Keys {
	t.Helper()
	k, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// opens says what a payload is that was encrypted.
func opens(t testing.TB, k *Keys, p *pulsartest.Producer, payload string) error {
	t.Helper()
	meta, sealed := p.Seal(t, nil, []byte(payload))
	got, err := k.Open([]byte("before "), meta, sealed)
	if err == nil && string(got) != "before "+payload {
		t.Errorf("%q became %q", payload, got)
	}
	return err
}

// TestKeysOpenWhatProducersEncrypt: keys of PKCS 1 and 8, in a file for all names and in a folder by name; several in one file,
// as after a rotation under the same name; one of several keys of a message; an empty payload.
func TestKeysOpenWhatProducersEncrypt(t *testing.T) {
	old, oldPEM := pulsartest.PrivateKey(t)
	key, keyPEM := pulsartest.PrivateKey(t)
	other, _ := pulsartest.PrivateKey(t)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "app.pem"), append(bytes.Clone(oldPEM), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})...))
	write(t, filepath.Join(dir, "public.pem"), []byte("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"))
	file := load(t, write(t, filepath.Join(t.TempDir(), "any"), keyPEM))
	for name, c := range map[string]struct {
		k *Keys
		p *pulsartest.Producer
	}{
		"one file, any name":       {file, pulsartest.NewProducer(t, []string{"../x"}, &key.PublicKey)},
		"by name":                  {load(t, dir), pulsartest.NewProducer(t, []string{"app"}, &key.PublicKey)},
		"the older key of a name":  {load(t, dir), pulsartest.NewProducer(t, []string{"app"}, &old.PublicKey)},
		"the second of two names":  {load(t, dir), pulsartest.NewProducer(t, []string{"else", "app"}, &other.PublicKey, &key.PublicKey)},
		"the first of two, no dir": {file, pulsartest.NewProducer(t, []string{"a", "b"}, &key.PublicKey, &other.PublicKey)},
	} {
		for _, payload := range []string{"hello", "", "hello"} {
			if err := opens(t, c.k, c.p, payload); err != nil {
				t.Errorf("%s: %q: %v", name, payload, err)
			}
		}
	}
}

// TestWhoLacksAKeyIsToldWhich: the error names the key and the file, nothing of what is in it, and no name leads out of the folder.
// A key that comes later is found, a moment after it was missed.
func TestWhoLacksAKeyIsToldWhich(t *testing.T) {
	key, keyPEM := pulsartest.PrivateKey(t)
	_, otherPEM := pulsartest.PrivateKey(t)
	root := t.TempDir()
	dir := filepath.Join(root, "keys")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "outside.pem"), keyPEM)
	write(t, filepath.Join(dir, "app.pem"), otherPEM)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "curve.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: curve}))
	write(t, filepath.Join(dir, "broken.pem"), bytes.Replace(keyPEM, []byte("\nMII"), []byte("\nXII"), 1))
	synctest.Test(t, func(t *testing.T) {
		k := load(t, dir)
		for name, say := range map[string]string{"app": "another key than the 1 in", "absent": "no such file", "../outside": "no file of", "": "no file of",
			"curve": "of elliptic curves: only those of RSA", "broken": "cannot be read"} {
			var lacks *KeyError
			err := opens(t, k, pulsartest.NewProducer(t, []string{name}, &key.PublicKey), "hello")
			if !errors.As(err, &lacks) || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), `key "`+name+`"`) {
				t.Errorf("%q: %v, want %q", name, err, say)
			}
			for _, secret := range []string{string(keyPEM[40:60]), string(otherPEM[40:60]), "MII"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%q: the error shows the key: %v", name, err)
				}
			}
		}
		p := pulsartest.NewProducer(t, []string{"late"}, &key.PublicKey)
		if err := opens(t, k, p, "hello"); err == nil {
			t.Error("a key that is not there opened something")
		}
		write(t, filepath.Join(dir, "late.pem"), keyPEM)
		time.Sleep(2 * tryAgain) //house:allow no-sleep: the clock is synctest's
		if err := opens(t, k, p, "hello"); err != nil {
			t.Error("a key that came later:", err)
		}
		if err := os.Remove(filepath.Join(dir, "late.pem")); err != nil {
			t.Fatal(err)
		}
		if err := opens(t, k, p, "hello"); err != nil {
			t.Error("a data key that is open needs its file no more:", err)
		}
	})
	many := make([]string, 50)
	for i := range many {
		many[i] = strings.Repeat("x", 10_000)
	}
	lacks := &KeyError{Names: many, Why: make([]error, len(many))}
	if n := len(lacks.Error()); n > 4000 {
		t.Errorf("an error of %d bytes", n)
	}
}

// TestLoadRefusesWhatHasNoKey: at the start, and not with the first message.
func TestLoadRefusesWhatHasNoKey(t *testing.T) {
	_, keyPEM := pulsartest.PrivateKey(t)
	protected := bytes.Replace(keyPEM, []byte("KEY-----\n"), []byte("KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n"), 1)
	for say, raw := range map[string][]byte{
		"no private key in PEM":    []byte("hello"),
		"password":                 protected,
		"not a private key":        []byte("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"),
		"of elliptic curves":       []byte("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n"),
		"cannot be read":           []byte("-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----\n"),
		"a private key that canno": []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"),
	} {
		dir := t.TempDir()
		file := write(t, filepath.Join(dir, "app.pem"), raw)
		for _, path := range []string{file, dir} {
			if _, err := Load(path); err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want %q", path, err, say)
			}
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestDamageIsNoKeyThatLacks: whatever bit of payload or metadata is changed, what comes is an error or the payload, never a panic (I8);
// what no key mends is ErrDamaged.
func TestDamageIsNoKeyThatLacks(t *testing.T) {
	key, keyPEM := pulsartest.PrivateKey(t)
	k := load(t, write(t, filepath.Join(t.TempDir(), "key"), keyPEM))
	p := pulsartest.NewProducer(t, []string{"app"}, &key.PublicKey)
	meta, payload := p.Seal(t, pbfield.AppendString(nil, 1, "producer"), []byte("hello"))
	for i := range payload {
		bad := bytes.Clone(payload)
		bad[i] ^= 1
		if _, err := k.Open(nil, meta, bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("a bit at %d of the payload: %v", i, err)
		}
		if _, err := k.Open(nil, meta, payload[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of the payload: %v", i, err)
		}
	}
	for i := range meta {
		bad := bytes.Clone(meta)
		bad[i] ^= 1
		if got, err := k.Open(nil, bad, payload); err == nil && string(got) != "hello" {
			t.Errorf("a bit at %d of the metadata: %q", i, got)
		}
		if got, err := k.Open(nil, meta[:i], payload); err == nil {
			t.Errorf("%d bytes of the metadata: %q", i, got)
		}
	}
	for name, bad := range map[string][]byte{"no key": pbfield.AppendString(nil, 15, "123456789012"), "nonce": pbfield.AppendString(bytes.Clone(meta), 15, "short")} {
		if _, err := k.Open(nil, bad, payload); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
