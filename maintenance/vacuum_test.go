package maintenance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/table"
)

const day = 24 * time.Hour

// vacuumAt runs a vacuum as if it were so much later.
func (r *rig) vacuumAt(later time.Duration, opts VacuumOptions) VacuumReport {
	r.t.Helper()
	opts.Clock = func() time.Time { return r.now.Add(later) }
	report, err := Vacuum(r.t.Context(), r.table, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func (r *rig) put(key string) {
	r.t.Helper()
	if err := r.store.Put(r.t.Context(), key, []byte("x")); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) has(key string) bool {
	_, err := r.store.Head(r.t.Context(), key)
	return err == nil
}

// What left the table goes when its time is over, and nothing else: not what is young, hidden, or the log's. I6
func TestVacuum(t *testing.T) {
	for _, lite := range []bool{false, true} {
		r := newRig(t, table.Config{})
		r.fill(6, 0, 1)
		before := r.snap()
		want, txns := rows(t, r.table, before), before.Txns()
		optimize(t, r.table, OptimizeOptions{})
		untouched := []string{"_delta_log/00000000000000000099.json.tmp", "_delta_log/_sidecars/x.parquet", "_ledgerlake/other.json",
			".hidden/file", "a/_temporary/x", "_delta_index/x", "_ledgerlake/staged/x.actions"}
		orphans := []string{"part-orphan.parquet", "sub/folder/x.bin", "_change_data/cdc-1.parquet", "_ledgerlake/staged/x.request"}
		for _, key := range slices.Concat(untouched, orphans) {
			r.put(key)
		}
		if report := r.vacuumAt(6*day, VacuumOptions{Lite: lite}); report.Found.Files != 0 {
			t.Fatalf("too early: %v", report.Paths)
		}
		if got := rows(t, r.table, before); len(got) != len(want) {
			t.Fatal("an older version lost rows within its time")
		}
		removed := 6
		if !lite {
			removed += len(orphans)
		}
		dry := r.vacuumAt(8*day, VacuumOptions{Lite: lite, DryRun: true})
		if dry.Found.Files != removed || dry.Deleted.Files != 0 || !strings.Contains(dry.String(), "would delete") {
			t.Fatalf("dry run: %+v", dry)
		}
		report := r.vacuumAt(8*day, VacuumOptions{Lite: lite})
		if report.Deleted.Files != removed || report.Deleted != report.Found || !slices.Equal(report.Paths, dry.Paths) {
			t.Fatalf("%+v", report)
		}
		for _, key := range untouched {
			if !r.has(key) {
				t.Errorf("%s is gone", key)
			}
		}
		for _, key := range orphans {
			if r.has(key) != lite {
				t.Errorf("%s: there %v", key, r.has(key))
			}
		}
		r.same("vacuumed", want, txns)
		if again := r.vacuumAt(8*day, VacuumOptions{Lite: lite}); again.Found.Files != 0 {
			t.Fatalf("again: %+v", again)
		}
		history, err := r.table.Log.History(t.Context(), 2)
		if err != nil || history[0].Operation != "VACUUM END" || history[1].Operation != "VACUUM START" {
			t.Fatal(history, err)
		}
	}
}

// I6: retention times that could take files from readers and writers are refused, or need force; a file that was
// just written is safe even then.
func TestVacuumRetention(t *testing.T) {
	r := newRig(t, table.Config{Properties: map[string]string{"delta.deletedFileRetentionDuration": "interval 2 days"}})
	r.fill(3, 0)
	optimize(t, r.table, OptimizeOptions{})
	r.put("part-young.parquet")
	for _, o := range []VacuumOptions{{Retention: 47 * time.Hour}, {Zero: true}, {Retention: -1, Force: true}, {Retention: 3 * day}, {Retention: 3 * day, Force: true}} {
		if _, err := Vacuum(t.Context(), r.table, o); err == nil {
			t.Fatalf("%+v is accepted", o)
		} else if o.Retention < 2*day && !errors.Is(err, ErrRetention) {
			t.Fatal(err)
		}
	}
	if report := r.vacuumAt(time.Minute, VacuumOptions{Zero: true, Force: true}); report.Deleted.Files != 3 || !r.has("part-young.parquet") {
		t.Fatalf("%+v", report)
	}
	if report := r.vacuumAt(3*day, VacuumOptions{}); report.Deleted.Files != 1 || r.has("part-young.parquet") {
		t.Fatalf("%+v", report)
	}
}

// I6: files of a leased version stay until the lease is gone.
func TestVacuumLease(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(4, 0)
	before := r.snap()
	want := rows(t, r.table, before)
	lease, err := r.table.Lease(t.Context(), before.Version(), "a replay", 20*day)
	if err != nil {
		t.Fatal(err)
	}
	optimize(t, r.table, OptimizeOptions{})
	for _, lite := range []bool{false, true} {
		report := r.vacuumAt(10*day, VacuumOptions{Lite: lite})
		if report.Deleted.Files != 0 || report.Leased != 4 || !strings.Contains(report.String(), "a replay") {
			t.Fatalf("%v", report)
		}
	}
	if got := rows(t, r.table, before); !slices.Equal(got, want) {
		t.Fatal("leased rows are gone")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report := r.vacuumAt(10*day, VacuumOptions{Lite: true}); report.Deleted.Files != 4 {
		t.Fatalf("%+v", report)
	}
	// A lease on a version that is not known protects something: nothing is deleted.
	r.put("part-orphan.parquet")
	lease, err = r.table.Lease(t.Context(), 999, "lost", 20*day)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Vacuum(t.Context(), r.table, VacuumOptions{Clock: func() time.Time { return r.now.Add(10 * day) }}); err == nil || !r.has("part-orphan.parquet") {
		t.Fatal(err)
	}
	// It runs out.
	if report := r.vacuumAt(21*day, VacuumOptions{}); report.Deleted.Files != 1 {
		t.Fatalf("%+v", report)
	}
	_ = lease
}

// A lease that is taken while a vacuum is under way counts for what is not deleted yet; so does a file that
// another writer brought back.
func TestVacuumLooksAgain(t *testing.T) {
	for _, how := range []string{"lease", "add"} {
		r := newRig(t, table.Config{})
		r.fill(3, 0)
		before := r.snap()
		want := rows(t, r.table, before)
		optimize(t, r.table, OptimizeOptions{})
		other := r.reopen()
		hooked := false
		r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op != mem.OpPutIfAbsent || hooked { // VACUUM START: the candidates are chosen
				return mem.Fault{}
			}
			hooked = true
			var err error
			if how == "lease" {
				_, err = other.Lease(t.Context(), before.Version(), "late", 20*day)
			} else {
				_, err = Restore(t.Context(), other, RestoreOptions{Version: before.Version(), HasVersion: true})
			}
			if err != nil {
				t.Error(err)
			}
			return mem.Fault{}
		})
		report := r.vacuumAt(8*day, VacuumOptions{})
		r.store.SetHook(nil)
		if !hooked || report.Found.Files != 3 || report.Deleted.Files != 0 {
			t.Fatalf("%s: %+v", how, report)
		}
		if got := rows(t, r.table, before); !slices.Equal(got, want) {
			t.Fatalf("%s: rows are gone", how)
		}
	}
}

// Paths are decoded once, whatever is in them; deletion vectors live and die with the version that names them.
func TestVacuumPathsAndVectors(t *testing.T) {
	r := newRig(t, table.Config{PartitionColumns: []string{"day"}})
	value := "a/b c%"
	add := r.file([]int32{0}, 10, &value)
	raw, err := r.store.Get(t.Context(), add.DecodedPath())
	if err != nil {
		t.Fatal(err)
	}
	folder := deltalog.EscapePartition("day") + "=" + deltalog.EscapePartition(value)
	key := folder + "/a b%25\u00e9.parquet"
	if err := r.store.Put(t.Context(), key, raw); err != nil {
		t.Fatal(err)
	}
	add.Path = deltalog.EncodePath(key)
	r.commit(add)
	// A relative vector: its folder must be seen as used, then as unused.
	for f := range r.snap().Files() {
		r.vector(f, 1, 2)
		break
	}
	var withVector *deltalog.Add
	for f := range r.snap().Files() {
		withVector = f
	}
	want := rows(t, r.table, r.snap())
	report := r.vacuumAt(30*day, VacuumOptions{})
	if !r.has(key) || report.Deleted.Files != 1 { // the copy that nothing names
		t.Fatalf("%+v", report)
	}
	r.same("kept", want, nil)
	dv := *withVector.DeletionVector
	dv.StorageType, dv.PathOrInlineDV = "u", "x/"+strings.Repeat("0", 20)
	p, err := table.VectorPath(&dv)
	if err != nil {
		t.Fatal(err)
	}
	r.put(p)
	r.put("x/deletion_vector_11111111-1111-1111-1111-111111111111.bin")
	with := *withVector
	with.DeletionVector = &dv
	if _, err := r.table.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: r.snap().Version(), Operation: "DELETE", Adds: []deltalog.Add{with},
		Removes: []deltalog.Remove{deltalog.RemoveOf(withVector, r.now.UnixMilli(), true)}}); err != nil {
		t.Fatal(err)
	}
	if report := r.vacuumAt(30*day, VacuumOptions{}); report.Deleted.Files != 1 || !r.has(p) || !r.has(key) {
		t.Fatalf("%+v", report)
	}
	if _, err := r.table.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: r.snap().Version(), Operation: "DELETE",
		Removes: []deltalog.Remove{deltalog.RemoveOf(&with, r.now.UnixMilli(), true)}}); err != nil {
		t.Fatal(err)
	}
	if report := r.vacuumAt(6*day, VacuumOptions{}); report.Deleted.Files != 0 {
		t.Fatalf("%+v", report)
	}
	if report := r.vacuumAt(8*day, VacuumOptions{Lite: true}); report.Deleted.Files != 2 || r.has(p) || r.has(key) {
		t.Fatalf("%+v", report)
	}
}

