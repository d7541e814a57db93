package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Kafka's own share consumers read what is only in the table and what is in the log (I4), and its tools set, list, describe, move and delete
// the group.
func TestShareGroupTools(t *testing.T) {
	need(t)
	s := harness.Serve(t, t.TempDir(), "", "--topic", "queue:2", "--flush-age", "100ms")
	at := []string{"--bootstrap-server", s.Addr}
	var values []string
	for i := range 120 {
		values = append(values, fmt.Sprint("job ", i))
	}
	send(t, s.Addr, "queue", values[:60])
	onlyInTheLake(t, s, "queue", 60)
	send(t, s.Addr, "queue", values[60:])

	tool(t, "ConfigCommand", append(at, "--alter", "--entity-type", "groups", "--entity-name", "workers", "--add-config",
		"share.auto.offset.reset=earliest,share.record.lock.duration.ms=20000")...)
	want(t, "configs of a group", tool(t, "ConfigCommand", append(at, "--describe", "--entity-type", "groups", "--entity-name", "workers")...),
		`share.auto.offset.reset=earliest`, `share.record.lock.duration.ms=20000`)
	out := tool(t, "consumer.ConsoleShareConsumer", append(at, "--topic", "queue", "--group", "workers", "--max-messages", "120", "--timeout-ms", "60000")...)
	got := regexp.MustCompile(`job \d+`).FindAllString(out, -1)
	slices.Sort(got)
	if slices.Sort(values); !slices.Equal(got, values) {
		t.Errorf("Kafka's share consumer read %d values, want %d:\n%.3000s", len(got), len(values), out)
	}

	groups := func(args ...string) string {
		t.Helper()
		return tool(t, "consumer.group.ShareGroupCommand", append(at, args...)...)
	}
	want(t, "share groups --list", groups("--list"), `(?m)^workers`)
	want(t, "share groups --describe", groups("--describe", "--group", "workers"), `workers +queue +0 +\d+ +0`, `workers +queue +1 +\d+ +0`)
	want(t, "share groups --reset-offsets", groups("--reset-offsets", "--group", "workers", "--topic", "queue", "--to-earliest", "--execute"), `workers +queue +[01] +0`)
	out = tool(t, "VerifiableShareConsumer", append(at, "--topic", "queue", "--group-id", "workers", "--max-messages", "120")...)
	want(t, "VerifiableShareConsumer", out, `"name":"records_consumed"|records_consumed`, `offsets_acknowledged`)
	want(t, "share groups --delete-offsets", groups("--delete-offsets", "--group", "workers", "--topic", "queue"), `(?i)success`)
	if out := groups("--list"); strings.Contains(out, "workers") {
		t.Errorf("a group that knows nothing is listed: %q", out)
	}
}
