package bench

import (
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// smallReplay fills a table, and gives the log that it has come from.
func smallReplay(t testing.TB, cfg Config) (*replayCase, *local.Log) {
	t.Helper()
	scratch := t.TempDir()
	log, records, bytes, err := filledLog(t.Context(), cfg, filepath.Join(scratch, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	_, payload, err := tiering.Infer(t.Context(), log, logTopic, tiering.SampleConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c := &replayCase{path: filepath.Join(scratch, "table"), records: records, bytes: bytes}
	if _, err := drain(t.Context(), log, c.path, payload); err != nil {
		t.Fatal(err)
	}
	return c, log
}

// BenchmarkReplay is our side of scenario replay, for profiles and for benchstat: one operation reads 100,000 events
// of a table into Arrow, all columns or three. Processor time is what to compare.
func BenchmarkReplay(b *testing.B) {
	c, _ := smallReplay(b, Config{Records: 100_000}.withDefaults())
	for name, columns := range map[string][]string{"all": nil, "three": replayColumns} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(c.bytes)
			b.ReportAllocs()
			used, n := cpuTime(), 0
			for b.Loop() {
				n++
				if rows, err := c.replay(b.Context(), columns); err != nil || rows != c.records {
					b.Fatalf("%d rows of %d, %v", rows, c.records, err)
				}
			}
			b.ReportMetric(float64(n)*float64(c.records)/1e6/(cpuTime()-used).Seconds(), "Mrecords/cpu-s")
		})
	}
}
