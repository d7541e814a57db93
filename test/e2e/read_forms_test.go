package e2e

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The outputs of read agree with each other, filters reach all of them, and a plan reads no rows.
func TestReadForms(t *testing.T) {
	seed := seedtest.New(t)
	const n = 600
	dir := t.TempDir()
	table := fillTable(t, dir, seed, n, 2, "--flush-rows", "200")

	rows, err := csv.NewReader(bytes.NewReader(harness.Run(t, nil, "read", table, "--output", "csv"))).ReadAll()
	if err != nil || len(rows) != n+1 || rows[0][0] != "_partition" {
		t.Fatalf("csv: %d rows, %v", len(rows), err)
	}
	some := func(form string) []byte {
		return harness.Run(t, nil, "read", table, "--where", "_offset BETWEEN 10 AND 19 AND _partition = 1", "--output", form)
	}
	if lines := bytes.Count(some("ndjson"), []byte("\n")); lines != 10 {
		t.Errorf("ndjson with a filter: %d rows", lines)
	}
	if rows, err := csv.NewReader(bytes.NewReader(some("csv"))).ReadAll(); err != nil || len(rows) != 11 {
		t.Errorf("csv with a filter: %d rows, %v", len(rows), err)
	}
	raw := bytes.Split(bytes.TrimSpace(some("raw")), []byte("\n"))
	if len(raw) != 10 || raw[0][0] != '{' {
		t.Errorf("raw with a filter: %q", raw)
	}
	r, err := ipc.NewReader(bytes.NewReader(some("arrow")))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	arrowRows := int64(0)
	for r.Next() {
		arrowRows += r.RecordBatch().NumRows()
	}
	if arrowRows != 10 || r.Err() != nil {
		t.Errorf("arrow with a filter: %d rows, %v", arrowRows, r.Err())
	}
	if p := some("parquet"); !bytes.HasPrefix(p, []byte("PAR1")) || !bytes.HasSuffix(p, []byte("PAR1")) {
		t.Errorf("parquet with a filter: %d bytes", len(p))
	}
	plan := string(harness.Run(t, nil, "read", table, "--plan", "--from", "1:10"))
	if lines := strings.Fields(plan); !strings.HasPrefix(strings.TrimSpace(plan), "PARTITION") || !strings.Contains(strings.Join(lines, " "), "OF THE LOG 1 10 ") || !strings.Contains(plan, "row groups") {
		t.Errorf("plan: %s", plan)
	}
	latest := harness.DecodeRows(t, harness.Run(t, nil, "read", table, "--latest-by-key", "--tombstones"))
	keys := map[any]bool{}
	for _, row := range harness.DecodeRows(t, harness.Run(t, nil, "read", table)) {
		keys[[2]any{row["_partition"], row["_key"]}] = true
	}
	if len(latest) != len(keys) {
		t.Errorf("--latest-by-key gives %d rows of %d keys", len(latest), len(keys))
	}
	byTime, at := harness.DecodeRows(t, harness.Run(t, nil, "read", table, "--order", "time")), time.Time{}
	for _, row := range byTime {
		now, err := time.Parse(time.RFC3339Nano, row["_timestamp"].(string)) // as texts .131Z would come before .13Z
		if err != nil || now.Before(at) {
			t.Fatalf("--order time gives %s after %s, %v", now, at, err)
		}
		at = now
	}
	if len(byTime) != n {
		t.Errorf("--order time gives %d rows", len(byTime))
	}
	if got := bytes.Count(harness.Run(t, nil, "read", table, "--max-rate", "5000,100MB"), []byte("\n")); got != n {
		t.Errorf("--max-rate gives %d rows", got)
	}
	// Two topics as one stream, in two pieces: here the same one twice, from its directory and as a table.
	both := harness.RunBoth(t, nil, "read", dir+"/events", table, "--limit", "700", "--token")
	if both.Err != nil {
		t.Fatalf("%v: %s", both.Err, both.Stderr)
	}
	rest := harness.Run(t, nil, "read", dir+"/events", table, "--from", strings.TrimSpace(string(both.Stderr)))
	count := map[any]int{}
	for _, row := range harness.DecodeRows(t, append(both.Stdout, rest...)) {
		count[row["_topic"]]++
	}
	if len(count) != 2 || count[table] != n || count[dir+"/events"] != n {
		t.Errorf("two topics: %v", count)
	}
	if got := bytes.Count(harness.Run(t, nil, "read", dir+"/events", table, "--order", "time", "--columns", "n"), []byte("\n")); got != 2*n {
		t.Errorf("two topics by time: %d rows", got)
	}
	if plan := string(harness.Run(t, nil, "read", dir+"/events", table, "--plan")); strings.Count(plan, "PARTITION") != 2 {
		t.Errorf("two plans: %s", plan)
	}
	for _, bad := range [][]string{{"--max-rate", "fast"}, {"--order", "size"}, {"--order", "time", "--latest-by-key"}, {"--where", "nothing = 1"}, {"--where", "_offset ="}, {"--output", "xml"}, {"--output", "raw", "--columns", "_offset"}} {
		if _, err := harness.TryRun(t, nil, append([]string{"read", table}, bad...)...); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
