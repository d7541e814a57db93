package broker

import (
	"context"
	"errors"

	"github.com/ledgerlake/ledgerlake/record"
)

// TxnMarker ends the transaction of a producer in one partition.
type TxnMarker struct {
	ProducerID       int64
	Epoch            int16 // appends with an older epoch get ErrProducerFenced from now on
	Commit           bool  // else abort
	CoordinatorEpoch int32
}

// ProducerState is what a partition knows of one producer.
type ProducerState struct {
	ID               int64
	Epoch            int16
	LastSequence     int32         // -1 before the first batch of the epoch
	LastTimestamp    int64         // ms, of the last append
	CoordinatorEpoch int32         // of the last marker, -1 when there was none
	TxnStart         record.Offset // first offset of the open transaction, -1 when there is none
}

// Transactor is a Log that keeps transactions apart: Append takes transactional batches, Bounds.Stable stays
// below the first offset of every open transaction, and a Fetch with ReadCommitted names the aborted ones.
//
// Which partitions belong to a transaction, and that nothing is appended to one that has ended, is the
// coordinator's affair (the Kafka protocol server), not the Log's.
type Transactor interface {
	Log
	// AppendMarker ends the producer's open transaction in a partition and returns when that is durable and
	// visible. Where there is none it is fencing alone, so a coordinator may repeat itself after a crash.
	// Errors: ErrUnknownTopic, ErrProducerFenced when the partition has seen a newer epoch, ErrStorage.
	AppendMarker(ctx context.Context, tp record.TopicPartition, m TxnMarker) (record.Offset, error)
	// Producers gives what a partition knows of its producers, by id ascending.
	Producers(ctx context.Context, tp record.TopicPartition) ([]ProducerState, error)
}

// ErrTxnState is for a batch that does not fit the producer's transaction: a plain batch of a producer with an
// open one, for instance. INVALID_TXN_STATE
var ErrTxnState = errors.New("the batch does not fit the state of the producer's transaction")

// ErrNoTransactions means that a log has no transactions, or none for this user.
var ErrNoTransactions = errors.New("the log refuses transactions")

// ErrTxnExpired means that a transaction may have been open for longer than its timeout, so that the cluster aborted it:
// nobody need have taken its id over. Another producer of the id begins where the committed records end.
var ErrTxnExpired = errors.New("the transaction was open for longer than its timeout")
