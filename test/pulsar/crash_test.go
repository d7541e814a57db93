package pulsar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// messages is how many messages the crash test writes: LEDGERLAKE_MESSAGES, else the default.
func messages(t *testing.T, normal int) int {
	t.Helper()
	n := normal
	if s := os.Getenv("LEDGERLAKE_MESSAGES"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil || n < 1000 {
			t.Fatalf("LEDGERLAKE_MESSAGES %q is not a number from 1000 on", s)
		}
	}
	return n
}

// TestTwoIngestsAreKilledWhileBrokersRestart: two processes that do not know of each other tier one topic of 12
// partitions, of plain, batched, compressed, keyed, chunked and transactional messages, null values among them. They are
// killed, the broker is killed, topics are unloaded, ledgers are dropped as soon as nothing holds them; nothing is acknowledged
// that is not in the table, and what is in it goes when the test's own hold ends. Each message that
// Pulsar's own reader gives is in the table once, in its order, under its id (I2, I3, I6). Then random ids of both sides of
// the seam lead to their messages, and to those that follow (I4).
func TestTwoIngestsAreKilledWhileBrokersRestart(t *testing.T) {
	const partitions = 12
	total := messages(t, 12_000)
	kills := harness.Kills(t, 6)
	r := rand.New(rand.NewPCG(seedtest.New(t), 1))
	p := harness.Pulsar(t, max(50, total/partitions/400), "retentionCheckIntervalInSeconds=2")
	p.Admin(t, "POST", "namespaces/public/default/messageTTL", 3600) // it is at work, and takes nothing
	p.Admin(t, "PUT", "persistent/public/default/events/partitions", partitions)
	topic := "public/default/events"
	// What Pulsar's reader is to give at the end must still be there: a subscription of the test's own keeps it.
	for n := range partitions {
		p.Admin(t, "PUT", fmt.Sprintf("persistent/%s-partition-%d/subscription/oracle", topic, n), map[string]int{"ledgerId": -1, "entryId": -1})
	}
	lake := filepath.Join(t.TempDir(), "events")
	args := []string{"ingest", p.URL() + "/" + topic, lake, "--format", "raw", "--log-level", "warn", "--pulsar-admin", p.Web}
	running := append(append([]string{}, args...), "--flush-age", "300ms")
	procs := []*harness.Process{harness.Start(t, running...), harness.Start(t, running...)}

	kinds := []string{"batch=100 keys=500", "keys=50 nulls=11", "batch=20 codec=ZSTD", "batch=50 codec=LZ4 nulls=7", "txn=50 batch=10", "chunk=2000 size=7000"}
	chunked := total / 60
	share := (total - chunked) / (len(kinds) - 1)
	var waits []func() error
	for i, k := range kinds {
		n := share
		if strings.HasPrefix(k, "chunk") {
			n = chunked
		}
		rate := max(n/15, 50) // about 15 seconds of it
		waits = append(waits, p.StartTool(t, "produce", append([]string{topic, fmt.Sprint(i * total), fmt.Sprint(n), fmt.Sprintf("rate=%d", rate)}, strings.Fields(k)...)...))
	}
	for kill := range kills {
		time.Sleep(time.Duration(500+r.IntN(2500)) * time.Millisecond)
		heldBack(t, p, topic, lake, r.IntN(partitions))
		if kill == kills/2 {
			p.Kill(t)
			p.Start(t)
			continue
		}
		switch i := r.IntN(3); i {
		case 0, 1:
			procs[i].Kill()
			procs[i] = harness.Start(t, running...)
		case 2:
			n := r.IntN(partitions)
			p.Admin(t, "PUT", fmt.Sprintf("persistent/%s-partition-%d/unload", topic, n), nil)
		}
	}
	for i, wait := range waits {
		if err := wait(); err != nil {
			t.Fatalf("producer %d: %v", i, err)
		}
	}
	for _, x := range procs {
		x.Kill()
	}
	if drained := harness.RunBoth(t, nil, append(args, "--until-latest")...); drained.Err != nil || !strings.Contains(string(drained.Stderr), "time to live (messageTTL) of 1h0m0s") {
		t.Fatalf("%v, and nothing is said of the time to live: %s", drained.Err, drained.Stderr)
	}
	const tail = 1200
	p.Tool(t, "produce", topic, "0", fmt.Sprint(tail), "batch=10", "keys=100", "producer=tail")
	topics := make([]string, partitions)
	for n := range topics {
		topics[n] = fmt.Sprintf("%s-partition-%d", topic, n)
	}
	all := p.ReadPartitions(t, topics...)
	tiered, behind := make([][]harness.PulsarMessage, partitions), 0
	for n := range all {
		end := slices.IndexFunc(all[n], func(m harness.PulsarMessage) bool { return m.Producer == "tail" })
		if end < 0 {
			end = len(all[n])
		}
		tiered[n] = all[n][:end]
		behind += len(all[n]) - end
	}
	if behind != tail {
		t.Fatalf("%d messages stand behind the table, want %d", behind, tail)
	}
	compareRows(t, lake, tiered)
	randomIDs(t, r, p.URL()+"/"+topic, lake, tiered, all, max(total/2000, 12))
	harness.Run(t, nil, "check", lake)
	harness.Run(t, nil, append(args, "--until-latest")...) // the tail, and nothing is written twice
	compareRows(t, lake, all)
	trimmed(t, p, topics)
	compareRows(t, p.URL()+"/"+topic, all, "--table", lake)
}

