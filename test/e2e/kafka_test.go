package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
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
	harness.WantAcked(t, "table and Kafka", slices.Values(over), seed, acked)

	harness.Run(t, nil, ingest...)
	harness.WantAcked(t, "the table", slices.Values(readTable(t, table)), seed, acked)
	harness.WantAcked(t, "DuckDB", slices.Values(foreignRows(t, "duckdb", table)), seed, acked)
}

// librdkafka commits one transaction and aborts another on a real Kafka. A read_committed consumer, the
// table, and a read of ours over Kafka alone all give the committed messages, at the same offsets: the
// aborted ones are holes (I3, I4).
func TestTransactionsOfLibrdkafka(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "tx", 2)
	const n = 300
	want := map[harness.Position]string{}
	for _, m := range client(t, "transact", k.Addr, "tx", fmt.Sprint(n)) {
		want[m.at()] = fmt.Sprintf(`{"n":%d,"name":"librdkafka %d"}`, m.I, m.I)
	}
	if len(want) != n {
		t.Fatalf("%d committed messages were acknowledged, want %d", len(want), n)
	}
	check := func(who string, got map[harness.Position]string) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: %d records, want %d", who, len(got), len(want))
		}
		for at, v := range want {
			if got[at] != v {
				t.Fatalf("%s: at %s is %q, want %q", who, at, got[at], v)
			}
		}
	}
	values := func(who string, rows []map[string]any) map[harness.Position]string {
		out := map[harness.Position]string{}
		for at, row := range harness.ByPosition(t, who, rows) {
			out[at] = string(harness.Bytes(t, row, "_value"))
		}
		return out
	}

	consumed := map[harness.Position]string{}
	for _, m := range client(t, "committed", k.Addr, "tx", fmt.Sprint(n)) {
		consumed[m.at()] = string(m.Value)
	}
	check("a read_committed consumer", consumed)

	table := filepath.Join(t.TempDir(), "tx")
	harness.Run(t, nil, "ingest", "--brokers", k.Addr, "--topic", "tx", "--table", table, "--format", "raw", "--until-latest")
	check("the table", values("the table", readTable(t, table)))
	check("a read of Kafka alone", values("kafka", readTable(t, "kafka://"+k.Addr+"/tx")))
}

// Two processes of one group share the partitions; one leaves, its partitions go to the other, and it
// comes back. Each record is a row once, whoever had its partition (I3).
func TestIngestGroup(t *testing.T) {
	k := harness.Kafka(t)
	seed := harness.Seed(t, uint64(time.Now().UnixNano()))
	harness.CreateTopic(t, k.Addr, "shared", 4)
	table := filepath.Join(t.TempDir(), "shared")
	args := []string{"ingest", "--brokers", k.Addr, "--topic", "shared", "--table", table,
		"--format", "json", "--schema", harness.WriteEventSchema(t)}
	member := append(slices.Clone(args), "--group", "g", "--flush-age", "200ms")

	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "shared", Seed: seed, Rate: 2000})
	first, second := harness.Start(t, member...), harness.Start(t, member...)
	grown := func() {
		t.Helper()
		before := load.Acked()
		awaitRows(t, table, before+1000) // so somebody takes in what was sent after this moment
	}
	grown()
	first.Stop(t)
	grown()
	first = harness.Start(t, member...)
	grown()
	second.Stop(t)
	grown()
	acked := load.Stop(t)
	awaitRows(t, table, len(acked))
	first.Stop(t)
	harness.WantAcked(t, "the table", slices.Values(readTable(t, table)), seed, acked)
}
