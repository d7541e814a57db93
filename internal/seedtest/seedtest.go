// Package seedtest gives random tests their seeds: the same ones in every run of the gate, new ones in every other run.
//
// A gate has to give one verdict for one commit, so with CI=true the seed of a test follows from its name alone. Seeds that
// meet something rare are looked for by everybody's own runs, and by `make seeds` for as long as one likes.
//
// A seed is printed with the command that repeats the test. The environment says otherwise:
//
//	LEDGERLAKE_SEED=n    this seed; tests of many seeds play it alone
//	LEDGERLAKE_SEEDS=n   tests of many seeds play so many, from LEDGERLAKE_SEED on where that is set
//
// All functions may be called at the same time.
package seedtest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gate goes into the seeds of CI: another number is another set of them.
const gate = 1

// New gives the seed of a test, and prints it. It is below 1<<32 unless the environment says a larger one: every language
// takes it, and numbers that are added to it do not overflow.
func New(t testing.TB) uint64 {
	t.Helper()
	seed, ok := fromEnv(t, "LEDGERLAKE_SEED")
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		h := fnv.New32a()
		fmt.Fprint(h, gate, t.Name())
		seed = uint64(h.Sum32())
	default:
		seed = uint64(rand.Uint32())
	}
	t.Log(repeat(seed, t.Name()))
	return seed
}

// Range gives the first of the seeds of a test that plays n of them, one behind the other, and how many it is to play.
func Range(t testing.TB, n int) (first uint64, seeds int) {
	t.Helper()
	if _, ok := fromEnv(t, "LEDGERLAKE_SEED"); ok {
		n = 1
	}
	if many, ok := fromEnv(t, "LEDGERLAKE_SEEDS"); ok {
		n = int(many)
	}
	return New(t), n
}

// Each plays n seeds as Range gives them, each as a subtest, and ends the test with the first that fails.
func Each(t *testing.T, n int, play func(t *testing.T, seed uint64)) {
	t.Helper()
	first, n := Range(t, n)
	for i := range uint64(n) {
		seed := first + i
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { play(t, seed) }) {
			t.Fatal(repeat(seed, t.Name()))
		}
	}
}

// repeat says how a test is run again; `make seeds` reads it.
func repeat(seed uint64, test string) string {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") // go test matches level by level
	return fmt.Sprintf("seed %d; repeat with LEDGERLAKE_SEED=%d go test -run '^%s$'", seed, seed, pattern)
}

func fromEnv(t testing.TB, name string) (n uint64, ok bool) {
	t.Helper()
	s := strings.TrimSpace(os.Getenv(name))
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}
