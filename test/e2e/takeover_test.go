package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// oldTable makes a table as users of kafka-delta-ingest do: payload columns and nothing else.
func oldTable(t *testing.T, partitioned ...string) string {
	t.Helper()
	table := filepath.Join(t.TempDir(), "web")
	harness.RunPython(t, nil, "olddaemon.py", append([]string{"create", table, harness.WriteEventSchema(t)}, partitioned...)...)
	return table
}

// wantPayloads fails unless each acknowledged event is one row, found by its own number since the rows say nothing of
// where they come from (I3). With values, all its columns are compared.
func wantPayloads(t *testing.T, who string, rows []map[string]any, seed uint64, acked map[int]harness.Position, values bool) {
	t.Helper()
	seen := map[int]bool{}
	for _, row := range rows {
		n := int(harness.Int(t, row, "n"))
		if _, ok := acked[n]; !ok {
			t.Fatalf("%s: event %d was never acknowledged: %v", who, n, row)
		}
		if seen[n] {
			t.Fatalf("%s: event %d, at %s, is there twice", who, n, acked[n])
		}
		seen[n] = true
		if values {
			if d := harness.Difference(row, harness.NewEvent(seed, n).Row); d != "" {
				t.Fatalf("%s: event %d differs in %s", who, n, d)
			}
		}
	}
	for n, at := range acked {
		if !seen[n] {
			t.Fatalf("%s: event %d, at %s, is missing; %d rows, %d events", who, n, at, len(rows), len(acked))
		}
	}
}

func oldTxns(t *testing.T, table, app string, n int) []int64 {
	t.Helper()
	var out []int64
	if err := json.Unmarshal(harness.RunPython(t, nil, "olddaemon.py", "txns", table, app, fmt.Sprint(n)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A table that delta-rs filled as kafka-delta-ingest does is taken over with that program's own command line: it goes on
// behind each recorded offset, its columns stay, other engines find every event once, and delta-rs reads our positions
// where the old program would look for its own, so that it could go on too (I3).
func TestTakeOver(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	harness.CreateTopic(t, k.Addr, "web", 3)
	table := oldTable(t)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "web", Seed: seed, Transactions: true})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(2000) })

	var feed bytes.Buffer
	for _, row := range readTable(t, "kafka://"+k.Addr+"/web", "--from", "earliest", "--until", "now") {
		at, payload := harness.PositionOf(t, row), map[string]any{}
		if err := json.Unmarshal(harness.Bytes(t, row, "_value"), &payload); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(map[string]any{"partition": at.Partition, "offset": at.Offset, "row": payload})
		if err != nil {
			t.Fatal(err)
		}
		feed.Write(append(line, '\n'))
	}
	harness.RunPython(t, &feed, "olddaemon.py", "append", table, "scribd")
	before := oldTxns(t, table, "scribd", 3)
	had := len(readTable(t, table))

	line := []string{"ingest", "web", table, "--kafka", k.Addr, "--app_id", "scribd", "-l", "1", "-c", "-K", "client.id=old"}
	running := harness.Start(t, line...)
	harness.Eventually(t, time.Minute, func() error { return load.Reached(4000) })
	awaitRows(t, table, had+1000)
	running.Stop(t)
	acked := load.Stop(t)
	if load.Aborted() == 0 {
		t.Error("no transaction was aborted: the test shows less than it says")
	}
	harness.Run(t, nil, append(line, "-e")...)
	harness.Run(t, nil, append(line, "-e")...) // nothing is left, and nothing is written

	wantPayloads(t, "the table", readTable(t, table), seed, acked, true)
	wantPayloads(t, "DuckDB", foreignRows(t, "duckdb", table), seed, acked, true)
	wantPayloads(t, "delta-rs", foreignRows(t, "deltars", table), seed, acked, true)
	after, ends := oldTxns(t, table, "scribd", 3), harness.Ends(t, k.Addr, "web")
	for p := range after {
		if end := ends[int32(p)]; after[p] <= before[p] || after[p] != end-1 {
			t.Errorf("partition %d: txn %d after %d, the log ends at %d", p, after[p], before[p], end)
		}
	}
}

// The real kafka-delta-ingest and this program fill one table in turn, with one command line, while records come: the
// old one is killed, ours goes on at its positions, the old one goes on at ours, and so on. Every event is one row (I3).
// LEDGERLAKE_KDI names the old program's binary: it takes an hour to build, so this is by request.
func TestTakeOverFromTheRealDaemonAndBack(t *testing.T) {
	daemon := os.Getenv("LEDGERLAKE_KDI")
	if daemon == "" {
		t.Skip("LEDGERLAKE_KDI does not name a binary of kafka-delta-ingest")
	}
	harness.Python(t)
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	harness.CreateTopic(t, k.Addr, "web", 3)
	table := oldTable(t)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "web", Seed: seed, Rate: 1000})
	line := []string{"ingest", "web", table, "--kafka", k.Addr, "--app_id", "scribd", "--consumer_group", "web", "-l", "2", "-m", "200", "-c",
		"-K", "session.timeout.ms=6000"}
	grow := func() {
		t.Helper()
		awaitRows(t, table, load.Acked()+500)
	}
	for range 2 {
		old := harness.StartProgram(t, daemon, line...)
		grow()
		old.Kill()
		ours := harness.Start(t, append(slices.Clone(line), "--log-level", "warn")...)
		grow()
		ours.Stop(t)
	}
	acked := load.Stop(t)
	harness.Run(t, nil, append(line, "-e")...)
	wantPayloads(t, "the table", readTable(t, table), seed, acked, false)
	wantPayloads(t, "DuckDB", foreignRows(t, "duckdb", table), seed, acked, false)
	ends := harness.Ends(t, k.Addr, "web")
	for p, v := range oldTxns(t, table, "scribd", 3) {
		if v != ends[int32(p)]-1 {
			t.Errorf("partition %d: txn %d, the log ends at %d", p, v, ends[int32(p)])
		}
	}
}
