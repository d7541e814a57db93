package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// fillPartitioned makes a table with partition columns that transforms fill, and columns of types that JSON has no word
// for, from events whose fields are not all in the schema that it began with.
func fillPartitioned(t *testing.T, seed uint64, n int) string {
	t.Helper()
	return fillTable(t, t.TempDir(), seed, n, 2, "--flush-rows", "800", "--codec", "zstd",
		"--transform", "year: substr(day, `0`, `4`)", "--transform", "who: kafka.key", "--transform", "on date: at",
		"--transform", "price decimal(12,2): small", "--transform", "meta.offset: kafka.offset", "--partition-by", "year,ok")
}

// TestOthersReadPartitionedTable: foreign engines and ours give every value of a table with partition columns, and leave out
// the same rows by conditions on partition columns, dates, decimals, timestamps, text and nested columns: what the log
// says of files (partition values, smallest and largest values) rules out no row that is asked for (I4).
func TestOthersReadPartitionedTable(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const n = 4000
	table := fillPartitioned(t, seed, n)
	checkReaders(t, table, seed, n)
	rows := harness.ByPosition(t, "ledgerlake", readTable(t, table))
	for at, row := range rows {
		day, _ := row["day"].(string)
		year, _ := row["year"].(string)
		if len(day) > 4 && day[:4] != year || day == "" && year != "" {
			t.Fatalf("%s: day %q in year %q", at, day, year)
		}
	}
	bare := withoutCheckpoints(t, table)
	text := func(name string, is func(s string) bool) func(map[string]any) bool {
		return func(row map[string]any) bool { s, ok := row[name].(string); return ok && is(s) }
	}
	number := func(v any, is func(f float64) bool) bool {
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		return v != nil && err == nil && is(f)
	}
	for i, c := range []struct {
		sql  string
		want func(row map[string]any) bool
	}{
		{"year = '2021'", text("year", func(s string) bool { return s == "2021" })},
		{"year IS NULL AND ok", func(row map[string]any) bool { return row["year"] == nil && row["ok"] == true }},
		{"day >= DATE '2022-02-01' AND day < DATE '2022-03-01'", text("day", func(s string) bool { return s >= "2022-02-01" && s < "2022-03-01" })},
		{"\"on\" = DATE '2021-06-06' OR \"on\" > DATE '2026-01-01'", text("on", func(s string) bool { return s == "2021-06-06" || s > "2026-01-01" })},
		{"\"at\" < TIMESTAMP '2021-01-01 00:00:00'", text("at", func(s string) bool { return s < "2021-01-01" })},
		{"price > 500000000.5", func(row map[string]any) bool {
			return number(row["price"], func(f float64) bool { return f > 500000000.5 })
		}},
		{"name = 'caf\u00e9'", text("name", func(s string) bool { return s == "caf\u00e9" })},
		{"place['zip'] < 9000", func(row map[string]any) bool {
			place, _ := row["place"].(map[string]any)
			return place != nil && number(place["zip"], func(f float64) bool { return f < 9000 })
		}},
		{"meta['offset'] = 77", func(row map[string]any) bool {
			return number(row["_offset"], func(f float64) bool { return f == 77 })
		}},
	} {
		want := 0
		for _, row := range rows {
			if c.want(row) {
				want++
			}
		}
		if want == 0 || want == len(rows) {
			t.Errorf("%s keeps %d of %d rows: it tells nothing", c.sql, want, len(rows))
		}
		for form, path := range map[string]string{"commits": bare, "a checkpoint": table} {
			for e, engine := range []string{"duckdb", "deltars"} {
				if path == bare && e != i%2 {
					continue // each engine takes its half of the conditions
				}
				got := harness.ByPosition(t, engine, harness.DecodeRows(t, harness.RunPython(t, nil, "readers.py", engine, path, c.sql)))
				for at, row := range got {
					if !c.want(rows[at]) {
						t.Fatalf("%s, %s, from %s: row %s is not one of them: %v", engine, c.sql, form, at, row)
					}
				}
				if len(got) != want {
					t.Errorf("%s, %s, from %s: %d rows, want %d", engine, c.sql, form, len(got), want)
				}
			}
		}
	}
}

