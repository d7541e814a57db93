package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// replayEngine reads a table into Arrow in a process of its own, and measures from inside: the start of the
// interpreter, imports and the start of a JVM do not count.
type replayEngine struct {
	name   string
	script string
}

// replayEngines are the peers. Spark takes minutes and comes when LEDGERLAKE_SPARK is 1. Those that are not installed
// are passed over.
func replayEngines() []replayEngine {
	engines := []replayEngine{
		{"delta-rs", replayDeltaRS}, {"polars", replayPolars}, {"DuckDB", replayDuckDB},
	}
	if os.Getenv("LEDGERLAKE_SPARK") == "1" {
		engines = append(engines, replayEngine{"Spark", replaySpark})
	}
	return engines
}

// The scripts count the rows of the batches that they get, so that nothing can be left out by an optimizer. Each
// first opens what it needs; the clock runs from the open of the table to its last row in Arrow.
const (
	replayHead = `
import json, os, sys, time
path, columns = sys.argv[1], sys.argv[2].split(",") if sys.argv[2] else None
used = time.process_time
`
	replayDeltaRS = `
from deltalake import DeltaTable, QueryBuilder
wall, cpu = time.perf_counter(), used()
rows = 0
for batch in QueryBuilder().register("t", DeltaTable(path)).execute("SELECT " + (",".join(columns) if columns else "*") + " FROM t"):
    rows += batch.num_rows
`
	replayPolars = `
import polars
wall, cpu = time.perf_counter(), used()
frame = polars.scan_delta(path)
if columns:
    frame = frame.select(columns)
rows = sum(b.num_rows for b in frame.collect(engine="streaming").to_arrow().to_batches())
`
	replayDuckDB = `
import duckdb, importlib, pyarrow
c = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
package = importlib.import_module("duckdb_extension_delta")
c.execute("LOAD '%s'" % os.path.join(os.path.dirname(package.__file__), "extensions", "v" + duckdb.__version__, "delta.duckdb_extension"))
c.execute("SET enable_progress_bar = false")
wall, cpu = time.perf_counter(), used()
rows = 0
query = c.execute("SELECT " + (",".join(columns) if columns else "*") + " FROM delta_scan(?)", [path])
for batch in (query.to_arrow_reader(100000) if hasattr(query, "to_arrow_reader") else query.fetch_record_batch(100000)):
    rows += batch.num_rows
`
	// Spark gives its rows to a sink that drops them, which costs it less than Arrow would. The JVM does the work, so its
	// CPU time counts with that of Python.
	replaySpark = `
sys.path.insert(0, os.path.join("test", "services"))
from sparksession import session
spark = session()
def jvm(): # the module system of Java hides its own counter from py4j
    with open("/proc/%d/stat" % spark.sparkContext._gateway.proc.pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
used = lambda: time.process_time() + jvm()
frame = spark.read.format("delta").load(path)
rows = frame.count()
wall, cpu = time.perf_counter(), used()
frame = spark.read.format("delta").load(path)
if columns:
    frame = frame.select(*columns)
frame.write.format("noop").mode("overwrite").save()
`
	replayTail = `
print(json.dumps({"rows": rows, "seconds": time.perf_counter() - wall, "cpuSeconds": used() - cpu}))
`
)

// interpreter is the Python that has the engine.
func (e replayEngine) interpreter() (string, bool) {
	if e.name == "Spark" {
		return pythonOf("venv-spark")
	}
	return pythonOf("venv")
}

func (e replayEngine) replay(ctx context.Context, r *Report, c *replayCase, shape string, columns []string, round int) error {
	at, ok := e.interpreter()
	if !ok {
		r.missing(e.name)
		return nil
	}
	cmd := exec.CommandContext(ctx, at, "-c", replayHead+e.script+replayTail, c.path, strings.Join(columns, ","))
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		if bytes.Contains(fault.Bytes(), []byte("ModuleNotFoundError")) {
			r.missing(e.name)
			return nil
		}
		return fmt.Errorf("%s, %s: %w: %s", e.name, shape, err, bytes.TrimSpace(fault.Bytes()))
	}
	var got struct {
		Rows                int64
		Seconds, CPUSeconds float64
	}
	said := bytes.TrimSpace(out.Bytes())
	said = said[bytes.LastIndexByte(said, '\n')+1:] // an engine may have had something to say before
	if err := json.Unmarshal(said, &got); err != nil {
		return fmt.Errorf("%s, %s, said %.200q: %w", e.name, shape, out.String(), err)
	}
	if got.Rows != c.records {
		return fmt.Errorf("wrong result: %s gave %d rows of %d", e.name, got.Rows, c.records)
	}
	r.Samples = append(r.Samples, Sample{Case: e.name + ", " + shape, Round: round, Records: got.Rows, Bytes: c.bytes, Seconds: got.Seconds, CPUSeconds: got.CPUSeconds})
	return nil
}
