package pulsar_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// shown starts serve in front of a Pulsar and gives its Kafka address.
func shown(t *testing.T, dir string, args ...string) (*harness.Process, string) {
	t.Helper()
	ready := filepath.Join(dir, "ready.json")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.RemoveAll(ready)); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, append([]string{"serve", "--dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "warn"}, args...)...)
	var info struct{ Kafka, HTTP string }
	harness.Eventually(t, harness.RunTimeout, func() error {
		select {
		case <-p.Done():
			t.Fatalf("serve ended: %s", p.Log())
		default:
		}
		raw, err := os.ReadFile(ready)
		return errors.Join(err, json.Unmarshal(raw, &info))
	})
	res, err := http.Get("http://" + info.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), "ledgerlake_kafka_connections") {
		t.Errorf("metrics: %v\n%s", err, b)
	}
	return p, info.Kafka
}

// linesOf gives what consumer.py prints of the messages of Pulsar's own reader, partition by partition.
func linesOf(want [][]harness.PulsarMessage) [][]string {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	out := make([][]string, len(want))
	for n, all := range want {
		for offset, m := range all {
			key, headers, value := "-", "-", m.Value
			if m.Key != "" {
				key = b64(m.Key)
			}
			if m.Properties != "" {
				var h []string
				for p := range strings.SplitSeq(strings.TrimSuffix(m.Properties, ";"), ";") {
					k, v, _ := strings.Cut(p, "=")
					h = append(h, k+"="+b64(v))
				}
				headers = strings.Join(h, ";")
			}
			if value == "null" {
				value = "-"
			}
			out[n] = append(out[n], fmt.Sprintf("%d %d %d %s %s %s", n, offset, m.PublishTime, key, headers, value))
		}
	}
	return out
}

// take sorts what a consumer printed by partition, behind what came before.
func take(t *testing.T, got [][]string, printed string) [][]string {
	t.Helper()
	for line := range strings.Lines(printed) {
		var n int
		if _, err := fmt.Sscan(line, &n); err != nil || n >= len(got) {
			t.Fatalf("the consumer printed %q", line)
		}
		got[n] = append(got[n], strings.TrimSpace(line))
	}
	return got
}

func sameLines(t *testing.T, who string, got, want [][]string) {
	t.Helper()
	for n := range want {
		for i := range min(len(got[n]), len(want[n])) {
			if got[n][i] != want[n][i] {
				t.Fatalf("%s, partition %d message %d:\n%.300s\nPulsar's reader has\n%.300s", who, n, i, got[n][i], want[n][i])
			}
		}
		if len(got[n]) != len(want[n]) {
			t.Fatalf("%s, partition %d: %d messages, Pulsar's reader has %d", who, n, len(got[n]), len(want[n]))
		}
	}
	t.Logf("%s: as Pulsar's reader", who)
}

