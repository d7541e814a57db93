package maintenance

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// shadowFile is file in the folder of a job, as a swap names it.
func (r *rig) shadowFile(job string) deltalog.Add {
	r.t.Helper()
	add := r.file([]int32{0}, 10, nil)
	raw, err := r.store.Get(r.t.Context(), add.Path)
	if err == nil {
		err = r.store.Delete(r.t.Context(), add.Path)
	}
	add.Path = table.ShadowFolder(job) + "/" + add.Path
	if err == nil {
		err = r.store.Put(r.t.Context(), add.Path, raw)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return add
}

// Files of a job that was swapped in and retired go as the table's own do: when the log has not named them for the
// retention time and no lease needs them. Those of a job that still has its log, or was never swapped in, stay (I6).
func TestVacuumOfShadows(t *testing.T) {
	for _, lite := range []bool{false, true} {
		swapped := map[string]string{table.SwappedProperty("done"): "true", table.SwappedProperty("kept"): "true"}
		r := newRig(t, table.Config{Properties: swapped})
		r.put("_shadow/kept/_delta_log/00000000000000000000.json")
		r.put("_shadow/running/part-1.parquet")
		r.put("_shadow/running/_delta_log/00000000000000000000.json")
		r.put("_shadow/stranger/file")
		r.put("_shadow/done/_ledgerlake/leases/x.json")
		var paths []string
		for _, job := range []string{"done", "done", "kept"} {
			add := r.shadowFile(job)
			paths = append(paths, add.Path)
			r.commit(add)
		}
		before := r.snap()
		optimize(t, r.table, OptimizeOptions{}) // their rows are elsewhere now
		live := r.shadowFile("done")
		r.commit(live)

		if report := r.vacuumAt(6*day, VacuumOptions{Lite: lite}); report.Found.Files != 0 {
			t.Fatalf("too early: %v", report.Paths)
		}
		lease, err := r.table.Lease(t.Context(), before.Version(), "a replay", 20*day)
		if err != nil {
			t.Fatal(err)
		}
		if report := r.vacuumAt(8*day, VacuumOptions{Lite: lite}); report.Deleted.Files != 0 || report.Leased != 2 {
			t.Fatalf("under a lease: %+v", report)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if report := r.vacuumAt(8*day, VacuumOptions{Lite: lite}); report.Deleted.Files != 2 {
			t.Fatalf("%+v", report)
		}
		for key, want := range map[string]bool{paths[0]: false, paths[1]: false, paths[2]: true, live.Path: true,
			"_shadow/running/part-1.parquet": true, "_shadow/stranger/file": true, "_shadow/done/_ledgerlake/leases/x.json": true,
			"_shadow/kept/_delta_log/00000000000000000000.json": true} {
			if r.has(key) != want {
				t.Errorf("lite %v: %s is there: %v", lite, key, !want)
			}
		}
		if got := rows(t, r.table, r.snap()); len(got) != 40 {
			t.Errorf("%d rows, want 40", len(got))
		}

		// Retired: its last file goes too.
		if err := r.store.Delete(t.Context(), "_shadow/kept/_delta_log/00000000000000000000.json"); err != nil {
			t.Fatal(err)
		}
		if r.vacuumAt(9*day, VacuumOptions{}); r.has(paths[2]) {
			t.Errorf("%s is still there", paths[2])
		}
	}
}
