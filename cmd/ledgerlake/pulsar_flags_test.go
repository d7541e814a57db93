package main

import (
	"os"
	"strings"
	"testing"
)

// TestPulsarIsRefusedByName: where a topic of Pulsar cannot be had, the error says so and what to do instead (I8).
func TestPulsarIsRefusedByName(t *testing.T) {
	const at = "pulsar://broker:6650/public/default/orders"
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"serve", "--dir", at},
		{"ingest", "--brokers", at, "--topic", "orders", "--table", "lake"},
	} {
		cmd := newRoot()
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "serve --upstream "+at) || !strings.Contains(err.Error(), "ledgerlake ingest "+at) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestKeysOfPulsarAreLookedAtFirst: what is wrong with the flags of decryption is told before anything is asked for or made, by name.
func TestKeysOfPulsarAreLookedAtFirst(t *testing.T) {
	const at = "pulsar://127.0.0.1:1/public/default/orders"
	t.Chdir(t.TempDir())
	for _, command := range [][]string{{"ingest", at, "lake"}, {"read", at}, {"import", "pulsar-offload", "bucket", "lake", "--topic", "orders"},
		{"serve", "--upstream", at, "--lake", "lake", "--dir", "state"}} {
		for say, flags := range map[string][]string{
			"--pulsar-private-keys: stat absent":  {"--pulsar-private-keys", "absent"},
			"goes with --pulsar-private-keys":     {"--pulsar-keep-undecryptable"},
			"no file NAME.pem of . has a private": {"--pulsar-private-keys", "."},
		} {
			if _, err := run(t, append(command[:len(command):len(command)], flags...)...); err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%v %v: %v, want %q", command, flags, err, say)
			}
		}
	}
	made, err := os.ReadDir(".")
	if err != nil || len(made) > 0 {
		t.Errorf("it made %v, %v", made, err)
	}
}
