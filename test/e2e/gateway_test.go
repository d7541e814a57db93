package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// gateway starts `ledgerlake serve --upstream` in front of a real Kafka and gives its address. Its history is the tables
// of lake.
func gateway(t *testing.T, k *harness.RealKafka, lake string) string {
	t.Helper()
	addr, _ := gatewayWith(t, k.Addr, lake)
	return addr
}

// gatewayWith is gateway to an address, with more flags; it gives the addresses for Kafka clients and for metrics.
func gatewayWith(t *testing.T, upstream, lake string, flags ...string) (addr, metrics string) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "gateway.json")
	p := harness.Start(t, append([]string{"serve", "--upstream", "kafka://" + upstream, "--lake", lake, "--kafka-listen", "127.0.0.1:0",
		"--http-listen", "127.0.0.1:0", "--ready-file", ready}, flags...)...)
	var info struct{ Kafka, HTTP string }
	harness.Eventually(t, time.Minute, func() error {
		select {
		case <-p.Done():
			t.Fatalf("the gateway ended: %s", p.Log())
		default:
		}
		raw, err := os.ReadFile(ready)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &info)
	})
	return info.Kafka, info.HTTP
}

// tier brings all of a topic into its table, and has the cluster delete that but for the last few offsets of each
// partition. It gives where the log begins then.
func tier(t *testing.T, k *harness.RealKafka, topic, lake, schema string, keep int64) map[int32]int64 {
	t.Helper()
	ends := harness.Ends(t, k.Addr, topic) // what is produced behind them may not be in the table
	harness.Run(t, nil, "ingest", "--brokers", k.Addr, "--topic", topic, "--table", filepath.Join(lake, topic), "--until-latest",
		"--format", "json", "--schema", schema)
	return drop(t, k, topic, ends, keep)
}

// drop has the cluster delete a topic but for the last few offsets before ends.
func drop(t *testing.T, k *harness.RealKafka, topic string, ends map[int32]int64, keep int64) map[int32]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	starts, cut := map[int32]int64{}, kadm.Offsets{}
	for p, end := range ends {
		starts[p] = max(end-keep, 0)
		cut.AddOffset(topic, p, starts[p], -1)
	}
	done, err := kadm.NewClient(client).DeleteRecords(ctx, cut)
	if err = errors.Join(err, done.Error()); err != nil {
		t.Fatal(err)
	}
	return starts
}

// wantDelivered fails unless records are the acknowledged events of a Load, each once, where it was acknowledged and byte
// for byte (I4).
func wantDelivered(t *testing.T, who string, records []harness.Record, seed uint64, acked map[int]harness.Position) {
	t.Helper()
	at := make(map[harness.Position]harness.Record, len(records))
	for _, r := range records {
		at[r.Position] = r
	}
	if len(at) != len(acked) || len(records) != len(acked) {
		t.Errorf("%s: %d records at %d positions, %d were acknowledged; %s", who, len(records), len(at), len(acked), tooMany(records, seed, acked))
	}
	for n, p := range acked {
		e, r := harness.NewEvent(seed, n), at[p]
		if string(r.Key) != string(e.Key) || string(r.Value) != string(e.Value) {
			t.Fatalf("%s: event %d was acknowledged at %s, where key %q and value %q are", who, n, p, r.Key, r.Value)
		}
	}
}

// tooMany describes the records that stand where nothing was acknowledged.
func tooMany(records []harness.Record, seed uint64, acked map[int]harness.Position) string {
	known, first := map[harness.Position]bool{}, map[string]harness.Position{}
	for n, p := range acked {
		e := harness.NewEvent(seed, n)
		known[p], first[string(e.Value)] = true, p
	}
	var twice, new int
	example := ""
	for _, r := range records {
		if known[r.Position] {
			continue
		}
		at, again := first[string(r.Value)]
		if again {
			twice++
		} else {
			new++
		}
		if example == "" {
			example = fmt.Sprintf("the first at %v, acknowledged at %v: %v, value %q", r.Position, at, again, r.Value)
		}
	}
	return fmt.Sprintf("%d come a second time, %d were never acknowledged: %s", twice, new, example)
}

