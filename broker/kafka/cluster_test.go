package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const topic = "orders"

func tp(p int32) record.TopicPartition { return record.TopicPartition{Topic: topic, Partition: p} }

// testCtx ends the test with an error long before the test binary would be killed.
func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newCluster starts a Kafka in this process.
func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, cfg Config) *Source {
	t.Helper()
	s, err := Open(testCtx(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openFake(t *testing.T, c *kfake.Cluster) *Source {
	t.Helper()
	return open(t, Config{Brokers: c.ListenAddrs(), RetryTimeout: 10 * time.Second})
}

func newProducer(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produce sends one batch a value.
func produce(t *testing.T, cl *kgo.Client, topic string, p int32, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "h", Value: nil}}}
		if err := cl.ProduceSync(testCtx(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func numbers(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(from + i)
	}
	return out
}

// drain reads partitions to the ends that they had, as a consumer would, and gives the values of each.
func drain(t *testing.T, s *Source, iso broker.Isolation, maxBytes int, tps ...record.TopicPartition) map[record.TopicPartition][]string {
	t.Helper()
	ctx := testCtx(t)
	got := make(map[record.TopicPartition][]string)
	next := make(map[record.TopicPartition]record.Offset)
	end := make(map[record.TopicPartition]record.Offset)
	for _, tp := range tps {
		b, err := s.Bounds(ctx, tp)
		if err != nil {
			t.Fatal(err)
		}
		next[tp], end[tp] = b.Start, b.End
		if iso == broker.ReadCommitted {
			end[tp] = b.Stable
		}
	}
	for {
		var ranges []broker.FetchRange
		for _, tp := range tps {
			if next[tp] < end[tp] {
				ranges = append(ranges, broker.FetchRange{TP: tp, From: next[tp], MaxBytes: maxBytes})
			}
		}
		if len(ranges) == 0 {
			return got
		}
		answers, err := s.Fetch(ctx, ranges, broker.FetchOptions{MinBytes: 1, MaxWait: 5 * time.Second, Isolation: iso})
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range answers {
			if f.TP != ranges[i].TP {
				t.Fatalf("answer %d is for %s, asked for %s", i, f.TP, ranges[i].TP)
			}
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			values, after := consume(t, f, next[f.TP])
			got[f.TP] = append(got[f.TP], values...)
			next[f.TP] = after
		}
	}
}

// consume decodes one answer from an offset on.
func consume(t *testing.T, f broker.Fetched, from record.Offset) (values []string, next record.Offset) {
	t.Helper()
	var filter record.AbortFilter
	var it record.Iterator
	filter.Reset(f.Aborted)
	next = from
	for b := f.Batches; len(b) > 0; {
		batch, err := record.ReadBatch(b)
		if err != nil { // also ErrTruncated: Fetch promises whole batches
			t.Fatal(err)
		}
		b = b[batch.Size():]
		if err := batch.VerifyCRC(); err != nil {
			t.Fatal(err)
		}
		if filter.Keep(batch) && !batch.Control() {
			if err := it.Reset(batch); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				if r := it.Record(); r.Offset >= from {
					values = append(values, string(r.Value))
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
		next = max(next, batch.LastOffset()+1)
	}
	return values, next
}

// countKey counts the requests of a kind.
func countKey(c *kfake.Cluster, key kmsg.Key) *atomic.Int64 {
	var n atomic.Int64
	c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// fetch1 is fetchOf a partition of the topic that all in-process clusters have.
func fetch1(t *testing.T, s *Source, p int32, from record.Offset, opts broker.FetchOptions) broker.Fetched {
	t.Helper()
	return fetchOf(t, s, tp(p), from, opts)
}

// fetchOf is a fetch of one range that must not fail as a whole.
func fetchOf(t *testing.T, s *Source, tp record.TopicPartition, from record.Offset, opts broker.FetchOptions) broker.Fetched {
	t.Helper()
	got, err := s.Fetch(testCtx(t), []broker.FetchRange{{TP: tp, From: from, MaxBytes: 1 << 20}}, opts)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d answers, %v", len(got), err)
	}
	return got[0]
}

func wantValues(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %d values %.200v\nwant %d values %.200v", len(got), got, len(want), want)
	}
}

func wantOutOfRange(t *testing.T, err error, offset record.Offset, b broker.Bounds) {
	t.Helper()
	var e *broker.OutOfRangeError
	if !errors.As(err, &e) || e.Offset != offset || e.Bounds != b {
		t.Fatalf("error %v, want offset %d out of %+v", err, offset, b)
	}
}
