package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits at least for what must come. It costs nothing where all is well, and machines are
// ten times slower at times: nothing here says how fast something is to be.
const Patience = 5 * time.Minute

// lastWords is how long what a program wrote may take to be read when it has ended: else what it started holds its outputs.
const lastWords = 30 * time.Second

// RunTimeout is how long a command that ends by itself may take.
const RunTimeout = Patience

// Run runs ledgerlake with args and gives its standard output. The test ends when the command fails.
func Run(t testing.TB, stdin io.Reader, args ...string) []byte {
	t.Helper()
	out, err := TryRun(t, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryRun is Run for commands that may fail: the error holds what the command said.
func TryRun(t testing.TB, stdin io.Reader, args ...string) ([]byte, error) {
	t.Helper()
	return command(t, stdin, nil, Binary(t), args...)
}

// Rows runs the command and gives the rows that it prints as NDJSON, one at a time. Its exit status must be
// 0; the test fails otherwise.
func Rows(t testing.TB, args ...string) iter.Seq[map[string]any] {
	t.Helper()
	return func(yield func(map[string]any) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*RunTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, Binary(t), args...)
		var complaints bytes.Buffer
		cmd.Stderr, cmd.WaitDelay = &complaints, lastWords
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer programEnds(t, cmd.Process.Pid)()
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			row, err := DecodeRow(lines.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if !yield(row) {
				return
			}
		}
		if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, tail(complaints.Bytes(), 4000))
		}
	}
}

// Result is all that a command showed of itself.
type Result struct {
	Stdout, Stderr []byte
	Err            error // nil when its exit status is 0
}

// RunBoth is TryRun with both outputs.
func RunBoth(t testing.TB, stdin io.Reader, args ...string) Result {
	t.Helper()
	return execute(t, stdin, nil, Binary(t), args...)
}

func command(t testing.TB, stdin io.Reader, env []string, name string, args ...string) ([]byte, error) {
	t.Helper()
	return commandWithin(t, RunTimeout, stdin, env, name, args...)
}

func commandWithin(t testing.TB, limit time.Duration, stdin io.Reader, env []string, name string, args ...string) ([]byte, error) {
	t.Helper()
	r := executeWithin(t, limit, stdin, env, name, args...)
	if r.Err != nil {
		return r.Stdout, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), r.Err, tail(r.Stderr, 4000))
	}
	return r.Stdout, nil
}

func execute(t testing.TB, stdin io.Reader, env []string, name string, args ...string) Result {
	t.Helper()
	return executeWithin(t, RunTimeout, stdin, env, name, args...)
}

func executeWithin(t testing.TB, limit time.Duration, stdin io.Reader, env []string, name string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = lastWords
	err := RunCommand(t, cmd)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("not done within %s: %w", limit, err)
	}
	return Result{stdout.Bytes(), stderr.Bytes(), err}
}

// RunCommand is cmd.Run of a program that is not to outlive the test, however that ends.
func RunCommand(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer programEnds(t, cmd.Process.Pid)()
	return cmd.Wait()
}

// StartCommand is cmd.Start of one. The caller waits for it, and says so by ended.
func StartCommand(t testing.TB, cmd *exec.Cmd) (ended func()) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return programEnds(t, cmd.Process.Pid)
}

func tail(b []byte, n int) []byte {
	return b[max(0, len(b)-n):]
}

// Process is a started command.
type Process struct {
	cmd  *exec.Cmd
	log  string        // file of its standard output and error
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read it after done
}

// Start starts ledgerlake with args. It is killed when the test ends, if it still runs then; its log is
// shown when the test has failed.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartProgram(t, Binary(t), args...)
}

// StartProgram is Start for another program.
func StartProgram(t testing.TB, program string, args ...string) *Process {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), filepath.Base(args[0])+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: exec.Command(program, args...), log: f.Name(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if err := errors.Join(p.cmd.Start(), f.Close()); err != nil {
		t.Fatalf("start %s %s: %v", filepath.Base(program), args[0], err)
	}
	ended := programEnds(t, p.cmd.Process.Pid)
	go func() {
		p.err = p.cmd.Wait()
		ended()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s %s:\n%s", filepath.Base(program), strings.Join(args, " "), p.Log())
		}
	})
	return p
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// LogFile holds all that it has written so far.
func (p *Process) LogFile() string { return p.log }

// Log is the end of what it wrote.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(tail(b, 6000))
}

// Said says whether it has written a text, however long ago.
func (p *Process) Said(text string) bool {
	b, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(b, []byte(text))
}

// Kill ends it at once, as a crash does (SIGKILL), and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended already
	<-p.done
}

// Pause stops it where it stands (SIGSTOP): it does not know that time goes on.
func (p *Process) Pause(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Process) Resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }

// Hangup asks it to look at its files, where it knows that signal.
func (p *Process) Hangup(t testing.TB) { p.signal(t, syscall.SIGHUP) }

func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal: %v", err)
	}
}

// Stop asks for an orderly end (SIGTERM); the test fails when that takes long or ends badly.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal: %v", err)
	}
	p.Wait(t, Patience)
}

// Wait waits for a good end.
func (p *Process) Wait(t testing.TB, limit time.Duration) {
	t.Helper()
	select {
	case <-p.done:
		if p.err != nil {
			t.Fatalf("the process ended badly: %v\n%s", p.err, p.Log())
		}
	case <-time.After(limit):
		t.Fatalf("the process did not end within %s\n%s", limit, p.Log())
	}
}

// Server is a running `ledgerlake serve`.
type Server struct {
	*Process
	Dir    string // its directory
	Addr   string // its Kafka address
	HTTP   string // its HTTP address
	Flight string // its Arrow Flight address, if it was asked for
}

// Serve starts `ledgerlake serve` in dir at addr ("" takes a free port) and waits until clients can connect.
func Serve(t testing.TB, dir, addr string, args ...string) *Server {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ready := filepath.Join(dir, "ready.json")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.RemoveAll(ready)); err != nil {
		t.Fatal(err)
	}
	p := Start(t, append([]string{"serve", "--dir", dir, "--kafka-listen", addr, "--http-listen", "127.0.0.1:0", "--ready-file", ready}, args...)...)
	s := &Server{Process: p, Dir: dir}
	deadline := time.Now().Add(Patience)
	for time.Now().Before(deadline) {
		select {
		case <-p.done:
			t.Fatalf("serve ended before it was ready: %v\n%s", p.err, p.Log())
		default:
		}
		var info struct {
			Kafka, HTTP, Flight string
			PID                 int
		}
		raw, err := os.ReadFile(ready)
		if err == nil && json.Unmarshal(raw, &info) == nil && info.Kafka != "" {
			if info.PID != p.cmd.Process.Pid {
				t.Fatalf("the ready file names process %d, started was %d", info.PID, p.cmd.Process.Pid)
			}
			s.Addr, s.HTTP, s.Flight = info.Kafka, info.HTTP, info.Flight
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("serve was not ready within %s\n%s", Patience, p.Log())
	return nil
}

// Table is where the table of a topic lies.
func (s *Server) Table(topic string) string { return filepath.Join(s.Dir, "lake", topic) }

// Eventually calls ok until it gives nil; the test fails with its last error after limit, or Patience if that is longer.
func Eventually(t testing.TB, limit time.Duration, ok func() error) {
	t.Helper()
	limit = max(limit, Patience)
	deadline := time.Now().Add(limit)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