// A vacuum that stops anywhere leaves every row of the newest version, and the next one finishes. I6
func TestVacuumCrash(t *testing.T) {
	for _, lite := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for n := int64(1); ; n++ {
				r := newRig(t, table.Config{})
				r.fill(4, 0)
				want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
				optimize(t, r.table, OptimizeOptions{})
				later := func() time.Time { return r.now.Add(8 * day) }
				revive := r.dieAt(n, after)
				_, err := Vacuum(t.Context(), r.table, VacuumOptions{Lite: lite, Clock: later})
				if !revive() {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				r.same(fmt.Sprintf("died at operation %d", n), want, txns)
				if _, err := Vacuum(t.Context(), r.reopen(), VacuumOptions{Lite: lite, Clock: later}); err != nil {
					t.Fatal(err)
				}
				r.same(fmt.Sprintf("died at operation %d, and again", n), want, txns)
				left := slices.DeleteFunc(objects(t, r.store), func(k string) bool { return !strings.HasPrefix(k, "part-") })
				if len(left) != 1 {
					t.Fatalf("died at operation %d: %d data files are left", n, len(left))
				}
			}
		}
	}
}

// Links out of the folder are left alone: what they lead to is somebody else's.
func TestVacuumFollowsNoLinks(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	store, err := dir.Open(dir.Config{Root: root, FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := table.Create(t.Context(), store, payload, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if err := store.Put(t.Context(), "orphan.parquet", []byte("x")); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(other, "precious")
	writeOrLink(t, foreign, "")
	writeOrLink(t, filepath.Join(root, "folder"), other)
	writeOrLink(t, filepath.Join(root, "file"), foreign)
	report, err := Vacuum(t.Context(), tb, VacuumOptions{Clock: func() time.Time { return time.Now().Add(8 * day) }})
	if err != nil || report.Deleted.Files != 1 {
		t.Fatalf("%+v %v", report, err)
	}
	if _, err := store.Head(t.Context(), "folder/precious"); err != nil {
		t.Fatal("a file outside of the table is gone")
	}
}

// A table whose writer protocol is not known is not touched.
func TestVacuumChecksProtocol(t *testing.T) {
	store := mem.New()
	log := `{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["somethingNew"]}}
{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":{}}}
`
	for key, text := range map[string]string{"_delta_log/00000000000000000000.json": log, "orphan": "x"} {
		if err := store.Put(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	tb, err := table.Open(t.Context(), store, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	var u *deltalog.UnsupportedError
	if _, err := Vacuum(t.Context(), tb, VacuumOptions{Clock: func() time.Time { return time.Now().Add(8 * day) }}); !errors.As(err, &u) {
		t.Fatal(err)
	}
	if _, err := store.Head(t.Context(), "orphan"); err != nil {
		t.Fatal(err)
	}
}
