package pulsartest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// parts takes an entry of Message, Batch or Chunk apart.
func parts(e []byte) (meta, payload []byte) {
	body := e[6:]
	n := binary.BigEndian.Uint32(body)
	return append([]byte(nil), body[4:4+n]...), body[4+n:]
}

// Compress compresses an entry by LZ4.
func Compress(t testing.TB, e []byte) []byte {
	t.Helper()
	meta, payload := parts(e)
	out := make([]byte, lz4.CompressBlockBound(len(payload)))
	n, err := lz4.CompressBlock(payload, out, nil)
	if err != nil || n == 0 {
		t.Fatalf("lz4 makes %d bytes of %d: %v", n, len(payload), err)
	}
	meta = pbfield.AppendInt(meta, 8, 1)
	return sum(pbfield.AppendInt(meta, 9, int64(len(payload))), out[:n])
}

// Producer encrypts entries as a producer does, for all of its keys.
type Producer struct {
	data [32]byte
	keys []byte // as the metadata has them
}

// NewProducer makes a data key, and encrypts it for public keys, by their names in turn.
func NewProducer(t testing.TB, names []string, keys ...*rsa.PublicKey) *Producer {
	t.Helper()
	p := &Producer{}
	_, _ = rand.Read(p.data[:]) // never fails
	for i, key := range keys {
		sealed, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key, p.data[:], nil)
		if err != nil {
			t.Fatal(err)
		}
		p.keys = pbfield.AppendBytes(p.keys, 13, pbfield.AppendBytes(pbfield.AppendString(nil, 1, names[i]), 2, sealed))
	}
	return p
}

// Encrypt encrypts the payload of an entry.
func (p *Producer) Encrypt(t testing.TB, e []byte) []byte {
	t.Helper()
	meta, payload := parts(e)
	meta, payload = p.Seal(t, meta, payload)
	return sum(meta, payload)
}

// Seal is Encrypt of metadata and payload.
func (p *Producer) Seal(t testing.TB, meta, payload []byte) ([]byte, []byte) {
	t.Helper()
	block, err := aes.NewCipher(p.data[:])
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return pbfield.AppendBytes(append(meta, p.keys...), 15, nonce), aead.Seal(nil, nonce, payload, nil)
}

// Spoil changes a bit of the payload of an entry, whose sum then holds: so does a producer that encrypts wrongly.
func Spoil(e []byte) []byte {
	meta, payload := parts(e)
	payload[len(payload)/2] ^= 1
	return sum(meta, payload)
}

// PrivateKey makes a key of RSA, and gives it as PEM of PKCS 1.
func PrivateKey(t testing.TB) (*rsa.PrivateKey, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}
