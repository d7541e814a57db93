package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// LoadConfig says what a Load sends.
type LoadConfig struct {
	Addr, Topic string
	Seed        uint64
	// Rate is how many records a second are sent at most; default 4000.
	Rate int
	// Transactions groups the records into transactions, some of which are aborted.
	Transactions bool
}

// Load sends events 0, 1, 2, ... of a seed to a topic until Stop, from one idempotent producer that keeps
// trying while the server is away. It remembers what was acknowledged and where.
//
// The producer stops for good when the server shows that it has lost something that it had
// acknowledged, so a test with a Load also tests that producer state survives a crash.
type Load struct {
	client *kgo.Client
	stop   chan struct{}
	done   chan struct{} // closed when the sender has ended
	err    error         // why the sender ended early; read it after done

	mu      sync.Mutex
	acked   map[int]Position // event -> where it was acknowledged, aborted ones not included
	aborted map[int]bool
	failed  error
}

// StartLoad starts sending. Stop must be called.
func StartLoad(t testing.TB, c LoadConfig) *Load {
	t.Helper()
	if c.Rate == 0 {
		c.Rate = 4000
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Addr), kgo.DefaultProduceTopic(c.Topic),
		kgo.ProducerLinger(2 * time.Millisecond), kgo.MaxBufferedRecords(4000), kgo.ProducerBatchMaxBytes(64 << 10),
		kgo.StopProducerOnDataLossDetected(), kgo.UnknownTopicRetries(-1),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
		kgo.RetryTimeout(time.Minute), kgo.ProduceRequestTimeout(10 * time.Second),
	}
	if c.Transactions {
		opts = append(opts, kgo.TransactionalID("load-"+c.Topic), kgo.TransactionTimeout(30*time.Second))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	l := &Load{client: client, stop: make(chan struct{}), done: make(chan struct{}),
		acked: map[int]Position{}, aborted: map[int]bool{}}
	t.Cleanup(func() {
		l.end()
		client.CloseAllowingRebalance()
	})
	send := l.sendAll
	if c.Transactions {
		send = l.sendTransactions
	}
	go func() {
		defer close(l.done)
		l.err = send(context.WithoutCancel(t.Context()), c)
	}()
	return l
}

func (l *Load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

// Stop ends the sending and waits until all is acknowledged. It gives where each event is.
func (l *Load) Stop(t testing.TB) map[int]Position {
	t.Helper()
	l.end()
	select {
	case <-l.done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the load did not end within two minutes after its stop: the server does not acknowledge")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.err, l.failed); err != nil {
		t.Fatalf("the load could not go on: %v", err)
	}
	return l.acked
}

// Acked is how many events have been acknowledged so far.
func (l *Load) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// Reached is nil when at least n events have been acknowledged: for Eventually.
func (l *Load) Reached(n int) error {
	if got := l.Acked(); got < n {
		return fmt.Errorf("%d events are acknowledged, want %d", got, n)
	}
	return nil
}

// Aborted says how many events were in aborted transactions. Call it after Stop.
func (l *Load) Aborted() int { return len(l.aborted) }

func (l *Load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// send hands one event over; the acknowledgement is recorded when it comes.
func (l *Load) send(ctx context.Context, seed uint64, n int) {
	e := NewEvent(seed, n)
	l.client.Produce(ctx, &kgo.Record{Key: e.Key, Value: e.Value}, func(r *kgo.Record, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			if l.failed == nil {
				l.failed = fmt.Errorf("event %d: %w", n, err)
			}
			l.end()
			return
		}
		l.acked[n] = Position{r.Partition, r.Offset}
	})
}

// sendAll sends in small runs, so that the rate holds without a pause a record.
func (l *Load) sendAll(ctx context.Context, c LoadConfig) error {
	const run = 20
	tick := time.NewTicker(time.Second * run / time.Duration(c.Rate))
	defer tick.Stop()
	for n := 0; !l.stopped(); {
		for range run {
			l.send(ctx, c.Seed, n)
			n++
		}
		select {
		case <-tick.C:
		case <-l.stop:
		}
	}
	return l.flush(ctx)
}

func (l *Load) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := l.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// sendTransactions commits two transactions in three and aborts the others.
func (l *Load) sendTransactions(ctx context.Context, c LoadConfig) error {
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for n := 0; !l.stopped(); {
		if err := l.client.BeginTransaction(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		first, count := n, 1+r.IntN(200)
		for range count {
			l.send(ctx, c.Seed, n)
			n++
		}
		if err := l.flush(ctx); err != nil {
			return err
		}
		commit := r.IntN(3) > 0
		if err := l.client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			return fmt.Errorf("end transaction: %w", err)
		}
		if !commit {
			l.mu.Lock()
			for i := first; i < n; i++ {
				delete(l.acked, i)
				l.aborted[i] = true
			}
			l.mu.Unlock()
		}
		time.Sleep(time.Second * time.Duration(count) / time.Duration(c.Rate))
	}
	return nil
}

// Record is one record as a consumer got it.
type Record struct {
	Position
	Key, Value []byte
	Timestamp  int64 // ms
}

// Consume reads a topic over the Kafka protocol from offset 0 to the end that it has now, committed
// records only. It fails on an offset that does not grow (I4).
func Consume(t testing.TB, addr, topic string) []Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends := endOffsets(t, ctx, client, topic)
	var out []Record
	next := map[int32]int64{}
	for !reached(next, ends) {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			t.Fatalf("consume %s-%d: %v; read up to %v of %v", e.Topic, e.Partition, e.Err, next, ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < next[r.Partition] {
				t.Fatalf("partition %d gives offset %d after %d", r.Partition, r.Offset, next[r.Partition]-1)
			}
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() && r.Offset < ends[r.Partition] {
				out = append(out, Record{Position{r.Partition, r.Offset}, r.Key, r.Value, r.Timestamp.UnixMilli()})
			}
		})
	}
	return out
}

func reached(next, ends map[int32]int64) bool {
	for p, end := range ends {
		if next[p] < end {
			return false
		}
	}
	return true
}
