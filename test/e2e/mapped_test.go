package e2e

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A table that somebody else fills from a topic, with columns of its own names, is the history of that topic: by --map it
// is read at any offset, and over the seam, which is behind its last rows, into the log (I4).
func TestReadForeignTableByMapping(t *testing.T) {
	harness.Python(t)
	seed := harness.Seed(t, 4242)
	const n, more = 900, 300
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "events:2")
	produce(t, s.Addr, "events", seed, 0, n)
	source := "kafka://" + s.Addr + "/events"
	table := t.TempDir() + "/theirs"
	harness.RunPython(t, bytes.NewReader(harness.Run(t, nil, "read", source)), "sparklike.py", table, "4")
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
