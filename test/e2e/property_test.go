package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// job is a table that an engine is to read whole, and by conditions whose answer its statistics may decide.
type job struct {
	Path   string      `json:"path"`
	Where  []condition `json:"where"`
	want   tableVersion
	name   string
	mapped bool
}

// condition selects rows by one column. A nil value asks for nulls.
type condition struct {
	Column string `json:"column"`
	Op     string `json:"op"`
	Kind   string `json:"kind"`
	Value  any    `json:"value"`
	ids    []int64
}

// answer is a line of what an engine prints.
type answer struct {
	Table int
	Row   map[string]any
	Where *int
	IDs   []int64
	Error string
}

// Tables that we made and changed at random, by everything that we can do to a table, are read alike by others:
// each row and value, all of them and by conditions that statistics and partition values help to answer, from the
// table as it is and from its checkpoint without the commits before.
func TestPropertyOthersReadOurTables(t *testing.T) {
	harness.Python(t)
	jobs := randomTables(t, harness.Number(t, "LEDGERLAKE_TABLES", 10))
	for _, engine := range []string{"duckdb", "deltars"} {
		checkAnswers(t, engine, jobs, harness.RunPython(t, jobsInput(t, jobs), "property.py", engine))
	}
}

// Spark reads the same kind of tables.
func TestPropertySparkReadsOurTables(t *testing.T) {
	harness.SparkPython(t)
	jobs := randomTables(t, harness.Number(t, "LEDGERLAKE_TABLES", 5))
	for i := range jobs { // each is a job of seconds there
		jobs[i].Where = jobs[i].Where[:min(len(jobs[i].Where), 3)]
	}
	file := filepath.Join(t.TempDir(), "jobs.json")
	if err := os.WriteFile(file, jobsInput(t, jobs).Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, "Spark", jobs, harness.RunSpark(t, "spark.py", "property", file))
}

// randomTables makes tables from one seed each, as we read them ourselves, and a copy of those with a checkpoint.
func randomTables(t *testing.T, n int) []job {
	seed := seedtest.New(t) // LEDGERLAKE_TABLES looks further
	root := t.TempDir()
	var jobs []job
	for i := range n {
		own := seed + uint64(i)
		rng := rand.New(rand.NewPCG(own, 0))
		name := fmt.Sprintf("table %d", i) // DuckDB opens no files below a folder that is not ASCII
		r := newRandomTable(t, rng, filepath.Join(root, name))
		for range 3 + rng.IntN(12) {
			r.step()
		}
		if err := r.tb.Close(); err != nil {
			t.Fatal(err)
		}
		j := job{Path: r.path, want: r.tableVersion, name: fmt.Sprintf("seed %d (%v; %s)", own, r.settings, strings.Join(r.done, ", ")), Where: r.conditions(), mapped: r.mapped}
		jobs = append(jobs, j)
		if j.Path = onlyCheckpoint(t, r.path); j.Path != "" {
			j.name += " from its checkpoint"
			jobs = append(jobs, j)
		}
	}
	for _, j := range jobs {
		var got []answer
		for _, row := range readTable(t, j.Path) {
			got = append(got, answer{Row: row})
		}
		checkRows(t, "ledgerlake", j, got)
		if res := harness.RunBoth(t, nil, "check", j.Path); res.Err != nil {
			t.Errorf("check of %s: %v\n%s%s", j.name, res.Err, res.Stdout, res.Stderr)
		}
	}
	return jobs
}

func jobsInput(t *testing.T, jobs []job) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(jobs); err != nil {
		t.Fatal(err)
	}
	return &b
}

