package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// RealRegistry is a running schema registry of the Apicurio kind, by its API of Confluent's form.
type RealRegistry struct {
	URL  string
	dir  string
	port int
}

// Registry starts a real schema registry that is killed when the test ends. Tests with it run only on request: it is
// 109 MB of packages and a JVM. (LEDGERLAKE_REGISTRY would be the flag --registry.)
func Registry(t testing.TB) *RealRegistry {
	t.Helper()
	if os.Getenv("LEDGERLAKE_APICURIO") == "" {
		t.Skip("a real registry costs a JVM: run 'make registry'")
	}
	r := &RealRegistry{dir: filepath.Join(t.TempDir(), "registry"), port: FreePort(t, 0)}
	r.URL = fmt.Sprintf("http://127.0.0.1:%d/apis/ccompat/v7", r.port)
	ended := serviceEnds(t, script(t, "apicurio.sh"), "kill", r.dir)
	t.Cleanup(func() {
		defer ended()
		if out, err := exec.Command(script(t, "apicurio.sh"), "kill", r.dir).CombinedOutput(); err != nil {
			t.Errorf("end the registry: %v\n%s", err, out)
		}
	})
	r.Start(t)
	return r
}

// Start starts it again after Kill, with the schemas that it had.
func (r *RealRegistry) Start(t testing.TB) { r.run(t, "start", r.dir, strconv.Itoa(r.port)) }

// Kill ends it at once.
func (r *RealRegistry) Kill(t testing.TB) { r.run(t, "kill", r.dir) }

func (r *RealRegistry) run(t testing.TB, args ...string) {
	t.Helper()
	if _, err := command(t, nil, []string{"LEDGERLAKE_CACHE=" + cache(t)}, script(t, "apicurio.sh"), args...); err != nil {
		t.Fatal(err)
	}
}

// Pause stops it where it stands (SIGSTOP): it takes connections and answers nothing.
func (r *RealRegistry) Pause(t testing.TB) { r.signal(t, syscall.SIGSTOP) }

// Resume lets it go on.
func (r *RealRegistry) Resume(t testing.TB) { r.signal(t, syscall.SIGCONT) }

func (r *RealRegistry) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		t.Fatalf("signal the registry: %v", err)
	}
}
