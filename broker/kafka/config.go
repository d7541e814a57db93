package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// SASL are the credentials of a client. An empty Mechanism means no authentication.
type SASL struct {
	Mechanism string // Plain, ScramSHA256 or ScramSHA512
	User      string
	Password  string
}

// Config says how to reach a Kafka.
type Config struct {
	Brokers  []string // host:port to start from; the others are discovered
	ClientID string   // shown in the brokers' logs and quotas; default "ledgerlake"
	TLS      *tls.Config
	SASL     SASL

	DialTimeout     time.Duration // default 10 s
	RequestTimeout  time.Duration // of one request, beyond the time that it asks the broker to wait; default 30 s
	RetryTimeout    time.Duration // how long faults that may pass are retried; default 30 s
	MetadataMaxAge  time.Duration // leaders and partitions are asked for again after this; default 1 min
	FetchClients    int           // concurrent Fetch calls; more wait their turn; default 8
	MaxFetchBytes   int           // most that one request asks for when the caller sets no limit; default 64 MiB
	MaxBatchBytes   int           // largest single batch that is taken; default 256 MiB
	Logger          *slog.Logger  // default: silent
	unknownGraceFor time.Duration // tests: see unknownGrace
}

// unknownGrace is how long a topic that was there a moment ago may be unknown before we believe it: a broker
// that just started does not know the topics yet.
const unknownGrace = 3 * time.Second

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.DialTimeout, 10*time.Second)
	def(&c.RequestTimeout, 30*time.Second)
	def(&c.RetryTimeout, 30*time.Second)
	def(&c.MetadataMaxAge, time.Minute)
	def(&c.unknownGraceFor, unknownGrace)
	if c.ClientID == "" {
		c.ClientID = "ledgerlake"
	}
	if c.FetchClients == 0 {
		c.FetchClients = 8
	}
	if c.MaxFetchBytes == 0 {
		c.MaxFetchBytes = 64 << 20
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 256 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("kafka: no brokers; give at least one host:port")
	}
	for _, d := range []time.Duration{c.DialTimeout, c.RequestTimeout, c.RetryTimeout, c.MetadataMaxAge} {
		if d < 0 {
			return fmt.Errorf("kafka: negative timeout %s", d)
		}
	}
	const most = math.MaxInt32 - 1<<20
	if c.FetchClients < 0 || c.MaxFetchBytes < 0 || c.MaxFetchBytes > most || c.MaxBatchBytes < 0 || c.MaxBatchBytes > most {
		return fmt.Errorf("kafka: limits must lie between 0 and %d", most)
	}
	_, err := c.SASL.mechanism()
	return err
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism != "" && s.User == "" {
		return nil, fmt.Errorf("kafka: SASL mechanism %s needs a user", s.Mechanism)
	}
	switch s.Mechanism {
	case "":
		return nil, nil
	case Plain:
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case ScramSHA256:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: SASL mechanism %q is not one of %s, %s, %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512)
}

// leastRead is the smallest bound on an answer that the client library takes.
const leastRead = 64 << 20

// clientOpts checks the settings and turns them into the client library's.
func (c Config) clientOpts() ([]kgo.Opt, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(c.DialTimeout),
		kgo.RequestTimeoutOverhead(c.RequestTimeout),
		kgo.RetryTimeout(c.RetryTimeout),
		kgo.MetadataMaxAge(c.MetadataMaxAge),
		kgo.MetadataMinAge(min(c.MetadataMaxAge, 100*time.Millisecond)),
		kgo.BrokerMaxReadBytes(int32(max(c.MaxFetchBytes, c.MaxBatchBytes, leastRead) + 1<<20)),
		kgo.DisableClientMetrics(),
	}
	if c.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.TLS.Clone()))
	}
	m, err := c.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// newClient makes a client that lives as long as ctx; it dials on first use.
func (c Config) newClient(ctx context.Context, extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.clientOpts()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(append(opts, kgo.WithContext(ctx)), extra...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return cl, nil
}
