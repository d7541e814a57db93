package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/record"
)

// TxnConfig says how a TxnProducer sends.
type TxnConfig struct {
	Config
	// ID is the transactional id: who opens it fences the one before, and ends its open transaction. Empty: no
	// transactions, each record is sent once by an idempotent producer, and what an unfinished run sent stays.
	ID      string
	Timeout time.Duration // the cluster aborts a transaction that stays open so long; default 1 min
	Codec   string        // none, gzip, snappy, lz4 or zstd; default lz4
}

// TxnProducer sends records that consumers with read_committed see together, or not at all. It is for one goroutine.
// After any error its state is in doubt: close it, open another one with the same ID, and look what was committed.
type TxnProducer struct {
	client  *kgo.Client
	id      string
	timeout time.Duration
	open    bool      // a transaction
	began   time.Time // it, by the wall clock: a process may have been suspended
	doubt   bool      // whether one has ended
	topics  []string  // that it has records of

	mu struct {
		sync.Mutex
		err error // the first failure of a record
	}
}

// OpenTxn takes the transactional id over: when it returns, every transaction of an earlier producer of this id has
// ended, and that producer gets broker.ErrProducerFenced. One whose transaction was open for longer than Timeout gets
// broker.ErrTxnExpired.
func OpenTxn(ctx context.Context, cfg TxnConfig) (*TxnProducer, error) {
	opts, err := cfg.Config.clientOpts()
	if err != nil {
		return nil, err
	}
	codec, err := compression(cfg.Codec)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(pinned{kgo.StickyKeyPartitioner(nil), false}),
		kgo.MaxBufferedRecords(1_000_000))
	if cfg.ID != "" {
		if cfg.Timeout == 0 {
			cfg.Timeout = time.Minute
		}
		opts = append(opts, kgo.TransactionalID(cfg.ID), kgo.TransactionTimeout(cfg.Timeout))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("open producer %s: %w", cfg.ID, txnError(err))
	}
	return &TxnProducer{client: client, id: cfg.ID, timeout: cfg.Timeout}, nil
}

// txnError puts the contract's errors around those of the client library that callers must tell apart.
func txnError(err error) error {
	for _, refused := range []error{kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.UnsupportedVersion, kerr.InvalidTransactionTimeout} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", broker.ErrNoTransactions, err)
		}
	}
	for _, fenced := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch} {
		if errors.Is(err, fenced) {
			return fmt.Errorf("%w: %w", broker.ErrProducerFenced, err)
		}
	}
	return err
}

// lost tells the two reasons apart for which the cluster takes an epoch for old: somebody took the id over, or the
// coordinator aborted a transaction that was open for too long, which it does by a new epoch as well (KIP-98). It counts
// from the first partition of the transaction, which is behind our begin, so one that is younger here was not aborted.
func (p *TxnProducer) lost(err error) error {
	told := txnError(err)
	if p.open && errors.Is(told, broker.ErrProducerFenced) && time.Since(p.began) >= p.timeout {
		return fmt.Errorf("%w (%s): %w", broker.ErrTxnExpired, p.timeout, err)
	}
	return told
}

// Send queues a record, in a transaction that it begins where none is open. Partition -1 chooses by the key, as Kafka's
// own clients do. The record's bytes must not change before Commit.
func (p *TxnProducer) Send(ctx context.Context, topic string, partition int32, rec *record.Record) error {
	if err := p.begin(); err != nil {
		return err
	}
	out := &kgo.Record{Topic: topic, Partition: partition, Key: rec.Key, Value: rec.Value, Timestamp: time.UnixMilli(rec.Timestamp)}
	for _, h := range rec.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
	}
	if p.open && !slices.Contains(p.topics, topic) {
		p.topics = append(p.topics, topic)
	}
	p.client.Produce(context.WithoutCancel(ctx), out, // a record that is given up would take the transaction with it
		func(r *kgo.Record, err error) {
			if err == nil {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.mu.err == nil {
				p.mu.err = fmt.Errorf("send to %s partition %d: %w", r.Topic, r.Partition, err)
			}
		})
	return nil
}

func (p *TxnProducer) begin() error {
	if err := p.failure(); err != nil {
		return err
	}
	if p.open || p.id == "" {
		return nil
	}
	if err := p.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction %s: %w", p.id, p.lost(err))
	}
	p.open, p.began, p.topics = true, time.Now().Round(0), p.topics[:0]
	return nil
}

func (p *TxnProducer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost(p.mu.err)
}

// Commit makes what was sent since the last one visible, all of it at once. After an error it may be visible or not.
func (p *TxnProducer) Commit(ctx context.Context) error {
	if err := errors.Join(p.client.Flush(ctx), p.failure()); err != nil {
		return err
	}
	if !p.open {
		return nil
	}
	// COMMIT POINT of a job whose sink is a topic: the coordinator's decision. Without the caller's end: a request
	// that is cut off would leave the outcome in doubt for nothing.
	if err := txnend.End(context.WithoutCancel(ctx), p.client, kgo.TryCommit, p.topics...); err != nil {
		p.doubt = true
		return fmt.Errorf("commit transaction %s: %w", p.id, p.lost(err))
	}
	p.open = false
	return nil
}

// abortTime is how long Close tries to end an open transaction: else it hangs open until its timeout, or until its id is
// opened again, and consumers with read_committed wait for it.
const abortTime = 5 * time.Second

// Close ends the producer, and aborts what was not committed.
func (p *TxnProducer) Close() {
	if p.open && !p.doubt {
		ctx, cancel := context.WithTimeout(context.Background(), abortTime)
		defer cancel()
		if p.client.AbortBufferedRecords(ctx) == nil {
			_ = p.client.EndTransaction(ctx, kgo.TryAbort) // best effort, as said above
		}
	}
	p.client.Close()
}
