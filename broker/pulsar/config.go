package pulsar

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/envelope"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// Config says how to reach a Pulsar and what is known of its topics.
type Config struct {
	Service string      // host:port of brokers or proxies, with commas between
	TLS     *tls.Config // nil: plain text
	Auth    wire.Auth
	Admin   string // http://host:port of the admin API; only SealedOnly needs it

	// Keys decrypt messages; nil: they are kept as they are, with what is needed to decrypt them. A message that none of them
	// opens is an error (broker.ErrGiveUp); with KeepUndecryptable it is kept as well.
	Keys              *envelope.Keys
	KeepUndecryptable bool

	Index        Index  // nil: nothing has an offset yet
	Subscription string // durable subscription of Hold; empty: nothing is held
	// SealedOnly gives messages of ledgers that are closed, so that a ledger is tiered as a whole.
	SealedOnly bool

	// NoOrigin leaves record.Origin out of the headers: records are then as the history of a table gives them.
	NoOrigin bool

	Window          int           // bytes that the broker may send ahead of each stream; default 4 MiB
	BatchBytes      int           // records are put into batches of this size; default 256 KiB
	MaxMessageBytes int           // largest message, put together of chunks and decompressed; default 256 MiB
	Timeout         time.Duration // of one request; default 30 s
	RetryTimeout    time.Duration // how long faults that may pass are retried; default 30 s
	Logger          *slog.Logger  // default: silent
}

// MessageID is the place of a message in its partition.
type MessageID = wire.MessageID

// Place is a message that has an offset.
type Place struct {
	Offset record.Offset
	ID     MessageID
	First  MessageID // of a message in chunks: its first one; else as ID
	Index  int64     // the broker's running index; -1: unknown
	// Lost says that Offset is the last of a run of offsets whose messages are gone: the oldest message that is left
	// comes behind it. The other fields say nothing then.
	Lost bool
}

// Index knows what has an offset already: a table.
type Index interface {
	// Before gives the last place of a partition below an offset; false when there is none.
	Before(ctx context.Context, tp record.TopicPartition, limit record.Offset) (Place, bool, error)
	// End gives the first offset that the table does not have; false when it has nothing of the partition.
	End(ctx context.Context, tp record.TopicPartition) (record.Offset, bool, error)
}

func (c Config) withDefaults() Config {
	if c.Window == 0 {
		c.Window = 4 << 20
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 256 << 10
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = 256 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Service == "" {
		return errors.New("pulsar: no service address; give host:port")
	}
	if c.Window < 0 || c.BatchBytes < 0 || c.MaxMessageBytes < 0 || c.Timeout < 0 || c.RetryTimeout < 0 {
		return errors.New("pulsar: a limit is negative")
	}
	if c.SealedOnly && c.Admin == "" {
		return errors.New("pulsar: to read sealed ledgers only, the address of the admin API is needed")
	}
	return nil
}

// ParseTopic gives a topic as this package names it, TENANT/NAMESPACE/TOPIC. A name alone is of public/default.
func ParseTopic(s string) (string, error) {
	s = strings.TrimPrefix(s, "persistent://")
	parts := strings.Split(s, "/")
	if len(parts) == 1 {
		parts = []string{"public", "default", parts[0]}
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" || strings.Contains(s, "://") {
		return "", fmt.Errorf("%q is no topic: want TENANT/NAMESPACE/TOPIC", s)
	}
	return strings.Join(parts, "/"), nil
}
