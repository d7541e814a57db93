package stores

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// row is what a writer appended.
type row struct{ w, n int }

// told is what the writers said of their rows.
type told struct {
	mu      sync.Mutex
	acked   map[row]int64 // the version; -1 when the engine does not say it
	unknown map[row]bool
}

func newTold() *told { return &told{acked: map[row]int64{}, unknown: map[row]bool{}} }

func (d *told) line(text string) error {
	f := strings.Fields(text)
	var r row
	version := int64(-1)
	if len(f) < 3 {
		return fmt.Errorf("a writer said %q", text)
	}
	if _, err := fmt.Sscan(f[1]+" "+f[2], &r.w, &r.n); err != nil {
		return fmt.Errorf("a writer said %q: %w", text, err)
	}
	if len(f) > 3 {
		if _, err := fmt.Sscan(f[3], &version); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f[0] == "unknown" {
		d.unknown[r] = true
	} else {
		d.acked[r] = version
	}
	return nil
}

// writer is a process that appends.
type writer struct {
	name  string
	cmd   *exec.Cmd
	ready chan struct{} // closed when it is about to append, or has ended
	begin io.Closer     // its input: it appends when that is closed
	done  chan error
}

func start(t *testing.T, d *told, name string, cmd *exec.Cmd) *writer {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	ended := harness.StartCommand(t, cmd)
	w := &writer{name: name, cmd: cmd, ready: make(chan struct{}), begin: in, done: make(chan error, 1)}
	go func() {
		var errs []error
		ready := sync.OnceFunc(func() { close(w.ready) })
		defer ready()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				ready()
			}
			if strings.HasPrefix(lines.Text(), "ack ") || strings.HasPrefix(lines.Text(), "unknown ") {
				errs = append(errs, d.line(lines.Text()))
			}
		}
		err := cmd.Wait()
		ended()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", name, err, complaints.String()))
		}
		w.done <- errors.Join(errs...)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return w
}

// together lets writers begin when all of them are ready, and waits for their ends.
func together(t *testing.T, writers ...*writer) {
	t.Helper()
	for _, w := range writers {
		<-w.ready
	}
	for _, w := range writers {
		if err := w.begin.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, w := range writers {
		w.wait(t)
	}
}

func (w *writer) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Minute):
		t.Fatalf("%s does not end", w.name)
	}
}

func startOurs(t *testing.T, d *told, a appender) *writer {
	t.Helper()
	job, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), appenderEnv+"="+string(job))
	return start(t, d, fmt.Sprint("our writer ", a.Writer), cmd)
}

func startRival(t *testing.T, d *told, python, url string, w, from, to int) *writer {
	t.Helper()
	cmd := exec.Command(python, "rival.py", "append", url, fmt.Sprint(w), fmt.Sprint(from), fmt.Sprint(to))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return start(t, d, fmt.Sprint("delta-rs ", w), cmd)
}

// rivalRows reads tables with delta-rs.
func rivalRows(t *testing.T, python string, urls ...string) map[string][]row {
	t.Helper()
	return readRows(t, exec.Command(python, append([]string{"rival.py", "rows"}, urls...)...))
}

// readRows runs a reader that prints "URL W N" for each row.
func readRows(t *testing.T, cmd *exec.Cmd) map[string][]row {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := harness.RunCommand(t, cmd); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, complaints.String())
	}
	found := map[string][]row{}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var url string
		var r row
		if _, err := fmt.Sscan(lines.Text(), &url, &r.w, &r.n); err != nil {
			t.Fatalf("%s said %q", cmd, lines.Text())
		}
		found[url] = append(found[url], r)
	}
	return found
}

// check compares what an engine reads with what the writers were told.
func (d *told) check(t *testing.T, engine string, rows []row) {
	t.Helper()
	seen := map[row]int{}
	for _, r := range rows {
		if seen[r]++; seen[r] > 1 {
			t.Errorf("%s: row %v stands %d times in the table", engine, r, seen[r])
		}
		if _, ok := d.acked[r]; !ok && !d.unknown[r] {
			t.Errorf("%s: row %v was never written", engine, r)
		}
	}
	for r := range d.acked {
		if seen[r] == 0 {
			t.Errorf("%s: row %v was acknowledged, and is lost", engine, r)
		}
	}
}

// checkLog reads each version as it lies in the store: ours hold what they were acknowledged as (I5).
func (d *told) checkLog(t *testing.T, store objstore.Store) {
	t.Helper()
	where := map[string]int64{} // data file -> version
	for v := int64(0); ; v++ {
		b, err := store.Get(t.Context(), fmt.Sprintf("_delta_log/%020d.json", v))
		if errors.Is(err, objstore.ErrNotFound) {
			if int(v) < len(d.acked) {
				t.Errorf("the log ends at version %d, with %d commits acknowledged", v-1, len(d.acked))
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var a struct {
				Add *struct{ Path string }
			}
			if err := json.Unmarshal(line, &a); err != nil {
				t.Fatalf("version %d: %v", v, err)
			}
			if a.Add != nil {
				if first, twice := where[a.Add.Path]; twice {
					t.Errorf("%s is added by versions %d and %d", a.Add.Path, first, v)
				}
				where[a.Add.Path] = v
			}
		}
	}
	for r, v := range d.acked {
		if got, ok := where[dataName(r.w, r.n)]; v >= 0 && (!ok || got != v) {
			t.Errorf("row %v was acknowledged as version %d, and is in %d (%v)", r, v, got, ok)
		}
	}
}

// race runs eight of our processes, and those of others, on a table, and checks it by the log and by delta-rs.
func race(t *testing.T, python, url string, rivals int) {
	t.Helper()
	const ours, faults = 8, 30
	seed := seedtest.New(t)
	each := harness.Number(t, "LEDGERLAKE_COMMITS", 10)
	store := createTable(t, url)
	d := newTold()
	var writers []*writer
	for w := range ours {
		writers = append(writers, startOurs(t, d, appender{URL: url, Writer: w, From: 0, To: each, Seed: seed, Faults: faults}))
	}
	for w := range rivals {
		writers = append(writers, startRival(t, d, python, url, 100+w, 0, each))
	}
	together(t, writers...)
	if len(d.acked) < ours*each/2 {
		t.Errorf("only %d of %d commits were acknowledged", len(d.acked), (ours+rivals)*each)
	}
	t.Logf("%d acknowledged, %d of unknown outcome", len(d.acked), len(d.unknown))
	d.checkLog(t, store)
	d.check(t, "delta-rs", rivalRows(t, python, url)[url])
}

func TestEightAndDeltaRSOnLocalDisk(t *testing.T) {
	race(t, harness.Python(t), t.TempDir()+"/table", 1)
}

func TestEightAndDeltaRSOnS3(t *testing.T) {
	python, s3 := harness.Python(t), harness.S3(t)
	race(t, python, "s3://"+s3.Bucket+"/table", 1)
}

// The lock table of Spark and of delta-rs up to 0.25.
func TestEightAndDeltaRSWithLockTable(t *testing.T) {
	python, s3 := harness.DynamoPython(t), harness.S3(t)
	lockTable(t)
	race(t, python, "s3://"+s3.Bucket+"/table", 1)
}

// lockTable chooses a fresh lock table for us and for delta-rs.
func lockTable(t *testing.T) {
	t.Helper()
	harness.DynamoDB(t)
	t.Setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
	t.Setenv("DELTA_DYNAMO_TABLE_NAME", "delta_log")
}
