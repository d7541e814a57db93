package e2e

import (
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Spark does a reprocess job over the Kafka protocol, history included, in two runs with the stream going on between them.
// Its table has the rows that a job of ours makes, each once (I3, I4).
func TestSparkReprocesses(t *testing.T) {
	harness.SparkPython(t)
	seed := seedtest.New(t)
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms")
	produce(t, s.Addr, "events", seed, 0, 1500)
	awaitRows(t, s.Table("events"), 1500)
	cutLog(t, s.Addr, "events", 1500)
	produce(t, s.Addr, "events", seed, 1500, 2000)
	theirs, checkpoint := filepath.Join(dir, "spark"), filepath.Join(dir, "checkpoint")
	harness.RunSpark(t, "sparkreprocess.py", s.Addr, "events", theirs, checkpoint)
	produce(t, s.Addr, "events", seed, 2000, 2300)
	harness.RunSpark(t, "sparkreprocess.py", s.Addr, "events", theirs, checkpoint)

	job := writeJob(t, dir, "ours", "source: "+dir+"/events\nsink: "+dir+"/ours\nwhere: amount != nil && amount > 0\nkeep: [n, amount]\ncolumns: [{name: total, value: amount * 2.0}]\n")
	harness.Run(t, nil, "reprocess", job)
	ours := readTable(t, filepath.Join(dir, "ours"))
	for _, row := range ours {
		for _, name := range []string{"_timestamp", "_key", "_headers", "_value"} {
			delete(row, name)
		}
	}
	harness.SameRows(t, "Spark", harness.ByPosition(t, "Spark", readTable(t, theirs)), "ledgerlake", harness.ByPosition(t, "ledgerlake", ours))
	if len(ours) == 0 || len(ours) == 2300 {
		t.Errorf("%d rows", len(ours))
	}
}
