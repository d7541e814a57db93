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
// under one app (I8).
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
}

// Three topics fill one table with our columns, and each is a stream of its own: the rows of a topic come in the order of its log,
// over the seam too, after an optimize too; check finds nothing, and a job cannot take the place of all by one (I3, I4, I8).
func TestStreamsOfOneTable(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "web.eu:2", "--topic", "web.us:2", "--topic", "orders:2")
	dir := t.TempDir()
	table, file := filepath.Join(dir, "all"), filepath.Join(dir, "streams.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "streams: [{topics: [orders], pattern: 'web\\..*', table: %s}]\n", table), 0o600); err != nil {
		t.Fatal(err)
	}
	topics := []string{"web.eu", "web.us", "orders"}
	const each = 300
	produce := func(round int) {
		for _, topic := range topics {
			var in strings.Builder
			for i := range each {
				if i == 7 {
					in.WriteString("bad\n")
				}
				fmt.Fprintf(&in, `{"n":%d,"from":"%s"}`+"\n", round*each+i, topic)
			}
			harness.Run(t, strings.NewReader(in.String()), "produce", "--brokers", s.Addr, "--topic", topic)
		}
	}
	for round := range 3 {
		produce(round)
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--streams", file, "--format", "json", "--until-latest", "--log-level", "warn")
	}
	produce(3) // in the log alone
	for range 2 {
		for _, topic := range topics {
			stream := harness.DecodeRows(t, harness.Run(t, nil, "read", "kafka://"+s.Addr+"/"+topic, "--table", table, "--from", "earliest", "--until", "now"))
			alone := harness.DecodeRows(t, harness.Run(t, nil, "read", table, "--topic", topic, "--token"))
			for want, rows := range map[int][]map[string]any{4 * each: stream, 3 * each: alone} {
				seen, last := map[int64]bool{}, map[int64]int64{0: -1, 1: -1}
				for _, row := range rows {
					p, o := harness.Int(t, row, "_partition"), harness.Int(t, row, "_offset")
					if row["from"] != topic || row["_topic"] != topic || o <= last[p] {
						t.Fatalf("a stream of %s gives %v behind offset %d", topic, row, last[p])
					}
					last[p] = o
					seen[harness.Int(t, row, "n")] = true
				}
				if len(rows) != want || len(seen) != want {
					t.Errorf("%s: %d rows of %d values, want %d", topic, len(rows), len(seen), want)
				}
			}
		}
		if whole := readTable(t, table); len(whole) != 3*3*each {
			t.Errorf("%d rows of all topics", len(whole))
		}
		harness.Run(t, nil, "check", table)
		harness.Run(t, nil, "check", table+"_dead_letters")
		harness.Run(t, nil, "optimize", table)
	}
	if letters := readTable(t, table+"_dead_letters"); len(letters) != 3*len(topics) {
		t.Errorf("%d dead letters", len(letters))
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"several topics", []string{"read", table, "--from", "0:0"}},
		{"nothing of topic web", []string{"read", table, "--topic", "web"}},
		{"names its topic itself", []string{"read", "kafka://" + s.Addr + "/orders", "--table", table, "--topic", "orders"}},
	} {
		if r := harness.RunBoth(t, nil, c.args...); r.Err == nil || !strings.Contains(string(r.Stderr), c.want) {
			t.Errorf("%v: %v, want %q\n%s", c.args, r.Err, c.want, r.Stderr)
		}
	}
}
