package main

import (
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
