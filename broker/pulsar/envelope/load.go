package envelope

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Load names the private keys of RSA: a file, which is for every name, or a folder of files NAME.pem. A file is PEM, of PKCS 1 or
// PKCS 8, and may hold several keys: older ones under the same name. Files are read when a data key comes that is not known yet, so
// a new key needs no restart. A file, or a folder, without any such key is an error at once.
func Load(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{path: path, folder: info.IsDir(), opened: map[string]attempt{}}
	if !k.folder {
		_, err := read(path)
		return k, err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	failed := errors.New("there is no such file")
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".pem") {
			continue
		}
		_, err := read(filepath.Join(path, f.Name()))
		if err == nil {
			return k, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("no file NAME.pem of %s has a private key: %w", path, failed)
}

// file is where the key of a name is. Names come with messages: none leads out of the folder.
func (k *Keys) file(name string) (string, error) {
	switch {
	case !k.folder:
		return k.path, nil
	case name == "" || strings.ContainsAny(name, "/\\\x00") || !filepath.IsLocal(name):
		return "", fmt.Errorf("no file of %s can have this name", k.path)
	}
	return filepath.Join(k.path, name+".pem"), nil
}

// read gives the private keys of a file, one at least.
func read(file string) (keys []*rsa.PrivateKey, err error) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	others := errors.New("it has no private key in PEM")
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := parseKey(block)
		if err != nil {
			others = err
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: %w", file, others)
	}
	return keys, nil
}

// errCurve is about a key that Pulsar's Java client, alone of all, encrypts for too (ECIES, as Bouncy Castle has it).
var errCurve = errors.New("a key of elliptic curves: only those of RSA are read; a producer can encrypt for one of these as well")

// parseKey never says what is in the block: errors are shown.
func parseKey(block *pem.Block) (*rsa.PrivateKey, error) {
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return nil, errors.New("a key that a password protects: store it without, `openssl pkey` does it")
	case block.Type == "EC PRIVATE KEY":
		return nil, errCurve
	case block.Type == "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("a key of RSA that cannot be read")
		}
		return key, nil
	case block.Type != "PRIVATE KEY":
		return nil, fmt.Errorf("a %.40q, not a private key", block.Type)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("a private key that cannot be read")
	}
	switch key := any.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey, *ecdh.PrivateKey:
		return nil, errCurve
	}
	return nil, fmt.Errorf("a key for signatures (%T): only keys of RSA are read", any)
}
