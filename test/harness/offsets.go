package harness

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endOffsets gives the last stable end of each partition.
func endOffsets(t testing.TB, ctx context.Context, client *kgo.Client, topic string) map[int32]int64 {
	t.Helper()
	listed, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatalf("list the ends of %s: %v", topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatalf("the end of %s-%d: %v", topic, o.Partition, o.Err)
		}
		ends[o.Partition] = o.Offset
	})
	if len(ends) == 0 {
		t.Fatalf("the server names no partition of %s", topic)
	}
	return ends
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
