package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ProducerConfig says how to send records.
type ProducerConfig struct {
	Config
	Codec   string // none, gzip, snappy, lz4 or zstd; default lz4
	Spread  bool   // records without a key go to all partitions in turn; else all that one Producer sends go to one
	NoDelay bool   // send each record at once, without waiting for others to share its batch
	// MaxBatchBytes is how large a batch may get, before compression; 0: about 1 MB.
	MaxBatchBytes int
}

// Producer sends records to any Kafka, ledgerlake's own server included: idempotent, all replicas
// acknowledge. It may be used concurrently.
type Producer struct {
	client  *kgo.Client
	brokers []string
	mu      struct {
		sync.Mutex
		err error // the first failure; later sends return it
	}
}

// NewProducer connects lazily: see Ping.
func NewProducer(_ context.Context, cfg ProducerConfig) (*Producer, error) {
	opts, err := cfg.Config.clientOpts()
	if err != nil {
		return nil, err
	}
	codec, err := compression(cfg.Codec)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.ProducerBatchCompression(codec),
		kgo.RecordPartitioner(pinned{kgo.StickyKeyPartitioner(nil), cfg.Spread}),
		kgo.MaxBufferedRecords(100_000),
		kgo.AllowAutoTopicCreation(),
	)
	if cfg.NoDelay {
		opts = append(opts, kgo.ProducerLinger(0))
	}
	if cfg.MaxBatchBytes > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(min(cfg.MaxBatchBytes, math.MaxInt32))))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	return &Producer{client: client, brokers: cfg.Brokers}, nil
}

// Ping asks a broker for an answer. A wrong address or log-in is an error here; Send and Flush try such a broker again and again.
func (p *Producer) Ping(ctx context.Context) error {
	if err := p.client.Ping(ctx); err != nil {
		return connectError(p.brokers, err)
	}
	return nil
}

func compression(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "lz4":
		return kgo.Lz4Compression(), nil
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("compression %q is not none, gzip, snappy, lz4 or zstd", name)
}

// Send queues one record; partition -1 spreads records, by key where there is one. It waits while the
// queue is full, and returns the first failure of an earlier record. key and value must not change later.
func (p *Producer) Send(ctx context.Context, topic string, partition int32, key, value []byte) error {
	return p.SendThen(ctx, topic, partition, key, value, nil)
}

// SendThen is Send that calls then, when it is not nil, once the record is acknowledged, not when it failed. then must
// not block, and is called for one record at a time.
func (p *Producer) SendThen(ctx context.Context, topic string, partition int32, key, value []byte, then func()) error {
	if err := p.failure(); err != nil {
		return err
	}
	p.client.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value}, func(r *kgo.Record, err error) {
		if p.done(r, err); err == nil && then != nil {
			then()
		}
	})
	return nil
}

func (p *Producer) done(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil {
		p.mu.err = fmt.Errorf("send to %s: %w", r.Topic, err)
	}
}

func (p *Producer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// Flush waits until all records sent so far are acknowledged and returns the first failure.
func (p *Producer) Flush(ctx context.Context) error {
	return errors.Join(p.client.Flush(ctx), p.failure())
}

// Close ends the producer. Records that were not flushed are lost.
func (p *Producer) Close() { p.client.Close() }

// pinned sends a record to the partition that it names, else where the other partitioner says; with spread only those that have a key.
type pinned struct {
	kgo.Partitioner
	spread bool
}

func (p pinned) ForTopic(topic string) kgo.TopicPartitioner {
	return &pinnedTopic{TopicPartitioner: p.Partitioner.ForTopic(topic), spread: p.spread}
}

type pinnedTopic struct {
	kgo.TopicPartitioner
	spread bool
	turn   int // of the next record without a key
}

func (p *pinnedTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

func (p *pinnedTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	if p.spread && r.Key == nil {
		p.turn++
		return (p.turn - 1) % n
	}
	return p.TopicPartitioner.Partition(r, n)
}
