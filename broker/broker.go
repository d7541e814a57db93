// Package broker is the contract between the live log and everything that reads or feeds it.
//
// Three logs implement it: broker/local (embedded, durable), broker/kafka (an external Kafka) and, later,
// broker/pulsar. Data crosses the contract as Kafka v2 record batches, byte for byte as they are stored,
// so that no consumer pays for a conversion that it does not need.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

// Isolation says which records of transactions a fetch may see.
type Isolation int8

// Values as on the Kafka wire (KIP-98).
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// Bounds are the moving marks of one partition. Start <= Stable <= End.
type Bounds struct {
	Start  record.Offset // log start: the first offset that the log still holds
	Stable record.Offset // last stable offset (LSO): first offset of the oldest open transaction, else End
	End    record.Offset // high watermark (HW): the first offset that is not yet acknowledged
}

// AbortedTxn is record's: an alias, so that sources need not say the package twice.
type AbortedTxn = record.AbortedTxn

// FetchRange asks for batches of one partition.
type FetchRange struct {
	TP record.TopicPartition
	// ID is that of the topic that is meant, where the caller knows it: a topic that was made again under the name is
	// ErrUnknownTopic. Zeros mean any. A source that notices such topics by itself, or cannot, does not look at it.
	ID       [16]byte
	From     record.Offset
	MaxBytes int // soft limit: the first batch comes whole even if it is larger (KIP-74)
}

// FetchOptions hold for all ranges of one Fetch.
type FetchOptions struct {
	MinBytes  int           // wait until so many bytes are there in all ranges together ...
	MaxWait   time.Duration // ... or so much time has passed; zero never waits
	MaxBytes  int           // soft limit over all ranges; zero means no limit
	Isolation Isolation
	InFiles   bool // large answers may come as Fetched.File, for who sends them on as they are. A source may give Batches all the same
}

// Fetched is the answer for one FetchRange.
type Fetched struct {
	TP      record.TopicPartition
	Bounds  Bounds
	Batches []byte       // whole v2 batches; the first may begin below From. Read-only, kept by the receiver
	File    *FileRange   // instead of Batches, only with FetchOptions.InFiles. The receiver releases it
	Aborted []AbortedTxn // only with ReadCommitted: what to leave out, by First ascending
	Err     error        // of this partition alone: ErrUnknownTopic, *OutOfRangeError, ...
}

// KeptBack tells whether a limit, or the end of a file, kept back what is there for some of the ranges: then waiting for more
// is no use. An answer of nothing at all waits, whatever the marks: compaction may have left nothing below them.
func KeptBack(ranges []FetchRange, got []Fetched, isolation Isolation) bool {
	some, back := false, false
	for i := range got {
		f := &got[i]
		next, end := ranges[i].From, f.Bounds.End
		if isolation == ReadCommitted {
			end = f.Bounds.Stable
		}
		if f.File != nil {
			next = f.File.Next
		}
		for b := f.Batches; len(b) > 0; {
			h, err := record.ParseHeader(b)
			if err != nil {
				return true
			}
			b, next = b[h.Size():], h.LastOffset()+1
		}
		some = some || next > ranges[i].From
		back = back || next < end
	}
	return some && back
}

// FileRange are whole batches where they lie in a file. Unlike Fetched.Batches they were not looked at between the first
// and the last.
type FileRange struct {
	File    io.ReaderAt
	Pos     int64
	Size    int
	Next    record.Offset // where to read on
	Release func()        // the file may be closed; called once
}

// Source is what tiering and the reader need of a log. All methods may be called concurrently.
type Source interface {
	// Partitions gives the partition numbers of a topic, ascending. ErrUnknownTopic when there is none.
	Partitions(ctx context.Context, topic string) ([]int32, error)
	Bounds(ctx context.Context, tp record.TopicPartition) (Bounds, error)
	// Fetch answers every range, in the order asked. Its error is for the call as a whole (closed, no
	// connection); faults of one partition stand in Fetched.Err. From == End is not an error: it waits.
	Fetch(ctx context.Context, ranges []FetchRange, opts FetchOptions) ([]Fetched, error)
	// OffsetForTime gives the first offset whose timestamp is at or after ms; End when there is none.
	OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error)
	// Hold keeps records at and above lakeEnd from retention (I6) until a later call moves it. A log that
	// cannot hold (an external Kafka) does nothing and returns ErrNoHold. A Counter is told the offset behind a record whose place
	// the lake knows, and holds that record too: offsets are counted on from it.
	Hold(ctx context.Context, tp record.TopicPartition, lakeEnd record.Offset) error
	Close() error
}

// Appender is a Log that can take a batch without a goroutine that waits for it.
type Appender interface {
	// AppendThen is Append of each batch, in turn, that returns when all have their offsets, or have none. They are written
	// together where that can be.
	AppendThen(ctx context.Context, batches ...Append)
}

