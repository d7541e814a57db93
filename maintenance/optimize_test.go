package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/table"
)

func optimize(t testing.TB, tb *table.Table, opts OptimizeOptions) OptimizeReport {
	t.Helper()
	report, err := Optimize(t.Context(), tb, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// I3, I4: many small files become few, with the same rows in the same order at the same positions, and exact tags.
func TestOptimize(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(40, 0, 1, 5)
	before := r.snap()
	want, txns := rows(t, r.table, before), before.Txns()
	dry := optimize(t, r.table, OptimizeOptions{DryRun: true})
	if dry.Removed.Files != 40 || r.snap().Version() != before.Version() {
		t.Fatalf("dry run: %+v", dry)
	}
	report := optimize(t, r.table, OptimizeOptions{})
	if report.After.Files != 1 || report.Commits != 2 || report.Rows != 2400 { // 32 and 8 files, then both
		t.Fatalf("%+v", report)
	}
	r.same("optimized", want, txns)
	snap := r.snap()
	for f := range snap.Files() {
		if f.DataChange {
			t.Fatal("the new file is new data")
		}
		if n, ok := f.NumRecords(); !ok || n != 1200 {
			t.Fatal(n, ok)
		}
	}
	files, err := r.table.FilesFor(snap, []table.Range{{Partition: 5, From: 0, To: 5}})
	if err != nil || len(files) != 1 || !files[0].Exact || len(files[0].Ranges) < 3 {
		t.Fatalf("%+v", files)
	}
	// A version from before reads on. I6
	if got := rows(t, r.table, before); !slices.Equal(got, want) {
		t.Fatal("the old version changed")
	}
	if again := optimize(t, r.table, OptimizeOptions{}); again.Commits != 0 || !strings.Contains(again.String(), "nothing to do") {
		t.Fatalf("a second run did something: %v", again)
	}
	history, err := r.table.Log.History(t.Context(), 1)
	if err != nil || history[0].Operation != "OPTIMIZE" {
		t.Fatal(history, err)
	}
}

// Tables of any shape: partition columns, deletion vectors, several writers with partitions of their own, targets
// of a few rows. Run after run converges, and what is read never changes. I3
func TestOptimizeProperty(t *testing.T) {
	rnd := newRand(t)
	for round := range 12 {
		cfg := table.Config{}
		if round%3 == 1 {
			cfg.PartitionColumns = []string{"day"}
		}
		r := newRig(t, cfg)
		days := []string{"2024-01-01", "a/b %", "", "x"}
		for range 4 + rnd.IntN(50) {
			var adds []deltalog.Add
			for range 1 + rnd.IntN(2) {
				parts := []int32{0, 1, 2, 3}
				if round%2 == 0 {
					parts = [][]int32{{0, 1}, {2, 3}, {1}}[rnd.IntN(3)]
				}
				adds = append(adds, r.file(parts, 1+rnd.IntN(60), &days[rnd.IntN(len(days))]))
			}
			r.commit(adds...)
			if rnd.IntN(6) == 0 {
				for f := range r.snap().Files() {
					if n, _ := f.NumRecords(); f.DeletionVector == nil && rnd.IntN(3) == 0 && n > 3 {
						gone := []uint16{0, 2, uint16(n - 1)}
						if rnd.IntN(3) == 0 {
							gone = nil
							for i := range n {
								gone = append(gone, uint16(i))
							}
						}
						r.vector(f, gone...)
						break
					}
				}
			}
			if rnd.IntN(10) == 0 {
				before := rows(t, r.table, r.snap())
				optimize(t, r.table, OptimizeOptions{TargetSize: 8 << 10, Gradual: true, MinFiles: 3})
				r.same(fmt.Sprintf("round %d, gradual", round), before, r.snap().Txns())
			}
		}
		want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
		target := int64(4096 << rnd.IntN(5))
		report := optimize(t, r.table, OptimizeOptions{TargetSize: target})
		r.same(fmt.Sprintf("round %d", round), want, txns)
		if again := optimize(t, r.table, OptimizeOptions{TargetSize: target}); again.Commits > 0 {
			t.Fatalf("round %d: does not come to rest: %+v then %+v", round, report, again)
		}
	}
}

// Stopped before or behind any operation of the store, the table has the same rows, and the next run finishes.
// I3, I4
func TestOptimizeCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := int64(1); ; n++ {
			r := newRig(t, table.Config{})
			r.fill(3, 0, 1)
			for f := range r.snap().Files() {
				r.vector(f, 1, 4)
				break
			}
			want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
			revive := r.dieAt(n, after)
			_, err := Optimize(t.Context(), r.table, OptimizeOptions{})
			if !revive() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			what := fmt.Sprintf("died at operation %d, answer lost %v", n, after)
			r.same(what, want, txns)
			if report := optimize(t, r.reopen(), OptimizeOptions{}); report.After.Files != 1 {
				t.Fatalf("%s: %+v", what, report)
			}
			r.same(what+", and again", want, txns)
			if n > 200 {
				t.Fatal("too many operations")
			}
		}
	}
}

