package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// sharedTable is a table that two topics fill through a group of committers; each has 300 rows and two letters.
func sharedTable(t *testing.T, g *harness.CommitterGroup) (s *harness.Server, table string) {
	t.Helper()
	s = harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "web.eu:2", "--topic", "orders:2")
	dir := t.TempDir()
	table = filepath.Join(dir, "all")
	file := filepath.Join(dir, "streams.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "streams: [{topics: [orders, web.eu], table: %s}]\n", table), 0o600); err != nil {
		t.Fatal(err)
	}
	var good strings.Builder
	for i := range 300 {
		fmt.Fprintf(&good, `{"n":%d}`+"\n", i)
	}
	for _, lines := range []string{good.String(), `{"n":"n300"}` + "\n" + `{"n":"three hundred"}` + "\n"} { // the first ones tell the columns
		for _, topic := range []string{"web.eu", "orders"} {
			harness.Run(t, strings.NewReader(lines), "produce", "--brokers", s.Addr, "--topic", topic)
		}
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--streams", file, "--format", "json", "--until-latest", "--log-level", "warn", "--committer", g.List())
	}
	return s, table
}

// sorted are rows as texts, in an order that any reader can be brought to.
func sorted(t *testing.T, rows []map[string]any) []string {
	t.Helper()
	var out []string
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

// A table of two topics that is filled through committers: letters of one topic are replayed through them, a job reads
// one topic, and DuckDB and delta-rs have the rows that we have, and those of one topic (I3, I4, I7).
func TestSharedTableThroughCommitters(t *testing.T) {
	harness.Python(t)
	g := harness.Committers(t, 3)
	s, table := sharedTable(t, g)
	dir := t.TempDir()
	job := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(job, fmt.Appendf(nil, "name: again\nsource: %s\nsink: %s\n", table, filepath.Join(dir, "again")), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, nil, "reprocess", job, "--topic", "orders")
	harness.Run(t, nil, "reprocess", "verify", job, "--topic", "orders")
	if again := readTable(t, filepath.Join(dir, "again")); len(again) != 300 {
		t.Errorf("a job over orders made %d rows, want 300", len(again))
	}

	if r := harness.RunBoth(t, nil, "reprocess", "--dead-letters", table, "--dry-run"); r.Err == nil || !strings.Contains(string(r.Stderr), "name it with --topic") {
		t.Errorf("letters of no topic in particular: %v\n%s", r.Err, r.Stderr)
	}
	var report struct{ Replayed, Refused int }
	out := harness.Run(t, nil, "reprocess", "--dead-letters", table, "--topic", "orders", "--set", `n=int(trimPrefix(n, "n"))`, "--committer", g.List(), "--json")
	if err := json.Unmarshal(out, &report); err != nil || report.Replayed != 1 || report.Refused != 1 {
		t.Errorf("a replay says %s, %v", out, err)
	}
	if letters := readTable(t, table+"_dead_letters"); len(letters) != 3 {
		t.Errorf("%d letters, want 3: %v", len(letters), letters)
	}
	for _, at := range []string{table, table + "_dead_letters"} {
		harness.Run(t, nil, "check", at)
		status := string(harness.Run(t, nil, "committer", "status", "--committer", g.List()))
		if want := fmt.Sprintf("%s %d ", at, versionOf(t, at)); !strings.Contains(strings.Join(strings.Fields(status), " ")+" ", want) {
			t.Errorf("the group does not stand at %q:\n%s", want, status)
		}
	}

	ours := readTable(t, table)
	orders := harness.DecodeRows(t, harness.Run(t, nil, "read", table, "--topic", "orders"))
	if len(ours) != 601 || len(orders) != 301 {
		t.Fatalf("%d rows, %d of orders", len(ours), len(orders))
	}
	for _, engine := range []string{"duckdb", "deltars"} {
		if got := foreignRows(t, engine, table); !slices.Equal(sorted(t, got), sorted(t, ours)) {
			t.Errorf("%s has other rows: %d, we have %d", engine, len(got), len(ours))
		}
		got := harness.DecodeRows(t, harness.RunPython(t, nil, "readers.py", engine, table, "_topic = 'orders'"))
		if !slices.Equal(sorted(t, got), sorted(t, orders)) {
			t.Errorf("%s has other rows of orders: %d, we have %d", engine, len(got), len(orders))
		}
	}

	plain := filepath.Join(dir, "plain") // it does not keep topics apart
	fill := []string{"ingest", "--brokers", s.Addr, "--table", plain, "--until-latest", "--log-level", "warn", "--topic"}
	harness.Run(t, nil, append(fill, "orders")...)
	for want, more := range map[string][]string{"from another topic": {"web.eu"}, "go on with --app orders": {"orders", "--app", "other"}} {
		if r := harness.RunBoth(t, nil, append(slices.Clone(fill), more...)...); r.Err == nil || !strings.Contains(string(r.Stderr), want) {
			t.Errorf("%v into a table of orders: %v\n%s", more, r.Err, r.Stderr)
		}
	}
	harness.Run(t, nil, "check", plain)
}
