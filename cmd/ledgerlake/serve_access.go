package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/reload"
	"github.com/ledgerlake/ledgerlake/internal/scram"
)

// accessHelp is the part of serve's help that is about who may connect.
const accessHelp = `Who may connect to the Kafka port: without flags everybody who reaches it, so keep it on loopback or a network
that you trust. With --kafka-tls-cert and --kafka-tls-key it speaks TLS (1.2 or newer) only; --kafka-tls-client-ca
asks clients for a certificate of that authority. With --kafka-users clients log in by SASL (SCRAM-SHA-512,
SCRAM-SHA-256 or PLAIN). The file has a line NAME:PASSWORD for each user, or the salted lines that
` + "`ledgerlake user NAME`" + ` prints, and nobody but its owner (and the group, for reading) may read it. PLAIN
shows the password to whoever sees the network: beyond loopback it is offered with TLS only, or with --insecure.
Certificates and users are read again when their files change; who is connected stays connected, at most for
--kafka-session where that is set.

What they may do there: everything, unless --kafka-acls is given. With deny (what no access rule allows is refused) or
allow (what no rule speaks of is everybody's) Kafka's access rules decide for every request; kafka-acls and other
admin clients make them, and the first ones are made by those whom --kafka-super-users names, like User:ann. Who
has shown nothing is User:ANONYMOUS; who came by certificate is named by its subject. The page and Arrow Flight
know no log-in and no rules.

Commands that are given --dir know from it what the port asks for; --sasl-user, --sasl-password and --tls-ca
answer it.`

// accessFlags say who may connect to the Kafka port.
type accessFlags struct {
	cert, key, clientCA, users string
	mechanisms                 []string
	session, timeout           time.Duration
	insecure                   bool
	acls                       string
	superUsers                 []string
}

func (a *accessFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.cert, "kafka-tls-cert", "", "PEM file with the certificate of the Kafka port; read again when it changes")
	f.StringVar(&a.key, "kafka-tls-key", "", "PEM file with its key")
	f.StringVar(&a.clientCA, "kafka-tls-client-ca", "", "PEM file with the authority of the certificates that clients must show")
	f.StringVar(&a.users, "kafka-users", "", "file of the users that may log in by SASL, NAME:PASSWORD or what 'ledgerlake user' prints; read again when it changes")
	f.StringSliceVar(&a.mechanisms, "kafka-sasl-mechanisms", nil, "SASL mechanisms to offer (default: PLAIN where it is safe, SCRAM-SHA-256, SCRAM-SHA-512)")
	f.DurationVar(&a.session, "kafka-session", 0, "a log-in is good for so long, then clients log in again; 0: as long as they are connected")
	f.DurationVar(&a.timeout, "kafka-login-timeout", 10*time.Second, "how long TLS handshake and log-in may take")
	f.StringVar(&a.acls, "kafka-acls", "off", "access rules of the Kafka port: off, deny (refuse what no rule allows) or allow (give what no rule speaks of)")
	f.StringArrayVar(&a.superUsers, "kafka-super-users", nil, "a principal that may do everything, like User:ann or User:CN=ann; may be repeated")
	f.BoolVar(&a.insecure, "insecure", false, "offer PLAIN without TLS beyond loopback: passwords can be seen on the network")
}

// access is what became of the flags.
type access struct {
	tls              *tls.Config
	users            func() *scram.Users
	mechanisms       []string
	session, timeout time.Duration
	rules            wire.Access
}

// set puts it into the settings of the Kafka port.
func (a access) set(c *wire.Config) {
	c.TLS, c.Users, c.Mechanisms, c.SessionLifetime, c.AuthTimeout = a.tls, a.users, a.mechanisms, a.session, a.timeout
	c.Access = a.rules
}

