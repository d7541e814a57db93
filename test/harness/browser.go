package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Browser skips without Chromium and its driver. Browser tests run only on request, as CI machines have no
// browser.
func Browser(t testing.TB) (modules string) {
	t.Helper()
	if os.Getenv("LEDGERLAKE_PAGE") == "" {
		t.Skip("needs a browser: run 'make e2e-page'")
	}
	found, _ := filepath.Glob(filepath.Join(cache(t), "npm", "playwright-*", "installed"))
	if len(found) == 0 {
		Missing(t, "the browser's driver", "run 'test/services/browser.sh prepare'")
	}
	if _, err := exec.LookPath("node"); err != nil {
		Missing(t, "Node.js", "install it")
	}
	return filepath.Join(filepath.Dir(found[len(found)-1]), "node_modules")
}

// RunBrowser runs a script that drives the browser.
func RunBrowser(t testing.TB, file string, args ...string) []byte {
	t.Helper()
	out, err := command(t, nil, []string{"NODE_PATH=" + Browser(t)}, "node", append([]string{file}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