// heldBack: what the ingests have acknowledged of a partition is in the table (I6).
func heldBack(t *testing.T, p *harness.RealPulsar, topic, lake string, partition int) {
	t.Helper()
	var stats struct {
		Cursors map[string]struct {
			Mark string `json:"markDeletePosition"`
		} `json:"cursors"`
	}
	if err := json.Unmarshal(p.Admin(t, "GET", fmt.Sprintf("persistent/%s-partition-%d/internalStats", topic, partition), nil), &stats); err != nil {
		t.Fatal(err)
	}
	cursor, ok := stats.Cursors["ledgerlake-"+strings.ReplaceAll(topic, "/", ".")]
	var ledger, entry int64
	if _, err := fmt.Sscanf(cursor.Mark, "%d:%d", &ledger, &entry); ok && err != nil {
		t.Fatalf("acknowledged up to %q: %v", cursor.Mark, err)
	}
	if !ok || entry < 0 { // nothing yet
		return
	}
	where := fmt.Sprintf("_partition = %d AND (_ledger > %d OR _ledger = %d AND _entry > %d)", partition, ledger, ledger, entry)
	out, err := harness.TryRun(t, nil, "read", lake, "--where", where, "--columns", "_ledger,_entry", "--limit", "1")
	if err != nil || len(out) == 0 {
		t.Fatalf("partition %d is acknowledged up to %s, and the table has nothing behind that: %v", partition, cursor.Mark, err)
	}
}

// trimmed takes the test's own hold away and waits until the ledgers have gone that the table has.
func trimmed(t *testing.T, p *harness.RealPulsar, topics []string) {
	t.Helper()
	before, after := 0, 0
	for _, topic := range topics {
		before += len(ledgers(t, p, topic))
		p.Admin(t, "DELETE", "persistent/"+topic+"/subscription/oracle", nil)
	}
	for _, topic := range topics {
		harness.Eventually(t, harness.RunTimeout, func() error {
			p.Admin(t, "POST", "persistent/"+topic+"/trim", nil)
			if left := ledgers(t, p, topic); len(left) > 3 {
				return fmt.Errorf("%s: ledgers %v are still there", topic, left)
			}
			return nil
		})
		after += len(ledgers(t, p, topic))
	}
	if before < 2*after {
		t.Errorf("%d ledgers of %d are left: that proves nothing", after, before)
	}
	t.Logf("%d ledgers before the hold was given up, %d after", before, after)
}

