package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A real Kafka with a transactional producer that aborts some of its work: ingest makes rows of what was
// committed and of nothing else, a foreign engine agrees, a second run adds only what is new, and a read
// over the table and Kafka's tail crosses the seam without a gap or a double (I3, I4).
func TestIngestFromRealKafka(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	seed := seedtest.New(t)
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

// librdkafka aborts one transaction on a real Kafka and commits the next: a consumer, the table and a read of
// Kafka alone show exactly the committed records (I3, I4).
func TestTransactionsOnRealKafka(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "tx", 2)
	want := transact(t, k.Addr, "tx")
	table := filepath.Join(t.TempDir(), "tx")
	harness.Run(t, nil, "ingest", "--brokers", k.Addr, "--topic", "tx", "--table", table, "--format", "raw", "--until-latest")
	wantValues(t, "the table", readTable(t, table), want)
	wantValues(t, "a read of Kafka alone", readTable(t, "kafka://"+k.Addr+"/tx"), want)
}

// The same on our own log: what it acknowledged as committed is there, also after a kill, and what was aborted
// is in no table and in no read (I1, I3, I4).
func TestTransactionsOnOurLog(t *testing.T) {
	harness.Python(t)
	dir := t.TempDir()
	args := []string{"--topic", "tx:2", "--format", "raw", "--flush-age", "200ms"}
	s := harness.Serve(t, dir, "", args...)
	want := transact(t, s.Addr, "tx")
	s.Kill()
	s = harness.Serve(t, dir, "", args...)
	wantValues(t, "the stream after a kill", readTable(t, dir+"/tx", "--from", "earliest", "--until", "now"), want)
	awaitRows(t, s.Table("tx"), len(want))
	s.Stop(t)
	wantValues(t, "the table", readTable(t, s.Table("tx")), want)
}

// transact has librdkafka abort and commit, and read the committed records back. It gives these.
func transact(t *testing.T, addr, topic string) map[harness.Position]string {
	t.Helper()
	const n = 300
	want := map[harness.Position]string{}
	for _, m := range client(t, "transact", addr, topic, fmt.Sprint(n)) {
		want[m.at()] = fmt.Sprintf(`{"n":%d,"name":"librdkafka %d"}`, m.I, m.I)
	}
	if len(want) != n {
		t.Fatalf("%d committed messages were acknowledged, want %d", len(want), n)
	}
	got := map[harness.Position]string{}
	for _, m := range client(t, "committed", addr, topic, fmt.Sprint(n)) {
		got[m.at()] = string(m.Value)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("a read_committed consumer got %d records, or other ones than the %d that were committed", len(got), len(want))
	}
	return want
}

func wantValues(t *testing.T, who string, rows []map[string]any, want map[harness.Position]string) {
	t.Helper()
	got := map[harness.Position]string{}
	for at, row := range harness.ByPosition(t, who, rows) {
		got[at] = string(harness.Bytes(t, row, "_value"))
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d records, want %d", who, len(got), len(want))
	}
	for at, v := range want {
		if got[at] != v {
			t.Fatalf("%s: at %s is %q, want %q", who, at, got[at], v)
		}
	}
}

// Two processes of one group share the partitions; one leaves, its partitions go to the other, and it
// comes back. Each record is a row once, whoever had its partition (I3).
func TestIngestGroup(t *testing.T) {
	k := harness.Kafka(t)
	seed := seedtest.New(t)
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
