package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// copier consumes a topic in a group and produces what it read into another one, a transaction a poll: the
// records and the positions are committed together, or not at all. Some transactions it aborts, some it leaves
// open and goes away.
type copier struct {
	addr, name, from, to string
	rng                  *rand.Rand
}

func (c *copier) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.session(ctx) // whatever ended it, the next one begins at what was committed
	}
}

func (c *copier) session(ctx context.Context) error {
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(c.addr), kgo.TransactionalID(c.name), kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics(c.from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(200*time.Millisecond), kgo.TransactionTimeout(5*time.Second),
		kgo.RetryTimeout(10*time.Second), kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxBytes(64<<10),
	)
	if err != nil {
		return err
	}
	defer s.Close()
	for ctx.Err() == nil {
		fs := s.PollRecords(ctx, 100)
		if errs := fs.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := s.Begin(); err != nil {
			return err
		}
		failed := false
		fs.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Topic: c.to, Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) { failed = failed || err != nil })
		})
		if err := s.Client().Flush(ctx); err != nil {
			return err
		}
		if !failed {
			if err := txnend.Known(ctx, s.Client(), c.to); err != nil {
				return err
			}
		}
		switch n := c.rng.IntN(20); {
		case n == 0:
			return nil // the transaction stays open until it is fenced or its time is over
		case n == 1 || failed:
			if _, err := s.End(ctx, kgo.TryAbort); err != nil {
				return err
			}
		default:
			if _, err := s.End(ctx, kgo.TryCommit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Two members of a group consume, produce and commit while the served log is killed: every record of the input
// is in the output once for read_committed readers (I1, I4), in the log and in the table.
func TestCopyIsExactlyOnce(t *testing.T) {
	seed := seedtest.New(t)
	kills := harness.Kills(t, 6)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	flags := []string{"--topic", "in:4", "--topic", "out:3", "--format", "raw", "--flush-age", "200ms", "--log-level", "error"}
	s := harness.Serve(t, dir, addr, flags...)

	n := 1000 * kills
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce %d: %v", i, err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	for i := range 2 {
		c := &copier{addr: addr, name: fmt.Sprintf("copier-%d", i), from: "in", to: "out", rng: rand.New(rand.NewPCG(seed, uint64(1+i)))}
		go func() {
			c.run(ctx)
			done <- struct{}{}
		}()
	}
	for range kills {
		time.Sleep(time.Duration(100+rng.IntN(900)) * time.Millisecond)
		s.Kill()
		s = harness.Serve(t, dir, addr, flags...)
	}
	seen := map[string]int{}
	out := committedReader(t, addr, "out")
	deadline, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for len(seen) < n {
		fs := out.PollFetches(deadline)
		if deadline.Err() != nil {
			t.Fatalf("%d of %d records are copied", len(seen), n)
		}
		fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	stop()
	<-done
	<-done
	// All that is decided by now: a double that came late is seen too.
	final := map[string]int{}
	for _, r := range harness.Consume(t, addr, "out") {
		final[string(r.Value)]++
	}
	for i := range n {
		if v := fmt.Sprint(i); seen[v] != 1 || final[v] != 1 {
			t.Fatalf("record %d was copied %d times, read once more %d times", i, seen[v], final[v])
		}
	}
	t.Logf("%d records copied once through %d kills", n, kills)
	awaitRows(t, s.Table("out"), n)
	s.Stop(t)

	// The table has what was committed, no more (I3).
	rows := map[string]int{}
	for row := range harness.Rows(t, "read", s.Table("out"), "--output", "ndjson") {
		rows[string(harness.Bytes(t, row, "_value"))]++
	}
	for i := range n {
		if v := fmt.Sprint(i); rows[v] != 1 {
			t.Fatalf("record %d is in the table %d times", i, rows[v])
		}
	}
	if len(final) != n || len(rows) != n {
		t.Fatalf("%d values in the log, %d in the table, want %d", len(final), len(rows), n)
	}
}

func committedReader(t *testing.T, addr, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
