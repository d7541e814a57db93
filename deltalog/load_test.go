package deltalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %v, want an error with %q", err, text)
	}
}

// checkpointedLog gives a table of n+1 versions, one file each after the first, checkpointed at the given ones.
func checkpointedLog(t *testing.T, n int, at ...Version) *mem.Store {
	store := mem.New()
	l := mustCreate(t, store, Config{CheckpointInterval: -1})
	for i := 1; i <= n; i++ {
		mustCommit(t, l, Commit{ReadVersion: Version(i - 1), Adds: []Add{add(fmt.Sprintf("f%d", i))}, Txns: []Txn{{AppID: "a", Version: int64(i)}}})
		for _, v := range at {
			if v == Version(i) {
				if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return store
}

func TestBadHints(t *testing.T) {
	for name, hint := range map[string]string{
		"none": "", "empty": " ", "broken": `{"version":`, "negative": `{"version":-3}`, "stale": `{"version":4}`,
		"names a missing checkpoint": `{"version":9}`, "beyond the end": `{"version":1000}`, "string": `{"version":"8"}`,
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpointedLog(t, 10, 4, 8)
			if hint == "" {
				remove(t, store, lastCheckpoint)
			} else {
				put(t, store, lastCheckpoint, []byte(strings.TrimSpace(hint)))
			}
			s := loadAll(t, store)
			if v, _ := s.Txn("a"); s.Version() != 10 || s.NumFiles() != 10 || v != 10 {
				t.Fatalf("version %d, %d files, txn %d", s.Version(), s.NumFiles(), v)
			}
		})
	}
}

func TestFallbackFromBrokenCheckpoints(t *testing.T) {
	store := checkpointedLog(t, 10, 4, 8)
	good := get(t, store, checkpointName(8))
	put(t, store, checkpointName(8), good[:len(good)/2])
	if s := loadAll(t, store); s.Version() != 10 || s.NumFiles() != 10 {
		t.Fatal("no fallback to the older checkpoint")
	}
	put(t, store, checkpointName(4), []byte("not parquet"))
	if s := loadAll(t, store); s.NumFiles() != 10 {
		t.Fatal("no fallback to the commits")
	}
	remove(t, store, commitName(0))
	_, err := load(t.Context(), store, -1, false)
	wantError(t, err, checkpointName(8)) // the newest problem is the one to tell
	var c *CorruptError
	if !errors.As(err, &c) {
		t.Fatalf("%T", err)
	}
}

func TestFlippedCheckpointBytesNeverPanic(t *testing.T) { // I8
	store := checkpointedLog(t, 3, 3)
	good := get(t, store, checkpointName(3))
	for i := 0; i < len(good); i += 7 {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x55
		only := mem.New()
		put(t, only, checkpointName(3), bad)
		_, _ = load(t.Context(), only, -1, false) // an error or a table, but it returns
	}
}

func TestIncompleteMultiPart(t *testing.T) {
	store := checkpointedLog(t, 6, 3)
	part := get(t, store, checkpointName(3))
	put(t, store, fmt.Sprintf("%s%020d.checkpoint.%010d.%010d.parquet", logDir, 5, 1, 2), part)
	if s := loadAll(t, store); s.Version() != 6 || s.NumFiles() != 6 {
		t.Fatalf("an incomplete set was used: %d files", s.NumFiles())
	}
}

func TestGapsAndMissingActions(t *testing.T) {
	for name, c := range map[string]struct {
		commits map[Version]string
		err     string
	}{
		"gap":           {map[Version]string{0: protocolLine + metadataLine, 2: addLine("a")}, "commit 1 is missing"},
		"no start":      {map[Version]string{1: protocolLine + metadataLine, 2: addLine("a")}, "no commit 0"},
		"no protocol":   {map[Version]string{0: metadataLine}, "no protocol"},
		"no metadata":   {map[Version]string{0: protocolLine}, "no metaData"},
		"truncated":     {map[Version]string{0: protocolLine + metadataLine + `{"add":{"path":"a"`}, "line 3"},
		"two metadata":  {map[Version]string{0: protocolLine + metadataLine + metadataLine}, "second metaData"},
		"two protocols": {map[Version]string{0: protocolLine + protocolLine + metadataLine}, "second protocol"},
		"two adds":      {map[Version]string{0: protocolLine + metadataLine + addLine("a%20b") + addLine("a b")}, "second add"},
		"two removes":   {map[Version]string{0: protocolLine + metadataLine + removeLine("a") + removeLine("a")}, "second remove"},
		"two txns": {map[Version]string{0: protocolLine + metadataLine +
			`{"txn":{"appId":"a","version":1}}` + "\n" + `{"txn":{"appId":"a","version":2}}`}, "second txn"},
		"two in a line": {map[Version]string{0: protocolLine + metadataLine + `{"add":{"path":"a"},"remove":{"path":"b"}}`}, "two actions"},
		"bad schema":    {map[Version]string{0: protocolLine + strings.Replace(metadataLine, "long", "decimal(99,1)", 1)}, "decimal(99,1)"},
	} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			putLog(t, store, c.commits)
			_, err := Open(t.Context(), store, Config{})
			wantError(t, err, c.err)
		})
	}
}

