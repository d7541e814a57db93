package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A real Kafka is killed amid transactions. Its log directory, copied, becomes a table without a broker: what was
// committed is there, what was aborted is not; ingest from the Kafka that came back goes on behind it (I3, I4).
func TestImportOfACopiedDirectory(t *testing.T) {
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	harness.CreateTopic(t, k.Addr, "orders", 3)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "orders", Seed: seed, Transactions: true})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(3000) })
	load.BetweenEnds(t, func() { k.Kill(t) })
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(k.LogDir())); err != nil {
		t.Fatal(err)
	}
	k.Start(t)
	table := filepath.Join(t.TempDir(), "orders")
	schema := []string{"--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-rows", "1000"}
	importing := append([]string{"import", copied, table, "--topic", "orders", "--past-watermark"}, schema...)
	harness.Run(t, nil, importing...)
	rows := len(readTable(t, table))
	if rows == 0 {
		t.Fatal("the copy has given no row")
	}
	harness.Run(t, nil, importing...)
	if again := len(readTable(t, table)); again != rows {
		t.Errorf("a second import of the same copy: %d rows, want %d", again, rows)
	}
	harness.Eventually(t, time.Minute, func() error { return load.Reached(6000) })
	acked := load.Stop(t)
	if load.Aborted() == 0 {
		t.Error("no transaction was aborted: the test shows less than it says")
	}
	harness.Run(t, nil, append([]string{"ingest", "--brokers", k.Addr, "--topic", "orders", "--table", table, "--until-latest"}, schema...)...)
	harness.WantAcked(t, "the table", slices.Values(readTable(t, table)), seed, acked)
}
