package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// serve keeps its tables on a real S3 server; delta-rs, DuckDB and polars read them there.
func TestServeWithTablesOnS3(t *testing.T) {
	harness.Python(t)
	s3 := harness.S3(t)
	seed := seedtest.New(t)
	const n = 3000
	table, ours := fillTableOnS3(t, s3, seed, n)
	for _, engine := range engines {
		theirs := harness.ByPosition(t, engine, foreignRows(t, engine, table))
		harness.SameRows(t, engine, theirs, "ledgerlake", ours)
	}
}

// serve orders the versions by the lock table that delta-rs 0.25 and Spark share; delta-rs finds all of them by it.
func TestServeWithLockTable(t *testing.T) {
	python, s3 := harness.DynamoPython(t), harness.S3(t)
	harness.DynamoDB(t)
	t.Setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
	t.Setenv("DELTA_DYNAMO_TABLE_NAME", "locks")
	seed := seedtest.New(t)
	const n = 2000
	table, ours := fillTableOnS3(t, s3, seed, n, "--dynamodb-create")
	const script = "import sys, os; from deltalake import DeltaTable; t = DeltaTable(sys.argv[1], storage_options={'aws_conditional_put': 'etag'}).to_pyarrow_table(columns=['_partition', '_offset']); " +
		"print(sorted(zip(t[0].to_pylist(), t[1].to_pylist())), flush=True); os._exit(0)"
	out, err := exec.Command(python, "-c", script, table).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for p := range ours {
		want = append(want, fmt.Sprintf("(%d, %d)", p.Partition, p.Offset))
	}
	got := strings.Split(strings.ReplaceAll(strings.Trim(strings.TrimSpace(string(out)), "[]"), "), (", ")|("), "|")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("delta-rs reads %d rows, we read %d", len(got), len(want))
	}
}

// fillTableOnS3 is fillTable with the table on S3. It gives the table and our reading of it.
func fillTableOnS3(t *testing.T, s3 *harness.S3Server, seed uint64, n int, args ...string) (string, map[harness.Position]map[string]any) {
	t.Helper()
	table := "s3://" + s3.Bucket + "/tables/events"
	s := harness.Serve(t, t.TempDir(), "", append(args, "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "300ms", "--lake", "s3://"+s3.Bucket+"/tables", "--s3-endpoint", s3.Endpoint)...)
	produce(t, s.Addr, "events", seed, 0, n)
	awaitRows(t, table, n, "--s3-endpoint", s3.Endpoint)
	s.Stop(t)

	ours := harness.ByPosition(t, "ledgerlake", readTable(t, table, "--s3-endpoint", s3.Endpoint))
	wantEvents(t, "ledgerlake", ours, seed, n)
	return table, ours
}

// Two processes that do not know of each other write the same topic into one table on S3. The store
// takes each version from one of them (I5), and positions ride in the same commits, so every record is a
// row once whoever wins (I3).
func TestRivalIngestsOnS3(t *testing.T) {
	s3 := harness.S3(t)
	seed := seedtest.New(t)
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "events:3")
	table := fmt.Sprintf("s3://%s/rivals/events", s3.Bucket)
	args := []string{"ingest", "--brokers", s.Addr, "--topic", "events", "--table", table, "--s3-endpoint", s3.Endpoint,
		"--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "100ms"}

	load := harness.StartLoad(t, harness.LoadConfig{Addr: s.Addr, Topic: "events", Seed: seed})
	// A rival that finds its position taken may end with an error or go on from there; both are right.
	rivals := []*harness.Process{harness.Start(t, args...), harness.Start(t, args...)}
	harness.Eventually(t, time.Minute, func() error { return load.Reached(10000) })
	acked := load.Stop(t)
	for _, p := range rivals {
		p.Kill()
	}
	harness.Run(t, nil, append(args, "--until-latest")...)
	harness.WantAcked(t, "the table", slices.Values(readTable(t, table, "--s3-endpoint", s3.Endpoint)), seed, acked)
}
