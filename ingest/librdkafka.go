package ingest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
)

// Client is what settings in the names of librdkafka say about the connection to a Kafka. The zero value says nothing.
type Client struct {
	SessionTimeout time.Duration // of the consumer group; 0: not said
	InstanceID     string        // static membership
	OffsetReset    string        // earliest or latest; empty: not said

	kafka                   kafka.Config
	tls, sasl, insecure     bool
	noNames                 bool // the name in the broker's certificate is not checked
	ca, cert, key           []byte
	caFile, certFile, kFile string
}

// Set takes one NAME=VALUE. A setting that means nothing here is refused with what to do instead: librdkafka would not
// have ignored it either.
func (c *Client) Set(setting string) error {
	name, value, ok := strings.Cut(setting, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" {
		return fmt.Errorf("kafka setting %q: want NAME=VALUE", setting)
	}
	set, known := settings[name]
	if !known {
		return fmt.Errorf("kafka setting %s has no counterpart here: %s", name, remedy(name))
	}
	if err := set(c, value); err != nil {
		return fmt.Errorf("kafka setting %s=%s: %w", name, value, err)
	}
	return nil
}

// remedy says what to do about a setting that is not taken.
func remedy(name string) string {
	for prefix, text := range map[string]string{
		"queued.": "memory is bounded by --memory", "fetch.": "fetches follow --memory; leave it out", "sasl.kerberos.": "Kerberos is not supported; use SCRAM or PLAIN",
		"sasl.oauthbearer.": "OAUTHBEARER is not supported; use SCRAM or PLAIN", "ssl.keystore.": "give the key as PEM with ssl.key.location",
		"statistics.": "see --http-listen for metrics", "debug": "see --log-level", "log": "see --log-level", "max.poll.": "a slow table never leaves the group; leave it out",
	} {
		if strings.HasPrefix(name, prefix) {
			return text
		}
	}
	return "leave it out; those that are taken are " + strings.Join(slices.Sorted(maps.Keys(settings)), ", ")
}

// settings are the names of librdkafka's CONFIGURATION.md that mean something here.
var settings = map[string]func(c *Client, v string) error{
	"client.id":                           func(c *Client, v string) error { c.kafka.ClientID = v; return nil },
	"security.protocol":                   (*Client).protocol,
	"sasl.mechanism":                      (*Client).mechanism,
	"sasl.mechanisms":                     (*Client).mechanism,
	"sasl.username":                       func(c *Client, v string) error { c.kafka.SASL.User = v; return nil },
	"sasl.password":                       func(c *Client, v string) error { c.kafka.SASL.Password = v; return nil },
	"ssl.ca.location":                     func(c *Client, v string) error { c.caFile = v; return nil },
	"ssl.certificate.location":            func(c *Client, v string) error { c.certFile = v; return nil },
	"ssl.key.location":                    func(c *Client, v string) error { c.kFile = v; return nil },
	"ssl.ca.pem":                          func(c *Client, v string) error { c.ca = []byte(v); return nil },
	"ssl.certificate.pem":                 func(c *Client, v string) error { c.cert = []byte(v); return nil },
	"ssl.key.pem":                         func(c *Client, v string) error { c.key = []byte(v); return nil },
	"enable.ssl.certificate.verification": func(c *Client, v string) error { return boolean(v, &c.insecure, false) },
	"ssl.endpoint.identification.algorithm": func(c *Client, v string) error {
		return oneOf(v, map[string]func(){"https": func() { c.noNames = false }, "none": func() { c.noNames = true }})
	},
	"session.timeout.ms":                 func(c *Client, v string) error { return millis(v, &c.SessionTimeout) },
	"group.instance.id":                  func(c *Client, v string) error { c.InstanceID = v; return nil },
	"socket.timeout.ms":                  func(c *Client, v string) error { return millis(v, &c.kafka.RequestTimeout) },
	"socket.connection.setup.timeout.ms": func(c *Client, v string) error { return millis(v, &c.kafka.DialTimeout) },
	"metadata.max.age.ms":                func(c *Client, v string) error { return millis(v, &c.kafka.MetadataMaxAge) },
	"topic.metadata.refresh.interval.ms": func(c *Client, v string) error { return millis(v, &c.kafka.MetadataMaxAge) },
	"fetch.max.bytes":                    func(c *Client, v string) error { return size(v, &c.kafka.MaxFetchBytes) },
	"receive.message.max.bytes":          func(c *Client, v string) error { return size(v, &c.kafka.MaxBatchBytes) },
	"auto.offset.reset":                  (*Client).reset,
	"isolation.level":                    only("read_committed", "records of aborted transactions are never rows"),
	"enable.auto.commit":                 only("false", "positions are in the table"),
	"enable.auto.offset.store":           only("false", "positions are in the table"),
	"partition.assignment.strategy":      only("cooperative-sticky", "it is how partitions are shared here; stop all kafka-delta-ingest members of the group first"),
	"socket.keepalive.enable":            only("true", "connections are always kept alive"),
	"check.crcs":                         only("true", "checksums are always checked"),
	"allow.auto.create.topics":           only("false", "a topic that is read is never made"),
	"group.id":                           func(*Client, string) error { return errors.New("the group is named by --consumer_group") },
	"bootstrap.servers":                  func(*Client, string) error { return errors.New("the brokers are named by --kafka") },
	"metadata.broker.list":               func(*Client, string) error { return errors.New("the brokers are named by --kafka") },
}

