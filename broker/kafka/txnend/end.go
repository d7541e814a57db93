// Package txnend ends transactions of franz-go's client, so that a commit without an error is a commit.
//
// The client (kgo, seen in 1.22.3) gives the first records of a topic to their partitions before it stores that the
// topic has these partitions, and both are seen by who ends the transaction in between: the records are acknowledged,
// but no stored partition has any, so EndTransaction sends nothing and returns nil. The transaction stays open, and
// its records are the next one's, or nobody's. Where the transaction needs no AddPartitionsToTxn (KIP-890) it is aborted instead.
package txnend

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// End ends the transaction that cl is in, as EndTransaction does, when cl knows the topics that it sent records to.
// Each of them has a record that was acknowledged. What is still buffered is as with EndTransaction: flush first.
func End(ctx context.Context, cl *kgo.Client, try kgo.TransactionEndTry, topics ...string) error {
	for _, topic := range topics {
		if err := Known(ctx, cl, topic); err != nil {
			return fmt.Errorf("wait for the partitions of %s to be known: %w", topic, err)
		}
	}
	return cl.EndTransaction(ctx, try)
}

// Known waits until a topic's partitions are stored, which all are at once; for who ends in another way than by End.
// There is nothing that would tell, and where a record of the topic was acknowledged it is a matter of microseconds.
func Known(ctx context.Context, cl *kgo.Client, topic string) error {
	const notYet = -1 // a partition that has no leader has another one
	for {
		if leader, _, _ := cl.PartitionLeader(topic, 0); leader != notYet {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
