package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ledgerlake/ledgerlake/decode/decodetest"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A real Kafka and a real registry (Apicurio, by its API of Confluent's form): Avro, Protobuf and JSON whose schemas refer
// to others and come in three versions. The second version comes while the registry stands still and answers nothing, the third
// while it is dead: each topic pauses, no value is a dead letter for it, and all are rows once the registry is back (I3, I7).
// What the registry itself says is wrong, an unknown id, or a value that its schema does not allow, is a dead letter.
func TestRealRegistry(t *testing.T) {
	reg := harness.Registry(t)
	k := harness.Kafka(t)
	topics := []string{"avro", "protobuf", "json"}
	send, want := registered(t, reg.URL, k.Addr, topics)

	dir := t.TempDir()
	schema, file := filepath.Join(dir, "schema.json"), filepath.Join(dir, "streams.yaml")
	streams := "streams:\n"
	for _, topic := range topics {
		format := topic + "-confluent"
		if topic == "json" {
			format = "json-registry, validate: true"
		}
		streams += fmt.Sprintf("  - {topics: [%s], table: %s, format: %s, schema: %s}\n", topic, filepath.Join(dir, topic), format, schema)
	}
	err := errors.Join(os.WriteFile(file, []byte(streams), 0o600), os.WriteFile(schema, []byte(registeredColumns), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	p := harness.Start(t, "ingest", "--brokers", k.Addr, "--streams", file, "--registry", reg.URL, "--flush-age", "200ms", "--http-listen", addr, "--log-level", "warn")
	arrive := func(phase int) {
		t.Helper()
		for _, topic := range topics {
			awaitRows(t, filepath.Join(dir, topic), 20*(phase+1))
		}
	}
	// pausing waits until each topic has begun again since it could not ask, and nothing of the phase is there.
	pausing := func(phase int) {
		t.Helper()
		before, err := metric(t, addr, "ledgerlake_tiering_restarts_total")
		if err != nil {
			t.Fatal(err)
		}
		send(phase)
		harness.Eventually(t, 3*time.Minute, func() error {
			now, err := metric(t, addr, "ledgerlake_tiering_restarts_total")
			if err == nil && now < before+3 {
				err = fmt.Errorf("%v sessions were begun again, %v before", now, before)
			}
			return err
		})
		for _, topic := range topics[:2] { // JSON needs its schema for the check alone, but is checked
			if n := len(readTable(t, filepath.Join(dir, topic))); n != 20*phase {
				t.Fatalf("%s: %d rows while the registry is away, want %d", topic, n, 20*phase)
			}
		}
	}
	send(0)
	arrive(0)
	reg.Pause(t)
	pausing(1)
	reg.Resume(t)
	arrive(1)
	reg.Kill(t)
	pausing(2)
	reg.Start(t)
	arrive(2)
	send(-1) // an id that the registry does not know
	harness.Eventually(t, time.Minute, func() error {
		n, err := metric(t, addr, "ledgerlake_tiering_dead_letters_total")
		if err == nil && n < 4 {
			err = fmt.Errorf("%v dead letters", n)
		}
		return err
	})
	p.Stop(t)
	for _, topic := range topics {
		rows := readTable(t, filepath.Join(dir, topic))
		slices.SortFunc(rows, func(a, b map[string]any) int { return int(harness.Int(t, a, "_offset") - harness.Int(t, b, "_offset")) })
		if len(rows) != len(want[topic]) {
			t.Fatalf("%s: %d rows, want %d", topic, len(rows), len(want[topic]))
		}
		for i, row := range rows {
			got := map[string]any{"id": row["id"], "who": row["who"], "note": row["note"], "rest": row["rest"]}
			if d := harness.Difference(got, want[topic][i]); d != "" {
				t.Fatalf("%s: row %d differs in %s", topic, i, d)
			}
		}
		letters := 1
		if topic == "json" {
			letters = 2
		}
		if n := len(readTable(t, filepath.Join(dir, topic+"_dead_letters"))); n != letters {
			t.Errorf("%s: %d dead letters, want %d", topic, n, letters)
		}
	}
}

const registeredColumns = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"who","nullable":true,"metadata":{},"type":{"type":"struct","fields":[
{"name":"name","type":"string","nullable":true,"metadata":{}},{"name":"age","type":"integer","nullable":true,"metadata":{}}]}},
{"name":"note","type":"string","nullable":true,"metadata":{}},{"name":"rest","type":"string","nullable":true,"metadata":{}}]}`

// registered registers schemas, and gives what sends the values of a phase to their topics (-1: one of an unknown id each)
// and the rows that all of them make.
func registered(t *testing.T, registry, broker string, topics []string) (send func(phase int), want map[string][]map[string]any) {
	t.Helper()
	type vector struct {
		Topic, Hex string
		Phase      int
		Want       map[string]any
	}
	var vectors []vector
	want = map[string][]map[string]any{}
	decodetest.Lines(t, formats(t, "registered.py", registry, fmt.Sprint(seedtest.New(t))), func(v vector) {
		vectors = append(vectors, v)
		if v.Want != nil {
			want[v.Topic] = append(want[v.Topic], v.Want)
		}
	})
	for _, topic := range topics {
		harness.CreateTopic(t, broker, topic, 1)
		vectors = append(vectors, vector{Topic: topic, Hex: "000000ffff00", Phase: -1})
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return func(phase int) {
		t.Helper()
		var records []*kgo.Record
		for _, v := range vectors {
			if v.Phase == phase {
				records = append(records, &kgo.Record{Topic: v.Topic, Value: decodetest.Hex(t, v.Hex)})
			}
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}, want
}
