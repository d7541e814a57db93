package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

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
	seed := harness.Seed(t, 4410)
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
	text := func(name string, is func(s string) bool) func(map[string]any) bool {
		return func(row map[string]any) bool { s, ok := row[name].(string); return ok && is(s) }
	}
	number := func(v any, is func(f float64) bool) bool {
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		return v != nil && err == nil && is(f)
	}
	for _, c := range []struct {
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
		for _, engine := range []string{"duckdb", "deltars"} {
			got := harness.ByPosition(t, engine, harness.DecodeRows(t, harness.RunPython(t, nil, "readers.py", engine, table, c.sql)))
			for at, row := range got {
				if !c.want(rows[at]) {
					t.Fatalf("%s, %s: row %s is not one of them: %v", engine, c.sql, at, row)
				}
			}
			if len(got) != want {
				t.Errorf("%s, %s: %d rows, want %d", engine, c.sql, len(got), want)
			}
		}
	}
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
	seed := harness.Seed(t, 4411)
	for _, table := range []string{fillPartitioned(t, seed, 1500), fillEvolved(t), fillWidened(t)} {
		theirs := harness.ByPosition(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "read", table)))
		harness.SameRows(t, "Spark", theirs, "ledgerlake", harness.ByPosition(t, "ledgerlake", readTable(t, table)))
	}
}
