package raft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	hraft "github.com/hashicorp/raft"

	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// A node with an older program than the leader's, as in a rolling upgrade: it stops at the first entry that it does not know,
// says so once, and decides nothing more, though later entries could be read (I5). A newer program goes on from the snapshot
// and the log that it kept.
func TestEntriesOfANewerProgram(t *testing.T) {
	open := func(table string) []byte { return fsm.Encode(&fsm.Open{Table: table, Replace: -1}) }
	newer := open("newer")
	newer[0] = 100 // a format to come
	kind := open("kind")
	kind[1] = 100 // a command to come
	for name, entry := range map[string][]byte{"format": newer, "command": kind, "nothing": nil} {
		var told []error
		r := &replica{state: fsm.New(), onBad: func(err error) { told = append(told, err) }}
		apply := func(i uint64, b []byte) fsm.Result { return r.Apply(&hraft.Log{Index: i, Data: b}).(fsm.Result) }
		if res := apply(1, open("before")); !res.Applied {
			t.Fatal(res)
		}
		before := r.state.Snapshot()
		for i, b := range [][]byte{entry, open("after"), entry} {
			if res := apply(uint64(i)+2, b); res.Applied || res.Text == "" {
				t.Errorf("%s: entry %d: %+v", name, i+2, res)
			}
		}
		if !bytes.Equal(before, r.state.Snapshot()) {
			t.Errorf("%s: the state changed behind an entry that cannot be read", name)
		}
		if len(told) != 1 || !errors.Is(told[0], fsm.ErrCorrupt) || !strings.Contains(told[0].Error(), "entry 2") || !strings.Contains(told[0].Error(), "upgrade this node") {
			t.Errorf("%s: told %v", name, told)
		}
		if _, err := r.Snapshot(); err == nil {
			t.Errorf("%s: a snapshot of a state that is behind its log", name)
		}
		if err := r.failed(); err == nil {
			t.Errorf("%s: it could lead", name)
		}
	}
}

// A snapshot of a newer program is refused whole; one that can be read sets a stopped node going again.
func TestSnapshotsOfANewerProgram(t *testing.T) {
	state := fsm.New()
	state.Apply(&fsm.Open{Table: "t", Replace: -1})
	image := state.Snapshot()
	r := &replica{state: fsm.New()}
	r.Apply(&hraft.Log{Index: 1, Data: []byte{100, 1}})
	newer := append([]byte{image[0] + 1}, image[1:]...)
	if err := r.Restore(io.NopCloser(bytes.NewReader(newer))); !errors.Is(err, fsm.ErrCorrupt) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("a newer one = %v", err)
	}
	if r.failed() == nil || len(r.state.Tables()) != 0 {
		t.Error("a refused snapshot changed the node")
	}
	if err := r.Restore(io.NopCloser(bytes.NewReader(image))); err != nil || r.failed() != nil || r.state.Table("t") == nil {
		t.Errorf("one of this program = %v, %v", err, r.failed())
	}
}

// A leader that is closed while entries are committed and not yet applied: the raft library never answers those. The node
// ends all the same, and whoever waits is told that the outcome is open.
func TestCloseBeforeEntriesAreApplied(t *testing.T) {
	n, err := Open(t.Context(), Config{ID: "a", Dir: t.TempDir(), Listen: "127.0.0.1:0", Members: []Member{{ID: "a", Addr: "127.0.0.1:0"}},
		OpenStore: func(context.Context, string) (objstore.Store, error) { return mem.New(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return n.leading() != nil })
	term := n.leading()
	n.replica.mu.Lock() // entries are committed from here on, and not applied
	var futures []future
	for i := range 20 { // in batches of their own: the library takes up or forgets each
		before := n.raft.AppliedIndex() // which counts what the library has queued for the state machine
		futures = append(futures, term.apply(&fsm.Open{Table: fmt.Sprint("t", i), Replace: -1}))
		waitFor(t, func() bool { return n.raft.AppliedIndex() > before })
	}
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	waitFor(t, func() bool { return n.raft.State() == hraft.Shutdown })
	n.replica.mu.Unlock()
	told := 0
	for _, f := range futures {
		if _, err := f.wait(); err != nil {
			told++
		}
	}
	t.Logf("%d of %d entries were not answered by the library", told, len(futures))
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Millisecond):
		}
	}
}
