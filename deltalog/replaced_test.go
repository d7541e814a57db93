package deltalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
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

// A replaced version that is noticed while a commit looks for itself after an unknown outcome is said: by that commit, or, where
// it finds itself in the log and so has succeeded, by the next one. The same when the outcome is never known (I5).
func TestReplacedVersionIsSaidAfterAnUnknownOutcome(t *testing.T) {
	for _, landed := range []bool{true, false} {
		store := mem.New()
		l := mustCreate(t, store, Config{RetryBase: time.Microsecond, RetryMax: time.Millisecond})
		v := mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
		mustSnapshot(t, l)
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op != mem.OpPutIfAbsent || c.Key != commitName(v+1) {
				return mem.Fault{}
			}
			store.SetHook(nil)
			put(t, store, commitName(v), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`+"\n"+addLine("theirs")))
			lost := fmt.Errorf("lost: %w", objstore.ErrUnknownOutcome)
			if landed {
				return mem.Fault{After: lost}
			}
			return mem.Fault{Before: lost}
		})
		var replaced *ReplacedError
		got, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("next")}})
		if landed {
			if err != nil || got != v+1 {
				t.Fatalf("the commit that is in the log: version %d, %v", got, err)
			}
			got, err = l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("after")}})
		}
		if !errors.As(err, &replaced) || replaced.Version != v || replaced.By != "Careless/1.0" {
			t.Fatalf("landed %v: version %d, %v; want to be told that version %d was replaced", landed, got, err, v)
		}
		if told := errors.Is(err, objstore.ErrUnknownOutcome); told == landed {
			t.Errorf("landed %v: %v", landed, err)
		}
		mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("again")}})
	}
}

// A look at the table whose error nobody hears does not keep the next commit from saying it (I5).
func TestReplacedVersionIsSaidByTheNextCommit(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{})
	v := mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
	put(t, store, commitName(v), []byte(addLine("theirs")))
	if _, err := l.Snapshot(t.Context()); err == nil {
		t.Fatal("the look noticed nothing")
	}
	mustSnapshot(t, l)
	var replaced *ReplacedError
	if _, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("next")}}); !errors.As(err, &replaced) || replaced.Version != v {
		t.Fatal(err)
	}
	if next := mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("next")}}); next != v+1 {
		t.Errorf("version %d", next)
	}
}

// A version that is overwritten before its own writer could take it into its state, because a look at the table failed
// meanwhile or saw the other content first, is noticed as well (I5).
func TestReplacedVersionThatWasNotYetSeen(t *testing.T) {
	for _, how := range []string{"the look failed", "the look saw the other content", "the look saw the other content below a later version"} {
		store := mem.New()
		l := mustCreate(t, store, Config{})
		mustSnapshot(t, l)
		const v = 1
		other := []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}` + "\n" + addLine("theirs"))
		hooked := &afterPut{Store: store, do: func() {
			if how == "the look failed" {
				store.SetHook(func(context.Context, mem.Call) mem.Fault { return mem.Fault{Before: errors.New("503")} })
				if _, err := l.Snapshot(t.Context()); err == nil {
					t.Fatal("no fault")
				}
				store.SetHook(nil)
				put(t, store, commitName(v), other)
				return
			}
			put(t, store, commitName(v), other)
			if how != "the look saw the other content" {
				put(t, store, commitName(v+1), []byte(addLine("more")))
			}
			mustSnapshot(t, l)
		}}
		l.store = hooked
		mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
		var replaced *ReplacedError
		if _, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("next")}}); !errors.As(err, &replaced) || replaced.Version != v || replaced.By != "Careless/1.0" {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// A look that has noticed a replaced version, and could not read what replaced it, leaves a suspicion: a commit that lands
// meanwhile, and which no state can take, adds its own to it, and does not push it out (I5).
func TestReplacedVersionBelowOneThatWasNotYetSeen(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{})
	v := mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("ours")}})
	mustSnapshot(t, l)
	l.store = &afterPut{Store: store, do: func() {
		put(t, store, commitName(v), []byte(`{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Careless/1.0"}}`+"\n"+addLine("theirs")))
		gets := 0
		store.SetHook(func(_ context.Context, c mem.Call) (f mem.Fault) {
			if c.Op == mem.OpGet && c.Key == commitName(v) {
				if gets++; gets > 1 {
					f.Before = errors.New("503")
				}
			}
			return f
		})
		if _, err := l.Snapshot(t.Context()); err == nil || gets != 2 {
			t.Fatalf("the look: %v, after %d reads of the version", err, gets)
		}
		store.SetHook(nil)
	}}
	if next := mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("next")}}); next != v+1 {
		t.Fatalf("version %d", next)
	}
	var replaced *ReplacedError
	if _, err := l.Commit(t.Context(), Commit{ReadVersion: v, Adds: []Add{add("after")}}); !errors.As(err, &replaced) || replaced.Version != v || replaced.By != "Careless/1.0" {
		t.Fatalf("%v; want to be told that version %d was replaced", err, v)
	}
	if next := mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("after")}}); next != v+2 {
		t.Errorf("version %d", next)
	}
}

// afterPut does something once, between a commit and the moment in which its writer hears of it.
type afterPut struct {
	objstore.Store
	do func()
}

func (s *afterPut) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	err := s.Store.PutIfAbsent(ctx, key, data)
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return err
}