// Append is a batch on its way into a Log.
type Append struct {
	TP    record.TopicPartition
	Batch []byte
	Then  func(AppendResult, error) // called once, with what Append would return, maybe before AppendThen returns; it must not block
}

// Syncer is a Source that gives records before they are durable.
type Syncer interface {
	// Sync makes all that Fetch has given of a partition durable; it costs nothing where that is so already. Who puts records
	// into the lake calls it first: else a power loss leaves a log that ends before the lake does, and gives its offsets
	// to other records (I2).
	Sync(ctx context.Context, tp record.TopicPartition) error
}

// TopicIdentifier is a Source whose topics have ids.
type TopicIdentifier interface {
	// TopicID gives the id of a topic: one that is deleted and made again gets another (KIP-516). All zero when
	// the log has none.
	TopicID(ctx context.Context, topic string) ([16]byte, error)
}

// TopicInfo describes one topic.
type TopicInfo struct {
	Name   string
	ID     [16]byte    // KIP-516; a topic made again gets a new one
	Config TopicConfig // what holds for it
	Own    TopicConfig // what was set at it, over the defaults
}

// AppendResult tells where a batch went.
type AppendResult struct {
	Base          record.Offset
	LogAppendTime int64 // ms, -1 unless the topic stamps times
	LogStart      record.Offset
	Duplicate     bool // an idempotent producer's retry: Base is that of the first append
}

// Log is a log that also takes records and topics: what the Kafka protocol server serves.
type Log interface {
	Source
	Topics(ctx context.Context) ([]TopicInfo, error)
	// CreateTopic makes a topic. What cfg leaves open follows the defaults.
	CreateTopic(ctx context.Context, name string, cfg TopicConfig) (TopicInfo, error)
	DeleteTopic(ctx context.Context, name string) error
	// Append adds exactly one v2 batch. It returns when the batch is durable under the log's durability
	// setting and visible (I1). batch is overwritten in its base offset, leader epoch and time fields. What the log
	// keeps has the codec that the topic asks for. Afterwards batch is the caller's again.
	Append(ctx context.Context, tp record.TopicPartition, batch []byte) (AppendResult, error)
	// DeleteRecords moves the log start up to before; -1 means the high watermark.
	DeleteRecords(ctx context.Context, tp record.TopicPartition, before record.Offset) (record.Offset, error)
	// InitProducerID gives a producer id that was never given before, with epoch 0.
	InitProducerID(ctx context.Context) (id int64, epoch int16, err error)
}

// Errors of the contract. The protocol server maps each to a Kafka error code.
var (
	// ErrGiveUp is wrapped by an error of a Source that no other try mends.
	ErrGiveUp = errors.New("there is no use in another try")

	ErrUnknownTopic     = errors.New("unknown topic or partition")
	ErrTopicExists      = errors.New("topic exists already")
	ErrInvalidTopic     = errors.New("invalid topic name or setting")
	ErrNoHold           = errors.New("this log cannot hold back retention")
	ErrClosed           = errors.New("log is closed")
	ErrCorruptBatch     = errors.New("corrupt batch")                             // CRC, length, magic
	ErrInvalidRecord    = errors.New("invalid record")                            // counts, control bit, key missing
	ErrTooLarge         = errors.New("batch is larger than max.message.bytes")    // MESSAGE_TOO_LARGE
	ErrOutOfOrder       = errors.New("producer sequence is out of order")         // OUT_OF_ORDER_SEQUENCE_NUMBER
	ErrProducerFenced   = errors.New("producer epoch is older than the current")  // INVALID_PRODUCER_EPOCH
	ErrInvalidTimestamp = errors.New("timestamp is out of the allowed range")     // INVALID_TIMESTAMP
	ErrUnsupported      = errors.New("not supported by this log")                 // e.g. transactions
	ErrReadOnly         = errors.New("the topic is read only here")               // POLICY_VIOLATION
	ErrStorage          = errors.New("the log's storage failed; nothing is lost") // KAFKA_STORAGE_ERROR
)

// MaxRecordErrors bounds what a RecordsError tells.
const MaxRecordErrors = 1000

// RecordsError is an ErrInvalidRecord that tells which records of a refused batch are at fault.
type RecordsError struct {
	Records []int32 // their places in the batch, the first MaxRecordErrors of them
	Reason  string  // of each
}

func (e *RecordsError) Error() string {
	return fmt.Sprintf("%v: record %d of the batch: %s", ErrInvalidRecord, e.Records[0], e.Reason)
}
func (e *RecordsError) Unwrap() error { return ErrInvalidRecord }

// OutOfRangeError is returned for an offset that the log does not hold. It is never healed silently.
type OutOfRangeError struct {
	TP     record.TopicPartition
	Offset record.Offset
	Bounds Bounds
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d of %s is out of range: the log holds [%d, %d)", e.Offset, e.TP, e.Bounds.Start, e.Bounds.End)
}