func TestReplayRules(t *testing.T) {
	store := mem.New()
	dv := func(path, id string) string {
		return `{"add":{"path":"` + path + `","partitionValues":{},"size":5,"modificationTime":1,"dataChange":true,"deletionVector":{"storageType":"u","pathOrInlineDv":"` + id + `","offset":1,"sizeInBytes":3,"cardinality":2}}}` + "\n"
	}
	putLog(t, store, map[Version]string{
		0: protocolLine + metadataLine + addLine("a") + addLine("b") + addLine("c%20d") + `{"unknown":{"x":[1,{"y":null}]}}` + "\n" + `{"add":null,"txn":{"appId":"p","version":9,"future":{}}}`,
		1: removeLine("a") + addLine("a"),                                                              // rewritten in place: stays
		2: addLine("e") + removeLine("e"),                                                              // order counts: gone
		3: removeLine("b") + dv("b", "xyz"),                                                            // a deletion vector makes another logical file
		4: removeLine("c d"),                                                                           // compared decoded
		5: `{"txn":{"appId":"p","version":4}}` + "\n\n" + `{"cdc":{"path":"_change_data/x","size":1}}`, // versions may go down
	})
	s := loadAll(t, store)
	if got := paths(s); got != "a b" {
		t.Fatalf("files %q", got)
	}
	if v, _ := s.Txn("p"); v != 4 {
		t.Fatalf("txn %d, want the newest by replay order", v)
	}
	if s.SizeBytes() != 6 {
		t.Fatalf("%d bytes", s.SizeBytes())
	}
	at, err := load(t.Context(), store, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(at.snapshot()); got != "b c%20d a" {
		t.Fatalf("files at version 2: %q", got)
	}
	if _, err := load(t.Context(), store, 6, false); !errors.Is(err, ErrVersionNotFound) {
		t.Fatal(err)
	}
}

func TestStrayFilesAreIgnored(t *testing.T) {
	store := checkpointedLog(t, 3, 2)
	for _, k := range []string{"_staged_commits/00000000000000000004.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", ".tmp/00000000000000000004.json.x",
		"00000000000000000004.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", "00000000000000000004.crc", "_commit_x.json.tmp", "00000000000000000004.json.tmp", "__tmp_path_dir/00000000000000000004.json"} {
		put(t, store, logDir+k, []byte("garbage"))
	}
	if s := loadAll(t, store); s.Version() != 3 {
		t.Fatalf("version %d", s.Version())
	}
}

func TestCompactionStandsInForLostCommits(t *testing.T) {
	store := checkpointedLog(t, 4)
	want := loadAll(t, store)
	var lines strings.Builder
	for v := Version(1); v <= 3; v++ {
		for line := range strings.Lines(string(get(t, store, commitName(v)))) {
			if strings.HasPrefix(line, `{"add"`) || v == 3 && strings.HasPrefix(line, `{"txn"`) {
				lines.WriteString(line)
			}
		}
		remove(t, store, commitName(v))
	}
	if _, err := load(t.Context(), store, -1, false); err == nil {
		t.Fatal("a gap was accepted")
	}
	put(t, store, fmt.Sprintf("%s%020d.%020d.compacted.json", logDir, 1, 3), []byte(lines.String()))
	sameContent(t, "compacted log", loadAll(t, store), want)
}

// TestIncrementalEqualsFull drives a table at random and compares a Log that refreshes, a fresh load, and a load
// of a checkpointed copy. Snapshots taken on the way must not change.
func TestIncrementalEqualsFull(t *testing.T) {
	rng := newRand(seedtest.New(t))
	store := mem.New()
	writer := mustCreate(t, store, Config{CheckpointInterval: 7})
	reader, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var old *Snapshot
	var oldContent content
	for i := range 60 {
		snap := mustSnapshot(t, writer)
		c := Commit{ReadVersion: snap.Version(), Txns: []Txn{{AppID: fmt.Sprint("app", rng.IntN(3)), Version: int64(rng.IntN(100))}}}
		for j := range rng.IntN(60) {
			a := add(fmt.Sprintf("f %d-%d", i, j))
			a.Path = EncodePath(a.Path)
			c.Adds = append(c.Adds, a)
		}
		for a := range snap.Files() {
			if rng.IntN(3) == 0 {
				c.Removes = append(c.Removes, RemoveOf(a, writer.cfg.Clock().UnixMilli(), true))
			}
		}
		mustCommit(t, writer, c)
		if rng.IntN(2) == 0 {
			sameContent(t, "refreshed reader", mustSnapshot(t, reader), loadAll(t, store))
		}
		if i == 20 {
			old = mustSnapshot(t, reader)
			oldContent = contentOf(old)
		}
	}
	sameContent(t, "writer's own snapshot", mustSnapshot(t, writer), loadAll(t, store))
	if got := contentOf(old); len(got.Files) != len(oldContent.Files) || got.SizeBytes != oldContent.SizeBytes || len(got.Removed) != len(oldContent.Removed) {
		t.Fatal("an old snapshot changed")
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	end := loadAll(t, store)
	jsonOnly := clone(t, store, func(k string) bool { return !strings.Contains(k, "checkpoint") })
	sameContent(t, "JSON-only copy", loadAll(t, jsonOnly), end)
	at, err := reader.SnapshotAt(t.Context(), old.Version())
	if err != nil {
		t.Fatal(err)
	}
	sameContent(t, "SnapshotAt", at, old)
}

func TestRefreshSurvivesCleanup(t *testing.T) {
	store := checkpointedLog(t, 3)
	l, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	longer := checkpointedLog(t, 9, 8)
	for v := Version(0); v <= 7; v++ {
		remove(t, store, commitName(v))
	}
	for _, k := range []string{commitName(8), commitName(9), checkpointName(8), lastCheckpoint} {
		put(t, store, k, get(t, longer, k))
	}
	if s := mustSnapshot(t, l); s.Version() != 9 || s.NumFiles() != 9 {
		t.Fatalf("version %d with %d files", s.Version(), s.NumFiles())
	}
}

func TestHistory(t *testing.T) {
	store := mem.New()
	now := time.UnixMilli(1_700_000_000_000)
	l := mustCreate(t, store, Config{Clock: func() time.Time { return now }, Engine: "test/1"})
	for i := range 5 {
		mustCommit(t, l, Commit{ReadVersion: Version(i), Operation: "WRITE", BlindAppend: true, Adds: []Add{add(fmt.Sprint(i))}, Parameters: map[string]string{"mode": "Append", "partitionBy": "[]"}})
	}
	h, err := l.History(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(h) != 2 || h[0].Version != 5 || h[1].Version != 4 || h[0].Operation != "WRITE" || h[0].Timestamp != now.UnixMilli() ||
		h[0].EngineInfo != "test/1" || h[0].IsBlindAppend == nil || !*h[0].IsBlindAppend || h[0].TxnID == "" || h[0].ReadVersion == nil {
		t.Fatalf("%+v", h)
	}
	if got := string(h[0].OperationParameters["mode"]); got != `"\"Append\""` {
		t.Fatalf("mode parameter %s", got)
	}
	if got := string(h[0].OperationParameters["partitionBy"]); got != `"[]"` {
		t.Fatalf("partitionBy parameter %s", got)
	}
	if h, err = l.History(t.Context(), 0); err != nil || len(h) != 6 || h[5].Operation != "CREATE TABLE" {
		t.Fatalf("%d entries, %v", len(h), err)
	}
}
