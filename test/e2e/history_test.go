package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A plain Kafka client reads a topic from offset 0 although the log has dropped every record: history comes
// from the table, with the same offsets, keys and values, and then new records from the log (I4, I6).
func TestKafkaClientReadsHistory(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--topic", "old:2", "--flush-age", "200ms")
	const n = 3000
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "k%d\t{\"n\":%d,\"text\":\"event %d\"}\n", i%7, i, i)
	}
	harness.Run(t, strings.NewReader(in.String()), "produce", "--brokers", s.Addr, "--topic", "old", "--key-separator", "\t", "--quiet")
	before := harness.Consume(t, s.Addr, "old")
	if len(before) != n {
		t.Fatalf("%d records before the log is cut, want %d", len(before), n)
	}
	harness.Eventually(t, time.Minute, func() error {
		var r struct{ Rows int64 }
		out, err := harness.TryRun(t, nil, "inspect", s.Table("old"), "--json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(out, &r); err != nil || r.Rows != n {
			return fmt.Errorf("%d rows in the table (%v)", r.Rows, err)
		}
		return nil
	})
	cutLog(t, s.Addr, "old", n)
	harness.Run(t, strings.NewReader("k\t{\"n\":-1,\"text\":\"new\"}\n"), "produce", "--brokers", s.Addr, "--topic", "old", "--key-separator", "\t", "--quiet")
	after := harness.Consume(t, s.Addr, "old")
	if len(after) != n+1 {
		t.Fatalf("%d records after the log was cut, want %d", len(after), n+1)
	}
	got := map[harness.Position]harness.Record{}
	for _, r := range after {
		got[r.Position] = r
	}
	for _, want := range before {
		r, ok := got[want.Position]
		if !ok || string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) || r.Timestamp != want.Timestamp {
			t.Fatalf("%s: history gives %+v, the log gave %+v", want.Position, r, want)
		}
	}
}

// cutLog drops every record of the topic from the log and checks that the log is then empty.
func cutLog(t *testing.T, addr, topic string, n int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := admin.DeleteRecords(ctx, ends.Offsets())
	if err != nil {
		t.Fatal(err)
	}
	low := int64(0)
	cut.Each(func(r kadm.DeleteRecordsResponse) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		low += r.LowWatermark
	})
	if low != n {
		t.Fatalf("the log starts at %d of %d records after all were dropped", low, n)
	}
}
