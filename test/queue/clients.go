package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
)

// Workload is what the clients do.
type Workload struct {
	Addr       string // host:port, the same over restarts
	Topic      string
	Partitions int32
	Seed       uint64
	Producers  int // half of them send transactions
	Consumers  int
}

// Run is a running workload. Its clients are real ones, and note what they are told.
type Run struct {
	w      Workload
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	h     History
	value int64
	txn   int
	err   error // that no client should meet
}

// Start begins to send and to read.
func Start(ctx context.Context, w Workload) *Run {
	r := &Run{w: w, h: History{Txns: map[int]Outcome{}}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for i := range w.Producers {
		r.wg.Go(func() { r.produce(i) })
	}
	for i := range w.Consumers {
		r.wg.Go(func() { r.consume(i) })
	}
	return r
}

// Acked is how many records are acknowledged so far.
func (r *Run) Acked() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.h.Sends {
		if r.h.Sends[i].Outcome == Acked {
			n++
		}
	}
	return n
}

// Short is nil when the history has enough in it to judge: committed and aborted transactions, and polls.
func (r *Run) Short(committed, aborted, polls int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := map[Outcome]int{}
	for _, o := range r.h.Txns {
		have[o]++
	}
	if have[Acked] < committed || have[Failed] < aborted || len(r.h.Polls) < polls {
		return fmt.Errorf("%d transactions are committed, %d aborted, and %d records polled; want %d, %d and %d",
			have[Acked], have[Failed], len(r.h.Polls), committed, aborted, polls)
	}
	return nil
}

// Finish ends the clients, reads everything and gives the history.
func (r *Run) Finish(ctx context.Context) (History, error) {
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.h, r.err
	}
	final, err := r.readAll(ctx)
	r.h.Final = final
	return r.h, err
}

func (r *Run) opts(extra ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(r.w.Addr), kgo.DialTimeout(2 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }), kgo.RequestRetries(1000), kgo.RetryTimeout(30 * time.Second),
		kgo.ProduceRequestTimeout(5 * time.Second), kgo.RequestTimeoutOverhead(5 * time.Second),
	}, extra...)
}

// produce sends until the run ends. A client that met a fatal error is replaced by a new one: a new producer.
func (r *Run) produce(i int) {
	rnd := rand.New(rand.NewPCG(r.w.Seed, uint64(i)))
	for life := 0; r.ctx.Err() == nil; life++ {
		opts := r.opts(kgo.DefaultProduceTopic(r.w.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Millisecond))
		transactional := i%2 == 1
		if transactional {
			opts = append(opts, kgo.TransactionalID(fmt.Sprintf("queue-%d", i)), kgo.TransactionTimeout(20*time.Second))
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			r.fail(err)
			return
		}
		for r.ctx.Err() == nil && err == nil {
			if transactional {
				err = r.transact(cl, rnd, 1000*i+life)
			} else {
				err = r.send(cl, rnd, 1000*i+life, 0, 1+rnd.IntN(20))
			}
		}
		cl.Close()
	}
}

// send sends some records and waits for all of them. Their order is that of the history.
func (r *Run) send(cl *kgo.Client, rnd *rand.Rand, producer, txn, n int) error {
	var wg sync.WaitGroup
	var first error
	for range n {
		p := rnd.Int32N(r.w.Partitions)
		r.mu.Lock()
		r.value++
		at := len(r.h.Sends)
		r.h.Sends = append(r.h.Sends, Send{Producer: producer, Txn: txn, Partition: p, Value: r.value, Offset: -1})
		value := binary.BigEndian.AppendUint64(nil, uint64(r.value))
		r.mu.Unlock()
		wg.Add(1)
		cl.Produce(context.WithoutCancel(r.ctx), &kgo.Record{Partition: p, Value: value}, func(rec *kgo.Record, err error) {
			defer wg.Done()
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				first = errors.Join(first, err) // it may be in the log all the same
				return
			}
			r.h.Sends[at].Outcome, r.h.Sends[at].Offset = Acked, rec.Offset
		})
	}
	wg.Wait()
	return first
}

