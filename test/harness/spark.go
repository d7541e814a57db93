package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SparkPython gives the interpreter with Spark. Spark tests run only on request: they cost minutes.
func SparkPython(t testing.TB) string {
	t.Helper()
	if os.Getenv("LEDGERLAKE_SPARK") == "" {
		t.Skip("Spark costs minutes: run 'make e2e-spark'")
	}
	dir := filepath.Join(cache(t), "venv-spark")
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		Missing(t, "Spark", "run 'test/services/spark.sh prepare'")
	}
	return filepath.Join(dir, "bin", "python")
}

// sparkLimit is how long one script may take from its turn on: the longest has eight minutes of processor time.
const sparkLimit = 12 * RunTimeout

// RunSpark runs a script of the test's folder with Spark and its Delta jars, and gives its standard output. All scripts of
// a package's tests run one after the other in one JVM, each with a session of its own.
func RunSpark(t testing.TB, file string, args ...string) []byte {
	t.Helper()
	out, err := StartSpark(t, file, args...)()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// StartSpark is RunSpark beside the test; wait gives the output, and an error when the script failed. A script that still
// runs when the test ends is killed.
func StartSpark(t testing.TB, file string, args ...string) (wait func() ([]byte, error)) {
	t.Helper()
	from := sparkPlaces{SparkPython(t), script(t, "sparkjobs.py"), cache(t), script(t, "reaper.sh")}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	job := sparkJob{Folder: folder, Script: file, Args: args, Env: map[string]string{}}
	for _, kv := range os.Environ() { // the test's own servers
		if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "AWS_") {
			job.Env[k] = v
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var out []byte
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		began := time.Now()
		out, err = spark.run(ctx, job, from)
		if err != nil {
			err = fmt.Errorf("%s %s, %s: %w", file, strings.Join(args, " "), time.Since(began).Round(time.Second), err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() ([]byte, error) {
		<-ended
		return out, err
	}
}

type sparkJob struct {
	Folder string            `json:"folder"`
	Script string            `json:"script"`
	Args   []string          `json:"args"`
	Env    map[string]string `json:"env"`
}

// sparkPlaces is where all is that the process needs.
type sparkPlaces struct{ python, jobs, cached, reaper string }

// spark is the process of sparkjobs.py. Main ends it.
var spark = sparkProcess{turn: make(chan struct{}, 1)}

type sparkProcess struct {
	turn    chan struct{} // full while a job runs, which then has what follows
	cmd     *exec.Cmd     // nil while there is no process
	ended   func()        // tells the reaper
	in      io.WriteCloser
	answers *bufio.Reader
	folder  string // of its temporary files and its log
}

func (p *sparkProcess) start(from sparkPlaces) (err error) {
	if p.folder, err = os.MkdirTemp("", "ledgerlake-spark-"); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(from.python, from.jobs)
	cmd.Env = append(os.Environ(), "LEDGERLAKE_CACHE="+from.cached, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+filepath.Dir(from.jobs), "TMPDIR="+p.folder)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if p.ended, err = askReaper(from.reaper, "pid", fmt.Sprint(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	p.cmd, p.answers = cmd, bufio.NewReader(out)
	return nil
}

// run starts the process where there is none. A process that was cut off, or that fails by itself, is ended; the next job gets
// a new one. Its limit begins with its turn.
func (p *sparkProcess) run(ctx context.Context, job sparkJob, from sparkPlaces) ([]byte, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, sparkLimit)
	defer cancel()
	if p.cmd == nil {
		if err := p.start(from); err != nil {
			return nil, err
		}
	}
	running := p.cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = running.Kill() })
	var answer struct{ Out, Error string }
	line, err := json.Marshal(job)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err == nil {
		if line, err = p.answers.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &answer)
		}
	}
	said, _ := os.ReadFile(filepath.Join(p.folder, "log"))
	if !stop() || err != nil {
		p.endNow()
		return nil, fmt.Errorf("%w\n%s", errors.Join(ctx.Err(), err), tail(said, 4000))
	}
	if answer.Error != "" {
		return []byte(answer.Out), fmt.Errorf("%s\n%s", answer.Error, tail(said, 2000))
	}
	return []byte(answer.Out), nil
}

func (p *sparkProcess) end() {
	p.turn <- struct{}{}
	p.endNow()
	<-p.turn
}

// endNow lets the process end by itself, which takes its JVM along, or kills it. The turn is the caller's.
func (p *sparkProcess) endNow() {
	if p.cmd == nil {
		return
	}
	_ = p.in.Close()
	cut := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	cut.Stop()
	p.ended()
	_ = os.RemoveAll(p.folder)
	p.cmd = nil
}