// Commits of tables of very many tiny files stay within what a group of committers takes and remembers, and name the table
// that they were planned on (I3, I8).
func TestOptimizeCommitsAreBounded(t *testing.T) {
	r := newRig(t, table.Config{})
	var adds []deltalog.Add
	const limit = 20
	for range 2*limit + 5 {
		adds = append(adds, r.file([]int32{0}, 1, nil))
	}
	r.commit(adds...)
	want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
	report := optimize(t, r.table, OptimizeOptions{commitFiles: limit, Commit: func(ctx context.Context, c deltalog.Commit) (deltalog.Version, error) {
		if len(c.Removes) >= 2*limit || c.Incarnation != r.snap().Metadata().ID {
			t.Errorf("a commit of %d files, planned on %q", len(c.Removes), c.Incarnation)
		}
		return r.table.Log.Commit(ctx, c)
	}})
	if report.Commits < 3 || report.After.Files > 1 {
		t.Errorf("%+v", report)
	}
	r.same("many tiny files", want, txns)
	// Very many files, long paths and large statistics end a bin.
	for what, a := range map[string]deltalog.Add{
		"paths":      {Path: strings.Repeat("x", 4000), Size: 1},
		"statistics": {Path: "x", Size: 1, Stats: strings.Repeat("x", 100_000)},
		"files":      {Path: "x", Size: 1},
	} {
		p := &packer{opts: OptimizeOptions{}.withDefaults()}
		files := 0
		for range 5000 {
			p.add(table.FileRange{Add: &a})
		}
		p.close()
		for _, b := range p.bins {
			files += len(b.files)
			if len(b.files) > commitFiles || len(b.files)*len(a.Path) > commitPaths+len(a.Path) || len(b.files)*len(a.Stats) > commitStats+len(a.Stats) {
				t.Errorf("%s: a bin of %d files", what, len(b.files))
			}
		}
		if files != 5000 {
			t.Errorf("%s: %d files are planned", what, files)
		}
	}
}

// Appends of others are no conflict; the new files stay beside those of the optimizer.
func TestOptimizeBesideAppends(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(5, 0)
	writer := &rig{t: t, store: r.store, table: r.reopen(), next: map[int32]int64{0: r.next[0], 1: 0}}
	commits := 0
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && strings.HasSuffix(c.Key, ".json") && commits < 3 {
			commits++
			r.store.SetHook(nil) // one at a time
			writer.commit(writer.file([]int32{0, 1}, 4, nil))
		}
		return mem.Fault{}
	})
	report := optimize(t, r.table, OptimizeOptions{})
	r.store.SetHook(nil)
	if commits == 0 || report.After.Files > 2 {
		t.Fatalf("%d commits, %+v", commits, report)
	}
	got := rows(t, r.table, r.snap())
	if len(got) != 5*10+2*4 {
		t.Fatalf("%d rows", len(got))
	}
	r.same("beside appends", got, r.snap().Txns())
}

