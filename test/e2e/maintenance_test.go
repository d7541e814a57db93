package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// An optimized table is the same to us, to delta-rs, DuckDB and polars, before its old files are vacuumed and
// after; an older version comes back with its rows while its files are there, and names them when not. I3, I6
func TestOthersReadMaintainedTable(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const n = 4000
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "20ms", "--optimize-interval", "0")
	table := s.Table("events")
	for from := 0; from < n; from += n / 20 {
		produce(t, s.Addr, "events", seed, from, from+n/20)
		awaitRows(t, table, from+n/20)
	}
	s.Stop(t)
	before, err := inspect(t, table)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Before, After, Removed struct{ Files int }
		Version                int64
	}
	decode(t, harness.Run(t, nil, "optimize", table, "--target-size", "1MiB", "--json", "--log-level", "warn"), &report)
	if report.Before.Files != before.Files || report.After.Files > before.Files/4 {
		t.Fatalf("%d files before, %+v", before.Files, report)
	}
	checkReaders(t, table, seed, n)
	harness.Run(t, nil, "check", table)

	middle := fmt.Sprint(before.Version / 2)
	harness.Run(t, nil, "restore", table, "--to-version", middle)
	half, err := inspect(t, table)
	if err != nil || half.Rows == nil || *half.Rows == 0 || *half.Rows >= n || half.Version != report.Version+1 {
		t.Fatalf("restored to version %s: %+v, %v", middle, half, err)
	}
	for _, engine := range engines {
		if got := len(foreignRows(t, engine, table)); int64(got) != *half.Rows {
			t.Errorf("%s reads %d rows of the restored version, want %d", engine, got, *half.Rows)
		}
	}
	harness.Run(t, nil, "restore", table, "--to-version", fmt.Sprint(report.Version))
	checkReaders(t, table, seed, n)

	var vacuum struct{ Found, Deleted struct{ Files int } }
	decode(t, harness.Run(t, nil, "vacuum", table, "--retention", "0s", "--force", "--json", "--log-level", "warn"), &vacuum)
	if vacuum.Deleted.Files < before.Files || vacuum.Deleted != vacuum.Found {
		t.Fatalf("%d files before, %+v", before.Files, vacuum)
	}
	files, err := filepath.Glob(table + "/*.parquet")
	if err != nil || len(files) != report.After.Files {
		t.Fatalf("%d data files are left, want %d: %v", len(files), report.After.Files, err)
	}
	checkReaders(t, table, seed, n)
	harness.Run(t, nil, "check", table)
	if out, err := harness.TryRun(t, nil, "restore", table, "--to-version", middle); err == nil || !strings.Contains(err.Error()+string(out), ".parquet") {
		t.Errorf("a version without its files is restored: %v %s", err, out)
	}
	if out, err := harness.TryRun(t, nil, "vacuum", table, "--retention", "1h"); err == nil {
		t.Errorf("a short retention time is accepted: %s", out)
	}
}

func decode(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
}

// A served table that gets a version every fraction of a second keeps few files, while it is written and read:
// optimize runs beside it. I3, I4
func TestBackgroundOptimize(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const least, step, versions = 3000, 75, 40
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "50ms", "--flush-rows", fmt.Sprint(step/2), "--optimize-interval", "300ms")
	table, n := s.Table("events"), 0
	more := func() {
		produce(t, s.Addr, "events", seed, n, n+step)
		n += step
	}
	for n < least {
		more()
	}
	awaitRows(t, table, n)
	for { // where tiering is slower than the producer it makes fewer versions of the same rows
		i, err := inspect(t, table)
		if err != nil {
			t.Fatal(err)
		}
		if i.Version >= versions {
			break
		}
		more()
		awaitRows(t, table, n)
	}
	harness.Eventually(t, 30*time.Second, func() error {
		i, err := inspect(t, table)
		if err == nil && (i.Files > 12) {
			err = fmt.Errorf("%d files in version %d", i.Files, i.Version)
		}
		return err
	})
	stream := readTable(t, s.Dir+"/events", "--from", "earliest", "--until", "now")
	harness.InOrder(t, "the stream", stream)
	wantEvents(t, "the stream", harness.ByPosition(t, "the stream", stream), seed, n)
	s.Stop(t)
	checkReaders(t, table, seed, n)
	harness.Run(t, nil, "check", table)
}