// randomIDs reads a few messages from each of some random ids, half of them in the table and half behind it.
func randomIDs(t *testing.T, r *rand.Rand, source, lake string, tiered, all [][]harness.PulsarMessage, count int) {
	t.Helper()
	const follow = 3
	type want struct {
		partition, at int
	}
	var ids []want
	for i := range count {
		n := r.IntN(len(all))
		lo, hi := 0, len(tiered[n])
		if i%2 == 1 {
			lo, hi = max(0, hi-follow+1), len(all[n]) // the seam, and what is behind it
		}
		if lo < hi {
			ids = append(ids, want{n, lo + r.IntN(hi-lo)})
		}
	}
	var g errgroup.Group
	g.SetLimit(2)
	for _, id := range ids {
		g.Go(func() error {
			m := &all[id.partition][id.at]
			from := fmt.Sprintf("id:%d@%d:%d", id.partition, m.Ledger, m.Entry)
			if m.Batch >= 0 {
				from = fmt.Sprintf("%s:%d", from, m.Batch)
			}
			out, err := harness.TryRun(t, nil, "read", source, "--table", lake, "--from", from, "--limit", fmt.Sprint(follow), "--columns", "_partition,_ledger,_entry,_batch")
			if err != nil {
				return err
			}
			var wants strings.Builder
			for _, m := range all[id.partition][id.at:min(id.at+follow, len(all[id.partition]))] {
				fmt.Fprintf(&wants, "{\"_partition\":%d,\"_ledger\":%d,\"_entry\":%d,\"_batch\":%d}\n", id.partition, m.Ledger, m.Entry, m.Batch)
			}
			if string(out) != wants.String() {
				return fmt.Errorf("%s gives\n%swant\n%s", from, out, wants.String())
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d random ids lead to their messages and those that follow", len(ids))
}

// compareRows compares a table with what Pulsar's own reader gave of each partition.
func compareRows(t *testing.T, lake string, given [][]harness.PulsarMessage, args ...string) {
	t.Helper()
	type place struct{ partition, offset int64 }
	rows := map[place]string{}
	first := map[int64]int64{}
	count := 0
	for row := range harness.Rows(t, append([]string{"read", lake, "--columns", "_partition,_offset,_ledger,_entry,_batch,_value"}, args...)...) {
		at := place{number(t, row["_partition"]), number(t, row["_offset"])}
		value, isText := row["_value"].(string)
		if !isText {
			value = "null"
		}
		if _, twice := rows[at]; twice {
			t.Fatalf("partition %d offset %d is in the table twice", at.partition, at.offset)
		}
		rows[at] = fmt.Sprint(number(t, row["_ledger"]), number(t, row["_entry"]), number(t, row["_batch"]), value)
		if f, ok := first[at.partition]; !ok || at.offset < f {
			first[at.partition] = at.offset
		}
		count++
	}
	want := 0
	for n, all := range given {
		n := int64(n)
		for i, m := range all {
			at := place{n, first[n] + int64(i)}
			if got := rows[at]; got != fmt.Sprint(m.Ledger, m.Entry, m.Batch, m.Value) {
				t.Fatalf("partition %d offset %d is %.200q, Pulsar's reader has %d:%d:%d %.200q", n, at.offset, got, m.Ledger, m.Entry, m.Batch, m.Value)
			}
			want++
		}
	}
	if count != want {
		t.Fatalf("%d rows, and Pulsar's reader has %d messages", count, want)
	}
	t.Logf("%d rows are what Pulsar's reader gives", count)
}

// ledgers gives the ids of the ledgers that a topic has.
func ledgers(t *testing.T, p *harness.RealPulsar, topic string) []int64 {
	t.Helper()
	var stats struct {
		Ledgers []struct {
			ID int64 `json:"ledgerId"`
		} `json:"ledgers"`
	}
	if err := json.Unmarshal(p.Admin(t, "GET", "persistent/"+topic+"/internalStats", nil), &stats); err != nil {
		t.Fatal(err)
	}
	var out []int64
	for _, l := range stats.Ledgers {
		out = append(out, l.ID)
	}
	return out
}

// TestLedgersAreHeldUntilTheyAreTiered: no ledger goes before its messages are in the table, and afterwards they go; a
// reader of the table and the topic sees all of it (I6).
func TestLedgersAreHeldUntilTheyAreTiered(t *testing.T) {
	p := harness.Pulsar(t, 50)
	topic, lake := "public/default/held", filepath.Join(t.TempDir(), "held")
	source := p.URL() + "/" + topic
	p.Admin(t, "PUT", "persistent/"+topic, nil)
	p.Admin(t, "PUT", "persistent/"+topic+"/subscription/ledgerlake-"+strings.ReplaceAll(topic, "/", "."), map[string]int{"ledgerId": -1, "entryId": -1})
	p.Tool(t, "produce", topic, "0", "500")
	p.Admin(t, "POST", "persistent/"+topic+"/trim", nil)
	before := ledgers(t, p, topic)
	if len(before) < 10 {
		t.Fatalf("ledgers %v: some went before they were tiered", before)
	}
	harness.Run(t, nil, "ingest", source, lake, "--until-latest")
	harness.Eventually(t, harness.RunTimeout, func() error {
		p.Admin(t, "POST", "persistent/"+topic+"/trim", nil)
		if left := ledgers(t, p, topic); len(left) > 3 {
			return fmt.Errorf("ledgers %v are still there", left)
		}
		return nil
	})
	p.Tool(t, "produce", topic, "500", "120")
	next := int64(0)
	for row := range harness.Rows(t, "read", source, "--table", lake, "--columns", "_offset") {
		if got := number(t, row["_offset"]); got != next {
			t.Fatalf("offset %d where %d was due", got, next)
		}
		next++
	}
	if next != 620 {
		t.Errorf("%d messages, want 620", next)
	}
	harness.Run(t, nil, "ingest", source, lake, "--until-latest")
}

// TestLostLedgersAreReported: when the ledgers behind the table's last message are gone, here because the topic was
// deleted and made again, that is a fault that names the offsets, never a silent jump; who accepts it goes on with a
// report (I4).
func TestLostLedgersAreReported(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	topic, lake := "public/default/lost", filepath.Join(t.TempDir(), "lost")
	source := p.URL() + "/" + topic
	p.Tool(t, "produce", topic, "0", "100")
	harness.Run(t, nil, "ingest", source, lake, "--until-latest")
	p.Admin(t, "DELETE", "persistent/"+topic+"?force=true", nil)
	p.Tool(t, "produce", topic, "500", "30")
	_, err := harness.TryRun(t, nil, "ingest", source, lake, "--until-latest")
	if err == nil || !strings.Contains(err.Error(), "dropped by retention") {
		t.Fatalf("the loss was not reported: %v", err)
	}
	t.Logf("ingest says: %v", err)
	harness.Run(t, nil, "ingest", source, lake, "--until-latest", "--on-gap", "earliest")
	harness.Run(t, nil, "ingest", source, lake, "--until-latest")
	rows := 0
	for range harness.Rows(t, "read", lake, "--columns", "_offset") {
		rows++
	}
	if rows != 130 {
		t.Errorf("%d rows, want 130", rows)
	}
	r := harness.RunBoth(t, nil, "read", source, "--table", lake, "--gaps", "--columns", "_offset")
	if r.Err != nil || !strings.Contains(string(r.Stderr), "lost") {
		t.Errorf("a reader is not told what is lost: %v %s", r.Err, r.Stderr)
	}
}