// A file that another writer removes in the meantime is not brought back: the run plans anew without it, or ends
// with the conflict when that goes on. No new file stays behind.
func TestOptimizeConflict(t *testing.T) {
	for _, always := range []bool{false, true} {
		r := newRig(t, table.Config{})
		r.fill(12, 0)
		other := r.reopen()
		removed := 0
		var hook mem.Hook
		hook = func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op != mem.OpPutIfAbsent || !strings.HasSuffix(c.Key, ".json") || removed > 0 && !always {
				return mem.Fault{}
			}
			removed++
			r.store.SetHook(nil)
			defer r.store.SetHook(hook)
			snap, err := other.Refresh(t.Context())
			if err != nil {
				t.Error(err)
			}
			for f := range snap.Files() {
				if _, err := other.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "DELETE",
					Removes: []deltalog.Remove{deltalog.RemoveOf(f, r.now.UnixMilli(), true)}}); err != nil {
					t.Error(err)
				}
				break
			}
			return mem.Fault{}
		}
		r.store.SetHook(hook)
		report, err := Optimize(t.Context(), r.table, OptimizeOptions{})
		r.store.SetHook(nil)
		if always != errors.Is(err, deltalog.ErrConcurrentDelete) || report.Conflicts != removed {
			t.Fatalf("always %v: %v, %+v", always, err, report)
		}
		got := rows(t, r.table, r.snap())
		if len(got) != 10*(12-removed) {
			t.Fatalf("%d rows after %d removes", len(got), removed)
		}
		live := map[string]bool{}
		for f := range r.snap().Files() {
			live[f.Path] = true
		}
		orphans := 0
		for _, key := range objects(t, r.store) {
			if strings.HasPrefix(key, "part-") && !live[key] {
				orphans++
			}
		}
		if old := 12; !always && orphans != old || always && orphans != removed {
			t.Fatalf("%d unused files", orphans)
		}
	}
}

// Gradual runs on a growing table keep the number of files small and write each row a few times only.
func TestOptimizeGradual(t *testing.T) {
	r := newRig(t, table.Config{})
	written, most := int64(0), 0
	for range 150 {
		for range 2 {
			r.commit(r.file([]int32{0}, 300, nil))
		}
		report := optimize(t, r.table, OptimizeOptions{Gradual: true, MinFiles: 4, TargetSize: 1 << 20})
		written += report.Rows
		most = max(most, report.After.Files)
	}
	if total := int64(300 * 300); written > 5*total {
		t.Fatalf("%d rows written for %d", written, total)
	}
	if most > 30 {
		t.Fatalf("%d files at most", most)
	}
	t.Logf("%d rows written for 90000, %d files at most", written, most)
	r.same("gradual", rows(t, r.table, r.snap()), r.snap().Txns())
}

// A table without offsets is packed too.
func TestOptimizePlainTable(t *testing.T) {
	r := newRig(t, table.Config{Names: table.Names{Value: "v"}})
	r.fill(20, 0)
	want := rows(t, r.table, r.snap())
	if report := optimize(t, r.table, OptimizeOptions{}); report.After.Files != 1 || report.Rows != 200 {
		t.Fatalf("%+v", report)
	}
	if got := rows(t, r.table, r.snap()); !slices.Equal(got, want) {
		t.Fatal("rows differ")
	}
}

