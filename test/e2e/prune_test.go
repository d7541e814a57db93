package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A table of prunedFiles files, of whose values each has a range of its own; the conditions ask for what one of them has.
const (
	prunedFiles = 6
	prunedEach  = 40
	prunedKept  = 3
)

var prunedColumns = []struct{ name, typ, where string }{
	{"day", `"date"`, "day = DATE '2026-01-04'"},
	{"at", `"timestamp"`, "\"at\" > TIMESTAMP '2026-01-04 00:00:00' AND \"at\" < TIMESTAMP '2026-01-05 00:00:00'"},
	{"price", `"decimal(12,3)"`, "price >= 3000.5 AND price < 3999.25"},
	{"name", `"string"`, "name >= 'key 3' AND name < 'key 4'"},
	{"o", `{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}`, "o['n'] >= 3000 AND o['n'] <= 3999"},
	{"id", `"long"`, "id >= 3000 AND id < 4000"},
}

// fillPruned lets ingest write the table, a file a run.
func fillPruned(t *testing.T) string {
	t.Helper()
	s := harness.Serve(t, t.TempDir(), "", "--topic", "ranges:1", "--format", "raw")
	var fields []string
	for _, c := range prunedColumns {
		fields = append(fields, `{"name":"`+c.name+`","type":`+c.typ+`,"nullable":true,"metadata":{}}`)
	}
	schema, table := filepath.Join(t.TempDir(), "schema.json"), filepath.Join(t.TempDir(), "ranges")
	if err := os.WriteFile(schema, []byte(`{"type":"struct","fields":[`+strings.Join(fields, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for file := range prunedFiles {
		var in bytes.Buffer
		for i := range prunedEach {
			id := file*1000 + i
			fmt.Fprintf(&in, `{"day":"2026-01-%02d","at":"2026-01-%02dT10:%02d:00.123456Z","price":%d.875,"name":"key %d %d","o":{"n":%d},"id":%d}`+"\n", file+1, file+1, i, id, file, i, id, id)
		}
		harness.Run(t, &in, "produce", "--brokers", s.Addr, "--topic", "ranges")
		harness.Run(t, nil, "ingest", "--brokers", s.Addr, "--topic", "ranges", "--table", table, "--format", "json", "--schema", schema, "--until-latest")
	}
	s.Stop(t)
	return table
}

// prunedForm is a copy of the table in which a reader finds what the files hold in one place alone, and in which the files that
// no condition needs are gone.
func prunedForm(t *testing.T, table, form string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), form)
	if err := os.CopyFS(path, os.DirFS(table)); err != nil {
		t.Fatal(err)
	}
	store, err := dir.Open(dir.Config{Root: path, FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.FullSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if form != "commits" {
		snap = checkpointed(t, log, snap, path, form)
	}
	kept := 0
	for f := range snap.Files() {
		if strings.Contains(f.Stats, fmt.Sprintf(`"id":%d`, prunedKept*1000)) {
			kept++
			continue
		}
		if err := os.Remove(filepath.Join(path, f.Path)); err != nil {
			t.Fatal(err)
		}
	}
	if kept != 1 || snap.NumFiles() != prunedFiles {
		t.Fatalf("%d of %d files have the rows that are asked for", kept, snap.NumFiles())
	}
	return path
}

// checkpointed makes a checkpoint that has statistics as JSON or as columns of their own, never both, and removes the commits before.
func checkpointed(t *testing.T, log *deltalog.Log, snap *deltalog.Snapshot, path, form string) *deltalog.Snapshot {
	t.Helper()
	parsed := fmt.Sprint(form == "parsed")
	c, err := snap.Alter(deltalog.Change{Set: map[string]string{"delta.checkpoint.writeStatsAsStruct": parsed, "delta.checkpoint.writeStatsAsJson": fmt.Sprint(form != "parsed")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = log.Commit(t.Context(), c); err == nil {
		snap, err = log.FullSnapshot(t.Context())
	}
	if err == nil {
		err = log.Checkpoint(t.Context(), snap)
	}
	if err != nil {
		t.Fatal(err)
	}
	commits, err := filepath.Glob(filepath.Join(path, "_delta_log", "*.json"))
	for _, name := range commits {
		if filepath.Base(name) != fmt.Sprintf("%020d.json", snap.Version()) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	if err != nil || len(commits) < prunedFiles {
		t.Fatalf("%d commits: %v", len(commits), err)
	}
	return snap
}

// askPruned asks an engine the conditions of each form. Those it cannot answer are given back, by form.
func askPruned(t *testing.T, engine string, run func(jobs *bytes.Buffer) []byte) map[string][]string {
	t.Helper()
	table := fillPruned(t)
	forms := []string{"commits", "json", "parsed"}
	type job struct {
		Path string   `json:"path"`
		SQL  []string `json:"sql"`
	}
	all := []string{"id >= 0"} // needs every file
	for _, c := range prunedColumns {
		where := c.where
		if engine == "duckdb" { // what it pushes down
			where = strings.ReplaceAll(where, "o['n']", "o.n")
		}
		all = append(all, where)
	}
	jobs := []job{{table, all}} // the table as it is: each condition has an answer
	for _, form := range forms {
		jobs = append(jobs, job{prunedForm(t, table, form), all})
	}
	var in bytes.Buffer
	if err := json.NewEncoder(&in).Encode(jobs); err != nil {
		t.Fatal(err)
	}
	var want []int64
	for i := range int64(prunedEach) {
		want = append(want, prunedKept*1000+i)
	}
	failed := map[string][]string{}
	answers := 0
	for d := json.NewDecoder(bytes.NewReader(run(&in))); ; answers++ {
		var a answer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			break
		} else if err != nil || a.Where == nil {
			t.Fatalf("%s answers %+v: %v", engine, a, err)
		}
		slices.Sort(a.IDs)
		where, whole := all[*a.Where], *a.Where == 0
		switch {
		case a.Table == 0 && (a.Error != "" || whole && len(a.IDs) != prunedFiles*prunedEach || !whole && !slices.Equal(a.IDs, want)):
			t.Errorf("%s, the whole table where %s: %d ids, %s", engine, where, len(a.IDs), a.Error)
		case a.Table == 0:
		case whole && a.Error == "":
			t.Errorf("%s read files that are gone: the test shows nothing", engine)
		case whole:
		case a.Error != "":
			failed[forms[a.Table-1]] = append(failed[forms[a.Table-1]], where)
			t.Logf("%s, %s, where %s: %.300s", engine, forms[a.Table-1], where, a.Error)
		case !slices.Equal(a.IDs, want):
			t.Errorf("%s, %s, where %s: ids %v", engine, forms[a.Table-1], where, a.IDs)
		}
	}
	if answers != len(jobs)*len(all) {
		t.Errorf("%s gave %d answers, want %d", engine, answers, len(jobs)*len(all))
	}
	return failed
}

// readsAll is the column by which an engine looks into every file, whatever the log says of them: DuckDB's Delta extension
// 1.5.5 asks no statistics of timestamps with a zone, in tables of delta-rs neither.
var readsAll = map[string]string{"duckdb": `"at"`}

// TestOthersPruneOurTable: DuckDB and delta-rs answer conditions on dates, timestamps, decimals, text and nested columns by
// one file of a table of ingest, the others of which are gone: what commits and checkpoints say of files is enough to rule them
// out, and rules out no row that is asked for (I4).
func TestOthersPruneOurTable(t *testing.T) {
	harness.Python(t)
	for _, engine := range []string{"duckdb", "deltars"} {
		failed := askPruned(t, engine, func(jobs *bytes.Buffer) []byte { return harness.RunPython(t, jobs, "property.py", engine) })
		for form, where := range failed {
			where = slices.DeleteFunc(where, func(c string) bool { return readsAll[engine] != "" && strings.Contains(c, readsAll[engine]) })
			if len(where) > 0 {
				t.Errorf("%s does not prune by %s where %s", engine, form, strings.Join(where, "; "))
			}
		}
	}
}

// TestSparkPrunesOurTable is the same for Spark, which reads the statistics of a checkpoint from their own columns.
func TestSparkPrunesOurTable(t *testing.T) {
	harness.SparkPython(t)
	failed := askPruned(t, "Spark", func(jobs *bytes.Buffer) []byte {
		file := filepath.Join(t.TempDir(), "jobs.json")
		if err := os.WriteFile(file, jobs.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return harness.RunSpark(t, "spark.py", "property", file)
	})
	for form, where := range failed {
		t.Errorf("Spark does not prune by %s where %s", form, strings.Join(where, "; "))
	}
}
