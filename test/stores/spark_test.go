package stores

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// sparkCommand runs spark_rival.py. The caller has asked harness.SparkPython.
func sparkCommand(t *testing.T, python string, args ...string) *exec.Cmd {
	t.Helper()
	services := filepath.Join(harness.Top(t), "test", "services")
	cmd := exec.Command(python, append([]string{"spark_rival.py"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+services)
	if os.Getenv("LEDGERLAKE_CACHE") == "" {
		cmd.Env = append(cmd.Env, "LEDGERLAKE_CACHE="+filepath.Join(harness.Top(t), ".cache"))
	}
	return cmd
}

// TestSparkBesideUsOnLocalDisk: eight of our processes, a delta-rs and a Spark append to one table on local disk.
// Spark publishes a version by look and rename and writes checkpoints and checksums too; none of it may lose or
// double a commit, and all engines read the same rows (I1, I5).
func TestSparkBesideUsOnLocalDisk(t *testing.T) {
	spark, python := harness.SparkPython(t), harness.Python(t)
	seed := seedtest.New(t)
	each := harness.Number(t, "LEDGERLAKE_COMMITS", 20)
	path := t.TempDir() + "/table"
	store := createTable(t, path)
	d := newTold()
	writers := []*writer{
		start(t, d, "Spark", sparkCommand(t, spark, "append", path, "200", "0", fmt.Sprint(each))),
		startRival(t, d, python, path, 100, 0, 2*each),
	}
	const ours = 8
	for w := range ours {
		writers = append(writers, startOurs(t, d, appender{URL: path, Writer: w, From: 0, To: 2 * each, Seed: seed, Faults: 30, Pace: 500 * time.Millisecond}))
	}
	together(t, writers...)
	t.Logf("%d acknowledged, %d of unknown outcome", len(d.acked), len(d.unknown))
	d.checkLog(t, store)
	d.check(t, "delta-rs", rivalRows(t, python, path)[path])
	d.check(t, "Spark", readRows(t, sparkCommand(t, spark, "rows", path))[path])
}