func only(want, why string) func(*Client, string) error {
	return func(_ *Client, v string) error {
		if !strings.EqualFold(v, want) {
			return fmt.Errorf("only %s is possible: %s", want, why)
		}
		return nil
	}
}

func oneOf(v string, values map[string]func()) error {
	f, ok := values[strings.ToLower(v)]
	if !ok {
		return fmt.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	f()
	return nil
}

// boolean sets b to whether v is the given value.
func boolean(v string, b *bool, is bool) error {
	return oneOf(v, map[string]func(){"true": func() { *b = is }, "false": func() { *b = !is }})
}

func millis(v string, d *time.Duration) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > int64(24*time.Hour/time.Millisecond) {
		return errors.New("want milliseconds, from 1 to a day")
	}
	*d = time.Duration(n) * time.Millisecond
	return nil
}

func size(v string, n *int) error {
	x, err := strconv.ParseInt(v, 10, 32)
	if err != nil || x < 1 {
		return errors.New("want bytes, above 0")
	}
	*n = int(x)
	return nil
}

func (c *Client) protocol(v string) error {
	set := func(tls, sasl bool) func() { return func() { c.tls, c.sasl = tls, sasl } }
	return oneOf(v, map[string]func(){"plaintext": set(false, false), "ssl": set(true, false), "sasl_plaintext": set(false, true), "sasl_ssl": set(true, true)})
}

func (c *Client) mechanism(v string) error {
	v = strings.ToUpper(v)
	if !slices.Contains([]string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512}, v) {
		return fmt.Errorf("want %s, %s or %s", kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512)
	}
	c.kafka.SASL.Mechanism = v
	return nil
}

func (c *Client) reset(v string) (err error) {
	c.OffsetReset, err = ParseReset(v)
	return err
}

// ParseReset reads where to begin without a recorded position: earliest or latest, or their old names.
func ParseReset(v string) (string, error) {
	switch strings.ToLower(v) {
	case "earliest", "smallest", "beginning":
		return "earliest", nil
	case "latest", "largest", "end":
		return "latest", nil
	}
	return "", fmt.Errorf("%q is not earliest or latest", v)
}

