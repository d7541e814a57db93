package maintenance

import (
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

func (r *rig) clock() time.Time { return r.now }

// I6: a Log that keeps no list of files (Config.NoFiles) does not make a table without files: every operation
// does what it does through one that has the list.
func TestMaintenanceOfLightTable(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(4, 0)
	old := r.snap()
	want := rows(t, r.table, old)
	light, err := table.Open(t.Context(), r.store, table.Config{Log: deltalog.Config{CheckpointInterval: -1, NoFiles: true}, Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	defer light.Close()
	same := func(how string) {
		t.Helper()
		tb := r.reopen()
		snap, err := tb.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tryRows(t.Context(), tb, snap); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %d rows of %d, %v", how, len(got), len(want), err)
		}
	}
	report := optimize(t, light, OptimizeOptions{Clock: r.clock})
	if report.Before.Files != 4 || report.After.Files != 1 {
		t.Fatalf("%+v", report)
	}
	same("optimize")
	r.put("part-orphan.parquet")
	r.now = r.now.Add(day)
	if v, err := Vacuum(t.Context(), light, VacuumOptions{Clock: r.clock, OrphanAge: 1}); err != nil || v.Deleted.Files != 1 {
		t.Fatal(v, err)
	}
	same("vacuum")
	if got, err := Restore(t.Context(), light, RestoreOptions{Version: old.Version(), HasVersion: true, Clock: r.clock}); err != nil || got.To != old.Version() {
		t.Fatal(got, err)
	}
	same("restore")
	if n := r.snap().NumFiles(); n != 4 {
		t.Fatalf("%d files after the restore", n)
	}
	r.now = r.now.Add(30 * day)
	for _, lite := range []bool{false, true} {
		if _, err := Vacuum(t.Context(), light, VacuumOptions{Clock: r.clock, Lite: lite}); err != nil {
			t.Fatal(err)
		}
		same("late vacuum")
	}
}
