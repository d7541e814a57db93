package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A real Kafka with a transactional producer that aborts some of its work: ingest makes rows of what was
// committed and of nothing else, a foreign engine agrees, a second run adds only what is new, and a read
// over the table and Kafka's tail crosses the seam without a gap or a double (I3, I4).
func TestIngestFromRealKafka(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	seed := harness.Seed(t, uint64(time.Now().UnixNano()))
	harness.CreateTopic(t, k.Addr, "orders", 3)
	table := filepath.Join(t.TempDir(), "orders")
	ingest := []string{"ingest", "--brokers", k.Addr, "--topic", "orders", "--table", table, "--until-latest",
		"--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-rows", "1500"}

	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "orders", Seed: seed, Transactions: true})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(2000) })
	harness.Run(t, nil, ingest...) // while the producer goes on
	harness.Eventually(t, time.Minute, func() error { return load.Reached(5000) })
	acked := load.Stop(t)
	if load.Aborted() == 0 {
		t.Error("no transaction was aborted: the test shows less than it says")
	}

	over := readTable(t, "kafka://"+k.Addr+"/orders", "--table", table, "--from", "earliest", "--until", "now")
	harness.InOrder(t, "table and Kafka", over)
	harness.WantAcked(t, "table and Kafka", over, seed, acked)

	harness.Run(t, nil, ingest...)
	harness.WantAcked(t, "the table", readTable(t, table), seed, acked)
	harness.WantAcked(t, "DuckDB", foreignRows(t, "duckdb", table), seed, acked)
}