// withoutCheckpoints gives a copy of a table whose log has commits alone, and makes the table one that is read from a
// checkpoint of its newest version.
func withoutCheckpoints(t *testing.T, path string) string {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "bare")
	if err := os.CopyFS(bare, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	checkpoints, err := filepath.Glob(filepath.Join(bare, "_delta_log", "*checkpoint*"))
	for _, name := range checkpoints {
		err = errors.Join(err, os.Remove(name))
	}
	store, failed := dir.Open(dir.Config{Root: path, FS: vfs.OS()})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.FullSnapshot(t.Context())
	if err == nil {
		err = log.Checkpoint(t.Context(), snap)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Only the checkpoint can tell of what these said.
	commits, err := filepath.Glob(filepath.Join(path, "_delta_log", "*.json"))
	for _, name := range commits {
		if filepath.Base(name) != fmt.Sprintf("%020d.json", snap.Version()) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	if err != nil || len(commits) < 2 {
		t.Fatalf("%d commits: %v", len(commits), err)
	}
	return bare
}

// TestOthersReadEvolvedTable: columns that came later are null in the rows before, for all engines.
func TestOthersReadEvolvedTable(t *testing.T) {
	harness.Python(t)
	table := fillEvolved(t)
	ours := harness.ByPosition(t, "ledgerlake", readTable(t, table))
	wantEvolved(t, "ledgerlake", ours)
	for _, engine := range engines {
		harness.SameRows(t, engine, harness.ByPosition(t, engine, foreignRows(t, engine, table)), "ledgerlake", ours)
	}
}

const evolvedRows = 300

// fillEvolved sends values whose fields grow in number, a nested one among them.
func fillEvolved(t *testing.T) string {
	t.Helper()
	s := harness.Serve(t, t.TempDir(), "", "--topic", "grows:1", "--flush-age", "200ms", "--evolve", "--rescued")
	for step := range 3 {
		var in bytes.Buffer
		for i := step * 100; i < (step+1)*100; i++ {
			fmt.Fprintf(&in, []string{`{"i":%d}`, `{"i":%d,"o":{"a":1}}`, `{"i":%d,"o":{"b":"x"},"l":[1,2]}`}[step]+"\n", i)
		}
		harness.Run(t, &in, "produce", "--brokers", s.Addr, "--topic", "grows")
		awaitRows(t, s.Table("grows"), (step+1)*100)
	}
	s.Stop(t)
	return s.Table("grows")
}

func wantEvolved(t *testing.T, who string, rows map[harness.Position]map[string]any) {
	t.Helper()
	if len(rows) != evolvedRows {
		t.Fatalf("%s reads %d rows", who, len(rows))
	}
	for at, row := range rows {
		i := harness.Int(t, row, "i")
		o, _ := row["o"].(map[string]any)
		if (o != nil) != (i >= 100) || o != nil && (o["b"] != nil) != (i >= 200) || (row["l"] != nil) != (i >= 200) || row["_rescued"] != nil {
			t.Fatalf("%s: row %d at %s is %v", who, i, at, row)
		}
	}
}

// Spark reads the partitioned, the evolved and the widened table as we do.
func TestSparkReadsPartitionedAndEvolved(t *testing.T) {
	harness.SparkPython(t)
	for _, table := range []string{fillPartitioned(t, seedtest.New(t), 1500), fillEvolved(t), fillWidened(t)} {
		theirs := harness.ByPosition(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "read", table)))
		harness.SameRows(t, "Spark", theirs, "ledgerlake", harness.ByPosition(t, "ledgerlake", readTable(t, table)))
	}
}
