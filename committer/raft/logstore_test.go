package raft

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	hraft "github.com/hashicorp/raft"
)

func entries(from, to uint64, what string) (out []*hraft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, &hraft.Log{Index: i, Term: 1, Data: fmt.Appendf(nil, "%s %d", what, i)})
	}
	return out
}

func wantEntries(t *testing.T, l *logStore, from, to uint64, what string) {
	t.Helper()
	for i := from; i <= to; i++ {
		var e hraft.Log
		if err := l.GetLog(i, &e); err != nil || string(e.Data) != fmt.Sprint(what, " ", i) {
			t.Errorf("entry %d = %q, %v", i, e.Data, err)
		}
	}
}

// Entries that no majority had are removed, the rest and the vote stay, whenever the process ends (I1).
func TestLogStoreCutsItsTail(t *testing.T) {
	dir := t.TempDir()
	open := func() *logStore {
		l, err := openLogStore(dir, hclog.NewNullLogger(), func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.StoreLogs(entries(1, 600, "old")))
	must(l.SetUint64([]byte("CurrentTerm"), 7))
	must(l.Set([]byte("LastVoteCand"), []byte("n1")))
	must(l.DeleteRange(1, 40)) // after a snapshot
	for round := range uint64(3) {
		must(l.DeleteRange(500-round*10, 1000))
		if last, _ := l.LastIndex(); last != 499-round*10 {
			t.Fatalf("the newest entry is %d", last)
		}
		must(l.Close())
		l = open() // this is what raft-wal alone cannot do
		if first, _ := l.FirstIndex(); first != 41 {
			t.Fatalf("the oldest entry is %d", first)
		}
		wantEntries(t, l, 41, 499-round*10, "old")
		if v, err := l.GetUint64([]byte("CurrentTerm")); err != nil || v != 7 {
			t.Errorf("term %d, %v", v, err)
		}
		if v, err := l.Get([]byte("LastVoteCand")); err != nil || string(v) != "n1" {
			t.Errorf("vote %q, %v", v, err)
		}
	}
	must(l.StoreLogs(entries(480, 520, "new")))
	must(l.Close())
	// What a crash leaves: a folder that was not finished, and one that was replaced.
	must(os.MkdirAll(filepath.Join(dir, nextName, "x"), 0o755))
	must(os.MkdirAll(filepath.Join(dir, "log-000001"), 0o755))
	l = open()
	wantEntries(t, l, 41, 479, "old")
	wantEntries(t, l, 480, 520, "new")
	if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) != 1 {
		t.Errorf("left over: %v", found)
	}
	must(l.Close())
}

// I5: a log whose tail could not be cut is not gone on with. The folder that was to take its place may count at the next
// start, without the votes that are given meanwhile.
func TestLogStoreStopsWhenItCannotCut(t *testing.T) {
	dir := t.TempDir()
	var failed error
	l, err := openLogStore(dir, hclog.NewNullLogger(), func(err error) { failed = err })
	if err != nil {
		t.Fatal(err)
	}
	if err := l.StoreLogs(entries(1, 10, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "log-000002", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteRange(5, 10); err == nil || failed == nil {
		t.Fatalf("the cut: %v; the node was told %v", err, failed)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
