package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// LoadConfig says what a Load sends.
type LoadConfig struct {
	Addr, Topic string
	Seed        uint64
	// Rate is how many records a second are sent at most, by all producers; default 4000.
	Rate int
	// Producers send at the same time, each with a compression codec of its own; default 1.
	Producers int
	// Transactions groups the records of every second producer, the first included, into transactions,
	// some of which are aborted: the first of each, and some later ones.
	Transactions bool
}

// transactional says whether producer i sends transactions.
func (c LoadConfig) transactional(i int) bool { return c.Transactions && i%2 == 0 }

func (c LoadConfig) transactionalID(i int) string { return fmt.Sprintf("load-%s-%d", c.Topic, i) }

// Load sends events 0, 1, 2, ... of a seed to a topic until Stop, from idempotent producers that keep
// trying while the server is away. It remembers what was acknowledged and where.
//
// A producer stops for good when the server shows that it has lost something that it had
// acknowledged, so a test with a Load also tests that producer state survives a crash.
type Load struct {
	stop   context.CancelFunc
	ctx    context.Context // done when the sending is to end
	sender sync.WaitGroup
	config LoadConfig
	ending sync.RWMutex // held, shared, while a transaction is ended

	mu      sync.Mutex
	acked   map[int]Position // event -> where it was acknowledged, aborted ones not included
	aborted int
	doubts  []map[int]Position // transactions that are there as a whole or not at all
	failed  error              // the first failure of a producer, or of a record
}

// StartLoad starts sending. Stop must be called.
func StartLoad(t testing.TB, c LoadConfig) *Load {
	t.Helper()
	if c.Rate == 0 {
		c.Rate = 4000
	}
	c.Producers = max(c.Producers, 1)
	l := &Load{config: c, acked: map[int]Position{}}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	for i := range c.Producers {
		p, err := newProducer(l, c, i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.client.CloseAllowingRebalance)
		l.sender.Go(func() {
			if err := p.run(); err != nil {
				l.fail(fmt.Errorf("producer %d: %w", i, err))
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// Stop ends the sending and waits until all is acknowledged, and transactions are decided in all partitions. It gives where
// each event is.
func (l *Load) Stop(t testing.TB) map[int]Position {
	t.Helper()
	l.stop()
	done := make(chan struct{})
	go func() {
		l.sender.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * Patience): // what is under way has one Patience for its records and one for its end
		t.Fatalf("the load did not end within %s after its stop: the server does not acknowledge", 2*Patience)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		t.Fatalf("the load could not go on: %v", l.failed)
	}
	if l.config.Transactions {
		decided(t, l.config.Addr, l.config.Topic)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return fmt.Errorf("the load has failed: %w", l.failed)
	}
	if got := len(l.acked); got < n {
		return fmt.Errorf("%d events are acknowledged, want %d", got, n)
	}
	return nil
}

// Aborted says how many events were in aborted transactions. Call it after Stop.
func (l *Load) Aborted() int { return l.aborted }

// BetweenEnds calls f, which kills a Kafka, while no transaction of the load is being ended: one that is killed when it has
// just acknowledged an end may decide that transaction by the marker of the next (see Overruns), and then what the load was
// told says nothing of what is there. Transactions that are open stay so.
func (l *Load) BetweenEnds(t testing.TB, f func()) {
	t.Helper()
	l.ending.Lock()
	defer l.ending.Unlock()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.config.Addr))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range l.config.Producers {
		if l.config.transactional(i) {
			ids = append(ids, l.config.transactionalID(i))
		}
	}
	Eventually(t, Patience, func() error { // until the markers of what was ended are in all partitions
		all, err := kadm.NewClient(client).DescribeTransactions(t.Context(), ids...)
		for _, d := range all {
			if err = errors.Join(err, d.Err); strings.HasPrefix(d.State, "Prepare") {
				err = errors.Join(err, fmt.Errorf("the transaction of %s is in %s", d.TxnID, d.State))
			}
		}
		return err
	})
	client.Close()
	f()
}

// fail ends the load; the first reason is kept.
func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	l.stop()
}

func (l *Load) ack(n int, at Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[n] = at
}

// abort takes back what was acknowledged inside of a transaction that is aborted.
func (l *Load) abort(events []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range events {
		delete(l.acked, n)
	}
	l.aborted += len(events)
}

// doubt puts the events of a transaction aside whose end is not known.
func (l *Load) doubt(events []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := map[int]Position{}
	for _, n := range events {
		if at, ok := l.acked[n]; ok {
			d[n] = at
			delete(l.acked, n)
		}
	}
	l.doubts = append(l.doubts, d)
}

// Settle decides the transactions whose end is not known by what is there: all of their events, which are
// acknowledged ones then, or none, which are aborted ones. It gives how many there were. Call it after Stop.
func (l *Load) Settle(t testing.TB, there func(Position) bool) int {
	t.Helper()
	for _, d := range l.doubts {
		found := 0
		for _, at := range d {
			if there(at) {
				found++
			}
		}
		switch found {
		case 0:
			l.aborted += len(d)
		case len(d):
			maps.Copy(l.acked, d)
		default:
			t.Fatalf("%d of the %d events of one transaction are there: %v", found, len(d), d)
		}
	}
	return len(l.doubts)
}
