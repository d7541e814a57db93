package deltalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// TestLargeCommitsInPieces: a commit far larger than what is read at a time comes out as it does when parsed at
// once, wherever lines end, also when one line is longer than a piece.
func TestLargeCommitsInPieces(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(protocolLine + metadataLine)
	for i := range 12_000 {
		fmt.Fprintf(&b, `{"add":{"path":"part-%d-%s","partitionValues":{},"size":%d,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":%d}","tags":{"n":"%d","none":null}}}`+"\n", i, strings.Repeat("y", i%97), i, i, i)
		if i%3 == 0 {
			fmt.Fprintf(&b, `{"remove":{"path":"gone-%d","deletionTimestamp":99999999999999,"dataChange":true}}`+"\n", i)
		}
		if i == 5000 {
			fmt.Fprintf(&b, `{"add":{"path":"long","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":%q}}`+"\n", strings.Repeat("s", 3*fetchPiece/2))
			b.WriteString(`{"txn":{"appId":"a","version":7}}` + "\n")
		}
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n")) // the last line has no end
	store := mem.New()
	put(t, store, commitName(0), data)
	got := loadAll(t, store)
	whole, err := parseCommit(data, "whole")
	if err != nil {
		t.Fatal(err)
	}
	s := newState(false)
	if err := s.applyCommit(logFile{kind: kindCommit}, whole); err != nil {
		t.Fatal(err)
	}
	sameContent(t, "in pieces", got, s.snapshot())
	if got.NumFiles() != 12_001 || got.Txns()["a"] != 7 {
		t.Errorf("%d files", got.NumFiles())
	}
	for a := range got.Files() {
		if a.Path != "long" && (len(a.Tags) != 2 || a.Tags["none"] != nil || a.Stats == "") {
			t.Fatalf("%+v", a)
		}
	}

	// A broken line is reported with its number, counted over all pieces.
	line := bytes.Count(data[:len(data)*3/4], []byte{'\n'}) + 1
	at := len(data)*3/4 - bytes.LastIndexByte(data[:len(data)*3/4], '\n')
	broken := bytes.Clone(data)
	broken[len(data)*3/4-at+1] = 'x'
	put(t, store, commitName(0), broken)
	var corrupt *CorruptError
	if _, err := load(t.Context(), store, -1, false); !errors.As(err, &corrupt) || corrupt.Line != line {
		t.Errorf("%v, want line %d", err, line)
	}
	// So is an action that the protocol forbids twice, in pieces far apart.
	put(t, store, commitName(0), append(bytes.Clone(data), "\n"+metadataLine...))
	if _, err := load(t.Context(), store, -1, false); !errors.As(err, &corrupt) {
		t.Errorf("second metadata: %v", err)
	}
	put(t, store, commitName(0), append(bytes.Clone(data), "\n"+removeLine("gone-0")...))
	if _, err := load(t.Context(), store, -1, false); err == nil || !strings.Contains(err.Error(), "second remove") {
		t.Errorf("second remove: %v", err)
	}
}

// TestReplayStops: a store that fails in the middle, and a caller that goes away, end the replay with their error.
func TestReplayStops(t *testing.T) {
	store := mem.New()
	put(t, store, commitName(0), bigCommit(30_000))
	for v := Version(1); v < 30; v++ {
		put(t, store, commitName(v), []byte(addLine(fmt.Sprint(v))))
	}
	lost := errors.New("reset")
	for n := int64(1); n < 40; n += 3 {
		from := store.Calls() + n
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.N >= from && c.Op != mem.OpList {
				return mem.Fault{Before: lost}
			}
			return mem.Fault{}
		})
		if _, err := load(t.Context(), store, -1, false); !errors.Is(err, lost) {
			t.Fatalf("after %d calls: %v", n, err)
		}
	}
	store.SetHook(nil)
	ctx, cancel := context.WithCancel(t.Context())
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Key == commitName(9) {
			cancel()
		}
		return mem.Fault{}
	})
	if _, err := load(ctx, store, -1, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestColumnsLikeMaps drives state with random commits beside a plain map, over compactions and views.
func TestColumnsLikeMaps(t *testing.T) {
	r := newRand(seedtest.New(t))
	s := newState(false)
	want := map[string]int64{}
	type old struct {
		snap *Snapshot
		want map[string]int64
	}
	var held []old
	s.metadata, s.protocol = &Metadata{}, &Protocol{MinReaderVersion: 1, MinWriterVersion: 2}
	for v := Version(0); v < 300; v++ {
		a := &actions{}
		used := map[string]bool{}
		for range r.IntN(60) {
			path := fmt.Sprint("f", r.IntN(400))
			if used[path] {
				continue
			}
			used[path] = true
			if r.IntN(3) == 0 {
				a.removes, a.addsBefore = append(a.removes, Remove{Path: path, DeletionTimestamp: ptr(int64(1))}), append(a.addsBefore, len(a.adds))
				delete(want, path)
			} else {
				size := r.Int64N(100)
				a.adds = append(a.adds, Add{Path: path, Size: size})
				want[path] = size
			}
		}
		if err := s.applyCommit(logFile{kind: kindCommit, version: v}, a); err != nil {
			t.Fatal(err)
		}
		if err := s.compact(); err != nil {
			t.Fatal(err)
		}
		if v%20 == 0 {
			m := map[string]int64{}
			for k, n := range want {
				m[k] = n
			}
			held = append(held, old{s.snapshot(), m})
		}
	}
	for _, o := range held {
		got, sum := map[string]int64{}, int64(0)
		for a := range o.snap.Files() {
			got[a.Path] = a.Size
			sum += a.Size
		}
		if fmt.Sprint(got) != fmt.Sprint(o.want) || o.snap.NumFiles() != len(o.want) || o.snap.SizeBytes() != sum {
			t.Fatalf("version %d: %d files, want %d", o.snap.version, len(got), len(o.want))
		}
	}
}

// TestNoFiles: a Log without files appends, knows positions, meets conflicts and writes whole checkpoints; what it
// holds does not depend on the table.
func TestNoFiles(t *testing.T) {
	for _, policy := range []string{"classic", "v2"} {
		store := mem.New()
		full, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: map[string]string{"delta.checkpointPolicy": policy}}, Config{CheckpointInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		adds := make([]Add, 500)
		for i := range adds {
			adds[i] = add(fmt.Sprint("old", i))
		}
		mustCommit(t, full, Commit{Adds: adds, Txns: []Txn{{AppID: "a", Version: 1}}})
		if err := full.Checkpoint(t.Context(), mustSnapshot(t, full)); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), store, Config{NoFiles: true, CheckpointInterval: 4})
		if err != nil {
			t.Fatal(err)
		}
		s := mustSnapshot(t, l)
		if at, _ := s.Txn("a"); s.HasFiles() || s.NumFiles() != 0 || at != 1 || len(s.Schema().Fields) != 2 {
			t.Fatalf("%+v", s)
		}
		if s.count < 500 {
			t.Errorf("%s: about %d files", policy, s.count)
		}
		for v := Version(1); v < 5; v++ {
			mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint("new", v))}, Txns: []Txn{{AppID: "a", Version: int64(v) + 1}}})
		}
		if _, err := l.Commit(t.Context(), Commit{ReadVersion: 1, Txns: []Txn{{AppID: "a", Version: 2}}}); err == nil {
			t.Error("a conflict was missed")
		}
		l.work.Wait()
		if n := l.state.files.n + l.state.graves.n; n != 0 {
			t.Errorf("%d files are held", n)
		}
		whole, err := l.FullSnapshot(t.Context())
		if err != nil || whole.NumFiles() != 504 {
			t.Fatalf("%v, %v", whole, err)
		}
		if v, err := readHint(t.Context(), store); err != nil || v < 4 {
			t.Errorf("checkpoint %d, %v", v, err)
		}
		sameContent(t, policy, loadAll(t, clone(t, store, func(k string) bool {
			return !strings.HasSuffix(k, ".json") || k > commitName(4)
		})), whole)
		l.Close()
		full.Close()
	}
}

// TestRefreshCostsTheNewCommitsOnly: a refresh after one commit lists from the last version and reads one file,
// whatever the table holds.
func TestRefreshCostsTheNewCommitsOnly(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{CheckpointInterval: -1})
	for v := Version(0); v < 200; v++ {
		mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint(v))}})
	}
	other, err := Open(t.Context(), store, Config{CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	mustCommit(t, l, Commit{ReadVersion: 200, Adds: []Add{add("x")}})
	before := store.Calls()
	if s := mustSnapshot(t, other); s.NumFiles() != 201 {
		t.Fatal(s.NumFiles())
	}
	if n := store.Calls() - before; n > 3 { // a listing, the new commit, and the head while it is young
		t.Errorf("%d calls to the store", n)
	}
}
