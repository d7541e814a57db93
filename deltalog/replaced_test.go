package deltalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// One call to the store that fails while a replaced version is looked into puts the ReplacedError off, and no commit goes
// on before it was said: whichever call that is, it comes once (I5).
func TestReplacedVersionIsSaidAfterAFault(t *testing.T) {
	for fault := int64(1); ; fault++ {
		store := mem.New()
		l := mustCreate(t, store, Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond})
		v := mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
		mustSnapshot(t, l)
		put(t, store, commitName(v), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`+"\n"+addLine("theirs")))
		first, failed := store.Calls(), ""
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.N == first+fault {
				failed = fmt.Sprint(c.Op, " ", c.Key)
				return mem.Fault{Before: errors.New("503")}
			}
			return mem.Fault{}
		})
		told := 0
		for i := range 3 {
			_, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint("next", i))}})
			var replaced *ReplacedError
			if errors.As(err, &replaced) {
				told++
			} else if err == nil && told == 0 {
				t.Errorf("fault at call %d (%s): commit %d was made on what another writer put there", fault, failed, i)
			}
		}
		if told != 1 {
			t.Errorf("fault at call %d (%s): said %d times", fault, failed, told)
		}
		if failed == "" {
			if fault < 8 {
				t.Errorf("only %d calls could fail", fault-1)
			}
			return
		}
	}
}
