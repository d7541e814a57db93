package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A table that somebody else fills from a topic, with columns of its own names, is the history of that topic: by --map it
// is read at any offset, and over the seam, which is behind its last rows, into the log (I4).
func TestReadForeignTableByMapping(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	const n, more = 900, 300
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "events:2")
	produce(t, s.Addr, "events", seed, 0, n)
	source := "kafka://" + s.Addr + "/events"
	table := t.TempDir() + "/theirs"
	filled := harness.Run(t, nil, "read", source)
	harness.RunPython(t, bytes.NewReader(filled), "sparklike.py", table, "4")
	nested := t.TempDir() + "/nested"
	harness.RunPython(t, bytes.NewReader(filled), "sparklike.py", nested, "4", "struct")
	cutLog(t, s.Addr, "events", n)
	produce(t, s.Addr, "events", seed, n, n+more)

	mapped := []string{"--map", "partition=kafka_partition,offset=kafka_offset,timestamp=at,key=key,value=value"}
	rows := readTable(t, source, append(mapped, "--table", table)...)
	next := map[int64]int64{}
	for _, row := range rows {
		p, o := harness.Int(t, row, "kafka_partition"), harness.Int(t, row, "kafka_offset")
		if o != next[p] {
			t.Fatalf("partition %d gives offset %d where %d was due", p, o, next[p])
		}
		next[p]++
	}
	if len(rows) != n+more {
		t.Fatalf("%d rows, want %d", len(rows), n+more)
	}
	known := map[harness.Position][]byte{} // of the log, as far as it goes back
	for _, r := range harness.Consume(t, s.Addr, "events") {
		known[r.Position] = r.Value
	}
	seen := 0
	for _, row := range rows {
		at := harness.Position{Partition: int32(harness.Int(t, row, "kafka_partition")), Offset: harness.Int(t, row, "kafka_offset")}
		value := harness.Bytes(t, row, "value")
		if want, ok := known[at]; ok {
			if seen++; !bytes.Equal(value, want) {
				t.Fatalf("%s has another value than the log", at)
			}
		}
		e, err := harness.DecodeRow(value)
		if err != nil {
			t.Fatal(err)
		}
		if i := harness.Int(t, e, "n"); !bytes.Equal(value, harness.NewEvent(seed, int(i)).Value) {
			t.Fatalf("%s is not event %d as it was sent", at, i)
		}
	}
	if seen != more {
		t.Errorf("%d of the rows are in the log, want %d", seen, more)
	}

	// The same where the places are fields of a struct, on both sides of the seam.
	inner := []string{"--map", "partition=kafka.kafka_partition,offset=kafka.kafka_offset,timestamp=kafka.at,key=key,value=value"}
	place := func(row map[string]any, inside string) string {
		return fmt.Sprint(row[inside+"kafka_partition"], ":", row[inside+"kafka_offset"])
	}
	plain := map[string]map[string]any{}
	for _, row := range rows {
		plain[place(row, "")] = row
	}
	over := readTable(t, source, append(inner, "--table", nested)...)
	if len(over) != n+more || len(plain) != n+more {
		t.Fatalf("%d rows at %d places, want %d", len(over), len(plain), n+more)
	}
	for _, row := range over {
		kafka, ok := row["kafka"].(map[string]any)
		same := plain[place(row, "kafka.")]
		delete(plain, place(row, "kafka."))
		if !ok || same == nil || len(row) != 6 {
			t.Fatalf("a row of the nested table is %v", row)
		}
		for name, want := range same {
			got, inside := row[name], row["kafka."+name]
			if name != "key" && name != "value" {
				got = kafka[name]
			} else {
				inside = got
			}
			if got != want || inside != want {
				t.Fatalf("%v has %s %v and %v, want %v", row, name, got, inside, want)
			}
		}
	}
	if from := readTable(t, nested, append(inner, "--from", "1:100", "--columns", "kafka.kafka_offset")...); len(from) == 0 || harness.Int(t, from[0], "kafka.kafka_offset") != 100 {
		t.Errorf("from 1:100 of the nested table come %d rows", len(from))
	}

	// From an offset, of the table alone, and by time over the seam.
	from := readTable(t, table, append(mapped, "--from", "1:100")...)
	if len(from) == 0 || harness.Int(t, from[0], "kafka_offset") != 100 || harness.Int(t, from[0], "kafka_partition") != 1 {
		t.Errorf("from 1:100 come %d rows", len(from))
	}
	if byTime := readTable(t, source, append(mapped, "--table", table, "--order", "time", "--columns", "value")...); len(byTime) != n+more {
		t.Errorf("by time: %d rows", len(byTime))
	}
	plan := string(harness.Run(t, nil, append([]string{"read", source, "--table", table, "--plan"}, mapped...)...))
	if !strings.Contains(plan, "reads 4 of 4 files") {
		t.Errorf("plan: %s", plan)
	}
	t.Logf("\n%s", plan)
	for _, bad := range []string{"offset=kafka_offset", "partition=kafka_partition,offset=nope", "partition=kafka_partition,offset=value", "what=key", "partition=kafka_partition,offset=kafka_partition"} {
		if _, err := harness.TryRun(t, nil, "read", table, "--map", bad); err == nil {
			t.Errorf("--map %s is accepted", bad)
		}
	}
	r := harness.RunBoth(t, nil, "read", table, "--log-level", "info")
	if r.Err != nil || !strings.Contains(string(r.Stderr), "by version and file") || bytes.Count(r.Stdout, []byte("\n")) != n {
		t.Errorf("without a mapping: %v %s", r.Err, r.Stderr)
	}
}