// TestKafkaConsumersReadTopicsOfPulsar: librdkafka, franz-go and Java's console consumer read topics of a Pulsar from serve:
// history from the tables, the tail from Pulsar, as Pulsar's own reader gives it, at dense offsets. A group goes on where it
// was, also after serve was killed, and gets what comes meanwhile. Nothing can be written (I4).
func TestKafkaConsumersReadTopicsOfPulsar(t *testing.T) {
	p := harness.Pulsar(t, 50)
	keepAll(t, p)
	lake, dir := t.TempDir(), filepath.Join(t.TempDir(), "serve")
	const partitions = 3
	topics := make([]string, partitions)
	for n := range topics {
		topics[n] = fmt.Sprintf("public/default/orders-partition-%d", n)
	}
	p.Admin(t, "PUT", "persistent/public/default/orders/partitions", partitions)
	write := func(first, count int, options string) {
		p.Tool(t, "produce", append([]string{"public/default/orders", fmt.Sprint(first), fmt.Sprint(count)}, strings.Fields(options)...)...)
	}
	write(0, 1000, "batch=10 keys=50 nulls=9")
	write(1000, 200, "chunk=1000 size=3000 keys=5")
	p.Tool(t, "produce", "public/default/untiered", "0", "120", "keys=7")
	harness.Run(t, nil, "ingest", p.URL()+"/public/default/orders", filepath.Join(lake, "orders"), "--until-latest", "--format", "raw", "--log-level", "warn")
	write(1200, 600, "txn=20 batch=5") // a third is aborted
	args := []string{"--upstream", p.URL() + "/public/default/~.*", "--lake", lake}
	server, addr := shown(t, dir, args...)

	script := func(args ...string) string { return string(harness.RunPython(t, nil, "consumer.py", args...)) }
	want := linesOf(p.ReadPartitions(t, topics...))
	got := take(t, make([][]string, partitions), script("consume", addr, "g", "orders", "700"))
	server.Kill()
	_, addr = shown(t, dir, args...)
	got = take(t, got, script("consume", addr, "g", "orders"))
	sameLines(t, "librdkafka, in two turns", got, want)
	write(1800, 90, "keys=3")
	want = linesOf(p.ReadPartitions(t, topics...))
	got = take(t, got, script("consume", addr, "g", "orders"))
	sameLines(t, "librdkafka, going on", got, want)
	harness.Run(t, nil, "ingest", p.URL()+"/public/default/orders", filepath.Join(lake, "orders"), "--until-latest", "--format", "raw", "--log-level", "warn")
	got = take(t, make([][]string, partitions), script("consume", addr, "again", "orders"))
	sameLines(t, "librdkafka, when the table has it all", got, want)
	got = take(t, make([][]string, 1), script("consume", addr, "g", "untiered"))
	sameLines(t, "a topic without a table", got, linesOf(p.ReadPartitions(t, "public/default/untiered")))

	next := make([]int64, partitions)
	for _, r := range harness.Consume(t, addr, "orders") {
		if f := strings.Fields(want[r.Partition][next[r.Partition]]); f[1] != fmt.Sprint(r.Offset) || r.Value != nil && f[5] != base64.StdEncoding.EncodeToString(r.Value) {
			t.Fatalf("franz-go, partition %d offset %d: %.100q, Pulsar's reader has %.200v", r.Partition, r.Offset, r.Value, f)
		}
		next[r.Partition]++
	}
	for n := range want {
		if int(next[n]) != len(want[n]) {
			t.Errorf("franz-go, partition %d: %d messages, Pulsar's reader has %d", n, next[n], len(want[n]))
		}
	}
	if told := strings.TrimSpace(script("produce", addr, "orders")); told != "POLICY_VIOLATION" {
		t.Errorf("a producer is told %q", told)
	}
	javaConsumer(t, addr, want)
	last, behind := harness.ListedAt(t, addr, "orders", -5, partitions), harness.ListedAt(t, addr, "orders", -6, partitions)
	for n := range want { // the table has it all
		if end := int64(len(want[n])); last[n] != end-1 || behind[n] != end {
			t.Errorf("partition %d, which is tiered up to %d: latest-tiered is %d, earliest-pending-upload %d", n, end, last[n], behind[n])
		}
	}
	if last, behind := harness.ListedAt(t, addr, "untiered", -5, 1)[0], harness.ListedAt(t, addr, "untiered", -6, 1)[0]; last != -1 || behind != 0 {
		t.Errorf("a topic without a table: latest-tiered is %d, earliest-pending-upload %d", last, behind)
	}
}

// javaConsumer compares the values that Java's console consumer prints of a partition.
func javaConsumer(t *testing.T, addr string, want [][]string) {
	t.Helper()
	out, _ := harness.KafkaTool(t, nil, "consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", "orders", "--partition", "1", "--offset", "0",
		"--max-messages", fmt.Sprint(len(want[1])), "--timeout-ms", "120000")
	var values []string
	for _, line := range want[1] {
		value := "null"
		if raw, err := base64.StdEncoding.DecodeString(strings.Fields(line)[5]); err == nil {
			value = string(raw)
		}
		values = append(values, value)
	}
	if got := strings.TrimSpace(out); got != strings.Join(values, "\n") {
		t.Errorf("Java's console consumer prints %d lines, want %d:\n%.500s", strings.Count(got, "\n")+1, len(values), got)
	}
}
