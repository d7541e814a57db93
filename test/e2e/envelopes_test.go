package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The mappings of docs/formats.md: what envelopes hold becomes columns, and the same ones of what is still in the log (I4).
func TestEnvelopes(t *testing.T) {
	harness.FormatsPython(t)
	s := harness.Serve(t, t.TempDir(), "", "--topic", "structured:1", "--topic", "binary:1", "--topic", "changes:1", "--format", "raw")
	dir := t.TempDir()
	schema := filepath.Join(dir, "schema.json")
	if err := os.WriteFile(schema, []byte(`{"type":"struct","fields":[
		{"name":"id","type":"string","nullable":true,"metadata":{}},{"name":"op","type":"string","nullable":true,"metadata":{}},
		{"name":"at","type":"timestamp","nullable":true,"metadata":{}},{"name":"n","type":"long","nullable":true,"metadata":{}},
		{"name":"who","type":"string","nullable":true,"metadata":{}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mappings := map[string][]string{
		"structured": {"--transform", "op: type", "--transform", "at: time", "--transform", "n: data.n", "--transform", "who: data.who"},
		"binary":     {"--transform", "id: kafka.headers.ce_id", "--transform", "op: kafka.headers.ce_type", "--transform", "at: kafka.headers.ce_time"},
		"changes": {"--filter", "payload.op", "--transform", "op: payload.op", "--transform", "at: epoch_millis_to_micro(payload.source.ts_ms)",
			"--transform", "n: payload.after.n || payload.before.n", "--transform", "who: payload.after.who"},
	}
	formats(t, "envelopes.py", s.Addr, "0", "12")
	for topic, flags := range mappings {
		args := []string{"ingest", "--brokers", s.Addr, "--topic", topic, "--table", filepath.Join(dir, topic), "--schema", schema, "--format", "json", "--until-latest"}
		harness.Run(t, nil, append(args, flags...)...)
	}
	formats(t, "envelopes.py", s.Addr, "12", "30")
	for topic := range mappings {
		rows := readTable(t, "kafka://"+s.Addr+"/"+topic, "--table", filepath.Join(dir, topic))
		if len(rows) != 30 {
			t.Errorf("%s: %d rows, want 30", topic, len(rows))
			continue
		}
		for i, row := range rows {
			want := fmt.Sprintf("e%d shop.order 2026-01-02T00:00:%02dZ %d w%d", i, i, i, i)
			if topic == "changes" {
				op, who := string("cud"[i%3]), fmt.Sprint("w", i)
				if op == "d" {
					who = "<nil>"
				}
				want = fmt.Sprintf("<nil> %s 2026-01-02T00:00:%02dZ %d %s", op, i, i, who)
			}
			if got := fmt.Sprint(row["id"], " ", row["op"], " ", row["at"], " ", row["n"], " ", row["who"]); got != want {
				t.Errorf("%s: row %d is %s, want %s", topic, i, got, want)
			}
		}
	}
	s.Stop(t)
}
