package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Two ingests that share a topic of a real Kafka, and a serve with a topic of its own, commit through one group of three
// committers, whose leader is killed meanwhile; their upkeep merges files through the group too. Each record is in its
// table once (I3).
func TestThroughCommitters(t *testing.T) {
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "orders", 6)
	seed := seedtest.New(t)
	g := harness.Committers(t, 3)
	table := filepath.Join(t.TempDir(), "orders")
	base := []string{"ingest", "--brokers", k.Addr, "--topic", "orders", "--table", table, "--format", "json",
		"--schema", harness.WriteEventSchema(t), "--log-level", "warn", "--flush-age", "200ms", "--optimize-interval", "2s", "--committer", g.List()}
	member := append(append([]string{}, base...), "--group", "g", "--session-timeout", "6s")
	orders := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "orders", Seed: seed, Rate: 1000})
	ingests := []*harness.Process{harness.Start(t, member...), harness.Start(t, member...)}

	s := harness.Serve(t, filepath.Join(t.TempDir(), "data"), "", "--topic", "clicks:3", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "200ms", "--optimize-interval", "2s", "--committer", g.List())
	clicks := harness.StartLoad(t, harness.LoadConfig{Addr: s.Addr, Topic: "clicks", Seed: seed + 1, Rate: 1000})

	harness.Eventually(t, time.Minute, func() error { return clicks.Reached(1000) })
	lead, _ := g.Leader(t)
	g.Nodes[lead].Kill()
	more := clicks.Acked() + 500
	harness.Eventually(t, time.Minute, func() error { return clicks.Reached(more) })
	g.Leader(t)
	g.Start(t, lead)
	harness.Eventually(t, time.Minute, func() error { return orders.Reached(4000) })
	lake := filepath.Join(s.Dir, "lake", "clicks")
	// The upkeep has its own clock, and a turn of it may have met no leader: the load goes on until it has merged.
	harness.Eventually(t, time.Minute, func() error { return wasMerged(t, table, lake) })
	for _, p := range ingests {
		p.Stop(t)
	}
	more = orders.Acked() + 100 // which nobody has merged, so that optimize has something to do
	harness.Eventually(t, time.Minute, func() error { return orders.Reached(more) })
	ordersAcked, clicksAcked := orders.Stop(t), clicks.Stop(t)
	harness.Run(t, nil, append(base, "--until-latest", "--optimize-interval", "0")...)
	awaitRows(t, lake, len(clicksAcked))
	s.Stop(t)
	var merged struct {
		Version int64
		Commits int
	}
	if err := json.Unmarshal(harness.Run(t, nil, "optimize", table, "--json", "--committer", g.List()), &merged); err != nil {
		t.Fatal(err)
	}

	_, status := g.Leader(t)
	versions := map[string]int64{}
	for _, x := range status.Tables {
		versions[filepath.Base(x.Table)] = x.Version
		if x.Pending > 0 || x.Error != "" {
			t.Errorf("%+v", x)
		}
	}
	if versions["orders"] < 2 || versions["clicks"] < 2 {
		t.Errorf("versions that went through the group: %v", versions)
	}
	if merged.Commits == 0 || versions["orders"] != merged.Version {
		t.Errorf("optimize through the group: %+v, the group's newest version is %d", merged, versions["orders"])
	}
	harness.WantAcked(t, "orders", harness.Rows(t, "read", table, "--output", "ndjson"), seed, ordersAcked)
	harness.WantAcked(t, "clicks", harness.Rows(t, "read", lake, "--output", "ndjson"), seed+1, clicksAcked)
	out := string(harness.Run(t, nil, "committer", "status", "--committer", g.List()))
	if !strings.Contains(out, "leader") || !strings.Contains(out, "follower") {
		t.Errorf("status says:\n%s", out)
	}
}

// wasMerged reads the logs: files were merged in each table, in a commit of the upkeep.
func wasMerged(t *testing.T, tables ...string) error {
	t.Helper()
	for _, table := range tables {
		files, err := filepath.Glob(filepath.Join(table, "_delta_log", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(f string) bool {
			b, err := os.ReadFile(f)
			return err == nil && bytes.Contains(b, []byte(`"operation":"OPTIMIZE"`))
		}) {
			return fmt.Errorf("%s: none of %d versions merges files", filepath.Base(table), len(files))
		}
	}
	return nil
}

// A serve with a group of one inside: another process commits to a table of its own through it.
func TestEmbeddedCommitter(t *testing.T) {
	s := harness.Serve(t, filepath.Join(t.TempDir(), "data"), "", "--topic", "clicks", "--format", "json", "--schema", harness.WriteEventSchema(t),
		"--flush-age", "100ms", "--committer-listen", "127.0.0.1:0")
	seed := seedtest.New(t)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: s.Addr, Topic: "clicks", Seed: seed, Rate: 2000})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(1000) })
	acked := load.Stop(t)
	awaitRows(t, s.Table("clicks"), len(acked))
	s.Stop(t)
	harness.WantAcked(t, "clicks", harness.Rows(t, "read", s.Table("clicks"), "--output", "ndjson"), seed, acked)
	if found, _ := filepath.Glob(filepath.Join(s.Dir, "committer", "log-*")); len(found) != 1 {
		t.Errorf("logs of the group: %v", found)
	}
}
