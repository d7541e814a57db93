package scram

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	maxFile = 1 << 20
	maxOpen = 1000 // users whose password is in clear: each costs milliseconds when the file is read
)

// Users are the credentials of all who may log in.
type Users struct {
	secret []byte // makes the salts of those who are not there
	byName map[Mechanism]map[string]Credential
	others func(Mechanism, string) (Credential, bool) // nil: there are no others
}

// With gives these users and, for names that none of them has, those that others finds.
func (u *Users) With(others func(Mechanism, string) (Credential, bool)) *Users {
	with := *u
	with.others = others
	return &with
}

// Has says whether a name has a credential of its own, of any mechanism; others are not asked.
func (u *Users) Has(name string) bool {
	for _, m := range Mechanisms() {
		if _, ok := u.byName[m][name]; ok {
			return true
		}
	}
	return false
}

// Each gives every credential, in no order, without those of others.
func (u *Users) Each(f func(name string, c Credential)) {
	for _, creds := range u.byName {
		for name, c := range creds {
			f(name, c)
		}
	}
}

// ReadUsers reads a file of users that others cannot read. A line is NAME:PASSWORD, or NAME: and a credential as
// Credential.String gives it, one line for each mechanism; empty lines and those that begin with # are skipped.
// A password in clear is good for every mechanism. secret is any text that stays while the process runs: the same
// one gives the same salts when the file is read again.
func ReadUsers(path string, secret []byte) (*Users, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	const others fs.FileMode = 0o027 // read by the group is how containers are given secrets
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&others != 0 {
		return nil, fmt.Errorf("read users: %s has mode %s: others than its owner may read or change it; chmod 600 it", path, mode)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("read users: %s is larger than %d bytes", path, maxFile)
	}
	u, err := parseUsers(raw, secret)
	if err != nil {
		return nil, fmt.Errorf("read users of %s: %w", path, err)
	}
	return u, nil
}

func parseUsers(raw, secret []byte) (*Users, error) {
	u := &Users{secret: secret, byName: map[Mechanism]map[string]Credential{}}
	for _, m := range Mechanisms() {
		u.byName[m] = map[string]Credential{}
	}
	open, any := 0, false
	in := bufio.NewScanner(bytes.NewReader(raw))
	in.Buffer(nil, maxFile+1)
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		if !ok || name == "" || rest == "" || strings.ContainsRune(line, 0) {
			return nil, fmt.Errorf("line %d: want NAME:PASSWORD", n)
		}
		creds, clear, err := u.read(name, rest)
		if err != nil {
			return nil, fmt.Errorf("line %d, user %q: %w", n, name, err)
		}
		if clear {
			if open++; open > maxOpen {
				return nil, fmt.Errorf("line %d: more than %d passwords in clear: salt them with `ledgerlake user`", n, maxOpen)
			}
		}
		for _, c := range creds {
			if _, twice := u.byName[c.Mechanism][name]; twice {
				return nil, fmt.Errorf("line %d: user %q has two passwords for %s", n, name, c.Mechanism)
			}
			u.byName[c.Mechanism][name], any = c, true
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if !any {
		return nil, errors.New("it names no user: nobody could log in")
	}
	return u, nil
}

func (u *Users) read(name, rest string) (creds []Credential, clear bool, err error) {
	if strings.HasPrefix(rest, "SCRAM-") {
		c, err := ParseCredential(rest)
		return []Credential{c}, false, err
	}
	for _, m := range Mechanisms() {
		c, err := NewCredential(m, rest, u.salt(m, name), Iterations)
		if err != nil {
			return nil, true, err
		}
		creds = append(creds, c)
	}
	return creds, true, nil
}

func (u *Users) salt(m Mechanism, name string) []byte {
	return m.mac(u.secret, string(m)+" "+name)[:saltBytes]
}

// lookup gives a user's credential, and for one who is not there one that nobody's password fits.
func (u *Users) lookup(m Mechanism, name string) (Credential, bool) {
	if c, ok := u.byName[m][name]; ok {
		return c, true
	}
	if u.others != nil && !u.Has(name) {
		if c, ok := u.others(m, name); ok {
			return c, true
		}
	}
	size := m.hash()().Size()
	return Credential{Mechanism: m, Salt: u.salt(m, name), Iterations: Iterations, StoredKey: make([]byte, size), ServerKey: make([]byte, size)}, false
}

// CheckPlain reads the message of the mechanism PLAIN and gives the user who logged in with it.
func (u *Users) CheckPlain(in []byte) (string, error) {
	name, password, err := splitPlain(in)
	if err != nil {
		return "", err
	}
	c, ok := u.lookup(SHA512, name)
	if other, found := u.lookup(SHA256, name); !ok && found {
		c, ok = other, true // else the hash of one who is not there takes as long as that of one who is
	}
	if !c.matches(password) || !ok {
		return "", ErrAuth
	}
	return name, nil
}

// Salted gives the lines for a file of users, one for each mechanism, with salts of their own.
func Salted(name, password string) (string, error) {
	if name == "" || password == "" || strings.ContainsAny(name, ":\n\r\x00") || name[0] == '#' {
		return "", errors.New("want a name without colons, line ends and # at its start, and a password")
	}
	var out strings.Builder
	for _, m := range Mechanisms() {
		salt := make([]byte, saltBytes)
		_, _ = rand.Read(salt) // never fails
		c, err := NewCredential(m, password, salt, Iterations)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s:%s\n", name, c)
	}
	return out.String(), nil
}
