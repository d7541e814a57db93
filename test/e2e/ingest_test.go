package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// httpGet gives status and body of one address.
func httpGet(t *testing.T, url string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// metric sums a metric of a process over its labels.
func metric(t *testing.T, addr, name string) (float64, error) {
	t.Helper()
	_, body, err := httpGet(t, "http://"+addr+"/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, name+"{") {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, errors.New("there is no metric " + name)
	}
	return sum, nil
}

func awaitReady(t *testing.T, addr string, status int, has string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() error {
		code, body, err := httpGet(t, "http://"+addr+"/readyz")
		if err == nil && (code != status || !strings.Contains(body, has)) {
			err = fmt.Errorf("readyz: %d %s; want %d and %q", code, body, status, has)
		}
		return err
	})
}

// One process runs many topics into many tables from a file: a list, a pattern that a later topic matches, one topic into
// two tables. A stream that cannot work, since its table is none of ours, is tried again and stops no other (I7); streams
// are added and taken away by a change of the file while the others go on. Each record is in each of its tables once (I3).
func TestStreamsOfAFile(t *testing.T) {
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	for _, topic := range []string{"orders", "web.eu"} {
		harness.CreateTopic(t, k.Addr, topic, 2)
	}
	dir, schema := t.TempDir(), harness.WriteEventSchema(t)
	file := filepath.Join(dir, "streams.yaml")
	broken := filepath.Join(dir, "broken", "_delta_log") // a file where a folder is needed
	if err := errors.Join(os.MkdirAll(filepath.Dir(broken), 0o755), os.WriteFile(broken, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	write := func(more string) {
		t.Helper()
		text := fmt.Sprintf(`streams:
  - {topics: [orders], table: '%[1]s/{topic}', format: json, schema: %[2]s, flush-age: 200ms, memory: 16777216}
  - {topics: [orders], table: %[1]s/copy, app: copy, format: json, schema: %[2]s, flush-age: 200ms, transform: ['told: kafka.offset']}
  - {pattern: 'web\..*', table: '%[1]s/{topic}', group: 'lake-{topic}', format: json, schema: %[2]s, flush-age: 200ms}
%[3]s`, dir, schema, more)
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("  - {topics: [orders], table: %s/broken, app: broken, format: json, schema: %s}\n", dir, schema))
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	p := harness.Start(t, "ingest", "--brokers", k.Addr, "--streams", file, "--http-listen", addr, "--log-format", "json")
	orders := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "orders", Seed: seed, Rate: 500})
	eu := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "web.eu", Seed: seed, Rate: 500})
	table := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"orders", "copy", "web.eu"} {
		awaitRows(t, table(name), 500)
	}
	awaitReady(t, addr, http.StatusServiceUnavailable, `"state":"waiting"`)

	harness.CreateTopic(t, k.Addr, "web.us", 1)
	us := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "web.us", Seed: seed, Rate: 500})
	write("") // the broken one goes; the pattern takes the new topic
	awaitReady(t, addr, http.StatusOK, "web.us")
	awaitRows(t, table("web.us"), 500)
	ackedOrders, ackedEU, ackedUS := orders.Stop(t), eu.Stop(t), us.Stop(t)
	awaitRows(t, table("web.eu"), len(ackedEU))
	awaitRows(t, table("web.us"), len(ackedUS))
	awaitRows(t, table("copy"), len(ackedOrders))
	awaitRows(t, table("orders"), len(ackedOrders))
	harness.Eventually(t, time.Minute, func() error {
		lag, err := metric(t, addr, "ledgerlake_tiering_lag_offsets")
		if err == nil && lag != 0 {
			err = fmt.Errorf("lag %v", lag)
		}
		return err
	})
	if n, err := metric(t, addr, "ledgerlake_tiering_restarts_total"); err != nil || n != 0 {
		t.Errorf("the change of the file restarted what did not change: %v, %v", n, err)
	}
	p.Stop(t)
	for name, acked := range map[string]map[int]harness.Position{"orders": ackedOrders, "copy": ackedOrders, "web.eu": ackedEU, "web.us": ackedUS} {
		harness.WantAcked(t, name, slices.Values(readTable(t, table(name))), seed, acked)
	}
	for _, row := range readTable(t, table("copy")) { // the one with a transform of its own
		if harness.Int(t, row, "told") != harness.Int(t, row, "_offset") {
			t.Fatalf("the copy has the row %v", row)
		}
	}
	if !p.Said(`"level":"ERROR"`) {
		t.Error("the log is not JSON, or says nothing of the broken stream")
	}
}

