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

// The command forms that scripts rely on: inspect's object, read's starts and ends, and the resume token.
func TestStableCommandForms(t *testing.T) {
	seed := seedtest.New(t)
	const n = 900
	dir := t.TempDir()
	table := fillTable(t, dir, seed, n, 2, "--flush-rows", "200")
	all := readTable(t, table)

	t.Run("inspect", func(t *testing.T) {
		var got map[string]any
		if err := json.Unmarshal(harness.Run(t, nil, "inspect", table, "--json"), &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"version", "protocol", "files", "rows", "bytes", "partitionColumns", "txns"} {
			if _, ok := got[name]; !ok {
				t.Errorf("inspect --json lacks %s: %v", name, got)
			}
		}
		protocol, _ := got["protocol"].(map[string]any)
		if protocol["minReader"] != 1.0 || protocol["minWriter"] != 2.0 || got["rows"] != float64(n) {
			t.Errorf("inspect --json gives %v", got)
		}
		ends := map[int32]int64{}
		for _, row := range all {
			p := harness.PositionOf(t, row)
			ends[p.Partition] = max(ends[p.Partition], p.Offset)
		}
		txns, _ := got["txns"].(map[string]any)
		for p, end := range ends {
			// The position of a partition rides in the commits: its last offset (I3).
			if txns[fmt.Sprintf("events-%d", p)] != float64(end) {
				t.Errorf("txns are %v, the last offset of partition %d is %d", txns, p, end)
			}
		}
	})

	t.Run("history and time travel", func(t *testing.T) {
		lines := bytes.Split(bytes.TrimSpace(harness.Run(t, nil, "inspect", table, "--history", "--limit", "0", "--json")), []byte("\n"))
		var newest, second struct {
			Version   int64  `json:"version"`
			Timestamp string `json:"timestamp"`
			Operation string `json:"operation"`
		}
		if err := json.Unmarshal(lines[0], &newest); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(lines[1], &second); err != nil {
			t.Fatal(err)
		}
		if newest.Version != int64(len(lines)-1) || second.Version != newest.Version-1 || newest.Operation == "" {
			t.Fatalf("history begins with %+v, %+v of %d commits", newest, second, len(lines))
		}
		if got := readTable(t, table, "--version", fmt.Sprint(newest.Version)); len(got) != n {
			t.Errorf("the newest version has %d rows, want %d", len(got), n)
		}
		before := readTable(t, table, "--version", fmt.Sprint(second.Version))
		if len(before) >= n {
			t.Errorf("version %d has %d rows", second.Version, len(before))
		}
		if got := readTable(t, table, "--timestamp", second.Timestamp); len(got) != len(before) {
			t.Errorf("at %s there are %d rows, in version %d %d", second.Timestamp, len(got), second.Version, len(before))
		}
		if got := readTable(t, table, "--version", "0"); len(got) != 0 {
			t.Errorf("version 0 has %d rows", len(got))
		}
	})

	t.Run("offsets", func(t *testing.T) {
		got := readTable(t, table, "--from", "0:100,1:50", "--until", "0:150")
		harness.InOrder(t, "read", got)
		var want []map[string]any
		for _, row := range all {
			p := harness.PositionOf(t, row)
			if p.Partition == 0 && p.Offset >= 100 && p.Offset < 150 || p.Partition == 1 && p.Offset >= 50 {
				want = append(want, row)
			}
		}
		// An end that names partition 0 leaves partition 1 open, or out: see the help. Compare partition 0.
		in0 := func(row map[string]any) bool { return harness.PositionOf(t, row).Partition != 0 }
		got, want = slices.DeleteFunc(got, in0), slices.DeleteFunc(want, in0)
		harness.SameRows(t, "read", harness.ByPosition(t, "read", got), "the whole", harness.ByPosition(t, "the whole", want))
	})

	t.Run("token", func(t *testing.T) {
		// Read a third, stop, and go on from the token: together each record once (I4).
		first := harness.RunBoth(t, nil, "read", table, "--limit", fmt.Sprint(n/3), "--token")
		_, token, ok := strings.Cut(string(first.Stderr), "token:")
		if first.Err != nil || !ok {
			t.Fatalf("no token: %v: %s", first.Err, first.Stderr)
		}
		rows := harness.DecodeRows(t, first.Stdout)
		if len(rows) != n/3 {
			t.Fatalf("--limit %d gives %d rows", n/3, len(rows))
		}
		rows = append(rows, readTable(t, table, "--from", "token:"+strings.TrimSpace(token))...)
		harness.SameRows(t, "two reads", harness.ByPosition(t, "two reads", rows), "one", harness.ByPosition(t, "one", all))
	})

	t.Run("columns", func(t *testing.T) {
		for _, row := range readTable(t, table, "--columns", "_partition,_offset,name") {
			if len(row) != 3 {
				t.Fatalf("three columns were asked for: %v", row)
			}
		}
	})

	t.Run("stopped server", func(t *testing.T) {
		got := readTable(t, filepath.Join(dir, "events"))
		harness.SameRows(t, "read of a stopped server", harness.ByPosition(t, "read", got), "the table", harness.ByPosition(t, "table", all))
	})

	t.Run("check", func(t *testing.T) {
		harness.Run(t, nil, "check", table)
		harness.Run(t, nil, "check", dir)
	})
}

