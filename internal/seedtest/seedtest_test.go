package seedtest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// environ sets all that seeds depend on.
func environ(t *testing.T, ci, seed, seeds string) {
	t.Helper()
	t.Setenv("CI", ci)
	t.Setenv("LEDGERLAKE_SEED", seed)
	t.Setenv("LEDGERLAKE_SEEDS", seeds)
}

// The gate has one seed a test in all of its runs, and everybody else new ones.
func TestNew(t *testing.T) {
	environ(t, "true", "", "")
	a, b := New(t), uint64(0)
	t.Run("another", func(t *testing.T) { b = New(t) })
	if again := New(t); again != a || a == b || a != 3948217302 {
		t.Errorf("in CI: %d, then %d, and %d for another test", a, again, b)
	}
	environ(t, "", "", "")
	if a, b, c := New(t), New(t), New(t); a == b && b == c || max(a, b, c) >= 1<<32 {
		t.Errorf("by hand: %d, %d and %d", a, b, c)
	}
	for _, ci := range []string{"true", ""} {
		environ(t, ci, " 18446744073709551615\n", "")
		if got := New(t); got != 1<<64-1 {
			t.Errorf("CI=%q, a seed that was asked for: %d", ci, got)
		}
	}
}

func TestEach(t *testing.T) {
	for _, c := range []struct {
		ci, seed, seeds string
		first           uint64 // 0: any
		n               int
	}{
		{"true", "", "", 0, 5}, {"", "", "", 0, 5}, {"", "", "7", 0, 7}, {"", "40", "", 40, 1}, {"true", "40", "3", 40, 3},
	} {
		environ(t, c.ci, c.seed, c.seeds)
		var got []uint64
		Each(t, 5, func(_ *testing.T, seed uint64) { got = append(got, seed) })
		if len(got) != c.n || c.first > 0 && got[0] != c.first {
			t.Fatalf("%+v: %d", c, got)
		}
		for i, seed := range got {
			if seed != got[0]+uint64(i) {
				t.Fatalf("%+v: %d", c, got)
			}
		}
	}
}

// TestFails is the test that fails for some seeds; TestRepeat runs it.
func TestFails(t *testing.T) {
	if os.Getenv("SEEDTEST_FAILS") == "" {
		t.Skip("TestRepeat runs it")
	}
	t.Run("a (b)", func(t *testing.T) {
		Each(t, 100, func(t *testing.T, seed uint64) {
			if seed%10 == 3 {
				t.Error("as it has to")
			}
		})
	})
}

// What a failure prints is a command that repeats it; a number that is none is refused.
func TestRepeat(t *testing.T) {
	run := func(env string, args ...string) (string, error) {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(slices.Clone(os.Environ()), "SEEDTEST_FAILS=1", "CI=", "LEDGERLAKE_SEEDS=", env)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("LEDGERLAKE_SEED=", "-test.run=^TestFails$")
	said := out[strings.LastIndex(out, "LEDGERLAKE_SEED="):]
	var env, pattern string
	if n, _ := fmt.Sscanf(said, "%s go test -run %s", &env, &pattern); err == nil || n != 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = run(env, "-test.run="+strings.Trim(pattern, "'"))
	if seed := strings.TrimPrefix(env, "LEDGERLAKE_SEED="); err == nil || strings.Count(out, "seed="+seed+" ") != 1 || strings.Count(out, "--- FAIL") != 3 {
		t.Errorf("%s %s: %v\n%s", env, pattern, err, out)
	}
	if out, err := run("LEDGERLAKE_SEED=many", "-test.run=^TestFails$"); err == nil || !strings.Contains(out, "LEDGERLAKE_SEED: ") {
		t.Errorf("a seed that is no number: %v\n%s", err, out)
	}
}
