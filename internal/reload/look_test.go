package reload

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who looks is told of a new value once, and nothing is logged of it: it may still turn out not to be used. Get says it.
func TestLookSaysNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	write := func(s string) {
		if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		write("one")
		v, err := New(slog.New(slog.NewTextHandler(&log, nil)), func() (int, error) {
			raw, err := os.ReadFile(name)
			return len(raw), err
		}, name)
		if err != nil {
			t.Fatal(err)
		}
		later := func() { time.Sleep(every) } //house:allow no-sleep: the clock is synctest's
		write("four")
		later()
		if n, changed := v.Look(); n != 4 || !changed || log.Len() > 0 {
			t.Errorf("%d, changed %t, log %q", n, changed, &log)
		}
		later()
		if n, changed := v.Look(); n != 4 || changed {
			t.Errorf("again: %d, changed %t", n, changed)
		}
		write("seven..")
		later()
		if n := v.Get(); n != 7 || !strings.Contains(log.String(), "changed files are in use") {
			t.Errorf("%d, log %q", n, &log)
		}
	})
}
