package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
)

// producer is one of the clients of a Load. Of P producers, number i sends events i, i+P, i+2P, ...
type producer struct {
	load          *Load
	client        *kgo.Client
	random        *rand.Rand // of this producer alone
	seed          uint64
	next, step    int
	rate          int // records a second
	transactional bool
}

func newProducer(l *Load, c LoadConfig, i int) (*producer, error) {
	p := &producer{load: l, random: rand.New(rand.NewPCG(c.Seed, uint64(1+i))), seed: c.Seed, next: i, step: c.Producers,
		rate: max(c.Rate/c.Producers, 1), transactional: c.transactional(i)}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Addr), kgo.DefaultProduceTopic(c.Topic),
		kgo.ProducerLinger(2 * time.Millisecond), kgo.MaxBufferedRecords(4000), kgo.ProducerBatchMaxBytes(64 << 10),
		kgo.StopProducerOnDataLossDetected(), kgo.UnknownTopicRetries(-1),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
		kgo.RetryTimeout(Patience), kgo.RequestRetries(10_000), // a restart on a busy machine takes its time
		kgo.ProduceRequestTimeout(10 * time.Second),
	}
	if c.Producers > 1 {
		opts = append(opts, kgo.ProducerBatchCompression(codec(i)))
	}
	if p.transactional {
		opts = append(opts, kgo.TransactionalID(c.transactionalID(i)), kgo.TransactionTimeout(Patience))
	}
	var err error
	p.client, err = kgo.NewClient(opts...)
	return p, err
}

// codec gives each of Kafka's codecs in turn.
func codec(i int) kgo.CompressionCodec {
	codecs := []kgo.CompressionCodec{kgo.SnappyCompression(), kgo.ZstdCompression(), kgo.Lz4Compression(),
		kgo.GzipCompression(), kgo.NoCompression()}
	return codecs[i%len(codecs)]
}

// run sends until the load ends, and then waits until everything is acknowledged. Records and transactions
// have a context without that end, as they are to be finished.
func (p *producer) run() error {
	ctx := context.WithoutCancel(p.load.ctx)
	if p.transactional {
		return p.sendTransactions(ctx)
	}
	return p.sendAll(ctx)
}

// send hands the next event over; the acknowledgement is recorded when it comes.
func (p *producer) send(ctx context.Context) int {
	n := p.next
	p.next += p.step
	e := NewEvent(p.seed, n)
	p.client.Produce(ctx, &kgo.Record{Key: e.Key, Value: e.Value}, func(r *kgo.Record, err error) {
		if err != nil {
			p.load.fail(fmt.Errorf("event %d: %w", n, err))
			return
		}
		p.load.ack(n, Position{r.Partition, r.Offset})
	})
	return n
}

// sendAll sends in small runs, so that the rate holds without a pause a record.
func (p *producer) sendAll(ctx context.Context) error {
	const run = 20
	tick := time.NewTicker(time.Second * run / time.Duration(p.rate))
	defer tick.Stop()
	for p.load.ctx.Err() == nil {
		for range run {
			p.send(ctx)
		}
		select {
		case <-tick.C:
		case <-p.load.ctx.Done():
		}
	}
	return p.flush(ctx)
}

func (p *producer) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// sendTransactions aborts the first transaction, so that every load has one, then one in three, and commits the others.
func (p *producer) sendTransactions(ctx context.Context) error {
	// At high rates the transactions grow, as a commit takes its time.
	most := max(200, p.rate/4)
	for first := true; p.load.ctx.Err() == nil; first = false {
		started := time.Now()
		if err := p.client.BeginTransaction(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		events := make([]int, 1+p.random.IntN(most))
		for i := range events {
			events[i] = p.send(ctx)
		}
		if err := p.flush(ctx); err != nil {
			return err
		}
		commit := p.random.IntN(3) > 0 && !first
		p.load.ending.RLock()
		sure, err := p.end(ctx, commit)
		p.load.ending.RUnlock()
		switch {
		case err != nil:
			return err
		case !sure:
			p.load.doubt(events)
		case !commit:
			p.load.abort(events)
		}
		pause := time.Second*time.Duration(len(events))/time.Duration(p.rate) - time.Since(started)
		select {
		case <-time.After(pause):
		case <-p.load.ctx.Done():
		}
	}
	return nil
}

// end commits or aborts. A commit whose answer was lost with the server is not sure: the client can only abort then,
// which does nothing if the commit got through, so the transaction is there as a whole or not at all.
func (p *producer) end(ctx context.Context, commit bool) (sure bool, err error) {
	err = txnend.End(ctx, p.client, kgo.TransactionEndTry(commit), p.load.config.Topic)
	sure = true
	for limit := time.Now().Add(Patience); err != nil && time.Now().Before(limit); {
		if errors.As(err, new(*kerr.Error)) {
			break // the server has refused it
		}
		sure = sure && !commit
		time.Sleep(50 * time.Millisecond)
		err = p.client.EndTransaction(ctx, kgo.TryAbort)
	}
	if err != nil {
		return false, fmt.Errorf("end transaction: %w", err)
	}
	return sure, nil
}
