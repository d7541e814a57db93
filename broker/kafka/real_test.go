package kafka

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestRealKafka runs against the Kafka that LEDGERLAKE_KAFKA names, host:port[,host:port...]. It makes the
// topic "orders" anew there.
func TestRealKafka(t *testing.T) {
	addrs := os.Getenv("LEDGERLAKE_KAFKA")
	if addrs == "" {
		t.Skip("LEDGERLAKE_KAFKA is not set; it names a Kafka, host:port, whose topic " + topic + " is made anew")
	}
	brokers := strings.Split(addrs, ",")
	cl := newProducer(t, brokers)
	adm := kadm.NewClient(cl)
	ctx := testCtx(t)
	_, _ = adm.DeleteTopic(ctx, topic) // it may not be there
	s := open(t, Config{Brokers: brokers})
	for {
		_, err := adm.CreateTopic(ctx, 4, -1, nil, topic)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") || ctx.Err() != nil { // being deleted
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = adm.DeleteTopic(t.Context(), topic) })
	for { // until the brokers know it
		if p, err := s.Partitions(ctx, topic); err == nil && len(p) == 4 {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	checkTransactions(t, s, brokers)

	produce(t, cl, topic, 1, numbers(0, 20)...)
	if _, err := adm.DeleteRecords(ctx, kadm.Offsets{topic: {1: {Topic: topic, Partition: 1, At: 12}}}); err != nil {
		t.Fatal(err)
	}
	bounds := broker.Bounds{Start: 12, Stable: 20, End: 20}
	for _, o := range []record.Offset{0, 11, 21} {
		wantOutOfRange(t, fetch1(t, s, 1, o, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second}).Err, o, bounds)
	}
	wantValues(t, drain(t, s, broker.ReadCommitted, 100, tp(1))[tp(1)], numbers(12, 8))
	if o, err := s.OffsetForTime(ctx, tp(1), time.Now().Add(time.Hour).UnixMilli()); err != nil || o != 20 {
		t.Errorf("offset for the future: %d, %v", o, err)
	}
}
