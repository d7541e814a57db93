package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// What is more than an append goes through the group as well: new columns, dead letters and their replay, a swap, a restore.
// The group counts versions of others that it met: there is none, and its newest version is the table's each time (I3, I5).
func TestChangesThroughCommitters(t *testing.T) {
	metrics := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	g := harness.Committers(t, 1, "--metrics-listen", metrics)
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.Serve(t, dir, "", "--topic", "events:1", "--format", "json", "--flush-age", "200ms", "--optimize-interval", "0", "--committer", g.List())
	send := func(lines ...string) {
		harness.Run(t, strings.NewReader(strings.Join(lines, "\n")+"\n"), "produce", "--brokers", s.Addr, "--topic", "events", "--quiet")
	}
	table := filepath.Join(t.TempDir(), "wide")
	ingest := func() {
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--topic", "events", "--table", table, "--format", "json", "--evolve", "--until-latest",
			"--optimize-interval", "0", "--committer", g.List(), "--log-level", "warn")
	}
	through := func(what string, tables ...string) {
		t.Helper()
		_, status := g.Leader(t)
		known := map[string]int64{}
		for _, x := range status.Tables {
			known[x.Table] = x.Version
		}
		for _, at := range tables {
			if v, ok := known[at]; !ok || v != versionOf(t, at) {
				t.Errorf("%s: %s has version %d, the group says %d (knows it: %v)", what, at, versionOf(t, at), v, ok)
			}
		}
		if n := counted(t, metrics, `ledgerlake_committer_versions_total{kind="foreign"}`); n != "" && n != "0" {
			t.Errorf("%s: %s versions came past the group", what, n)
		}
	}

	send(`{"n":1}`, `{"n":2}`)
	ingest()
	through("appends", table)
	before := versionOf(t, table)
	send(`{"n":3,"color":"red"}`, `{"n":"four"}`)
	ingest()
	letters := table + "_dead_letters"
	through("a new column and a dead letter", table, letters)
	rows := func(want int, has string) {
		t.Helper()
		out := string(harness.Run(t, nil, "read", table, "--output", "ndjson"))
		if n := strings.Count(out, "\n"); n != want || !strings.Contains(out, has) {
			t.Fatalf("%d rows, want %d with %s:\n%s", n, want, has, out)
		}
	}
	rows(3, `"red"`)
	harness.Run(t, nil, "reprocess", "--dead-letters", table, "--set", "n=4", "--committer", g.List())
	through("the replay of a dead letter", table, letters)
	rows(4, `"n":4`)
	harness.Run(t, nil, "restore", table, "--to-version", fmt.Sprint(before), "--committer", g.List())
	through("a restore", table)
	rows(2, `"n":2`)
	ingest() // the positions went back with the rows
	through("what was restored and written again", table)
	rows(3, `"red"`)

	own := s.Table("events")
	harness.Eventually(t, time.Minute, func() error {
		if n := strings.Count(string(harness.Run(t, nil, "read", own, "--output", "ndjson")), "\n"); n < 3 {
			return fmt.Errorf("%d rows", n)
		}
		return nil
	})
	job := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(job, fmt.Appendf(nil, "name: again\nsource: %s/events\nsink: shadow\n", dir), 0o644); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, nil, "reprocess", job)
	harness.Run(t, nil, "reprocess", "swap", job, "--committer", g.List())
	through("a swap", own)
}

func versionOf(t *testing.T, table string) int64 {
	t.Helper()
	var in struct{ Version int64 }
	if err := json.Unmarshal(harness.Run(t, nil, "inspect", table, "--json"), &in); err != nil {
		t.Fatal(err)
	}
	return in.Version
}

// counted gives the value of a metric as it is shown, empty when it is not there.
func counted(t *testing.T, addr, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "ledgerlake_committer_leader 1") {
		t.Fatalf("these are not the metrics of the leader:\n%s", b)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return v
		}
	}
	return ""
}