func (r *Run) transact(cl *kgo.Client, rnd *rand.Rand, producer int) error {
	r.mu.Lock()
	r.txn++
	txn := r.txn
	r.mu.Unlock()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	err := r.send(cl, rnd, producer, txn, 1+rnd.IntN(20))
	commit := rnd.IntN(4) > 0 && err == nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Minute)
	defer cancel()
	var sent []string // to what is known to be there
	if err == nil {
		sent = []string{r.w.Topic}
	}
	if end := txnend.End(ctx, cl, kgo.TransactionEndTry(commit), sent...); end != nil {
		return end // it may have been committed or aborted; the next life of the producer finds it ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.Txns[txn] = Failed; commit {
		r.h.Txns[txn] = Acked
	}
	return err
}

// consume reads committed records of all partitions, and begins anew now and then.
func (r *Run) consume(i int) {
	rnd := rand.New(rand.NewPCG(r.w.Seed, uint64(1000+i)))
	for r.ctx.Err() == nil {
		cl, err := r.consumer()
		if err != nil {
			r.fail(err)
			return
		}
		seek := map[int32]bool{}
		for range 20 + rnd.IntN(200) {
			fs := cl.PollFetches(r.ctx)
			if r.ctx.Err() != nil {
				break
			}
			r.mu.Lock()
			fs.EachRecord(func(rec *kgo.Record) {
				r.h.Polls = append(r.h.Polls, pollOf(i, rec, !seek[rec.Partition]))
				seek[rec.Partition] = true
			})
			r.mu.Unlock()
		}
		cl.Close()
	}
}

func (r *Run) consumer() (*kgo.Client, error) {
	parts := map[int32]kgo.Offset{}
	for p := range r.w.Partitions {
		parts[p] = kgo.NewOffset().AtStart()
	}
	return kgo.NewClient(r.opts(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.w.Topic: parts}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxBytes(64<<10),
	)...)
}

func pollOf(consumer int, rec *kgo.Record, seek bool) Poll {
	v := int64(-1)
	if len(rec.Value) == 8 {
		v = int64(binary.BigEndian.Uint64(rec.Value))
	}
	return Poll{Consumer: consumer, Seek: seek, Partition: rec.Partition, Offset: rec.Offset, Value: v}
}

// readAll reads to the ends as they are when all transactions have ended: an open one is over after its time.
func (r *Run) readAll(ctx context.Context) ([]Poll, error) {
	p, err := kgo.NewClient(r.opts(kgo.DefaultProduceTopic(r.w.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	last := map[int32]int64{} // the offset of a record behind everything: committed records below it have been seen before it
	for n := range r.w.Partitions {
		r.value++
		rec := &kgo.Record{Partition: n, Value: binary.BigEndian.AppendUint64(nil, uint64(r.value))}
		if err := p.ProduceSync(ctx, rec).FirstErr(); err != nil {
			return nil, fmt.Errorf("send the last record of partition %d: %w", n, err)
		}
		r.h.Sends = append(r.h.Sends, Send{Producer: -1, Partition: n, Value: r.value, Offset: rec.Offset, Outcome: Acked})
		last[n] = rec.Offset
	}
	cl, err := r.consumer()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []Poll
	seen := map[int32]bool{}
	for len(last) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return out, fmt.Errorf("read everything: partitions %v are not at their ends: %w", last, context.Cause(ctx))
		}
		fs.EachRecord(func(rec *kgo.Record) {
			out = append(out, pollOf(-1, rec, !seen[rec.Partition]))
			seen[rec.Partition] = true
			if end, ok := last[rec.Partition]; ok && rec.Offset >= end {
				delete(last, rec.Partition)
			}
		})
	}
	return out, nil
}

func (r *Run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}
