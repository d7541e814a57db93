package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

func TestFollowerSeesEachOffsetOnce(t *testing.T) {
	dir := t.TempDir()
	commit := func(v deltalog.Version, text string) {
		t.Helper()
		name := filepath.Join(dir, deltalog.CommitKey(v))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := newFollower(dir)
	var seen []int64
	f.advance = func(p int32, from, to int64, _ time.Time) { seen = append(seen, int64(p), from, to) }
	look := func() {
		t.Helper()
		if err := f.look(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	commit(1, `{"txn":{"appId":"bench-0","version":4}}`+"\n"+`{"add":{"path":"a","size":10}}`+"\n")
	look()
	if ends := map[int32]int64{0: 4, 1: 0}; f.reached(ends) {
		t.Errorf("partition 1 is missing, and %v is taken for reached", ends)
	}
	// Positions that did not move, and those of others, are in commits too.
	commit(2, `{"txn":{"appId":"bench-0","version":4}}`+"\n"+`{"txn":{"appId":"other-1","version":9}}`+"\n")
	commit(3, `{"txn":{"appId":"bench-0","version":9}}`+"\n"+`{"txn":{"appId":"bench-1","version":0}}`+"\n"+`{"add":{"path":"b","size":5}}`+"\n")
	look()
	if want := []int64{0, 0, 4, 0, 5, 9, 1, 0, 0}; !slices.Equal(seen, want) {
		t.Errorf("partition, from, to: %v, want %v", seen, want)
	}
	if !f.reached(map[int32]int64{0: 9, 1: 0}) || f.reached(map[int32]int64{0: 10}) {
		t.Errorf("stands at %v", f.at)
	}
	if f.versions != 3 || f.files != 2 || f.bytes != 15 {
		t.Errorf("%d versions, %d files, %d bytes", f.versions, f.files, f.bytes)
	}
	commit(4, "{torn")
	if err := f.look(); err == nil {
		t.Error("a torn version is taken for one")
	}
}
