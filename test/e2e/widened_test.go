package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// TestOthersReadWidenedTable: a table whose columns got wider types, with files of each type, is one table to others.
func TestOthersReadWidenedTable(t *testing.T) {
	harness.Python(t)
	table := fillWidened(t)
	ours := harness.ByPosition(t, "ledgerlake", readTable(t, table))
	want := map[int64][]string{ // by offset
		0: {"1", "2", "0.5", "2026-01-02T00:00:00", "1.250", "3"}, 1: {"4000000000", "2", "0.5", "2026-01-02T00:00:00", "1.250", "3"},
		2: {"1", "2.5", "1e300", "2026-01-02T03:04:05.5", "12345.678", "5000000000"},
	}
	for at, row := range ours {
		o := row["o"].(map[string]any)
		for i, got := range []any{row["l"], row["x"], row["f"], row["d"], row["c"], o["i"]} {
			if w := want[at.Offset][i]; harness.Difference(map[string]any{"": got}, harness.DecodeRows(t, []byte(`{"":`+quoted(w)+"}"))[0]) != "" {
				t.Errorf("offset %d: column %d is %v, want %s", at.Offset, i, got, w)
			}
		}
	}
	if len(ours) != len(want) {
		t.Fatalf("%d rows", len(ours))
	}
	harness.SameRows(t, "duckdb", harness.ByPosition(t, "duckdb", foreignRows(t, "duckdb", table)), "ledgerlake", ours)
}

// quoted makes times texts of JSON, and leaves numbers.
func quoted(s string) string {
	if strings.Contains(s, "T") {
		return `"` + s + `"`
	}
	return s
}

// fillWidened runs ingest twice over records that their columns have no room for.
func fillWidened(t *testing.T) string {
	t.Helper()
	s := harness.Serve(t, t.TempDir(), "", "--topic", "grows:1", "--format", "raw")
	schema, table := filepath.Join(t.TempDir(), "schema.json"), filepath.Join(t.TempDir(), "grows")
	column := func(name, typ string) string {
		return `{"name":"` + name + `","type":` + typ + `,"nullable":true,"metadata":{}}`
	}
	text := `{"type":"struct","fields":[` + strings.Join([]string{column("l", `"integer"`), column("x", `"short"`), column("f", `"float"`), column("d", `"date"`),
		column("c", `"decimal(5,2)"`), column("o", `{"type":"struct","fields":[`+column("i", `"integer"`)+`]}`)}, ",") + `]}`
	if err := os.WriteFile(schema, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const old = `"x":2,"f":0.5,"d":"2026-01-02","c":1.25,"o":{"i":3}}` + "\n"
	for _, in := range []string{`{"l":1,` + old, `{"l":4000000000,` + old + `{"l":1,"x":2.5,"f":1e300,"d":"2026-01-02T03:04:05.5","c":12345.678,"o":{"i":5000000000}}` + "\n"} {
		harness.Run(t, strings.NewReader(in), "produce", "--brokers", s.Addr, "--topic", "grows")
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--topic", "grows", "--table", table, "--format", "json", "--schema", schema, "--widen", "--until-latest")
	}
	s.Stop(t)
	return table
}
