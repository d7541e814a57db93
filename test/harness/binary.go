package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Top is the top folder of the repository: the first with a go.mod, upwards from the test's folder.
func Top(t testing.TB) string {
	t.Helper()
	top, err := findTop()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

var findTop = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the test's folder")
		}
		dir = up
	}
})

// built is the folder of the binary; Main removes it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs a package's tests and cleans up: call it from TestMain with the package's m.
func Main(m *testing.M) {
	code := m.Run()
	spark.end()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, "remove the built binary:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Binary builds cmd/ledgerlake, once, and gives its path. LEDGERLAKE_BINARY names one to test instead.
func Binary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("LEDGERLAKE_BINARY"); given != "" {
		return given
	}
	top := Top(t)
	built.once.Do(func() {
		built.dir, built.err = os.MkdirTemp("", "ledgerlake-test-")
		if built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.dir, "ledgerlake"), "./cmd/ledgerlake")
		cmd.Dir = top
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build cmd/ledgerlake: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "ledgerlake")
}