// A read that follows gives what is there and then what comes, each once (I4).
func TestReadFollows(t *testing.T) {
	seed := seedtest.New(t)
	s := harness.Serve(t, t.TempDir(), "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "100ms")
	produce(t, s.Addr, "events", seed, 0, 500)
	out := make(chan []byte, 1)
	go func() {
		b, _ := harness.TryRun(t, nil, "read", s.Dir+"/events", "--follow", "--limit", "1500")
		out <- b
	}()
	for i := 500; i < 1500; i += 250 {
		awaitRows(t, s.Table("events"), i) // so the seam moves while the reader reads
		produce(t, s.Addr, "events", seed, i, i+250)
	}
	select {
	case b := <-out:
		rows := harness.DecodeRows(t, b)
		harness.InOrder(t, "follower", rows)
		wantEvents(t, "follower", harness.ByPosition(t, "follower", rows), seed, 1500)
	case <-time.After(harness.Patience):
		t.Fatal("the follower did not get all records")
	}
}

// Messages that are no rows hold up nothing and are kept, with their coordinates and bytes (I7).
func TestBadMessagesGoToDeadLetters(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--topic", "events:1", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "100ms")
	bad := map[int64]string{3: "no json at all", 4: `{"n": "a word"}`, 7: `{"n": 1`, 9: "[1,2]"}
	var in bytes.Buffer
	for i := range int64(12) {
		if text, ok := bad[i]; ok {
			fmt.Fprintln(&in, text)
		} else {
			fmt.Fprintf(&in, "{\"n\": %d}\n", i)
		}
	}
	harness.Run(t, &in, "produce", "--brokers", s.Addr, "--topic", "events")
	awaitRows(t, s.Table("events"), 8)
	s.Stop(t)

	good := readTable(t, s.Table("events"))
	for at, row := range harness.ByPosition(t, "the table", good) {
		if _, isBad := bad[at.Offset]; isBad || harness.Int(t, row, "n") != at.Offset {
			t.Errorf("the row at %s is %v", at, row)
		}
	}
	letters := harness.ByPosition(t, "the dead letters", readTable(t, s.Table("events")+"_dead_letters"))
	if len(letters) != len(bad) || len(good) != 8 {
		t.Errorf("%d rows and %d dead letters, want 8 and %d", len(good), len(letters), len(bad))
	}
	for offset, text := range bad {
		row := letters[harness.Position{Offset: offset}]
		if row == nil || string(harness.Bytes(t, row, "_value")) != text || row["_topic"] != "events" || row["_reason"] == "" {
			t.Errorf("the dead letter of offset %d is %v, sent was %q", offset, row, text)
		}
	}
}

// What a user gets wrong is told in one line on standard error, with exit status 1 and no stack (I8).
func TestErrorsAreOneClearLine(t *testing.T) {
	empty := t.TempDir()
	table := fillTable(t, t.TempDir(), 1, 10, 1)
	notParquet := filepath.Join(t.TempDir(), "broken")
	log := filepath.Join(notParquet, "_delta_log")
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(log, "00000000000000000000.json"), []byte("{\"metaData\": 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string // the line must contain this
	}{
		{[]string{"frobnicate"}, "frobnicate"},
		{[]string{"read", filepath.Join(empty, "none")}, "none"},
		{[]string{"read", empty}, empty},
		{[]string{"read", table, "--from", "yesterday-ish"}, "yesterday-ish"},
		{[]string{"inspect", notParquet, "--json"}, "00000000000000000000.json"},
		{[]string{"check", filepath.Join(empty, "none")}, "none"},
		{[]string{"serve", "--dir", empty, "--kafka-listen", "not an address"}, "not an address"},
		{[]string{"serve", "--dir", empty, "--kafka-listen", "127.0.0.1:0", "--topic", "a:zero"}, "a:zero"},
		{[]string{"serve", "--dir", empty, "--durability", "perhaps"}, "perhaps"},
		{[]string{"ingest", "--topic", "t"}, "--table"},
		{[]string{"ingest", "--topic", "t", "--table", empty, "--flush-age", "soon"}, "soon"},
		{[]string{"produce", "--brokers", "127.0.0.1:1"}, "--topic"},
		{[]string{"bench", "everything"}, "everything"},
		{[]string{"read", "kafka://nowhere"}, "kafka://"},
		{[]string{"inspect", empty, "--config", filepath.Join(empty, "no.yaml")}, "no.yaml"},
	} {
		t.Run(strings.Join(c.args[:min(2, len(c.args))], " "), func(t *testing.T) {
			r := harness.RunBoth(t, nil, c.args...)
			text := strings.TrimSpace(string(r.Stderr))
			if r.Err == nil {
				t.Fatalf("%v succeeds; it printed %s", c.args, r.Stdout)
			}
			if !strings.Contains(r.Err.Error(), "exit status 1") {
				t.Errorf("it ended with %v", r.Err)
			}
			errorLine := text[strings.LastIndex(text, "\n")+1:]
			if !strings.HasPrefix(errorLine, "ledgerlake: ") || !strings.Contains(errorLine, c.says) {
				t.Errorf("standard error should end with one line that names %q: %s", c.says, text)
			}
			if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") {
				t.Errorf("a stack was shown: %s", text)
			}
		})
	}
}

// The demo runs from its start to equal counts, with nothing else installed.
func TestDemo(t *testing.T) {
	out := string(harness.Run(t, nil, "demo", "--dir", filepath.Join(t.TempDir(), "demo"), "--length", "1s", "--rate", "8000"))
	if !strings.Contains(out, "They are equal.") || !strings.Contains(out, "left the table for the log") {
		t.Errorf("the demo says\n%s", out)
	}
}