// A real Kafka whose records are dropped once they are in the table, behind a gateway: producers, transactional ones too,
// go on through it, and a plain consumer through it reads from offset 0 to the tail, each record once (I3, I4).
func TestGateway(t *testing.T) {
	k := harness.Kafka(t)
	seed := seedtest.New(t)
	lake, schema := t.TempDir(), harness.WriteEventSchema(t)
	addr, metrics := gatewayWith(t, k.Addr, lake)
	harness.CreateTopic(t, addr, "orders", 3)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: addr, Topic: "orders", Seed: seed, Producers: 3, Transactions: true})
	for _, reached := range []int{2000, 4000} {
		harness.Eventually(t, time.Minute, func() error { return load.Reached(reached) })
		for p, start := range tier(t, k, "orders", lake, schema, 20) {
			if start == 0 {
				t.Errorf("nothing of partition %d was dropped: the test shows less than it says", p)
			}
		}
		harness.Consume(t, addr, "orders") // over the seam while producers go on: in order and without a hole
	}
	acked := load.Stop(t)
	if load.Aborted() == 0 {
		t.Error("no transaction was aborted: the test shows less than it says")
	}
	wantDelivered(t, "a consumer through the gateway", harness.Consume(t, addr, "orders"), seed, acked)
	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	shown, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`ledgerlake_kafka_requests_total{api="Produce"}`, "ledgerlake_kafka_history_bytes_total", "ledgerlake_gateway_upstream_seconds_count"} {
		if m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` ([0-9.e+]+)$`).FindSubmatch(shown); m == nil || string(m[1]) == "0" {
			t.Errorf("/metrics shows %q for %s, want more than nothing", m, name)
		}
	}
}

// Two topics fill one table, and are dropped by the cluster: a consumer through the gateway reads each from offset 0 to its tail,
// and nothing of the other (I4).
func TestGatewayOfATableOfSeveralTopics(t *testing.T) {
	k := harness.Kafka(t)
	dir := t.TempDir()
	table, file := filepath.Join(dir, "shared"), filepath.Join(dir, "streams.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "streams: [{topics: [eu, us], table: %s}]\n", table), 0o600); err != nil {
		t.Fatal(err)
	}
	topics, want := []string{"eu", "us"}, map[string][]harness.Record{}
	for _, topic := range topics {
		harness.CreateTopic(t, k.Addr, topic, 2)
		var in strings.Builder
		for i := range 400 {
			fmt.Fprintf(&in, `k%d {"n":%d,"from":"%s"}`+"\n", i%9, i, topic)
		}
		harness.Run(t, strings.NewReader(in.String()), "produce", "--brokers", k.Addr, "--topic", topic, "--key-separator", " ")
		want[topic] = harness.Consume(t, k.Addr, topic)
	}
	harness.Run(t, nil, "ingest", "--brokers", k.Addr, "--streams", file, "--format", "json", "--until-latest")
	for _, topic := range topics {
		drop(t, k, topic, harness.Ends(t, k.Addr, topic), 10)
	}
	addr, _ := gatewayWith(t, k.Addr, filepath.Join(dir, "none"), "--lake-table", table)
	order := func(a, b harness.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	}
	for _, topic := range topics {
		got := harness.Consume(t, addr, topic)
		slices.SortFunc(got, order)
		slices.SortFunc(want[topic], order)
		if !reflect.DeepEqual(got, want[topic]) {
			t.Errorf("%s: %d records come through the gateway, other than the %d that the cluster had", topic, len(got), len(want[topic]))
		}
	}
}

// The long run of the gateway: the cluster is killed and comes back, its records are dropped, and foreign clients do
// through the gateway what they do with a Kafka.
func TestGatewayLong(t *testing.T) {
	if os.Getenv("LEDGERLAKE_GATEWAY") == "" {
		t.Skip("this costs minutes: run 'make gateway'")
	}
	k := harness.Kafka(t)
	lake, schema := t.TempDir(), harness.WriteEventSchema(t)
	addr := gateway(t, k, lake)

	t.Run("the cluster is killed", func(t *testing.T) { killUpstream(t, k, addr, lake, schema) })
	t.Run("librdkafka", func(t *testing.T) {
		harness.Python(t)
		harness.CreateTopic(t, addr, "shared", 4)
		const n = 1000
		if acks := client(t, "produce", addr, "shared", fmt.Sprint(n), "lz4", "idempotent"); len(acks) != n {
			t.Fatalf("%d acknowledgements, want %d", len(acks), n)
		}
		tier(t, k, "shared", lake, schema, 5)
		by, seen := map[string]int{}, map[harness.Position]bool{}
		for _, m := range client(t, "share", addr, "shared", "sharers", fmt.Sprint(n)) {
			by[m.Member]++
			seen[m.at()] = true
		}
		if len(by) != 2 || len(seen) != n {
			t.Errorf("members %v read %d different records, want two and %d", by, len(seen), n)
		}
		harness.CreateTopic(t, addr, "tx", 2)
		transact(t, addr, "tx")
	})
	t.Run("Java", func(t *testing.T) { javaThroughGateway(t, k, addr, lake, schema) })
}

