package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// serve keeps its tables on a real S3 server; delta-rs, DuckDB and polars read them there.
func TestServeWithTablesOnS3(t *testing.T) {
	harness.Python(t)
	s3 := harness.S3(t)
	seed := harness.Seed(t, 31)
	const n = 3000
	table, ours := fillTableOnS3(t, s3, seed, n)
	for _, engine := range engines {
		theirs := harness.ByPosition(t, engine, foreignRows(t, engine, table))
		harness.SameRows(t, engine, theirs, "ledgerlake", ours)
	}
}

// fillTableOnS3 is fillTable with the table on S3. It gives the table and our reading of it.
func fillTableOnS3(t *testing.T, s3 *harness.S3Server, seed uint64, n int) (string, map[harness.Position]map[string]any) {
	t.Helper()
	table := "s3://" + s3.Bucket + "/tables/events"
	s := harness.Serve(t, t.TempDir(), "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "300ms", "--lake", "s3://"+s3.Bucket+"/tables", "--s3-endpoint", s3.Endpoint)
	produce(t, s.Addr, "events", seed, 0, n)
	s.Stop(t) // which commits what is left

	ours := harness.ByPosition(t, "ledgerlake", readTable(t, table, "--s3-endpoint", s3.Endpoint))
	wantEvents(t, "ledgerlake", ours, seed, n)
	return table, ours
}

// Two processes that do not know of each other write the same topic into one table on S3. The store
// takes each version from one of them (I5), and positions ride in the same commits, so every record is a
// row once whoever wins (I3).
func TestRivalIngestsOnS3(t *testing.T) {
	s3 := harness.S3(t)
	seed := harness.Seed(t, uint64(time.Now().UnixNano()))
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