// One process becomes four and then two, under load, as one consumer group. Partitions move by cooperative rebalance: who
// keeps one reads nothing of it again (no session begins anew, nothing is discarded), and each record is a row once (I3).
func TestScaling(t *testing.T) {
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	const partitions = 12
	harness.CreateTopic(t, k.Addr, "events", partitions)
	table := filepath.Join(t.TempDir(), "events")
	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "events", Seed: seed, Rate: 2000, Transactions: true})
	procs := map[string]*harness.Process{}
	start := func() {
		t.Helper()
		addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
		procs[addr] = harness.Start(t, "ingest", "--brokers", k.Addr, "--topic", "events", "--table", table, "--group", "g", "--format", "json",
			"--schema", harness.WriteEventSchema(t), "--flush-age", "500ms", "--http-listen", addr, "--optimize-interval", "0")
	}
	// spread waits until n processes share the partitions evenly and all have committed in that time.
	spread := func(n int) {
		t.Helper()
		harness.Eventually(t, 2*time.Minute, func() error {
			sum := 0
			for addr := range procs {
				_, body, err := httpGet(t, "http://"+addr+"/metrics")
				if err != nil {
					return err
				}
				own := strings.Count(body, "ledgerlake_tiering_lag_offsets{")
				if own < partitions/n-1 || own > partitions/n+1 {
					return fmt.Errorf("%s has %d of %d partitions, %d processes", addr, own, partitions, n)
				}
				sum += own
			}
			if sum != partitions {
				return fmt.Errorf("%d partitions are owned", sum)
			}
			return nil
		})
		before := load.Acked()
		awaitRows(t, table, before+2000)
	}
	rows := 0.0
	calm := func(addr string) {
		t.Helper()
		for _, name := range []string{"restarts_total", "discarded_files_total", "orphan_files_total", "conflicts_total"} {
			if n, err := metric(t, addr, "ledgerlake_tiering_"+name); err != nil || n != 0 {
				t.Errorf("%s of a process is %v, %v; want 0: partitions that it kept were read again", name, n, err)
			}
		}
	}
	start()
	spread(1)
	for range 3 {
		start()
	}
	spread(4)
	for _, addr := range slices.Sorted(maps.Keys(procs))[:2] {
		calm(addr)
		procs[addr].Stop(t)
		delete(procs, addr)
	}
	spread(2)
	acked := load.Stop(t)
	awaitRows(t, table, len(acked))
	harness.Eventually(t, 2*time.Minute, func() error { // Kafka's own tool shows the group's positions
		out, complaints := harness.KafkaTool(t, nil, "consumer.group.ConsumerGroupCommand", "--bootstrap-server", k.Addr, "--describe", "--group", "g")
		caught := 0
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 5 && f[1] == "events" && f[5] == "0" {
				caught++
			}
		}
		if caught != partitions {
			return fmt.Errorf("%d partitions have no lag by Kafka's tool:\n%s%s", caught, out, complaints)
		}
		return nil
	})
	for addr, p := range procs {
		calm(addr)
		n, err := metric(t, addr, "ledgerlake_tiering_rows_total")
		if err != nil {
			t.Error(err)
		}
		rows += n
		p.Stop(t)
	}
	if rows == 0 {
		t.Error("the last two processes wrote nothing")
	}
	harness.WantAcked(t, "the table", slices.Values(readTable(t, table)), seed, acked)
}

// A daemon whose table cannot be made before a record has come says what it waits for, and goes on when it has.
func TestWaitsForTheFirstRecord(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "late:1")
	table, addr := filepath.Join(t.TempDir(), "late"), fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	p := harness.Start(t, "ingest", "--brokers", s.Addr, "--topic", "late", "--table", table, "--flush-age", "200ms", "--http-listen", addr)
	awaitReady(t, addr, http.StatusServiceUnavailable, `"waitsFor":"a first record of the topic`)
	if !p.Said("--schema FILE or --format raw makes it without one") {
		t.Errorf("the log says nothing of it: %s", p.Log())
	}
	harness.Run(t, strings.NewReader("{\"n\":1}\n"), "produce", "--brokers", s.Addr, "--topic", "late")
	awaitReady(t, addr, http.StatusOK, `"state":"running"`)
	awaitRows(t, table, 1)
	p.Stop(t)
}

// A bounded run ends at the ends as they were, with exit status 0, whatever the topic is like: empty, with nothing but
// aborted transactions, with a partition that is empty and one that retention emptied, and while records still come.
func TestUntilLatestEnds(t *testing.T) {
	harness.Python(t)
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "empty", 3)
	harness.CreateTopic(t, k.Addr, "tx", 2)
	harness.CreateTopic(t, k.Addr, "cut", 2)
	dir := t.TempDir()
	run := func(topic string, more ...string) string {
		t.Helper()
		table := filepath.Join(dir, topic)
		harness.Run(t, nil, append([]string{"ingest", "--brokers", k.Addr, "--topic", topic, "--table", table, "--format", "raw", "--until-latest"}, more...)...)
		return table
	}
	if rows := readTable(t, run("empty")); len(rows) != 0 {
		t.Errorf("an empty topic gave %d rows", len(rows))
	}
	// Nothing tells the columns of a new table: it ends, and makes none; on aborted records and markers alone too.
	harness.CreateTopic(t, k.Addr, "aborted", 2)
	client(t, "abort", k.Addr, "aborted", "20")
	for _, topic := range []string{"empty", "aborted"} {
		none := filepath.Join(dir, topic+"-auto")
		harness.Run(t, nil, "ingest", "--brokers", k.Addr, "--topic", topic, "--table", none, "--until-latest")
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a table was made without a record: %v", topic, err)
		}
	}
	want := transact(t, k.Addr, "tx") // ends with markers
	wantValues(t, "a transactional topic", readTable(t, run("tx")), want)
	wantValues(t, "and again", readTable(t, run("tx")), want)

	load := harness.StartLoad(t, harness.LoadConfig{Addr: k.Addr, Topic: "cut", Seed: 1})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(500) })
	load.Stop(t)
	ends := harness.Ends(t, k.Addr, "cut")
	offsets := filepath.Join(dir, "delete.json")
	if err := os.WriteFile(offsets, fmt.Appendf(nil, `{"partitions":[{"topic":"cut","partition":0,"offset":%d}],"version":1}`, ends[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	harness.KafkaTool(t, nil, "DeleteRecordsCommand", "--bootstrap-server", k.Addr, "--offset-json-file", offsets)
	if rows := readTable(t, run("cut")); int64(len(rows)) != ends[1] {
		t.Errorf("%d rows, want the %d of the partition that is left", len(rows), ends[1])
	}
}
