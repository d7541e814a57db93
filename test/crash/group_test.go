package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Two ingest processes share 12 partitions of a real Kafka as a consumer group, while producers send with every
// codec, half of them in transactions that they commit and abort. Both processes are killed at random moments, so
// that partitions move between them. Meanwhile a reader starts at random offsets and crosses from the table into
// the log. In the end each committed record is in the table once (I3) and every read was in order and complete (I4).
//
// LEDGERLAKE_KILLS=25 LEDGERLAKE_RATE=20000 LEDGERLAKE_RECORDS=2000000 is the long form.
func TestGroupOfIngestsIsKilled(t *testing.T) {
	k := harness.Kafka(t)
	const partitions = 12
	harness.CreateTopic(t, k.Addr, "events", partitions)
	seed := seedtest.New(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	table := filepath.Join(t.TempDir(), "events")
	base := []string{"ingest", "--brokers", k.Addr, "--topic", "events", "--table", table, "--format", "json",
		"--schema", harness.WriteEventSchema(t), "--log-level", "warn"}
	member := append(append([]string{}, base...), "--group", "g", "--session-timeout", "6s", "--flush-age", "200ms")

	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "events", Seed: seed, Transactions: true,
		Producers: 6, Rate: number(t, "LEDGERLAKE_RATE", 3000)})
	procs := []*harness.Process{harness.Start(t, member...), harness.Start(t, member...)}
	awaitFirstCommit(t, table)
	least, records := harness.Kills(t, 5), number(t, "LEDGERLAKE_RECORDS", 1)
	kills, seams := 0, 0
	for kills < least || load.Acked() < records {
		time.Sleep(time.Duration(500+rng.IntN(4000)) * time.Millisecond)
		i := rng.IntN(len(procs))
		select {
		case <-procs[i].Done():
			t.Fatalf("before kill %d: a member ended by itself:\n%s", kills, procs[i].Log())
		default:
		}
		procs[i].Kill()
		procs[i] = harness.Start(t, member...)
		kills++
		if readOverSeam(t, rng, k.Addr, table, partitions) {
			seams++
		}
	}
	acked := load.Stop(t)
	for _, p := range procs {
		p.Kill()
	}
	before := countRows(t, table)
	harness.Run(t, nil, append(base, "--until-latest")...)
	t.Logf("%d events (and %d aborted) through %d kills, %d reads over the seam of %d partitions; %d were in the table before the last run",
		len(acked), load.Aborted(), kills, seams, partitions, before)
	if before == 0 || load.Aborted() == 0 || seams == 0 {
		t.Error("nothing was committed before the last run, or nothing was aborted, or no read crossed the seam: the kills prove nothing")
	}
	harness.WantAcked(t, "the table", harness.Rows(t, "read", table, "--output", "ndjson"), seed, acked)
	harness.Run(t, nil, "check", table)
}

// awaitFirstCommit waits until a process has done something: kills before it, while a group forms for instance,
// would prove nothing.
func awaitFirstCommit(t *testing.T, table string) { awaitRows(t, table, 1) }

// awaitRows waits until a table has n rows. An orderly stop commits what was read from the log by then and no more.
func awaitRows(t *testing.T, table string, n int) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		if got := countRows(t, table); got < n {
			return fmt.Errorf("%d rows are committed, waiting for %d", got, n)
		}
		return nil
	})
}

// number is a positive number of the environment.
func number(t *testing.T, name string, normal int) int {
	n := normal
	if s := os.Getenv(name); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil || n < 1 {
			t.Fatalf("%s %q is not a number above 0", name, s)
		}
	}
	return n
}

// readOverSeam reads each partition from a random offset up to now and compares it with the log alone. The
// log still holds everything, so both must give the same offsets: those of committed records, in order. It says
// whether there was a table, so that there was a seam to cross.
func readOverSeam(t *testing.T, rng *rand.Rand, addr, table string, partitions int) bool {
	t.Helper()
	if _, err := os.Stat(filepath.Join(table, "_delta_log")); err != nil {
		return false
	}
	ends := harness.Ends(t, addr, "events")
	var from, until []string
	for p := range int32(partitions) {
		end := ends[p]
		from = append(from, fmt.Sprintf("%d:%d", p, end-rng.Int64N(min(end, 5_000)+1)))
		until = append(until, fmt.Sprintf("%d:%d", p, end))
	}
	args := []string{"read", "kafka://" + addr + "/events", "--from", strings.Join(from, ","), "--until", strings.Join(until, ","),
		"--log-level", "warn", "--columns", "_partition,_offset,_value"}
	alone := slices.Collect(harness.Rows(t, args...))
	both := slices.Collect(harness.Rows(t, append(args, "--table", table)...))
	harness.InOrder(t, "the log", alone)
	harness.InOrder(t, "table and log", both)
	harness.SameRows(t, "table and log", harness.ByPosition(t, "table and log", both), "the log", harness.ByPosition(t, "the log", alone))
	return true
}
