package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// reaper is a shell beside the test process that outlives it, and then ends what that has left: a test that is killed runs no
// Cleanup. It knows of the end by the pipe between, of which this process alone has the end that writes.
var reaper struct {
	mu  sync.Mutex
	in  *os.File // nil: not started
	key int      // of the last one
}

// programEnds has the program pid end with this process. ended says that it was waited for.
func programEnds(t testing.TB, pid int) (ended func()) {
	t.Helper()
	return tellReaper(t, "pid", fmt.Sprint(pid))
}

// serviceEnds has a command end a service when this process is gone; it must do no harm where the service has ended. It is
// called before the service is started. ended says that it was ended here.
func serviceEnds(t testing.TB, command ...string) (ended func()) {
	t.Helper()
	return tellReaper(t, append([]string{"run"}, command...)...)
}

func tellReaper(t testing.TB, what ...string) (ended func()) {
	t.Helper()
	ended, err := askReaper(script(t, "reaper.sh"), what...)
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// askReaper is tellReaper for any goroutine.
func askReaper(script string, what ...string) (ended func(), err error) {
	r := &reaper
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		in, err := startReaper(script)
		if err != nil {
			return nil, fmt.Errorf("start what ends services when the test is killed: %w", err)
		}
		r.in = in
	}
	r.key++
	key := fmt.Sprint(r.key)
	tell := func(words ...string) error {
		_, err := r.in.WriteString(strings.Join(words, "\t") + "\n")
		return err
	}
	if err := tell(append([]string{what[0], key}, what[1:]...)...); err != nil {
		return nil, fmt.Errorf("tell what ends services when the test is killed: %w", err)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = tell("end", key) // without it, that is ended which has ended
	}, nil
}

// startReaper keeps none of the test's own outputs open, for which `go test` would wait.
func startReaper(script string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(script)
	cmd.Stdin, cmd.SysProcAttr = r, &syscall.SysProcAttr{Setsid: true} // signals to the test's group are not for it
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, cmd.Process.Release()
}
