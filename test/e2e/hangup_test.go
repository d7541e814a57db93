package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A SIGHUP makes ingest look at its file of streams at once: it adds streams, changes one, takes one away, and says what is
// wrong with a file that it does not take.
func TestHangupReadsTheStreamsAgain(t *testing.T) {
	dir := t.TempDir()
	s := harness.Serve(t, filepath.Join(dir, "data"), "", "--no-tiering", "--topic", "a:1", "--topic", "b:1", "--topic", "c:1")
	for _, topic := range []string{"a", "b", "c"} {
		harness.Run(t, strings.NewReader("{\"n\":1}\n"), "produce", "--brokers", s.Addr, "--topic", topic)
	}
	file := filepath.Join(dir, "streams.yaml")
	write := func(lines ...string) {
		t.Helper()
		text := "streams:\n"
		for _, line := range lines {
			text += fmt.Sprintf("  - {%s, table: '%s/{topic}', format: json, flush-age: 100ms}\n", line, dir)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("topics: [a]")
	p := harness.Start(t, "ingest", "--brokers", s.Addr, "--streams", file)
	awaitRows(t, filepath.Join(dir, "a"), 1)
	said := func(what string) {
		t.Helper()
		p.Hangup(t)
		harness.Eventually(t, time.Minute, func() error {
			if !p.Said(what) {
				return fmt.Errorf("%q is not said:\n%s", what, p.Log())
			}
			return nil
		})
	}
	write("topics: [a]", "topics: [b]", "topics: [c]")
	said("streams=3")
	awaitRows(t, filepath.Join(dir, "b"), 1)
	awaitRows(t, filepath.Join(dir, "c"), 1)
	write("topics: [a]", "topics: [b], filter: 'n > `1`'")
	said("streams=2")
	write("topics: [a]", "topics: [b], fliter: n")
	said("fliter")
	if !p.Said("SIGHUP") {
		t.Errorf("a hang-up is not noticed:\n%s", p.Log())
	}
	for _, topic := range []string{"a", "b", "c"} { // the stream of b has a filter now, that of c is gone
		harness.Run(t, strings.NewReader("{\"n\":1}\n{\"n\":2}\n"), "produce", "--brokers", s.Addr, "--topic", topic)
	}
	awaitRows(t, filepath.Join(dir, "a"), 3)
	awaitRows(t, filepath.Join(dir, "b"), 2)
	p.Stop(t)
	if n := len(readTable(t, filepath.Join(dir, "c"))); n != 1 {
		t.Errorf("a stream that was taken away has %d rows, want 1", n)
	}
}