// Environment takes the secrets that kafka-delta-ingest reads from its environment. Settings win over it.
func (c *Client) Environment(lookup func(string) (string, bool)) error {
	for name, field := range map[string]*[]byte{"KAFKA_DELTA_INGEST_CA": &c.ca, "KAFKA_DELTA_INGEST_CERT": &c.cert, "KAFKA_DELTA_INGEST_KEY": &c.key} {
		if v, ok := lookup(name); ok && *field == nil {
			*field = []byte(v)
		}
	}
	raw, ok := lookup("KAFKA_DELTA_INGEST_SCRAM_JSON")
	if !ok {
		return nil
	}
	var secret struct{ Username, Password string }
	if json.Unmarshal([]byte(raw), &secret) != nil || secret.Username == "" { // the error would show a part of the secret
		return errors.New(`KAFKA_DELTA_INGEST_SCRAM_JSON: want {"username": ..., "password": ...}`)
	}
	if c.kafka.SASL.User == "" {
		c.kafka.SASL.User, c.kafka.SASL.Password = secret.Username, secret.Password
	}
	return nil
}

// Apply adds what was said to a configuration.
func (c *Client) Apply(cfg *kafka.Config) error {
	k := &c.kafka
	if k.ClientID != "" {
		cfg.ClientID = k.ClientID
	}
	for _, d := range []struct{ to, from *time.Duration }{{&cfg.RequestTimeout, &k.RequestTimeout}, {&cfg.DialTimeout, &k.DialTimeout}, {&cfg.MetadataMaxAge, &k.MetadataMaxAge}} {
		if *d.from != 0 {
			*d.to = *d.from
		}
	}
	if k.MaxFetchBytes != 0 {
		cfg.MaxFetchBytes = k.MaxFetchBytes
	}
	if k.MaxBatchBytes != 0 {
		cfg.MaxBatchBytes = k.MaxBatchBytes
	}
	if err := c.applySASL(cfg); err != nil {
		return err
	}
	return c.applyTLS(cfg)
}

func (c *Client) applySASL(cfg *kafka.Config) error {
	s := c.kafka.SASL
	switch {
	case s == kafka.SASL{} && !c.sasl:
		return nil
	case !c.sasl:
		return errors.New("kafka settings with a user or a mechanism need security.protocol=sasl_ssl or sasl_plaintext")
	case s.User == "":
		return errors.New("security.protocol asks for a log-in: give sasl.username and sasl.password, or KAFKA_DELTA_INGEST_SCRAM_JSON")
	case s.Mechanism == "":
		return errors.New("security.protocol asks for a log-in: give sasl.mechanisms (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512)")
	}
	cfg.SASL = s
	return nil
}

func (c *Client) applyTLS(cfg *kafka.Config) error {
	given := c.ca != nil || c.cert != nil || c.key != nil || c.caFile != "" || c.certFile != "" || c.kFile != "" || c.insecure || c.noNames
	if !c.tls {
		if given {
			return errors.New("kafka settings about certificates need security.protocol=ssl or sasl_ssl")
		}
		return nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.insecure || c.noNames} //nolint:gosec // asked for by name
	for _, f := range []struct {
		pem  *[]byte
		file string
	}{{&c.ca, c.caFile}, {&c.cert, c.certFile}, {&c.key, c.kFile}} {
		if f.file == "" {
			continue
		}
		raw, err := os.ReadFile(f.file)
		if err != nil {
			return fmt.Errorf("kafka setting: %w", err)
		}
		*f.pem = raw
	}
	if c.ca != nil {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(c.ca) {
			return errors.New("the authority of the broker's certificate is not PEM")
		}
	}
	if (c.cert == nil) != (c.key == nil) {
		return errors.New("a certificate of ours and its key go together")
	}
	if c.cert != nil {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return fmt.Errorf("our certificate and key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if c.noNames && !c.insecure { // the chain is checked, the name in it is not
		roots := t.RootCAs
		t.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(opts)
			return err
		}
	}
	cfg.TLS = t
	return nil
}
