// Package envelope opens payloads that Pulsar's producers encrypted: a data key encrypts the payload by AES-GCM, and the
// message's metadata has that data key, encrypted by RSA-OAEP (SHA-1) for each of the public keys that were named.
//
// # Format
//
// Fields of MessageMetadata, as Pulsar's Java, Go, C++ and Python clients write them:
//
//	13  for each public key: its name (1), the data key that it encrypted (2), and what the producer's key reader added (3)
//	15  the nonce of AES-GCM, 12 bytes
//
// The payload is compressed before it is encrypted. A batch is encrypted as a whole, and of a message in chunks each chunk by
// itself. The Java client's other kind of keys, of elliptic curves, is not read.
//
// Errors say names and files, never what is in them. Damage is an error, never a panic (I8): that, and that keys may be of PKCS 8
// and the memory is bounded, is why the standard library does it here and not the crypto package of Pulsar's Go client.
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	"crypto/sha1" // the clients' choice; in OAEP nothing hangs on collisions
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// ErrDamaged is wrapped by errors about a payload, or what says how it was encrypted, that no key mends.
var ErrDamaged = errors.New("damaged encryption")

// KeyError says that none of the private keys opens the data key of a payload.
type KeyError struct {
	Names []string // of the public keys that it was encrypted for
	Why   []error  // beside each
}

func (e *KeyError) Error() string {
	const most = 8 // a producer may name as many as it likes
	parts := make([]string, 0, most+1)
	for i, name := range e.Names[:min(len(e.Names), most)] {
		parts = append(parts, fmt.Sprintf("key %.100q: %v", name, e.Why[i]))
	}
	if more := len(e.Names) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and so %d more", more))
	}
	return "no private key opens it: " + strings.Join(parts, "; ")
}

// Keys are private keys and the data keys that they opened. Make them with Load. They may be used by several goroutines.
type Keys struct {
	path   string
	folder bool

	mu     sync.Mutex
	opened map[string]attempt // by encrypted data key
}

// attempt is what came of opening a data key. A failure is good for a moment: files may get another key.
type attempt struct {
	aead cipher.AEAD
	err  error
	at   time.Time
}

const (
	maxOpened = 1024        // data keys that are kept: a producer makes a new one every few hours
	tryAgain  = time.Second // after which a failure is looked into again
)

// sealed is a data key as the metadata has it.
type sealed struct {
	name string
	key  []byte
}

// Open appends to dst what a payload was before it was encrypted. meta is the MessageMetadata beside it. A *KeyError says that
// another key is needed; ErrDamaged that none would help.
func (k *Keys) Open(dst, meta, payload []byte) ([]byte, error) {
	keys, nonce, err := parse(meta)
	if err != nil {
		return dst, err
	}
	aead, err := k.dataKey(keys)
	if err != nil {
		return dst, err
	}
	if len(nonce) != aead.NonceSize() {
		return dst, fmt.Errorf("%w: a nonce of %d bytes", ErrDamaged, len(nonce))
	}
	out, err := aead.Open(dst, nonce, payload, nil)
	if err != nil {
		return dst, fmt.Errorf("%w: %d bytes are not what the data key of %.100q encrypted", ErrDamaged, len(payload), keys[0].name)
	}
	return out, nil
}

func parse(meta []byte) (keys []sealed, nonce []byte, err error) {
	r := pbfield.Read(meta)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 13:
			var s sealed
			in := pbfield.Read(f.Bytes)
			for in.Next() {
				switch f := in.Field(); f.Num {
				case 1:
					s.name = string(f.Bytes)
				case 2:
					s.key = f.Bytes
				}
			}
			if in.Err() != nil {
				return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, in.Err())
			}
			keys = append(keys, s)
		case 15:
			nonce = f.Bytes
		}
	}
	switch {
	case r.Err() != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, r.Err())
	case len(keys) == 0:
		return nil, nil, fmt.Errorf("%w: the metadata names no key", ErrDamaged)
	}
	return keys, nonce, nil
}

// dataKey opens the first of keys that can be opened: all are the same data key.
func (k *Keys) dataKey(keys []sealed) (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range keys {
		if a := k.opened[string(s.key)]; a.aead != nil {
			return a.aead, nil
		}
	}
	failed := &KeyError{}
	for _, s := range keys {
		a, known := k.opened[string(s.key)]
		if !known || time.Since(a.at) > tryAgain {
			a.aead, a.err = k.open(s)
			a.at = time.Now()
			if len(k.opened) >= maxOpened {
				clear(k.opened)
			}
			k.opened[string(s.key)] = a
		}
		if a.err == nil {
			return a.aead, nil
		}
		failed.Names, failed.Why = append(failed.Names, s.name), append(failed.Why, a.err)
	}
	return nil, failed
}

func (k *Keys) open(s sealed) (cipher.AEAD, error) {
	file, err := k.file(s.name)
	if err != nil {
		return nil, err
	}
	private, err := read(file)
	if err != nil {
		return nil, err
	}
	for _, key := range private {
		raw, err := rsa.DecryptOAEP(sha1.New(), nil, key, s.key, nil)
		if err != nil {
			continue // another key, or an older one under the same name
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("its data key is none of AES: %d bytes", len(raw))
		}
		return cipher.NewGCM(block)
	}
	return nil, fmt.Errorf("it was encrypted for another key than the %d in %s", len(private), file)
}
