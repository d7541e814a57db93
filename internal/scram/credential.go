package scram

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// Mechanism is the SASL name of a SCRAM mechanism.
type Mechanism string

// The mechanisms.
const (
	SHA256 Mechanism = "SCRAM-SHA-256"
	SHA512 Mechanism = "SCRAM-SHA-512"
)

// Mechanisms gives all that there are, the best last.
func Mechanisms() []Mechanism { return []Mechanism{SHA256, SHA512} }

const (
	// Iterations is how often a new credential's password is hashed; the least that Kafka's clients take.
	Iterations = 4096
	maxIterate = 1 << 20 // a PLAIN login is so slow
	saltBytes  = 16
)

func (m Mechanism) hash() func() hash.Hash {
	if m == SHA512 {
		return sha512.New
	}
	return sha256.New
}

func (m Mechanism) mac(key []byte, text string) []byte {
	h := hmac.New(m.hash(), key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (m Mechanism) digest(b []byte) []byte {
	h := m.hash()()
	h.Write(b)
	return h.Sum(nil)
}

// Credential is what a server keeps of a password. It does not let anybody log in, by SCRAM or PLAIN.
type Credential struct {
	Mechanism  Mechanism
	Salt       []byte
	Iterations int
	StoredKey  []byte
	ServerKey  []byte
}

// NewCredential hashes a password.
func NewCredential(m Mechanism, password string, salt []byte, iterations int) (Credential, error) {
	c := Credential{Mechanism: m, Salt: salt, Iterations: iterations}
	salted, err := c.salted(password)
	if err != nil {
		return Credential{}, err
	}
	return FromSalted(m, salted, salt, iterations)
}

// FromSalted makes the credential of a password that somebody else has hashed, with this salt so many times.
func FromSalted(m Mechanism, salted, salt []byte, iterations int) (Credential, error) {
	if !slices.Contains(Mechanisms(), m) {
		return Credential{}, fmt.Errorf("mechanism %q is not %s or %s", m, SHA256, SHA512)
	}
	if size := m.hash()().Size(); len(salted) != size {
		return Credential{}, fmt.Errorf("a salted password of %d bytes, want %d", len(salted), size)
	}
	c := Credential{Mechanism: m, Salt: salt, Iterations: iterations}
	c.StoredKey, c.ServerKey = m.digest(m.mac(salted, "Client Key")), m.mac(salted, "Server Key")
	return c, c.validate()
}

func (c Credential) salted(password string) ([]byte, error) {
	key, err := pbkdf2.Key(c.Mechanism.hash(), password, c.Salt, c.Iterations, c.Mechanism.hash()().Size())
	if err != nil {
		return nil, fmt.Errorf("hash the password: %w", err)
	}
	return key, nil
}

// matches says whether password is the one, in a time that does not depend on it.
func (c Credential) matches(password string) bool {
	salted, err := c.salted(password)
	return err == nil && subtle.ConstantTimeCompare(c.Mechanism.digest(c.Mechanism.mac(salted, "Client Key")), c.StoredKey) == 1
}

func (c Credential) validate() error {
	size := c.Mechanism.hash()().Size()
	switch {
	case !slices.Contains(Mechanisms(), c.Mechanism):
		return fmt.Errorf("mechanism %q is not %s or %s", c.Mechanism, SHA256, SHA512)
	case c.Iterations < Iterations || c.Iterations > maxIterate:
		return fmt.Errorf("%d iterations, want %d to %d", c.Iterations, Iterations, maxIterate)
	case len(c.Salt) < 1 || len(c.Salt) > 256: // short ones are the choice of whoever made them, as at Kafka
		return fmt.Errorf("a salt of %d bytes, want 1 to 256", len(c.Salt))
	case len(c.StoredKey) != size || len(c.ServerKey) != size:
		return fmt.Errorf("keys of %d and %d bytes, want %d", len(c.StoredKey), len(c.ServerKey), size)
	}
	return nil
}

// String is the form that a file of users holds: MECHANISM$ITERATIONS:SALT$STOREDKEY:SERVERKEY, in base64.
func (c Credential) String() string {
	b := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", c.Mechanism, c.Iterations, b(c.Salt), b(c.StoredKey), b(c.ServerKey))
}

var errForm = errors.New("want MECHANISM$ITERATIONS:SALT$STOREDKEY:SERVERKEY, as `ledgerlake user` prints it")

// ParseCredential reads what String gives. The errors hold nothing of the text: it may be a password.
func ParseCredential(s string) (Credential, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 3 {
		return Credential{}, errForm
	}
	n, salt, ok := strings.Cut(parts[1], ":")
	stored, server, ok2 := strings.Cut(parts[2], ":")
	c := Credential{Mechanism: Mechanism(parts[0])}
	var errs [4]error
	c.Iterations, errs[0] = strconv.Atoi(n)
	c.Salt, errs[1] = base64.StdEncoding.DecodeString(salt)
	c.StoredKey, errs[2] = base64.StdEncoding.DecodeString(stored)
	c.ServerKey, errs[3] = base64.StdEncoding.DecodeString(server)
	if !ok || !ok2 || errors.Join(errs[:]...) != nil {
		return Credential{}, errForm
	}
	return c, c.validate()
}

// splitPlain reads the message of PLAIN (RFC 4616): authorization, user and password.
func splitPlain(in []byte) (user, password string, err error) {
	parts := bytes.Split(in, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 {
		return "", "", fmt.Errorf("%w: PLAIN wants a user and a password", ErrMessage)
	}
	if len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
		return "", "", fmt.Errorf("%w: acting as another user is not supported", ErrMessage)
	}
	return string(parts[1]), string(parts[2]), nil
}
