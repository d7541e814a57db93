package raft

import (
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Replaced versions that are noticed before a writer acknowledges the first are told after it, each once, in the order in which
// they were noticed (I5).
func TestEachReplacedVersionIsTold(t *testing.T) {
	r := &runner{}
	note := func(v deltalog.Version, by string) { r.noteReplaced(&deltalog.ReplacedError{Version: v, By: by}) }
	note(3, "a")
	told := rpc.ToldNothing
	next := func(want string) {
		t.Helper()
		x, got := r.telling(told), "none"
		if x != nil {
			told, got = x.ID, fmt.Sprint(x.Version, x.By)
		}
		if got != want {
			t.Fatalf("told of %s, want %s", got, want)
		}
	}
	next("3a")
	note(5, "b")
	note(3, "a") // the machine notices what the log told already
	note(5, "c")
	if x := r.telling(rpc.ToldNothing); x == nil || x.Version != 3 {
		t.Fatalf("another writer is told of %+v", x)
	}
	next("5b")
	next("5c")
	next("none")
	note(6, "")
	next("6")
	next("none")

	for v := range deltalog.Version(10 * maxReplaced) {
		note(v, "")
	}
	if n := len(r.replaced); n != maxReplaced || r.replaced[n-1].Version != 10*maxReplaced-1 {
		t.Fatalf("%d versions wait, the last is %d", n, r.replaced[n-1].Version)
	}
	for v := range maxReplaced { // a writer that cannot acknowledge is told once of each
		if x := r.telling(""); x == nil || x.Version != int64(9*maxReplaced+v) {
			t.Fatalf("told %+v", x)
		}
	}
	if x := r.telling(""); x != nil {
		t.Fatalf("told %+v", x)
	}
}
