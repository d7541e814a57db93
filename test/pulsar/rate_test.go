package pulsar_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// TestRates prints how fast a topic is tiered and replayed, beside Pulsar's own Java reader on the same messages in the
// same run. It asserts nothing about time.
func TestRates(t *testing.T) {
	n := messages(t, 300_000)
	p := harness.Pulsar(t, 50_000)
	keepAll(t, p)
	topic, lake := "public/default/rates", filepath.Join(t.TempDir(), "rates")
	source := p.URL() + "/" + topic
	p.Tool(t, "produce", topic, "0", fmt.Sprint(n), "size=300", "batch=500", "keys=1000")
	for round := range 2 { // in turn, so that a machine that gets slower does so for both
		var count, bytes int64
		var seconds float64
		if _, err := fmt.Sscan(string(p.Tool(t, "rate", topic)), &count, &bytes, &seconds); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		at := fmt.Sprint(lake, round)
		harness.Run(t, nil, "ingest", source, at, "--until-latest", "--format", "raw", "--log-level", "warn")
		tier := time.Since(begin).Seconds()
		begin = time.Now()
		cmd := exec.Command(harness.Binary(t), "read", at, "--from", "earliest", "--output", "arrow")
		out := &counter{}
		cmd.Stdout = out
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		replay := time.Since(begin).Seconds()
		if count != int64(n) {
			t.Fatalf("Pulsar's reader has %d messages, want %d", count, n)
		}
		mb := float64(bytes) / 1e6
		t.Log(strings.Join([]string{
			fmt.Sprintf("round %d: %d messages, %.0f MB of values", round, count, mb),
			fmt.Sprintf("Pulsar's Java reader: %.1f s, %.0f MB/s, %.0f k messages/s", seconds, mb/seconds, float64(count)/seconds/1000),
			fmt.Sprintf("ingest --until-latest (it counts the topic, then reads it): %.1f s, %.0f MB/s, %.2f times the reader", tier, mb/tier, seconds/tier),
			fmt.Sprintf("replay from the table, all columns as Arrow: %.1f s, %.0f MB/s, %.2f times the reader", replay, mb/replay, seconds/replay),
		}, "\n"))
	}
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}
