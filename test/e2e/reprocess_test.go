package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The tutorial of docs/reprocess.md: a model classifies the stream into a table, live. A better model does all of it
// again from the first offset, is compared, takes the table over in one commit, and goes on live. Killed in between,
// it goes on where it was. DuckDB sees each event once, with the class of the one model or of the other (I3).
func TestReprocessWithABetterModel(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms")
	produce(t, s.Addr, "events", seed, 0, 3000)
	awaitRows(t, s.Table("events"), 3000)
	cutLog(t, s.Addr, "events", 3000)

	classified := filepath.Join(dir, "classified")
	script, err := filepath.Abs("classify.py")
	if err != nil {
		t.Fatal(err)
	}
	job := func(name, sink, more string, version int) string {
		file := filepath.Join(dir, name+".yaml")
		text := fmt.Sprintf("name: %s\nsource: %s/events\nsink: %s\ncommand: [%q, %q, \"%d\"]\nsplitBytes: 20000\n%s", name, dir, sink, harness.Python(t), script, version, more)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := job("model-1", classified, "", 1)
	old := harness.Start(t, "reprocess", first, "--follow", "--flush-age", "200ms")
	awaitRows(t, classified, 3000)
	produce(t, s.Addr, "events", seed, 3000, 3500)
	awaitRows(t, classified, 3500)

	second := job("model-2", "shadow", "replaces: "+classified+"\n", 2)
	killed := harness.Start(t, "reprocess", second, "--flush-rows", "100", "--workers", "1")
	harness.Eventually(t, time.Minute, func() error {
		var st struct{ Decided int64 }
		out, err := harness.TryRun(t, nil, "reprocess", "status", second, "--json")
		if err == nil {
			err = json.Unmarshal(out, &st)
		}
		if err == nil && st.Decided == 0 {
			err = fmt.Errorf("nothing is done yet")
		}
		return err
	})
	killed.Kill()
	harness.Run(t, nil, "reprocess", second)

	verify := harness.RunBoth(t, nil, "reprocess", "verify", second, "--json")
	var c struct {
		Rows, OnlyOld, OnlyNew, Different int64
		Columns                           map[string]int64
	}
	if err := json.Unmarshal(verify.Stdout, &c); err != nil || verify.Err == nil || c.Rows != 3500 || c.OnlyOld+c.OnlyNew > 0 || c.Columns["model"] != 3500 ||
		c.Columns["class"] == 0 || c.Columns["class"] == 3500 || c.Columns["n"] > 0 {
		t.Fatalf("verify: %s%s (%v)", verify.Stdout, verify.Stderr, err)
	}
	produce(t, s.Addr, "events", seed, 3500, 3700) // meanwhile the stream goes on
	awaitRows(t, classified, 3700)
	wantClasses(t, classified, seed, 3700, 1)
	harness.Run(t, nil, "reprocess", "swap", second)
	wantClasses(t, classified, seed, 3700, 2)

	// The old job is told, the new one goes on.
	produce(t, s.Addr, "events", seed, 3700, 3800)
	select {
	case <-old.Done():
		if !old.Said("filled by model-2") {
			t.Errorf("the old job ended with %s", old.Log())
		}
	case <-time.After(harness.Patience):
		t.Fatal("the old job goes on behind the swap")
	}
	on := harness.Start(t, "reprocess", second, "--follow", "--flush-age", "200ms")
	awaitRows(t, classified, 3800)
	on.Stop(t)
	wantClasses(t, classified, seed, 3800, 2)
	harness.Run(t, nil, "reprocess", "retire", second)
	wantClasses(t, classified, seed, 3800, 2)
	harness.Run(t, nil, "check", classified)
}

// wantClasses reads the table with DuckDB and with ours.
func wantClasses(t *testing.T, table string, seed uint64, n, model int) {
	t.Helper()
	for who, rows := range map[string][]map[string]any{"DuckDB": foreignRows(t, "duckdb", table), "ledgerlake": readTable(t, table)} {
		if len(rows) != n {
			t.Fatalf("%s: %d rows, want %d", who, len(rows), n)
		}
		seen := map[int64]bool{}
		for _, row := range rows {
			i := harness.Int(t, row, "n")
			want := "plain"
			amount, ok := harness.NewEvent(seed, int(i)).Row["amount"].(json.Number)
			if f, err := amount.Float64(); !ok {
				want = "none"
			} else if err == nil && model > 1 && (f > 500_000 || f < -500_000) {
				want = "large"
			}
			if seen[i] || row["class"] != want || harness.Int(t, row, "model") != int64(model) {
				t.Fatalf("%s: event %d is %v, twice or want class %s of model %d", who, i, row, want, model)
			}
			seen[i] = true
		}
	}
}
