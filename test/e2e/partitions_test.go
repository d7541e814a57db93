package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A topic gets more partitions while it is tiered: what comes to the new ones is in the table too (I3).
func TestMorePartitions(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--topic", "t:1", "--format", "raw", "--flush-age", "200ms")
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(p int32, n int) {
		t.Helper()
		for i := range n {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: fmt.Appendf(nil, "%d-%d", p, i)}).FirstErr(); err != nil {
				t.Fatalf("produce to partition %d: %v", p, err)
			}
		}
	}
	put(0, 20)
	res, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), 3, "t")
	if err != nil || res["t"].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	harness.Eventually(t, 20*time.Second, func() error { // until the client knows the new partitions
		return cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: 2, Value: []byte("first")}).FirstErr()
	})
	put(1, 10)
	put(2, 10)
	put(0, 5)
	want := map[int32]int{0: 25, 1: 10, 2: 11}
	harness.Eventually(t, 30*time.Second, func() error {
		out, err := harness.TryRun(t, nil, "read", s.Table("t"), "--output", "ndjson")
		if err != nil {
			return err
		}
		got := map[int32]int{}
		for at := range harness.ByPosition(t, "the table", harness.DecodeRows(t, out)) {
			got[at.Partition]++
		}
		for p, n := range want {
			if got[p] != n {
				return fmt.Errorf("the table has %v, want %v", got, want)
			}
		}
		return nil
	})
	s.Stop(t)
}