// Rows that others appended to a table of ours have no place in a sorted file: theirs are left alone, with
// statistics that say so and without, and ours are packed. I3
func TestOptimizeLeavesForeignRowsAlone(t *testing.T) {
	for _, stats := range []string{`{"numRecords":2,"nullCount":{"_partition":2,"_offset":2}}`, `{"numRecords":2}`, ""} {
		r := newRig(t, table.Config{})
		r.fill(3, 0, 1)
		schema, err := r.table.Schema(r.snap())
		if err != nil {
			t.Fatal(err)
		}
		rb, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"text":"a"},{"text":"b"}]`))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			r.foreign(fmt.Sprintf("foreign-%d.parquet", i), rb, stats)
			r.fill(2, 0, 1)
		}
		want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
		for range 2 {
			if report := optimize(t, r.table, OptimizeOptions{}); report.Foreign != 2 || report.After.Files > 5 {
				t.Fatalf("stats %s: %+v", stats, report)
			}
			r.same("with foreign rows", want, txns)
		}
	}
}

// Files of one partition where they are large: a range of one partition needs no other's bytes.
func TestOptimizeSplitsByPartition(t *testing.T) {
	r := newRig(t, table.Config{})
	for range 20 {
		r.commit(r.file([]int32{0, 1, 2}, 400, nil))
	}
	optimize(t, r.table, OptimizeOptions{TargetSize: 64 << 10})
	files, err := r.table.FilesFor(r.snap(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		parts := map[int32]bool{}
		for _, x := range f.Ranges {
			parts[x.Partition] = true
		}
		if f.Add.Size > 64<<10 && len(parts) > 2 {
			t.Fatalf("%s of %d bytes has partitions %v", f.Add.Path, f.Add.Size, parts)
		}
	}
}

// Rows that do not come out as they went in are never committed. I3
func TestOptimizeVerifies(t *testing.T) {
	r := newRig(t, table.Config{})
	r.fill(4, 0)
	snap := r.snap()
	o := &optimizer{t: r.table, opts: OptimizeOptions{}.withDefaults()}
	bins, err := plan(r.table, snap, o.opts, map[string]bool{})
	if err != nil {
		t.Fatal(err)
	}
	b := bins[0]
	adds, err := o.write(t.Context(), snap, b)
	if err != nil {
		t.Fatal(err)
	}
	b.files = b.files[1:]
	if _, err := o.verify(t.Context(), snap, b, adds); !errors.Is(err, ErrRowsDiffer) {
		t.Fatal(err)
	}
}

func TestOptimizeRefuses(t *testing.T) {
	r := newRig(t, table.Config{})
	for _, o := range []OptimizeOptions{{TargetSize: 1}, {MinFiles: 1}, {MaxBytes: -1}} {
		if _, err := Optimize(t.Context(), r.table, o); err == nil {
			t.Fatalf("%+v is accepted", o)
		}
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 256 << 20: "256.0 MiB", 5 << 40: "5.0 TiB", 1 << 62: "4096.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func objects(t testing.TB, store *mem.Store) (keys []string) {
	t.Helper()
	for info, err := range store.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// Many partition values do not make many versions.
func TestOptimizeSharesCommits(t *testing.T) {
	r := newRig(t, table.Config{PartitionColumns: []string{"day"}})
	for i := range 20 {
		value := fmt.Sprint(i)
		r.commit(r.file([]int32{0}, 3, &value), r.file([]int32{0}, 3, &value))
	}
	want, txns := rows(t, r.table, r.snap()), r.snap().Txns()
	if report := optimize(t, r.table, OptimizeOptions{}); report.Commits != 1 || report.After.Files != 20 {
		t.Fatalf("%+v", report)
	}
	r.same("shared", want, txns)
	if report := optimize(t, r.table, OptimizeOptions{MaxBytes: 1}); report.Commits != 0 {
		t.Fatalf("%+v", report)
	}
	for i := range 4 {
		value := fmt.Sprint(i)
		r.commit(r.file([]int32{0}, 3, &value), r.file([]int32{0}, 3, &value))
	}
	if report := optimize(t, r.table, OptimizeOptions{MaxBytes: 1}); report.Commits != 1 || report.Removed.Files > 4 {
		t.Fatalf("more than a part in one run: %+v", report)
	}
}
