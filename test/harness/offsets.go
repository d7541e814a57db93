package harness

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
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
