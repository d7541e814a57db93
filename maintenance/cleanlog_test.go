package maintenance

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// The log goes up to a checkpoint when its time is over, and not past a version that is leased. I6
func TestCleanLog(t *testing.T) {
	r := newRig(t, table.Config{Log: deltalog.Config{CheckpointInterval: -1}, Properties: map[string]string{"delta.logRetentionDuration": "interval 2 days"}})
	r.fill(4, 0)
	want := rows(t, r.table, r.snap())
	if err := r.table.Log.Checkpoint(t.Context(), r.snap()); err != nil {
		t.Fatal(err)
	}
	later := r.now.Add(10 * day)
	r.now = later
	clean := func(dry bool) CleanLogReport {
		t.Helper()
		report, err := CleanLog(t.Context(), r.table, CleanLogOptions{DryRun: dry, Clock: func() time.Time { return later }})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	for v, most := range map[deltalog.Version]int{0: 0, 1: 1} { // nothing after the leased version may be needed to read it
		lease, err := r.table.Lease(t.Context(), v, "a replay", day)
		if err != nil {
			t.Fatal(err)
		}
		if report := clean(true); report.Removed.Files > most {
			t.Fatalf("version %d is leased: %+v", v, report)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dry := clean(true)
	report := clean(false)
	if report.Removed.Files < 4 || report.Removed != dry.Removed || report.Earliest != 4 || !strings.Contains(dry.String(), "would remove") {
		t.Fatalf("%+v, dry %+v", report, dry)
	}
	if again := clean(false); again.Removed.Files != 0 {
		t.Fatalf("%+v", again)
	}
	r.same("cleaned", want, r.snap().Txns())
	// A lite vacuum has no more commits to read, and does no harm.
	r.vacuumAt(0, VacuumOptions{Lite: true})
	r.same("cleaned and vacuumed", want, r.snap().Txns())
}
