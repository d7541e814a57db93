package pulsar

import (
	"context"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// Feed is where the entries of topics come from: a living Pulsar, or the ledgers that one has offloaded. A Source on
// top of either counts alike, so a message has one offset wherever it is read from (I2).
type Feed interface {
	// Partitions gives how many partitions a topic (persistent://tenant/namespace/topic) has; 0: it has none, or is not there.
	Partitions(ctx context.Context, topic string) (int, error)
	// Topics gives those of a namespace whose name matches a regular expression; empty: all. Partitions count as topics.
	Topics(ctx context.Context, namespace, pattern string) ([]string, error)
	// Open begins to read the topic of one partition at an entry, or the first one behind it. Earliest: the oldest
	// that is left. onNews is told that something came, and must not wait; nil: nobody.
	Open(ctx context.Context, topic string, start MessageID, onNews func()) (Entries, error)
	// Gapless says that nothing can be missing between two entries that come one after the other. Else that is looked
	// into at each change of ledger.
	Gapless() bool
	Close()
}

// Entries are those of one partition, in their order, as consumers may see them. It is for one goroutine.
type Entries interface {
	// TryReceive gives the next entry if it can be had now.
	TryReceive() (wire.Delivery, bool, error)
	// Receive waits for it. Where nothing will ever come, it returns context.DeadlineExceeded at once.
	Receive(ctx context.Context) (wire.Delivery, error)
	// Queued is how many are here already: they were sent before anything that is asked now.
	Queued() int
	// Last is the last message that there is now; false when there is none.
	Last(ctx context.Context) (MessageID, bool, error)
	Close()
}

// living is a Pulsar that answers.
type living struct{ *wire.Client }

func (living) Gapless() bool { return false }

func (l living) Open(ctx context.Context, topic string, start MessageID, onNews func()) (Entries, error) {
	k, err := l.Subscribe(ctx, wire.Subscription{Topic: topic, Name: readerName(), Start: start, OnNews: onNews})
	if err != nil {
		return nil, err // never a nil *wire.Consumer that looks like something
	}
	return k, nil
}
