package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// Spark reads every value of our table, as a batch and as a stream from the first version.
func TestSparkReadsOurTable(t *testing.T) {
	harness.SparkPython(t)
	seed := seedtest.New(t)
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

// Spark reads our table on S3 as we do.
func TestSparkReadsOurTableOnS3(t *testing.T) {
	harness.SparkPython(t)
	table, ours := fillTableOnS3(t, harness.S3(t), seedtest.New(t), 2000)
	theirs := harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "read", "s3a"+strings.TrimPrefix(table, "s3")))
	harness.SameRows(t, "Spark", harness.ByPosition(t, "Spark", theirs), "ledgerlake", ours)
}

// Spark appends rows of its own, with no partition and offset, to a table of ours, twice; in between and after
// it we go on. The stream of the topic is as if Spark had not been there (I4), and the table holds both (I3).
func TestSparkAppendsAndWeGoOn(t *testing.T) {
	harness.SparkPython(t)
	seed := seedtest.New(t)
	dir := t.TempDir()
	const n, theirs = 1500, 300
	var s *harness.Server
	for turn := range 3 {
		s = harness.Serve(t, dir, "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "200ms")
		produce(t, s.Addr, "events", seed, turn*n/3, (turn+1)*n/3)
		s.Stop(t)
		if turn < 2 {
			from, to := fmt.Sprint(1_000_000+turn*theirs/2), fmt.Sprint(1_000_000+(turn+1)*theirs/2)
			harness.RunSpark(t, "spark.py", "append", s.Table("events"), from, to)
		}
	}
	s = harness.Serve(t, dir, "", "--topic", "events:2", "--format", "json", "--schema", harness.WriteEventSchema(t))
	stream := readTable(t, s.Dir+"/events", "--from", "earliest", "--until", "now")
	harness.InOrder(t, "the stream", stream)
	wantEvents(t, "the stream", harness.ByPosition(t, "the stream", stream), seed, n)
	s.Stop(t)

	for who, rows := range map[string][]map[string]any{
		"ledgerlake": readTable(t, s.Table("events")),
		"Spark":      harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "read", s.Table("events"))),
	} {
		ours, foreign := splitForeign(t, who, rows)
		wantEvents(t, who, harness.ByPosition(t, who, ours), seed, n)
		if len(foreign) != theirs {
			t.Errorf("%s reads %d of the %d rows that Spark added", who, len(foreign), theirs)
		}
		for i := range theirs {
			if name := foreign[int64(1_000_000+i)]; name != fmt.Sprint("spark ", 1_000_000+i) {
				t.Fatalf("%s: Spark's row %d has the name %q", who, i, name)
			}
		}
	}
	harness.Run(t, nil, "check", s.Table("events"))
}

// splitForeign takes out the rows without a position: n -> name.
func splitForeign(t *testing.T, who string, rows []map[string]any) (ours []map[string]any, foreign map[int64]any) {
	t.Helper()
	foreign = map[int64]any{}
	for _, row := range rows {
		if row["_partition"] != nil {
			ours = append(ours, row)
			continue
		}
		n := harness.Int(t, row, "n")
		if _, twice := foreign[n]; twice || row["_offset"] != nil || row["_value"] != nil {
			t.Fatalf("%s: Spark's row %d comes twice or is not as it was written: %v", who, n, row)
		}
		foreign[n] = row["name"]
	}
	return ours, foreign
}
