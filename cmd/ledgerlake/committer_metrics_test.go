package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer/raft"
)

// Metrics are not shown to a network that nobody called trusted, as the port of the group is not.
func TestMetricsStayOnLoopback(t *testing.T) {
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "10.1.2.3:9090", "nodes.invalid:9090"} {
		cfg := &raft.Config{Logger: slog.New(slog.DiscardHandler)}
		stop, err := serveMetrics(cfg, listen, false)
		if err == nil {
			stop()
		}
		if err == nil || !strings.Contains(err.Error(), "is not on loopback") || cfg.Registerer != nil {
			t.Errorf("%s = %v", listen, err)
		}
	}
	for _, listen := range []string{"", "127.0.0.1:0", "localhost:0"} {
		stop, err := serveMetrics(&raft.Config{Logger: slog.New(slog.DiscardHandler)}, listen, false)
		if err != nil {
			t.Errorf("%q = %v", listen, err)
			continue
		}
		stop()
	}
}