// Deletion vectors, column mapping and widened types as Spark writes them: we read the rows that Spark reads, and a table whose
// vectors we applied is to Spark what it was.
func TestWeReadSparksFeatures(t *testing.T) {
	harness.SparkPython(t)
	for _, kind := range []string{"vectors", "mapped", "widened"} {
		table := t.TempDir() + "/" + kind
		theirs := byKey(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", kind, table)))
		sameByKey(t, "ledgerlake", byKey(t, "ledgerlake", readTable(t, table)), "Spark", theirs)
		if kind != "vectors" {
			continue
		}
		var report struct{ Deleted, Commits int }
		decode(t, harness.Run(t, nil, "optimize", table, "--json", "--log-level", "warn"), &report)
		if report.Deleted == 0 || report.Commits == 0 {
			t.Errorf("optimize applied no deletion vector: %+v", report)
		}
		sameByKey(t, "ledgerlake", byKey(t, "ledgerlake", readTable(t, table)), "Spark before", theirs)
		again := byKey(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "read", table)))
		sameByKey(t, "Spark after", again, "Spark before", theirs)
	}
}

// The same on S3: optimize and vacuum while the table is there for delta-rs and DuckDB.
func TestMaintenanceOnS3(t *testing.T) {
	harness.Python(t)
	s3 := harness.S3(t)
	seed := seedtest.New(t)
	const n, steps = 1500, 6
	table, ours := fillTableOnS3InSteps(t, s3, seed, n, steps)
	at := []string{"--s3-endpoint", s3.Endpoint, "--json", "--log-level", "warn"}
	var report struct{ Before, After struct{ Files int } }
	decode(t, harness.Run(t, nil, append([]string{"optimize", table}, at...)...), &report)
	if report.Before.Files < steps || report.After.Files != 1 {
		t.Fatalf("%+v", report)
	}
	var vacuum struct{ Deleted struct{ Files int } }
	decode(t, harness.Run(t, nil, append([]string{"vacuum", table, "--retention", "0s", "--force"}, at...)...), &vacuum)
	if vacuum.Deleted.Files != report.Before.Files {
		t.Fatalf("%+v after %+v", vacuum, report)
	}
	for _, engine := range engines {
		theirs := harness.ByPosition(t, engine, foreignRows(t, engine, table))
		harness.SameRows(t, engine, theirs, "ledgerlake", ours)
	}
	harness.Run(t, nil, "check", table, "--s3-endpoint", s3.Endpoint)
}

// fillTableOnS3InSteps makes a table of that many commits at least. It gives the table and our reading of it.
func fillTableOnS3InSteps(t *testing.T, s3 *harness.S3Server, seed uint64, n, steps int) (string, map[harness.Position]map[string]any) {
	t.Helper()
	table := "s3://" + s3.Bucket + "/maintained/events"
	s := harness.Serve(t, t.TempDir(), "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "20ms", "--optimize-interval", "0", "--lake", "s3://"+s3.Bucket+"/maintained", "--s3-endpoint", s3.Endpoint)
	var rows []map[string]any
	for i := range steps {
		produce(t, s.Addr, "events", seed, i*n/steps, (i+1)*n/steps)
		harness.Eventually(t, time.Minute, func() error {
			out, err := harness.TryRun(t, nil, "read", table, "--output", "ndjson", "--s3-endpoint", s3.Endpoint)
			if err == nil {
				if rows = harness.DecodeRows(t, out); len(rows) < (i+1)*n/steps {
					err = fmt.Errorf("the table holds %d rows of %d", len(rows), (i+1)*n/steps)
				}
			}
			return err
		})
	}
	s.Stop(t)
	ours := harness.ByPosition(t, "ledgerlake", rows)
	wantEvents(t, "ledgerlake", ours, seed, n)
	return table, ours
}
