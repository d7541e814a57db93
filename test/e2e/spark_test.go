package e2e

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Spark reads every value of our table, as a batch and as a stream from the first version.
func TestSparkReadsOurTable(t *testing.T) {
	harness.SparkPython(t)
	seed := harness.Seed(t, 4400)
	const n = 2000
	table := fillTable(t, t.TempDir(), seed, n, 2, "--flush-rows", "300")
	for _, how := range []string{"read", "stream"} {
		rows := harness.DecodeRows(t, harness.RunSpark(t, "spark.py", how, table))
		wantEvents(t, "Spark "+how, harness.ByPosition(t, "Spark "+how, rows), seed, n)
	}
}

// We read a table of Spark's, with a checkpoint and an update, as Spark reads it.
func TestWeReadSparksTable(t *testing.T) {
	harness.SparkPython(t)
	table := t.TempDir() + "/spark"
	theirs := byKey(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "write", table)))
	sameByKey(t, "ledgerlake", byKey(t, "ledgerlake", readTable(t, table)), "Spark", theirs)
}
