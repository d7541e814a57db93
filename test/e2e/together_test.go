package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Three topics fill one table, which is made for them: a row tells its topic by a transform, positions are kept by topic and
// partition, and each record is a row once, also when all is run again (I3). As a stream it is refused, and so are topics
// under one app, or a table that has places of one topic (I8).
func TestManyTopicsIntoOneTable(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "web.eu:2", "--topic", "web.us:1", "--topic", "orders:2")
	dir := t.TempDir()
	table, file := filepath.Join(dir, "all"), filepath.Join(dir, "streams.yaml")
	const entry = "streams: [{topics: [orders], pattern: 'web\\..*', table: %s, %s}]\n"
	streams := func(more string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, entry, table, more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"ingest", "--brokers", s.Addr, "--streams", file, "--format", "json", "--until-latest", "--log-level", "warn"}
	streams("as-is: true, partition-by: [_topic], transform: ['_topic string: kafka.topic', 'p int: kafka.partition', 'o long: kafka.offset']")
	topics := []string{"web.eu", "web.us", "orders"}
	const each = 300
	for round := range 2 {
		for _, topic := range topics {
			var in strings.Builder
			for i := range each {
				fmt.Fprintf(&in, `{"n":%d}`+"\n", round*each+i)
			}
			harness.Run(t, strings.NewReader(in.String()), "produce", "--brokers", s.Addr, "--topic", topic)
		}
		harness.Run(t, nil, args...)
		harness.Run(t, nil, args...) // there is nothing to do
	}
	places, values := map[string]bool{}, map[string]map[int64]bool{}
	for _, row := range readTable(t, table) {
		topic := row["_topic"].(string)
		at := fmt.Sprint(topic, row["p"], row["o"])
		if places[at] || row["_offset"] != nil {
			t.Fatalf("the record at %s comes twice, or the row has a place: %v", at, row)
		}
		places[at] = true
		if values[topic] == nil {
			values[topic] = map[int64]bool{}
		}
		values[topic][harness.Int(t, row, "n")] = true
	}
	for _, topic := range topics {
		if len(values[topic]) != 2*each || len(places) != len(topics)*2*each {
			t.Errorf("%s: %d values; %d rows in all", topic, len(values[topic]), len(places))
		}
	}
	got, err := inspect(t, table)
	if err != nil || len(got.Txns) < len(topics) { // a producer without keys may leave a partition empty
		t.Errorf("positions %v, %v", got.Txns, err)
	}
	if _, err := harness.TryRun(t, nil, "read", "kafka://"+s.Addr+"/orders", "--table", table, "--from", "0:0,1:0", "--until", "now"); err == nil || !strings.Contains(err.Error(), "no place in a log") {
		t.Errorf("a stream was read from it: %v", err)
	}
	for more, want := range map[string]string{"as-is: true, app: same": "app of its own", "table: " + filepath.Join(dir, "other"): "already"} {
		streams(more)
		if r := harness.RunBoth(t, nil, args...); r.Err == nil || !strings.Contains(string(r.Stderr), want) {
			t.Errorf("%s: %v, want %q\n%s", more, r.Err, want, r.Stderr)
		}
	}
	table = filepath.Join(dir, "placed")
	streams("schema: ''")
	if r := harness.RunBoth(t, nil, args...); r.Err == nil || !strings.Contains(string(r.Stderr), "told apart") {
		t.Errorf("a table with places: %v\n%s", r.Err, r.Stderr)
	}
}
