package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs a command in this process and gives what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "--log-level", "error"))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// rowsOf is how many rows a table has.
func rowsOf(t *testing.T, lake string) int64 {
	t.Helper()
	out, err := run(t, "inspect", lake, "--json")
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ Rows int64 }
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		t.Fatal(err)
	}
	return info.Rows
}

// TestAMissingLedgerIsNamedAndPassedByRequest: with objects that a real Pulsar offloaded, one ledger of five taken away:
// what comes before it is imported, the error says which one is missing and how to go on, and so it goes on; a second
// import adds nothing. With a list of ledgers, without one, and after all with the ledger back (I3, I4).
func TestAMissingLedgerIsNamedAndPassedByRequest(t *testing.T) {
	testdata := filepath.Join("..", "..", "broker", "pulsar", "offload", "testdata")
	list := filepath.Join(testdata, "plain.ledgers.json")
	for _, flags := range [][]string{nil, {"--ledgers", list}} {
		bucket, lake := t.TempDir(), filepath.Join(t.TempDir(), "plain")
		if err := os.CopyFS(bucket, os.DirFS(testdata)); err != nil {
			t.Fatal(err)
		}
		gone, err := filepath.Glob(filepath.Join(bucket, "*-ledger-14*"))
		if err != nil || len(gone) != 2 {
			t.Fatalf("the objects of ledger 14: %v %v", gone, err)
		}
		for _, g := range gone {
			if err := os.Remove(g); err != nil {
				t.Fatal(err)
			}
		}
		args := append([]string{"import", "pulsar-offload", bucket, lake, "--topic", "plain", "--format", "raw"}, flags...)
		_, err = run(t, args...)
		if err == nil || rowsOf(t, lake) != 80 {
			t.Fatalf("%v: %v, %d rows; want an error and the rows of two ledgers", flags, err, rowsOf(t, lake))
		}
		say := "ledger 14 is missing"
		if flags == nil {
			say = "before ledger 15 40 messages are missing"
		}
		how := regexp.MustCompile(`--from-ledger [0-9@]+ --on-gap earliest`).FindString(err.Error())
		if !strings.Contains(err.Error(), say) || how == "" {
			t.Fatalf("%v: the error says: %v", flags, err)
		}
		behind := append(append([]string{}, args...), strings.Fields(how)[:2]...)
		if _, err := run(t, behind...); err == nil || rowsOf(t, lake) != 80 {
			t.Errorf("%v: the gap was passed without a word: %v", flags, err)
		}
		for range 2 {
			if _, err := run(t, append(append([]string{}, args...), strings.Fields(how)...)...); err != nil {
				t.Fatal(err)
			}
			if n := rowsOf(t, lake); n != 160 {
				t.Errorf("%v: %d rows behind the gap, want 160", flags, n)
			}
		}
	}
	lake := filepath.Join(t.TempDir(), "plain")
	for range 2 {
		if _, err := run(t, "import", "pulsar-offload", testdata, lake, "--topic", "public/default/plain", "--ledgers", list, "--format", "raw"); err != nil || rowsOf(t, lake) != 200 {
			t.Errorf("the whole topic: %v, %d rows", err, rowsOf(t, lake))
		}
	}
}

// TestColumnsOfOffloadedMessages: without --format the first messages tell the columns, though nothing knows where the topic
// ends before it was read (I4).
func TestColumnsOfOffloadedMessages(t *testing.T) {
	lake := filepath.Join(t.TempDir(), "plain")
	if _, err := run(t, "import", "pulsar-offload", filepath.Join("..", "..", "broker", "pulsar", "offload", "testdata"), lake, "--topic", "plain"); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, lake); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
}
