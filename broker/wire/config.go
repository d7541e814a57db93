package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/scram"
	"github.com/ledgerlake/ledgerlake/record"
)

// History answers for offsets below the log's start, from where the log was tiered to. When it is
// configured, the log start that clients see is History.Start.
type History interface {
	// Fetch gives whole v2 batches from the one that holds from, about maxBytes but at least one batch, and
	// the offset to go on from. Empty batches with next > from mean that [from, next) holds no record.
	Fetch(ctx context.Context, tp record.TopicPartition, from record.Offset, maxBytes int) (batches []byte, next record.Offset, err error)
	// Start is the first offset that the history holds of a partition, false when it holds none.
	Start(ctx context.Context, tp record.TopicPartition) (record.Offset, bool)
	// OffsetForTime gives the first offset in the history whose timestamp is at or after ms.
	OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, bool, error)
}

// Config says what a Server serves and how.
type Config struct {
	Listen    string     // address to listen on, host:port; port 0 takes a free one
	Advertise string     // host:port that clients are told to connect to; default the bound address, and where that is all addresses the one that the client came to
	Log       broker.Log // required without Upstream; not closed by the server
	History   History    // optional
	Upstream  *Upstream  // instead of Log: the server is a gateway
	ClusterID string     // default "ledgerlake"
	NodeID    int32

	AutoCreateTopics  bool  // Metadata makes unknown topics when the client allows it
	DefaultPartitions int32 // of topics made without a count; default 1
	AnyReplication    bool  // a topic may ask for any number of replicas; it has one all the same

	MaxRequestBytes       int           // largest frame; default 100 MiB, or a quarter of MemoryBudget. Requests other than Produce: at most 4 MiB, or 1/256 of MemoryBudget
	MemoryBudget          int64         // bytes of requests, answers, groups and positions together; default 1 GiB, or 8 times MaxRequestBytes if that is more
	MaxFetchBytes         int           // largest Fetch answer, whatever the client asks for; default 64 MiB
	MaxConnections        int           // default 4096; one more is closed at once
	IdleTimeout           time.Duration // a connection without requests is closed after it; default 10 min
	IOTimeout             time.Duration // a peer must take or give 1 MiB in this time; default 30 s
	MaxTransactionTimeout time.Duration // longest that a producer may ask for; default 15 min
	GroupJoinDelay        time.Duration // an empty group waits so long for more members; default 200 ms
	ConsumerHeartbeat     time.Duration // members of the newer group protocol are told to send one so often; default 3 s
	ConsumerSession       time.Duration // ... and are removed after this time without one; default 45 s
	OffsetsRetention      time.Duration // positions of a group go so long after its last member or, without members, its last commit; default 7 days, negative: never
	DrainTimeout          time.Duration // Close waits so long for requests in work; default 5 s

	TLS             *tls.Config         // nil: none. At least TLS 1.2 whatever it says; GetConfigForClient may change it while we run
	Users           func() *scram.Users // who may log in by SASL, asked for at each log-in; nil: everyone without. What they may do then Access says
	Mechanisms      []string            // of SASL that are offered: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; default all. PLAIN shows the password to those who see the network
	SessionLifetime time.Duration       // a log-in is good for so long, then it must be done again (KIP-368); default 0: as long as the connection
	AuthTimeout     time.Duration       // for TLS handshake and log-in together; default 10 s
	MaxUnproven     int                 // connections in handshake or log-in; default a quarter of MaxConnections

	Access Access // rules of what those who are connected may do; default: everything

	Logger            *slog.Logger // default: discard
	maxSessionTimeout time.Duration
	minSessionTimeout time.Duration
}

func (c Config) withDefaults() Config {
	def(&c.ClusterID, "ledgerlake")
	def(&c.Listen, "127.0.0.1:9092")
	def(&c.DefaultPartitions, 1)
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = 100 << 20
		if c.MemoryBudget > 0 {
			c.MaxRequestBytes = min(c.MaxRequestBytes, int(c.requestMemory()))
		}
	}
	def(&c.MemoryBudget, max(1<<30, 8*int64(c.MaxRequestBytes)))
	def(&c.MaxFetchBytes, 64<<20)
	def(&c.MaxConnections, 4096)
	def(&c.IdleTimeout, 10*time.Minute)
	def(&c.IOTimeout, 30*time.Second)
	def(&c.GroupJoinDelay, 200*time.Millisecond)
	def(&c.ConsumerHeartbeat, 3*time.Second)
	def(&c.ConsumerSession, 45*time.Second)
	def(&c.MaxTransactionTimeout, 15*time.Minute)
	def(&c.OffsetsRetention, 7*24*time.Hour)
	def(&c.DrainTimeout, 5*time.Second)
	def(&c.AuthTimeout, 10*time.Second)
	def(&c.MaxUnproven, max(1, c.MaxConnections/4))
	if c.Mechanisms == nil {
		c.Mechanisms = []string{mechanismPlain, string(scram.SHA256), string(scram.SHA512)}
	}
	if c.TLS != nil && c.TLS.MinVersion < tls.VersionTLS12 {
		c.TLS = c.TLS.Clone()
		c.TLS.MinVersion = tls.VersionTLS12
	}
	def(&c.maxSessionTimeout, 30*time.Minute)
	def(&c.minSessionTimeout, 100*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (c Config) validate() error {
	switch {
	case c.Log == nil && c.Upstream == nil:
		return errors.New("wire config: Log or Upstream is required")
	case c.DefaultPartitions < 1:
		return fmt.Errorf("wire config: DefaultPartitions is %d, want at least 1", c.DefaultPartitions)
	case c.MaxRequestBytes < 1024:
		return fmt.Errorf("wire config: MaxRequestBytes is %d, want at least 1024", c.MaxRequestBytes)
	case c.requestMemory() < int64(c.MaxRequestBytes):
		return fmt.Errorf("wire config: MemoryBudget is %d, want at least four times MaxRequestBytes %d", c.MemoryBudget, c.MaxRequestBytes)
	case c.MaxConnections < 1:
		return fmt.Errorf("wire config: MaxConnections is %d, want at least 1", c.MaxConnections)
	case c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil:
		return errors.New("wire config: TLS has no certificate")
	case c.Users != nil && len(c.Mechanisms) == 0:
		return errors.New("wire config: Users without Mechanisms: nobody could log in")
	case c.SessionLifetime < 0 || c.AuthTimeout < 0 || c.MaxUnproven < 1:
		return fmt.Errorf("wire config: SessionLifetime %s, AuthTimeout %s and MaxUnproven %d must not be negative", c.SessionLifetime, c.AuthTimeout, c.MaxUnproven)
	case c.NodeID < 0:
		return fmt.Errorf("wire config: NodeID is %d, want 0 or more", c.NodeID)
	}
	if err := errors.Join(c.Access.validate(), c.Upstream.validate(c)); err != nil {
		return err
	}
	for _, m := range c.Mechanisms {
		if m != mechanismPlain && !slices.Contains(scram.Mechanisms(), scram.Mechanism(m)) {
			return fmt.Errorf("wire config: SASL mechanism %q is not one of PLAIN, %s, %s", m, scram.SHA256, scram.SHA512)
		}
	}
	if c.Advertise != "" {
		if _, _, err := splitAddr(c.Advertise); err != nil {
			return fmt.Errorf("wire config: Advertise: %w", err)
		}
	}
	return nil
}

func splitAddr(addr string) (host string, port int32, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port of %q: %w", addr, err)
	}
	return host, int32(n), nil
}
