package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNothingOutlivesAKilledTest: what a test has started ends when its process is killed, programs and services, without any
// Cleanup. The killed one is this test in another process.
func TestNothingOutlivesAKilledTest(t *testing.T) {
	const variable = "LEDGERLAKE_TO_BE_KILLED"
	if dir := os.Getenv(variable); dir != "" {
		defer serviceEnds(t, "touch", filepath.Join(dir, "a service is ended"))()
		serviceEnds(t, "touch", filepath.Join(dir, "one that has ended"))()
		p := StartProgram(t, "bash", "-c", "exec 9>'"+filepath.Join(dir, "lock")+"'; flock 9; echo locked; exec sleep 1000")
		Eventually(t, Patience, func() error {
			if !p.Said("locked") {
				return errors.New("it does not hold the lock")
			}
			return nil
		})
		if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		t.Fatal("the program ended, and the test was not killed")
	}
	if _, err := exec.LookPath("flock"); err != nil {
		Missing(t, "flock", "install util-linux")
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+dir, "TMPDIR="+dir) // what the killed one leaves goes with the folder
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer programEnds(t, cmd.Process.Pid)()
	there := func(name string) func() error {
		return func() error {
			_, err := os.Stat(filepath.Join(dir, name))
			return err
		}
	}
	Eventually(t, Patience, there("ready"))
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	free := func() error { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if free() == nil {
		t.Fatal("the program does not hold its lock")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	Eventually(t, Patience, free)
	Eventually(t, Patience, there("a service is ended"))
	if there("one that has ended")() == nil {
		t.Error("a service that had ended was ended again")
	}
}
