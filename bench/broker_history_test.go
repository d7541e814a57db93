package bench

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

// servedHistory fills a topic's table, cuts its log, and serves both in this process.
func servedHistory(t testing.TB, records, partitions int) (*brokerWork, *brokerServer) {
	t.Helper()
	cfg := Config{Records: records}.withDefaults()
	w, dir := &brokerWork{Config: cfg, report: &Report{}, values: brokerValues(cfg)}, t.TempDir()
	if err := w.fillHistory(t.Context(), dir, partitions); err != nil {
		t.Fatal(err)
	}
	log, err := local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	store, err := openStore(filepath.Join(dir, "lake", logTopic))
	if err != nil {
		t.Fatal(err)
	}
	lake, err := table.Open(t.Context(), store, table.Config{Topic: logTopic})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lake.Close() })
	history, err := reader.NewHistory(reader.HistoryConfig{Table: func(string) (*table.Table, bool) { return lake, true }, NoCodec: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = history.Close() })
	return w, served(t, wire.Config{Log: log, History: history})
}

// served serves a log in this process.
func served(t testing.TB, cfg wire.Config) *brokerServer {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	srv, err := wire.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return &brokerServer{addr: srv.Addr().String(), pid: os.Getpid(), peak: new(atomic.Int64)}
}

// Each value of a history comes as it was produced, and one that does not is found.
func TestHistoryOfABroker(t *testing.T) {
	const partitions = 3
	w, s := servedHistory(t, 20_000, partitions)
	read := brokerRead{side: sideHistory, topic: logTopic, partitions: partitions, check: w.compare(partitions)}
	if err := w.consume(t.Context(), s, read, 0); err != nil {
		t.Fatal(err)
	}
	if got := w.report.Samples; len(got) != 1 || got[0].Bytes < brokerConsume || got[0].Records%20_000 != 0 {
		t.Errorf("%+v", got)
	}
	w.values[19_999] = []byte("another")
	if err := w.consume(t.Context(), s, read, 0); err == nil || !strings.Contains(err.Error(), "another record than was produced there") {
		t.Errorf("a value that is not the one that was produced: %v", err)
	}
}
