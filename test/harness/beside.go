package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// StartPython runs a script of the test's folder beside the test; wait gives its standard output, and an error with what
// it complained about when it failed. It is killed when the test ends.
func StartPython(t testing.TB, file string, args ...string) (wait func() ([]byte, error)) {
	t.Helper()
	return startScript(t, Python(t), nil, file, args...)
}

func startScript(t testing.TB, python string, env []string, file string, args ...string) func() ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*RunTimeout)
	cmd := exec.CommandContext(ctx, python, append([]string{file}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, lastWords
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, waited := make(chan struct{}), programEnds(t, cmd.Process.Pid)
	var failed error
	go func() {
		defer waited()
		if err := cmd.Wait(); err != nil {
			failed = fmt.Errorf("%s: %w\n%s", file, err, tail(stderr.Bytes(), 4000))
		}
		close(ended)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() ([]byte, error) {
		<-ended
		return stdout.Bytes(), failed
	}
}