func (a *accessFlags) open(listen string, lg *slog.Logger) (access, error) {
	out := access{session: a.session, timeout: a.timeout}
	var err error
	if a.timeout <= 0 || a.session < 0 {
		return out, errors.New("--kafka-login-timeout must be more than 0 and --kafka-session not less")
	}
	if out.rules, err = a.openRules(); err != nil {
		return out, err
	}
	if out.tls, err = a.openTLS(lg); err != nil {
		return out, err
	}
	if a.users == "" {
		if len(a.mechanisms) > 0 || a.session > 0 {
			return out, errors.New("--kafka-sasl-mechanisms and --kafka-session need --kafka-users")
		}
		if !loopback(listen) && a.clientCA == "" && !out.rules.Enforce {
			lg.Warn("everybody who reaches the Kafka port may do everything: see --kafka-users and --kafka-tls-client-ca", "listen", listen)
		}
		return out, nil
	}
	if out.mechanisms, err = a.offered(listen, out.tls != nil, lg); err != nil {
		return out, err
	}
	secret := []byte(rand.Text())
	users, err := reload.New(lg, func() (*scram.Users, error) { return scram.ReadUsers(a.users, secret) }, a.users)
	if err != nil {
		return out, fmt.Errorf("--kafka-users: %w", err)
	}
	out.users = users.Get
	return out, nil
}

// offered leaves PLAIN out where the password could be seen.
func (a *accessFlags) offered(listen string, secure bool, lg *slog.Logger) ([]string, error) {
	const plain = "PLAIN"
	hidden := secure || a.insecure || loopback(listen)
	if len(a.mechanisms) > 0 {
		if slices.Contains(a.mechanisms, plain) && !hidden {
			return nil, fmt.Errorf("PLAIN without TLS shows passwords to the network of %s: give --kafka-tls-cert and --kafka-tls-key, offer SCRAM alone, or say --insecure", listen)
		}
		return a.mechanisms, nil
	}
	out := []string{string(scram.SHA256), string(scram.SHA512)}
	if !hidden {
		lg.Warn("PLAIN is not offered: it needs TLS beyond loopback", "listen", listen)
		return out, nil
	}
	return append([]string{plain}, out...), nil
}

func (a *accessFlags) openTLS(lg *slog.Logger) (*tls.Config, error) {
	if a.cert == "" && a.key == "" && a.clientCA == "" {
		return nil, nil
	}
	if a.cert == "" || a.key == "" {
		return nil, errors.New("--kafka-tls-cert and --kafka-tls-key go together, and --kafka-tls-client-ca needs both")
	}
	files := []string{a.cert, a.key}
	if a.clientCA != "" {
		files = append(files, a.clientCA)
	}
	v, err := reload.New(lg, a.loadTLS, files...)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return v.Get(), nil }}, nil
}

func (a *accessFlags) loadTLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		return nil, fmt.Errorf("read --kafka-tls-cert and --kafka-tls-key: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if a.clientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if c.ClientCAs, err = readPool("--kafka-tls-client-ca", a.clientCA); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// readPool reads the authorities of a PEM file that a flag names.
func readPool(flag, name string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read %s: no certificate in %s", flag, name)
	}
	return pool, nil
}

// openRules reads the flags of the access rules.
func (a *accessFlags) openRules() (wire.Access, error) {
	switch a.acls {
	case "", "off":
		if len(a.superUsers) > 0 {
			return wire.Access{}, errors.New("--kafka-super-users needs --kafka-acls deny or allow")
		}
		return wire.Access{}, nil
	case "deny", "allow":
	default:
		return wire.Access{}, fmt.Errorf("--kafka-acls %q is not off, deny or allow", a.acls)
	}
	if a.acls == "deny" && len(a.superUsers) == 0 {
		return wire.Access{}, errors.New("--kafka-acls deny without --kafka-super-users: nobody could make a rule")
	}
	return wire.Access{Enforce: true, Open: a.acls == "allow", SuperUsers: a.superUsers}, nil
}
