package txnend

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// slow gives the first record to partition 0 and holds the second until it is let go, and then refuses it: for so long
// the client has not stored the topic's partitions.
func slow(held <-chan struct{}) kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int {
			if string(r.Value) == "first" {
				return 0
			}
			<-held
			return -1
		}
	})
}

// A commit of records that are acknowledged before the client knows their partitions waits, and is one.
func TestEndBeforePartitionsAreKnown(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(held) })
	cl := client(t, c, kgo.TransactionalID("x"), kgo.RecordPartitioner(slow(held)))
	defer letGo() // or the client never closes
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	acked, refused := produce(ctx, cl, "first"), produce(ctx, cl, "second")
	if err := <-acked; err != nil {
		t.Fatal(err)
	}

	brief, end := context.WithTimeout(ctx, 20*time.Millisecond)
	defer end()
	if err := End(brief, cl, kgo.TryCommit, "t"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("ended before the partitions were known: %v", err)
	}
	letGo()
	if err := <-refused; err == nil {
		t.Fatal("the second record has a partition")
	}
	if err := End(ctx, cl, kgo.TryCommit, "t"); err != nil {
		t.Fatal(err)
	}
	rd := client(t, c, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	got := rd.PollFetches(ctx)
	if rs := got.Records(); got.Err() != nil || len(rs) != 1 || string(rs[0].Value) != "first" {
		t.Fatalf("committed: %v %v", rs, got.Err())
	}
}

func client(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(ctx context.Context, cl *kgo.Client, value string) <-chan error {
	done := make(chan error, 1)
	cl.Produce(ctx, &kgo.Record{Topic: "t", Value: []byte(value)}, func(_ *kgo.Record, err error) { done <- err })
	return done
}
