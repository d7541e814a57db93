package pulsar_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// TestIngestAndReadOverTheSeam: a topic becomes a table with Pulsar's ids; what came after is read from the log on, at
// dense offsets; a message's id leads to its offset on both sides (I3, I4).
func TestIngestAndReadOverTheSeam(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	p.Admin(t, "PUT", "persistent/public/default/orders/partitions", 2)
	topic, lake := "public/default/orders", filepath.Join(t.TempDir(), "orders")
	p.Tool(t, "produce", topic, "0", "1000", "batch=10", "keys=50", "nulls=9")
	source := p.URL() + "/" + topic
	harness.Run(t, nil, "ingest", source, lake, "--until-latest")
	p.Tool(t, "produce", topic, "1000", "500", "batch=10", "keys=50")

	want := map[int64][]harness.PulsarMessage{}
	for n := range int64(2) {
		want[n] = p.ReadPulsar(t, fmt.Sprintf("%s-partition-%d", topic, n))
	}
	next, rows := map[int64]int64{}, 0
	for row := range harness.Rows(t, "read", source, "--table", lake) {
		part, offset := number(t, row["_partition"]), number(t, row["_offset"])
		if offset != next[part] {
			t.Fatalf("partition %d: offset %d where %d was due", part, offset, next[part])
		}
		m := &want[part][offset]
		if id := [3]int64{number(t, row["_ledger"]), number(t, row["_entry"]), number(t, row["_batch"])}; id != m.ID() {
			t.Fatalf("partition %d offset %d: id %v, Pulsar's reader has %v", part, offset, id, m.ID())
		}
		if value, _ := row["_value"].(string); value != strings.TrimSuffix(m.Value, "null") {
			t.Fatalf("partition %d offset %d: value %.100q, Pulsar's reader has %.100q", part, offset, value, m.Value)
		}
		next[part]++
		rows++
	}
	if rows != 1500 || int(next[0]) != len(want[0]) || int(next[1]) != len(want[1]) {
		t.Errorf("%d rows, %v by partition; Pulsar's reader has %d and %d", rows, next, len(want[0]), len(want[1]))
	}
	for _, at := range []int{3, len(want[1]) - 3} { // one is in the table, the other behind it
		m := want[1][at]
		from := fmt.Sprintf("id:1@%d:%d:%d", m.Ledger, m.Entry, m.Batch)
		for row := range harness.Rows(t, "read", source, "--table", lake, "--from", from, "--limit", "1") {
			if got := number(t, row["_offset"]); got != int64(at) {
				t.Errorf("%s leads to offset %d, want %d", from, got, at)
			}
		}
	}
}

func number(t *testing.T, v any) int64 {
	t.Helper()
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
		t.Fatalf("%v is no number", v)
	}
	return n
}
