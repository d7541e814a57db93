package bench

import (
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/tiering"
)

// BenchmarkReplay is our side of scenario replay, for profiles and for benchstat: one operation reads 100,000 events
// of a table into Arrow, all columns or three. Processor time is what to compare.
func BenchmarkReplay(b *testing.B) {
	cfg := Config{Records: 100_000}.withDefaults()
	scratch := b.TempDir()
	log, records, bytes, err := filledLog(b.Context(), cfg, filepath.Join(scratch, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			b.Error(err)
		}
	}()
	_, payload, err := tiering.Infer(b.Context(), log, logTopic, tiering.SampleConfig{})
	if err != nil {
		b.Fatal(err)
	}
	c := &replayCase{path: filepath.Join(scratch, "table"), records: records, bytes: bytes}
	if _, err := drain(b.Context(), log, c.path, payload); err != nil {
		b.Fatal(err)
	}
	for name, columns := range map[string][]string{"all": nil, "three": replayColumns} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			b.ReportAllocs()
			used, n := cpuTime(), 0
			for b.Loop() {
				n++
				if rows, err := c.replay(b.Context(), columns); err != nil || rows != records {
					b.Fatalf("%d rows of %d, %v", rows, records, err)
				}
			}
			b.ReportMetric(float64(n)*float64(records)/1e6/(cpuTime()-used).Seconds(), "Mrecords/cpu-s")
		})
	}
}
