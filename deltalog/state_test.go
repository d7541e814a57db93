package deltalog

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// TestStateStaysSmall replaces a table's files again and again: neither ended files nor expired tombstones may
// pile up, and snapshots from before a compaction must still be whole.
func TestStateStaysSmall(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: testSchema(), Configuration: map[string]string{"delta.deletedFileRetentionDuration": "interval 1 hours"}},
		Config{Clock: func() time.Time { return now }, CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const files = 400
	var held []*Snapshot
	for round := range 40 {
		now = now.Add(2 * time.Hour)
		snap := mustSnapshot(t, l)
		c := Commit{ReadVersion: snap.Version()}
		for a := range snap.Files() {
			c.Removes = append(c.Removes, RemoveOf(a, now.UnixMilli(), true))
		}
		for i := range files {
			c.Adds = append(c.Adds, add(fmt.Sprintf("r%d-%d", round, i)))
		}
		mustCommit(t, l, c)
		held = append(held, mustSnapshot(t, l))
	}
	if n := l.state.files.n; n > 4*1024 {
		t.Errorf("%d entries for %d files", n, files)
	}
	if n := l.state.graves.n; n > 4*1024 {
		t.Errorf("%d tombstones", n)
	}
	for round, s := range held {
		n := 0
		for a := range s.Files() {
			if want := fmt.Sprintf("r%d-", round); a.Path[:len(want)] != want {
				t.Fatalf("snapshot of round %d has %s", round, a.Path)
			}
			n++
		}
		if n != files || s.NumFiles() != files || s.SizeBytes() != files*10 {
			t.Fatalf("snapshot of round %d has %d files", round, n)
		}
	}
}
