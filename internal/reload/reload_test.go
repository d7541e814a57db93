package reload

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A change is taken after a second; a file that is wrong or gone leaves what was.
func TestValueFollowsItsFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	write := func(s string) {
		if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loads := 0
	load := func() (string, error) {
		loads++
		raw, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(raw), "bad") {
			err = errors.New("it is bad")
		}
		return string(raw), err
	}
	synctest.Test(t, func(t *testing.T) {
		lg := slog.New(slog.DiscardHandler)
		if _, err := New(lg, load, name); err == nil {
			t.Error("the first load failed without a word")
		}
		write("one")
		v, err := New(lg, load, name)
		if err != nil {
			t.Fatal(err)
		}
		see := func(want string) {
			t.Helper()
			if got := v.Get(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			time.Sleep(every) //house:allow no-sleep: the clock is synctest's
		}
		write("two files")
		see("one") // looked at less than a second ago
		see("two files")
		write("bad one")
		see("two files")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		see("two files")
		write("three, longer")
		see("three, longer")
		n := loads
		see("three, longer")
		if loads != n {
			t.Error("loaded without a change")
		}
	})
}
