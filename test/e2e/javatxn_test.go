package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Kafka's own transactional copier, with the Java client, copies a topic in transactions of which it aborts some
// at random: a read_committed consumer sees every record once. Kafka's tool lists and describes transactions.
func TestJavaTransactions(t *testing.T) {
	seed := seedtest.New(t)
	const n = 1000
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "in:1", "--topic", "out:1")
	produce(t, s.Addr, "in", seed, 0, n)
	out := javaTool(t, "", "TransactionalMessageCopier", "--broker-list", s.Addr, "--input-topic", "in", "--input-partition", "0",
		"--output-topic", "out", "--max-messages", fmt.Sprint(n), "--consumer-group", "copiers", "--transaction-size", "100",
		"--transactional-id", "java-copier", "--enable-random-aborts")
	if !strings.Contains(out, `"remaining":0`) {
		t.Fatalf("the copier printed %.500q", out)
	}
	copied := harness.Consume(t, s.Addr, "out")
	want := map[string]bool{}
	for _, r := range harness.Consume(t, s.Addr, "in") {
		want[string(r.Value)] = true
	}
	got := map[string]bool{}
	for _, r := range copied {
		got[string(r.Value)] = true
		if !want[string(r.Value)] {
			t.Fatalf("the copy holds %.100q, which the input does not", r.Value)
		}
	}
	if len(copied) != n || len(got) != len(want) {
		t.Fatalf("%d records are copied, %d different ones; want %d, %d", len(copied), len(got), n, len(want))
	}
	list := javaTool(t, "", "TransactionsCommand", "--bootstrap-server", s.Addr, "list")
	if !strings.Contains(list, "java-copier") || !strings.Contains(list, "Complete") {
		t.Errorf("TransactionsCommand lists %q", list)
	}
	if d := javaTool(t, "", "TransactionsCommand", "--bootstrap-server", s.Addr, "describe", "--transactional-id", "java-copier"); !strings.Contains(d, "java-copier") {
		t.Errorf("TransactionsCommand describes %q", d)
	}
	if d := javaTool(t, "", "TransactionsCommand", "--bootstrap-server", s.Addr, "describe-producers", "--topic", "out", "--partition", "0"); strings.Count(d, "\n") < 2 {
		t.Errorf("TransactionsCommand describes the producers as %q", d)
	}
}
