package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// ingest from our own server is killed while the topic fills.
func TestIngestIsKilled(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "events:3")
	killIngest(t, s.Addr, harness.LoadConfig{}, 12, 1)
}

// Two ingest processes that do not know of each other write a topic of a real Kafka, whose producer aborts
// every third transaction, into one table; both are killed again and again. The table holds each committed
// record once (I3). They are in no group on purpose: Kafka gives a dead member's partitions away only
// after 45 s, and rivals that both write everything are the harder case.
func TestTwoIngestsFromRealKafkaAreKilled(t *testing.T) {
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "events", 3)
	killIngest(t, k.Addr, harness.LoadConfig{Transactions: true, Rate: 2000}, 12, 2)
}

func killIngest(t *testing.T, addr string, c harness.LoadConfig, kills, processes int) {
	t.Helper()
	c.Addr, c.Topic, c.Seed = addr, "events", seedtest.New(t)
	kills = harness.Kills(t, kills)
	r := rand.New(rand.NewPCG(c.Seed, 2))
	table := filepath.Join(t.TempDir(), "events")
	args := []string{"ingest", "--brokers", addr, "--topic", "events", "--table", table, "--format", "json",
		"--schema", harness.WriteEventSchema(t), "--log-level", "warn"}
	running := append(slices.Clone(args), "--flush-age", "100ms")

	load := harness.StartLoad(t, c)
	procs := make([]*harness.Process, processes)
	for i := range procs {
		procs[i] = harness.Start(t, running...)
	}
	awaitFirstCommit(t, table)
	for kill := range kills {
		time.Sleep(time.Duration(100+r.IntN(900)) * time.Millisecond)
		i := r.IntN(processes)
		select {
		case <-procs[i].Done():
			// With a rival it may find its position taken, and say so. Alone it has no reason to end.
			if processes == 1 {
				t.Fatalf("before kill %d: ingest ended by itself:\n%s", kill, procs[i].Log())
			}
			t.Logf("before kill %d: a rival had ended: %s", kill, procs[i].Log())
		default:
		}
		procs[i].Kill()
		procs[i] = harness.Start(t, running...)
	}
	for _, p := range procs {
		p.Kill()
	}
	acked := load.Stop(t)
	before := countRows(t, table)
	harness.Run(t, nil, append(args, "--until-latest")...)
	t.Logf("%d events (%d aborted) through %d kills; %d were in the table before the last run", len(acked), load.Aborted(), kills, before)
	if before == 0 {
		t.Error("no process committed anything before it was killed: the kills prove nothing")
	}
	if c.Transactions && load.Aborted() == 0 {
		t.Error("no transaction was aborted")
	}

	harness.WantAcked(t, "the table", harness.Rows(t, "read", table, "--output", "ndjson"), c.Seed, acked)
	harness.Run(t, nil, "check", table)
	// Again: nothing is left to do, and nothing is written twice.
	harness.Run(t, nil, append(args, "--until-latest")...)
	if again := countRows(t, table); again != len(acked) {
		t.Errorf("a second drain changed the table: %d rows, want %d", again, len(acked))
	}
}

func countRows(t *testing.T, table string) int {
	t.Helper()
	if _, err := os.Stat(filepath.Join(table, "_delta_log", "00000000000000000000.json")); err != nil {
		return 0 // no table yet
	}
	n := 0
	for range harness.Rows(t, "read", table, "--columns", "_offset", "--output", "ndjson") {
		n++
	}
	return n
}
