package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// One stream, three readers: Spark's structured streaming over the Kafka protocol, Python over Arrow Flight, and our own.
// History is in the table alone, then comes the log, then records that are sent while Spark and Python follow; all three
// have the same records at the same offsets (I4).
func TestSparkAndPythonFollowOneStream(t *testing.T) {
	harness.SparkPython(t)
	seed := seedtest.New(t)
	const tiered, n, more = 3000, 4000, 500
	dir := t.TempDir()
	fillTable(t, dir, seed, tiered, 3)
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--flush-age", "1h", "--flight-listen", "127.0.0.1:0") // so that the rest stays in the log
	cutLog(t, s.Addr, "events", tiered)
	produce(t, s.Addr, "events", seed, tiered, n)

	ready := filepath.Join(t.TempDir(), "ready")
	spark := harness.StartSpark(t, "spark.py", "kafka", s.Addr, "events", fmt.Sprint(n+more), ready)
	command, err := json.Marshal(map[string]any{"topic": "events", "follow": true, "rows": n + more})
	if err != nil {
		t.Fatal(err)
	}
	python := harness.StartPython(t, "flight.py", s.Flight, "arrow", string(command))
	harness.Eventually(t, 5*harness.RunTimeout, func() error {
		_, err := os.Stat(ready)
		return err
	})
	for i := range 5 { // while they follow
		produce(t, s.Addr, "events", seed, n+i*more/5, n+(i+1)*more/5)
	}
	printed, err := python()
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ = bytes.Cut(printed, []byte("\n"))
	flight := harness.DecodeRows(t, printed)
	harness.InOrder(t, "Flight", flight)
	began := time.Now()
	if printed, err = spark(); err != nil {
		t.Fatal(err)
	}
	t.Logf("Spark came %s after Python", time.Since(began).Round(time.Second))
	overKafka := harness.ByPosition(t, "Spark", harness.DecodeRows(t, printed))

	stream := readTable(t, s.Dir+"/events", "--from", "earliest", "--until", "now")
	harness.InOrder(t, "ledgerlake", stream)
	ours := harness.ByPosition(t, "ledgerlake", stream)
	wantEvents(t, "ledgerlake", ours, seed, n+more)
	harness.SameRows(t, "Flight", harness.ByPosition(t, "Flight", flight), "ledgerlake", ours)
	for at, row := range ours {
		ours[at] = map[string]any{}
		for _, name := range []string{"_partition", "_offset", "_timestamp", "_key", "_value"} {
			ours[at][name] = row[name]
		}
	}
	harness.SameRows(t, "Spark", overKafka, "ledgerlake", ours)
	t.Logf("%d records from Spark over the Kafka protocol, %d from Python over Flight, %d from us: the same", len(overKafka), len(flight), len(ours))
}
