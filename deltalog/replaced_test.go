package deltalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// A foreign writer that overwrites a version is noticed by the next commit of whoever had read or made it, which says so
// once and is not made; the one after it builds on what is there (I5).
func TestReplacedVersion(t *testing.T) {
	for _, own := range []bool{true, false} {
		store := mem.New()
		l := mustCreate(t, store, Config{})
		writer := l
		if !own {
			other, err := Open(t.Context(), store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
			writer = other
		}
		v := mustCommit(t, writer, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
		mustSnapshot(t, l)
		put(t, store, commitName(v), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`+"\n"+addLine("theirs")))
		_, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("next")}})
		var replaced *ReplacedError
		if !errors.As(err, &replaced) || replaced.Version != v || !strings.Contains(err.Error(), "replaced by Careless/1.0") {
			t.Fatalf("own %v: %v", own, err)
		}
		if _, err := store.Get(t.Context(), commitName(v+1)); err == nil {
			t.Error("the commit was made")
		}
		if next := mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("next")}}); next != v+1 {
			t.Errorf("version %d", next)
		}
		var names []string
		for a := range mustSnapshot(t, l).Files() {
			names = append(names, a.Path)
		}
		if strings.Join(names, " ") != "theirs next" {
			t.Errorf("files %q", names)
		}
	}
}
