package bench

import (
	"errors"
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

// A side that crawls is found, with the moment at which it began to; one that works, or has just stopped, is not.
func TestFollowerFindsAStall(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(seconds int, offsets int64) mark {
		return mark{at: begin.Add(time.Duration(seconds) * time.Second), cpu: time.Duration(seconds) * time.Millisecond, offsets: offsets}
	}
	ends := map[int32]int64{0: 5999, 1: 3999}
	for _, x := range []struct {
		name  string
		marks []mark
		now   int
		want  int // seconds of the moment; -1: none
	}{
		{"no version yet", nil, 100, -1},
		{"works", []mark{at(1, 1000), at(20, 3000), at(40, 5000)}, 60, -1},
		{"just stopped", []mark{at(1, 1000), at(20, 9000)}, 49, -1},
		{"stopped", []mark{at(1, 1000), at(20, 9000)}, 50, 20},
		{"crawls", []mark{at(1, 1000), at(20, 9000), at(26, 9001), at(32, 9002), at(50, 9009)}, 51, 20},
	} {
		f := &follower{cpu: func() time.Duration { return 0 }, marks: x.marks}
		if len(x.marks) > 0 {
			f.offsets = x.marks[len(x.marks)-1].offsets
		}
		err := f.stalled(ends, begin.Add(time.Duration(x.now)*time.Second))
		late, ok := errors.AsType[*stall](err)
		if ok != (x.want >= 0) {
			t.Errorf("%s: %v", x.name, err)
		} else if ok && (!late.until.at.Equal(begin.Add(time.Duration(x.want)*time.Second)) || late.total != 10000) {
			t.Errorf("%s: %v at %v", x.name, late, late.until)
		}
	}
}
