package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

var engines = []string{"duckdb", "deltars", "polars"}

// fillTable serves a topic, sends events 0..n-1 of a seed through the produce command, and stops the
// server when the table holds them all. It gives the table's path.
func fillTable(t *testing.T, dir string, seed uint64, n, partitions int, args ...string) string {
	t.Helper()
	s := harness.Serve(t, dir, "", append([]string{
		"--topic", fmt.Sprintf("events:%d", partitions), "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "300ms"}, args...)...)
	produce(t, s.Addr, "events", seed, 0, n)
	awaitRows(t, s.Table("events"), n)
	s.Stop(t)
	return s.Table("events")
}

// produce sends events [from, to) by the produce command, keys included.
func produce(t *testing.T, addr, topic string, seed uint64, from, to int) {
	t.Helper()
	var in bytes.Buffer
	for i := from; i < to; i++ {
		e := harness.NewEvent(seed, i)
		fmt.Fprintf(&in, "%s\x01%s\n", e.Key, e.Value)
	}
	harness.Run(t, &in, "produce", "--brokers", addr, "--topic", topic, "--key-separator", "\x01")
}

// inspection is what scripts rely on in `ledgerlake inspect --json`.
type inspection struct {
	Version int64
	Files   int
	Rows    *int64
	Txns    map[string]int64
}

func inspect(t *testing.T, table string, flags ...string) (inspection, error) {
	out, err := harness.TryRun(t, nil, append([]string{"inspect", table, "--json"}, flags...)...)
	if err != nil {
		return inspection{}, err
	}
	var i inspection
	if err := json.Unmarshal(out, &i); err != nil {
		return inspection{}, fmt.Errorf("inspect printed %q: %w", out, err)
	}
	return i, nil
}

// awaitRows waits until a table has n rows. An orderly stop commits what was read from the log by then and no more, so a
// test whose table is to hold everything waits before it.
func awaitRows(t *testing.T, table string, n int, flags ...string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		i, err := inspect(t, table, flags...)
		if err != nil {
			return err
		}
		if i.Rows == nil || *i.Rows < int64(n) {
			return fmt.Errorf("the table holds fewer than %d rows: %+v", n, i)
		}
		return nil
	})
}

// wantEvents fails unless the rows are exactly events 0..n-1, each once, with every column as sent.
func wantEvents(t *testing.T, who string, rows map[harness.Position]map[string]any, seed uint64, n int) {
	t.Helper()
	seen := make([]bool, n)
	bad := 0
	for at, row := range rows {
		i := harness.Int(t, row, "n")
		if i < 0 || i >= int64(n) || seen[i] {
			t.Fatalf("%s: the record at %s is event %d: unknown, or there twice", who, at, i)
		}
		seen[i] = true
		e := harness.NewEvent(seed, int(i))
		if d := harness.EventDifference(row, e); d != "" {
			if bad++; bad <= 5 {
				t.Errorf("%s: event %d at %s differs from what was sent in %s", who, i, at, d)
			}
		}
		if !bytes.Equal(harness.Bytes(t, row, "_value"), e.Value) || !bytes.Equal(harness.Bytes(t, row, "_key"), e.Key) {
			t.Fatalf("%s: event %d at %s does not have the key and value that were sent", who, i, at)
		}
	}
	if len(rows) != n {
		t.Errorf("%s: %d rows, %d were sent", who, len(rows), n)
	}
}

func readTable(t *testing.T, table string, args ...string) []map[string]any {
	t.Helper()
	return harness.DecodeRows(t, harness.Run(t, nil, append([]string{"read", table, "--output", "ndjson"}, args...)...))
}

func foreignRows(t *testing.T, engine, table string) []map[string]any {
	t.Helper()
	return harness.DecodeRows(t, harness.RunPython(t, nil, "readers.py", engine, table))
}

// Three foreign engines and our own reader give every value of a table that was written by us, as it was
// sent: nulls, absent fields, escapes, nested columns, times. I3: each (partition, offset) is there once.
func TestOthersReadOurTable(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const n = 6000
	table := fillTable(t, t.TempDir(), seed, n, 3, "--flush-rows", "1000")
	checkReaders(t, table, seed, n)
}

func checkReaders(t *testing.T, table string, seed uint64, n int) {
	t.Helper()
	rows := readTable(t, table)
	harness.InOrder(t, "ledgerlake", rows)
	ours := harness.ByPosition(t, "ledgerlake", rows)
	harness.Dense(t, "ledgerlake", ours)
	wantEvents(t, "ledgerlake", ours, seed, n)
	for _, engine := range engines {
		theirs := harness.ByPosition(t, engine, foreignRows(t, engine, table))
		wantEvents(t, engine, theirs, seed, n)
		harness.SameRows(t, engine, theirs, "ledgerlake", ours)
	}
}

// We read what delta-rs and DuckDB wrote as they read it themselves: appends, checkpoints, partition
// columns with awkward values, overwritten and deleted rows.
func TestWeReadTheirTables(t *testing.T) {
	harness.Python(t)
	for _, kind := range []string{"plain", "checkpoint", "partitioned", "overwritten", "duckdb"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			table := t.TempDir() + "/" + kind
			harness.RunPython(t, nil, "writers.py", kind, table)
			ours := byKey(t, "ledgerlake", readTable(t, table))
			for _, engine := range engines {
				sameByKey(t, "ledgerlake", ours, engine, byKey(t, engine, foreignRows(t, engine, table)))
			}
		})
	}
}

// byKey groups rows of the writers' tables by id: the partitioned one holds some rows twice.
func byKey(t *testing.T, who string, rows []map[string]any) map[int64][]map[string]any {
	t.Helper()
	out := map[int64][]map[string]any{}
	for _, row := range rows {
		id := harness.Int(t, row, "id")
		out[id] = append(out[id], row)
	}
	if len(out) == 0 {
		t.Fatalf("%s reads no row", who)
	}
	return out
}

func sameByKey(t *testing.T, gotName string, got map[int64][]map[string]any, wantName string, want map[int64][]map[string]any) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s reads %d ids, %s %d", gotName, len(got), wantName, len(want))
	}
	for id, rows := range want {
		if len(got[id]) != len(rows) {
			t.Errorf("id %d: %s reads %d rows, %s %d", id, gotName, len(got[id]), wantName, len(rows))
			continue
		}
		for i, row := range rows {
			if d := harness.Difference(got[id][i], row); d != "" {
				t.Errorf("id %d: %s and %s differ in %s", id, gotName, wantName, d)
			}
		}
	}
}