// killUpstream drops records, and kills the cluster's node, while producers go on: nothing acknowledged is lost, and
// nothing comes twice (I3, I4). Not counted is what the cluster itself has made of two transactions.
func killUpstream(t *testing.T, k *harness.RealKafka, addr, lake, schema string) {
	seed := seedtest.New(t)
	harness.CreateTopic(t, addr, "killed", 4)
	load := harness.StartLoad(t, harness.LoadConfig{Addr: addr, Topic: "killed", Seed: seed, Producers: 4, Transactions: true})
	mixed := map[harness.Position]bool{}
	for round := range harness.Kills(t, 3) {
		before := load.Acked()
		harness.Eventually(t, 2*time.Minute, func() error { return load.Reached(before + 2000) })
		maps.Copy(mixed, harness.Overruns(t, k.Addr, "killed"))
		tier(t, k, "killed", lake, schema, 50)
		k.Kill(t)
		k.Start(t)
		t.Logf("round %d: %d acknowledged", round, load.Acked())
	}
	acked := load.Stop(t)
	maps.Copy(mixed, harness.Overruns(t, k.Addr, "killed"))
	got := harness.Consume(t, addr, "killed")
	there := map[harness.Position]bool{}
	for _, r := range got {
		there[r.Position] = true
	}
	t.Logf("%d transactions ended with the cluster; %d records are of transactions that it mixed",
		load.Settle(t, func(p harness.Position) bool { return there[p] }), len(mixed))
	got = slices.DeleteFunc(got, func(r harness.Record) bool { return mixed[r.Position] })
	maps.DeleteFunc(acked, func(_ int, at harness.Position) bool { return mixed[at] })
	wantDelivered(t, "a consumer through the gateway", got, seed, acked)
}

// javaThroughGateway runs Kafka's own tools, which send the newest versions of all requests.
func javaThroughGateway(t *testing.T, k *harness.RealKafka, addr, lake, schema string) {
	at := []string{"--bootstrap-server", addr}
	javaTool(t, "", "TopicCommand", append(at, "--create", "--topic", "java", "--partitions", "1")...)
	const n = 500
	var in, want strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "k%d\t{\"n\":%d}\n", i, i)
		fmt.Fprintf(&want, "Offset:%d\tk%d\t{\"n\":%d}\n", i, i, i)
	}
	javaTool(t, in.String(), "ConsoleProducer", append(at, "--topic", "java", "--reader-property", "parse.key=true", "--compression-codec", "zstd")...)
	tier(t, k, "java", lake, schema, n) // nothing is dropped: that is for Kafka's own tool
	delete := filepath.Join(t.TempDir(), "delete.json")
	if err := os.WriteFile(delete, []byte(`{"partitions":[{"topic":"java","partition":0,"offset":400}],"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := javaTool(t, "", "DeleteRecordsCommand", append(at, "--offset-json-file", delete)...); !strings.Contains(out, "low_watermark: 400") {
		t.Errorf("DeleteRecordsCommand printed %q", out)
	}
	for _, protocol := range []string{"classic", "consumer"} {
		got := javaTool(t, "", "consumer.ConsoleConsumer", append(at, "--topic", "java", "--from-beginning",
			"--group", "java-"+protocol, "--command-property", "group.protocol="+protocol, "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000",
			"--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")...)
		if got != want.String() {
			t.Errorf("the Java consumer (%s) printed %d bytes that differ from the %d sent; it begins %.200q", protocol, len(got), want.Len(), got)
		}
	}
	for at, want := range map[string]string{"-1": "java:0:500", "-2": "java:0:0", "-4": "java:0:400"} {
		if out := javaTool(t, "", "GetOffsetShell", "--bootstrap-server", addr, "--topic", "java", "--time", at); strings.TrimSpace(out) != want {
			t.Errorf("GetOffsetShell --time %s printed %q, want %s", at, out, want)
		}
	}
	if out := javaTool(t, "", "TopicCommand", append(at, "--describe", "--topic", "java")...); !strings.Contains(out, "PartitionCount: 1") {
		t.Errorf("TopicCommand describes %q", out)
	}
	if out := javaTool(t, "", "consumer.group.ConsumerGroupCommand", append(at, "--describe", "--group", "java-classic")...); !strings.Contains(out, "500") {
		t.Errorf("ConsumerGroupCommand describes %q", out)
	}
	javaTool(t, "", "TopicCommand", append(at, "--create", "--topic", "copy", "--partitions", "1")...)
	out := javaTool(t, "", "TransactionalMessageCopier", "--broker-list", addr, "--input-topic", "java", "--input-partition", "0",
		"--output-topic", "copy", "--max-messages", fmt.Sprint(n), "--consumer-group", "copiers", "--transaction-size", "100",
		"--transactional-id", "java-copier", "--enable-random-aborts")
	if !strings.Contains(out, `"remaining":0`) {
		t.Fatalf("the copier printed %.500q", out)
	}
	if copied := harness.Consume(t, addr, "copy"); len(copied) != n {
		t.Errorf("%d records are copied, want %d", len(copied), n)
	}
}
