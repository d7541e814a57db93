package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/tiering"
)

// BenchmarkDrain is our side of scenario tiering, for profiles and for benchstat: one operation moves a log of
// 100,000 events into a new table. Processor time is what to compare, since the clock also measures neighbours.
func BenchmarkDrain(b *testing.B) {
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
	var payload *arrow.Schema
	if _, payload, err = tiering.Infer(b.Context(), log, logTopic, tiering.SampleConfig{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(bytes)
	b.ReportAllocs()
	used, n := cpuTime(), 0
	for b.Loop() {
		n++
		rows, err := drain(b.Context(), log, filepath.Join(scratch, fmt.Sprintf("run-%d-%d", b.N, n)), payload)
		if err != nil || rows != records {
			b.Fatalf("%d rows of %d, %v", rows, records, err)
		}
	}
	b.ReportMetric(float64((cpuTime()-used).Nanoseconds())/float64(records)/float64(b.N), "cpu-ns/record")
}
