package harness

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
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
