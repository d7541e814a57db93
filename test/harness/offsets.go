package harness

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endOffsets gives the last stable end of each partition.
func endOffsets(t testing.TB, ctx context.Context, client *kgo.Client, topic string) map[int32]int64 {
	t.Helper()
	return listed(t, ctx, topic, kadm.NewClient(client).ListCommittedOffsets)
}

// startOffsets gives where the log of each partition begins.
func startOffsets(t testing.TB, ctx context.Context, client *kgo.Client, topic string) map[int32]int64 {
	t.Helper()
	return listed(t, ctx, topic, kadm.NewClient(client).ListStartOffsets)
}

func listed(t testing.TB, ctx context.Context, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) map[int32]int64 {
	t.Helper()
	got, err := list(ctx, topic)
	if err != nil {
		t.Fatalf("list the offsets of %s: %v", topic, err)
	}
	out := map[int32]int64{}
	got.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatalf("list the offset of %s-%d: %v", topic, o.Partition, o.Err)
		}
		out[o.Partition] = o.Offset
	})
	if len(out) == 0 {
		t.Fatalf("the server names no partition of %s", topic)
	}
	return out
}

// Ends gives the last stable end of each partition of a topic.
func Ends(t testing.TB, addr, topic string) map[int32]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return endOffsets(t, t.Context(), client, topic)
}

// ListedAt asks where a time is in each partition; negative ones have meanings of their own.
func ListedAt(t testing.TB, addr, topic string, ms int64, partitions int) []int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req, rt := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for n := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = int32(n), ms
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int64, partitions)
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("time %d of %s-%d: %v", ms, topic, p.Partition, err)
		}
		out[p.Partition] = p.Offset
	}
	return out
}

// CreateTopic makes a topic on any Kafka.
func CreateTopic(t testing.TB, addr, topic string, partitions int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
}

// decided waits until each transaction is that has records in a topic now. A coordinator acknowledges the end of one when it
// has written that down, and its markers come to the partitions behind that: until then no read_committed consumer sees
// what is acknowledged.
func decided(t testing.TB, addr, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends := listed(t, t.Context(), topic, kadm.NewClient(client).ListEndOffsets)
	Eventually(t, Patience, func() error {
		for p, stable := range endOffsets(t, t.Context(), client, topic) {
			if stable < ends[p] {
				return fmt.Errorf("the transactions in %s-%d are decided up to offset %d, want %d", topic, p, stable, ends[p])
			}
		}
		return nil
	})
}
