package e2e

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Python reads a topic through Arrow Flight, across the seam, into pandas, polars and DuckDB, and every value is as
// it was sent (I4). A stream that follows gets new records, and its token goes on behind them.
func TestPythonReadsOverFlight(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const tiered, n, more = 1500, 2000, 100
	dir := t.TempDir()
	fillTable(t, dir, seed, tiered, 2)
	s := harness.Serve(t, dir, "", "--topic", "events:2", "--flush-age", "1h", "--flight-listen", "127.0.0.1:0") // so that the rest stays in the log
	produce(t, s.Addr, "events", seed, tiered, n)
	get := func(engine string, command map[string]any) []byte {
		command["topic"] = "events"
		raw, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		return harness.RunPython(t, nil, "flight.py", s.Flight, engine, string(raw))
	}
	if list := string(get("list", map[string]any{})); strings.Count(list, "\n") != 1 || !strings.Contains(list, `{"path": ["events"], "columns": ["_partition", "_offset"`) {
		t.Errorf("the list of flights: %s", list)
	}
	for _, engine := range []string{"pandas", "polars", "duckdb"} {
		rows := harness.DecodeRows(t, get(engine, map[string]any{}))
		harness.InOrder(t, engine, rows)
		wantEvents(t, engine, harness.ByPosition(t, engine, rows), seed, n)
	}

	produce(t, s.Addr, "events", seed, n, n+more)
	head, rest, _ := bytes.Cut(get("arrow", map[string]any{"follow": true, "rows": n + more}), []byte("\n"))
	var about struct {
		Sides []string
		Token string
	}
	if err := json.Unmarshal(head, &about); err != nil || !slices.Equal(about.Sides, []string{"lake", "log"}) {
		t.Fatalf("sides of the stream: %s (%v)", head, err)
	}
	rows := harness.DecodeRows(t, rest)
	harness.InOrder(t, "a stream that follows", rows)
	wantEvents(t, "a stream that follows", harness.ByPosition(t, "a stream that follows", rows), seed, n+more)

	produce(t, s.Addr, "events", seed, n+more, n+2*more)
	_, rest, _ = bytes.Cut(get("arrow", map[string]any{"from": "token:" + about.Token, "columns": []string{"n"}}), []byte("\n"))
	var got []int64
	for _, row := range harness.DecodeRows(t, rest) {
		got = append(got, harness.Int(t, row, "n"))
	}
	slices.Sort(got)
	if len(got) != more || got[0] != n+more || got[more-1] != n+2*more-1 {
		t.Errorf("behind the token are %d rows: %v", len(got), got)
	}
}