// onlyCheckpoint copies a table and takes away all of its log below the newest checkpoint; "" without one.
func onlyCheckpoint(t *testing.T, path string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(path, "_delta_log", "*.checkpoint*.parquet"))
	if err != nil || len(names) == 0 {
		return ""
	}
	newest := filepath.Base(slices.Max(names))[:20]
	out := path + " checkpoint"
	if err := os.CopyFS(out, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(out, "_delta_log"), func(p string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && !d.IsDir() && len(name) > 20 && name[0] == '0' && name[:20] < newest {
			return os.Remove(p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// conditions asks for values that rows have and for nulls, of columns of simple types.
func (r *randomTable) conditions() []condition {
	kinds := map[deltalog.DataType]string{deltalog.Byte: "number", deltalog.Short: "number", deltalog.Integer: "number", deltalog.Long: "number",
		deltalog.String: "text", deltalog.Date: "date", deltalog.Boolean: "boolean"}
	var out []condition
	for _, c := range r.columns {
		if strings.Contains(c.name, ".") {
			continue // DuckDB takes the dot for a step into a struct
		}
		kind := kinds[c.typ]
		if d, ok := c.typ.(deltalog.Decimal); ok {
			kind = d.String()
		}
		null := condition{Column: c.name, Op: "is null"}
		some := condition{Column: c.name, Kind: kind, Op: []string{"=", ">=", "<="}[r.rng.IntN(3)]}
		for _, id := range sortedIDs(r.rows) {
			switch v := r.rows[id][c.number]; {
			case v == nil:
				null.ids = append(null.ids, id)
			case kind != "" && (some.Value == nil || r.rng.IntN(10) == 0):
				some.Value = v
			}
		}
		out = append(out, null)
		if some.Value == nil || kind == "boolean" && some.Op != "=" {
			continue
		}
		for _, id := range sortedIDs(r.rows) {
			if v := r.rows[id][c.number]; v != nil && holds(kind, v, some.Op, some.Value) {
				some.ids = append(some.ids, id)
			}
		}
		out = append(out, some)
	}
	return out
}

func checkAnswers(t *testing.T, engine string, jobs []job, out []byte) {
	t.Helper()
	rows, refused := make([][]answer, len(jobs)), make([]bool, len(jobs))
	asked, passed := 0, 0
	for line := range bytes.Lines(out) {
		var a answer
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&a); err != nil {
			t.Fatalf("%s printed %q: %v", engine, line, err)
		}
		j := jobs[a.Table]
		switch {
		case engine == "deltars" && deltaRSLacks(a.Error):
			refused[a.Table] = true
			passed++
		case a.Error != "":
			refused[a.Table] = true
			t.Errorf("%s cannot read the table of %s: %s", engine, j.name, a.Error)
		case a.Where != nil && engine == "duckdb" && duckDBMistakes(j, j.Where[*a.Where].Column):
		case a.Where != nil:
			c := j.Where[*a.Where]
			slices.Sort(a.IDs)
			if asked++; !slices.Equal(a.IDs, c.ids) {
				t.Errorf("%s, %s: where %q %s %v gives ids %v, want %v", engine, j.name, c.Column, c.Op, c.Value, a.IDs, c.ids)
			}
		default:
			rows[a.Table] = append(rows[a.Table], a)
		}
	}
	n := 0
	for i, j := range jobs {
		if !refused[i] {
			checkRows(t, engine, j, rows[i])
			n += len(rows[i])
		}
	}
	t.Logf("%s: %d tables, %d rows, %d conditions; %d tables refused for a feature that it does not have", engine, len(jobs)-passed, n, asked, passed)
	if 2*passed > len(jobs) {
		t.Errorf("%s refused most of the tables", engine)
	}
}

// duckDBMistakes says whether DuckDB is known to answer wrongly: its Delta extension 1.5.5 reads partition columns of
// tables with column mapping as null, those that Spark made too.
func duckDBMistakes(j job, name string) bool {
	return j.mapped && slices.ContainsFunc(j.want.columns, func(c column) bool { return c.name == name && c.partition })
}

// deltaRSLacks says whether delta-rs refused a table by the name of a feature that it does not have.
func deltaRSLacks(message string) bool {
	return strings.Contains(message, "Unsupported table features required: [") &&
		(strings.Contains(message, "TypeWidening") || strings.Contains(message, "VacuumProtocolCheck"))
}

// checkRows fails unless the rows are those that the table is to hold.
func checkRows(t *testing.T, engine string, j job, got []answer) {
	t.Helper()
	seen := map[int64]bool{}
	for _, a := range got {
		id := harness.Int(t, a.Row, "id")
		want, ok := j.want.rows[id]
		if !ok || seen[id] {
			t.Errorf("%s, %s: row %d is there twice or should not be there", engine, j.name, id)
			return
		}
		seen[id] = true
		if len(a.Row) != len(j.want.columns) {
			t.Fatalf("%s, %s: row %d has %d columns, want %d", engine, j.name, id, len(a.Row), len(j.want.columns))
		}
		for _, c := range j.want.columns {
			if engine == "duckdb" && c.partition && j.mapped {
				continue
			}
			v, err := plainOf(c.typ, a.Row[c.name])
			if err != nil || !reflect.DeepEqual(v, want[c.number]) {
				t.Errorf("%s, %s: row %d, column %q of type %s: %#v (%v), want %#v", engine, j.name, id, c.name, c.typ, v, err, want[c.number])
				return
			}
		}
	}
	if len(seen) != len(j.want.rows) {
		t.Errorf("%s, %s: %d rows, want %d", engine, j.name, len(seen), len(j.want.rows))
	}
}

// Tables that delta-rs made and changed at random are read alike by us, by delta-rs and by DuckDB: merged, updated,
// deleted, optimized, restored, vacuumed, with and without checkpoints.
func TestPropertyWeReadTheirTables(t *testing.T) {
	harness.Python(t)
	seed := seedtest.New(t)
	for i := range uint64(harness.Number(t, "LEDGERLAKE_TABLES", 4)) {
		table := filepath.Join(t.TempDir(), "theirs")
		harness.RunPython(t, nil, "writers.py", "random", table, fmt.Sprint(seed+i))
		ours := byID(t, "ledgerlake", readTable(t, table))
		for _, engine := range []string{"duckdb", "deltars"} {
			sameByKey(t, "ledgerlake", ours, fmt.Sprintf("%s, seed %d", engine, seed+i), byID(t, engine, foreignRows(t, engine, table)))
		}
		harness.Run(t, nil, "check", table)
	}
}

// The same for Spark: deletion vectors, both kinds of checkpoints, column mapping, row tracking, optimize, restore.
func TestPropertyWeReadSparksTables(t *testing.T) {
	harness.SparkPython(t)
	seed := seedtest.New(t)
	folder := t.TempDir()
	n := harness.Number(t, "LEDGERLAKE_TABLES", 4)
	out := harness.RunSpark(t, "spark.py", "random", folder, fmt.Sprint(seed), fmt.Sprint(n))
	rows, said := make([][]map[string]any, n), make([]string, n)
	for line := range bytes.Lines(out) {
		var a struct {
			answer
			Said string
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&a); err != nil {
			t.Fatalf("Spark printed %q: %v", line, err)
		}
		if a.Said != "" {
			said[a.Table] = a.Said
		} else {
			rows[a.Table] = append(rows[a.Table], a.Row)
		}
	}
	for i := range n {
		table := filepath.Join(folder, fmt.Sprint(i))
		sameByKey(t, "ledgerlake", byID(t, "ledgerlake", readTable(t, table)), "Spark, "+said[i], byID(t, "Spark", rows[i]))
		harness.Run(t, nil, "check", table)
		t.Logf("%d rows: %s", len(rows[i]), said[i])
	}
}

// byID is byKey for tables that may be empty.
func byID(t *testing.T, who string, rows []map[string]any) map[int64][]map[string]any {
	t.Helper()
	if len(rows) == 0 {
		return nil
	}
	return byKey(t, who, rows)
}
