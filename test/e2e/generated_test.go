package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A table that Spark made with generated columns, partition columns among them, is filled by us from a topic whose records do
// not have them, while Spark adds rows of its own before and after. Spark finds every value what its expression says, and
// reads the rows that we read. A record that brings another value is a dead letter (I7).
func TestSparkAndGeneratedColumns(t *testing.T) {
	harness.SparkPython(t)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	dir := t.TempDir()
	table := filepath.Join(dir, "lake", "made")
	harness.RunSpark(t, "spark.py", "generated", table)
	const n, bad = 300, 2
	record := func(i int) string {
		at := time.Unix(rng.Int64N(4e9)-1e9, rng.Int64N(1e6)*1000).UTC().Format(time.RFC3339Nano)
		switch i % 10 {
		case 0:
			return fmt.Sprintf(`{"id":%d,"name":null}`, i)
		case 1: // with a value, which is right
			return fmt.Sprintf(`{"id":%d,"at":%q,"name":"a","twice":%d}`, i, at, 2*i)
		}
		return fmt.Sprintf(`{"id":%d,"at":%q,"name":"%d \u00fc\u4e2d"}`, i, at, rng.IntN(100))
	}
	var s *harness.Server
	for _, age := range []string{"200ms", "1h"} { // the first half is in the table, the second in the log until the server stops
		s = harness.Serve(t, dir, "", "--topic", "made:1", "--format", "json", "--flush-age", age)
		var in bytes.Buffer
		from := n / 2
		if age != "1h" {
			from = 0
		}
		for i := from; i < from+n/2; i++ {
			fmt.Fprintln(&in, record(i))
		}
		fmt.Fprintf(&in, `{"id":%d,"at":"2020-01-01T00:00:00Z","y":2021}`+"\n", n+from)
		harness.Run(t, &in, "produce", "--brokers", s.Addr, "--topic", "made")
		if from == 0 {
			awaitRows(t, table, 20+n/2)
			s.Stop(t)
		}
	}
	stream := byKey(t, "the stream", readTable(t, dir+"/made", "--from", "earliest", "--until", "now"))
	s.Stop(t)
	if letters := readTable(t, table+"_dead_letters"); len(letters) != bad {
		t.Errorf("%d dead letters, want %d", len(letters), bad)
	}
	theirs := byKey(t, "Spark", harness.DecodeRows(t, harness.RunSpark(t, "spark.py", "regenerated", table)))
	if len(theirs) != 20+n+20 {
		t.Errorf("%d rows, want %d", len(theirs), 20+n+20)
	}
	sameByKey(t, "ledgerlake", byKey(t, "ledgerlake", readTable(t, table)), "Spark", theirs)
	harness.Run(t, nil, "check", table)
	for id := range theirs {
		if id < 0 || id >= n {
			delete(theirs, id)
		}
	}
	sameByKey(t, "the stream", stream, "Spark", theirs)
}
