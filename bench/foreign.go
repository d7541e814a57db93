package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// foreignEngine lists a table's files in a process of its own.
type foreignEngine struct {
	name    string
	command func(c *logCase) (name string, args []string, ok bool)
	whole   bool // the process does nothing else: its whole CPU time counts
}

// own and ownWhole are this program: measured from inside as the others are, and as a whole with its start.
const own, ownWhole = "ledgerlake", "ledgerlake inspect"

// foreignEngines are this program itself, delta-rs and DuckDB. Those that are not there are passed over.
func foreignEngines(cfg Config) []foreignEngine {
	self := func(args ...string) func(c *logCase) (string, []string, bool) {
		return func(c *logCase) (string, []string, bool) {
			at, err := cfg.self()
			return at, append(args, c.path), err == nil && strings.Contains(filepath.Base(at), "ledgerlake")
		}
	}
	return []foreignEngine{
		{name: own, command: self("bench", "list-files")},
		{name: ownWhole, whole: true, command: self("inspect", "--json")},
		{name: "delta-rs", command: python(deltaRSScript)},
		{name: "DuckDB", command: python(duckDBScript)},
	}
}

// python runs a script with the interpreter of the repository's environment, or of LEDGERLAKE_PYTHON.
func python(script string) func(c *logCase) (string, []string, bool) {
	return func(c *logCase) (string, []string, bool) {
		at, ok := pythonOf("venv")
		return at, []string{"-c", pythonHead + script + pythonTail, c.path, c.nothing()}, ok
	}
}

// The scripts measure from inside, so that the start of the interpreter and imports do not count.
const (
	pythonHead    = "import json, os, sys, time\n"
	deltaRSScript = `
from deltalake import DeltaTable
wall, cpu = time.perf_counter(), time.process_time()
n = len(DeltaTable(sys.argv[1]).file_uris())
`
	// The condition holds in no file, so that DuckDB replays the log and opens no data file.
	duckDBScript = `
import duckdb, importlib
c = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
package = importlib.import_module("duckdb_extension_delta")
c.execute("LOAD '%s'" % os.path.join(os.path.dirname(package.__file__), "extensions", "v" + duckdb.__version__, "delta.duckdb_extension"))
wall, cpu = time.perf_counter(), time.process_time()
n = c.execute("SELECT count(*) FROM delta_scan(?) WHERE " + sys.argv[2], [sys.argv[1]]).fetchone()[0]
`
	pythonTail = `
print(json.dumps({"files": n, "seconds": time.perf_counter() - wall, "cpuSeconds": time.process_time() - cpu}))
`
)

func (e foreignEngine) run(ctx context.Context, r *Report, c *logCase, round int) error {
	name, args, ok := e.command(c)
	if !ok {
		r.missing(e.name)
		return nil
	}
	cmd := exec.CommandContext(ctx, name, args...)
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", e.name, err)
	}
	peak, stop := watchProcess(cmd.Process.Pid)
	err := cmd.Wait()
	stop()
	if err != nil {
		return fmt.Errorf("%s on %q: %w: %s", e.name, c.name, err, bytes.TrimSpace(fault.Bytes()))
	}
	var got struct {
		Files               int
		Seconds, CPUSeconds float64
	}
	said := bytes.TrimSpace(out.Bytes())
	said = said[bytes.LastIndexByte(said, '\n')+1:] // an engine may have had something to say before
	if err := json.Unmarshal(said, &got); err != nil {
		return fmt.Errorf("%s on %q said %.200q: %w", e.name, c.name, out.String(), err)
	}
	s := Sample{Case: e.name + " process, " + c.name, Round: round, Records: int64(c.adds), Bytes: c.bytes, Seconds: got.Seconds, CPUSeconds: got.CPUSeconds}
	if e.whole {
		s.Seconds, s.CPUSeconds = time.Since(begin).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	s.MaxMB = float64(peak.Load()) * 1024 / 1e6
	if e.name != "DuckDB" && got.Files != c.adds {
		return fmt.Errorf("wrong result: %s found %d files, want %d", e.name, got.Files, c.adds)
	}
	r.Samples = append(r.Samples, s)
	return nil
}

// watchProcess looks at the most memory (kB) that a process had so far, until it is stopped. What the system says
// about a child after its end is no use: it counts the parent's memory at the fork.
func watchProcess(pid int) (*atomic.Int64, func()) {
	peak := new(atomic.Int64)
	return peak, sampled(2*time.Millisecond, func() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return
		}
		for line := range strings.Lines(string(b)) {
			if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if kb, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64); err == nil {
					peak.Store(kb)
				}
			}
		}
	})
}
