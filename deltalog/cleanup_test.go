package deltalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

const day = int64(24 * time.Hour / time.Millisecond)

// agedLog has one version a day, from day 0 on, and a Log whose clock stands at noon of the given day.
func agedLog(t *testing.T, versions int, today int64, checkpoints ...Version) (*mem.Store, *Log) {
	t.Helper()
	store := mem.New()
	at := map[Version]int64{}
	for i := range versions {
		lines := addLine(fmt.Sprint(i))
		if i == 0 {
			lines = protocolLine + metadataLine + lines
		}
		putLog(t, store, map[Version]string{Version(i): lines})
		at[Version(i)] = int64(i)*day + day/4
	}
	l, err := Open(t.Context(), dated{store, at}, Config{Clock: func() time.Time { return time.UnixMilli(today*day + day/2) }, CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, v := range checkpoints {
		s, err := l.SnapshotAt(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Checkpoint(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return store, l
}

func TestCleanup(t *testing.T) {
	week := 7 * 24 * time.Hour
	for _, c := range []struct {
		name        string
		checkpoints []Version
		opts        CleanupOptions
		earliest    Version
		why         string
	}{
		{"no checkpoint (fault 32)", nil, CleanupOptions{Retention: &week}, 0, "no complete checkpoint"},
		{"cut at the checkpoint before the retention, not at the newest (fault 33)", []Version{5, 10, 18}, CleanupOptions{Retention: &week}, 10, ""},
		{"only newer checkpoints", []Version{18}, CleanupOptions{Retention: &week}, 0, "no complete checkpoint"},
		{"nothing is old", []Version{5}, CleanupOptions{}, 0, "no commit is older"},
		{"a reader holds a version", []Version{5, 10}, CleanupOptions{Retention: &week, KeepFrom: 7}, 5, ""},
		{"dry run", []Version{5, 10}, CleanupOptions{Retention: &week, DryRun: true}, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, l := agedLog(t, 20, 20, c.checkpoints...)
			put(t, store, logDir+"00000000000000000003.crc", []byte("{}"))
			before := loadAll(t, store)
			got, err := l.Cleanup(t.Context(), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if got.Earliest != c.earliest || !strings.Contains(got.Why, c.why) || (got.Why == "") != (c.why == "") {
				t.Fatalf("%+v", got)
			}
			// Commits before the cut, one checksum, and the checkpoints before it.
			want := int(c.earliest)
			for _, v := range c.checkpoints {
				if v < c.earliest {
					want++
				}
			}
			if c.earliest > 3 {
				want++
			}
			if len(got.Files) != want {
				t.Errorf("removed %v, want %d files", got.Files, want)
			}
			if c.opts.DryRun {
				c.earliest = 0
			}
			for v := range Version(20) {
				s, err := l.SnapshotAt(t.Context(), v)
				if v < c.earliest && !errors.Is(err, ErrVersionNotFound) || v >= c.earliest && (err != nil || s.NumFiles() != int(v)+1) {
					t.Errorf("version %d after a cut at %d: %v", v, c.earliest, err)
				}
			}
			if _, err := store.Get(t.Context(), commitName(c.earliest)); err != nil {
				t.Errorf("the checkpoint's own commit: %v", err)
			}
			sameContent(t, "after the cleanup", loadAll(t, store), before)
		})
	}
}

// TestCleanupNeedsAWholeCheckpoint: a checkpoint that cannot be read is no place to cut.
func TestCleanupNeedsAWholeCheckpoint(t *testing.T) {
	week := 7 * 24 * time.Hour
	store, l := agedLog(t, 20, 20, 5, 10)
	b := get(t, store, checkpointName(10))
	put(t, store, checkpointName(10), b[:len(b)-100])
	if got, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week}); err != nil || got.Earliest != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	put(t, store, logDir+"00000000000000000011.checkpoint.0000000001.0000000002.parquet", b) // half of a set
	if got, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week}); err != nil || got.Earliest != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestCleanupCrash stops a cleanup after each removal: what is left is sound, and another run finishes it.
func TestCleanupCrash(t *testing.T) {
	week := 7 * 24 * time.Hour
	for stop := 0; ; stop++ {
		store, l := agedLog(t, 16, 20, 3, 6, 9)
		put(t, store, logDir+"00000000000000000004.00000000000000000008.compacted.json", nil)
		want := loadAll(t, store)
		plan, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if stop > len(plan.Files) {
			if stop < 10 {
				t.Fatalf("only %v", plan.Files)
			}
			return
		}
		for _, key := range plan.Files[:stop] {
			remove(t, store, key)
		}
		sameContent(t, fmt.Sprintf("after %d removals", stop), loadAll(t, store), want)
		for v := Version(9); v < 16; v++ {
			if _, err := load(t.Context(), store, v, false); err != nil {
				t.Fatalf("after %d removals version %d: %v", stop, v, err)
			}
		}
		if again, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week}); err != nil || len(again.Files) != len(plan.Files)-stop {
			t.Fatalf("after %d of %d removals: %+v, %v", stop, len(plan.Files), again, err)
		}
	}
}

func TestCleanupRefusals(t *testing.T) {
	_, l := agedLog(t, 3, 3)
	alter(t, l, Change{Set: map[string]string{"delta.enableExpiredLogCleanup": "false"}})
	if _, err := l.Cleanup(t.Context(), CleanupOptions{}); err == nil || !strings.Contains(err.Error(), "enableExpiredLogCleanup") {
		t.Error(err)
	}
	if _, err := l.Cleanup(t.Context(), CleanupOptions{Force: true}); err != nil {
		t.Error(err)
	}
	alter(t, l, Change{Set: map[string]string{protectedBefore: "100"}})
	var u *UnsupportedError
	if _, err := l.Cleanup(t.Context(), CleanupOptions{Force: true}); !errors.As(err, &u) {
		t.Error(err)
	}
}

// TestV2Checkpoints writes them on request, reads them back, finds them without a hint, and cleans up sidecars
// that nothing names any more and no others.
func TestV2Checkpoints(t *testing.T) {
	store, l := agedLog(t, 20, 20)
	alter(t, l, Change{Set: map[string]string{"delta.checkpointPolicy": "v2", "delta.feature.domainMetadata": "supported"}})
	mustCommit(t, l, Commit{ReadVersion: 20, Txns: []Txn{{AppID: "a", Version: 3}}, Domains: []DomainMetadata{{Domain: "d", Configuration: "{}"}}})
	s := mustSnapshot(t, l)
	if err := l.Checkpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), checkpointName(s.version)); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a classic checkpoint: %v", err)
	}
	hint := string(get(t, store, lastCheckpoint))
	if !strings.Contains(hint, `"v2Checkpoint":{"path":"00000000000000000021.checkpoint.`) || !strings.Contains(hint, `"numOfAddFiles":20`) {
		t.Errorf("hint %s", hint)
	}
	only := clone(t, store, func(k string) bool { return !strings.HasSuffix(k, ".json") })
	sameContent(t, "V2 checkpoint", loadAll(t, only), s)
	remove(t, only, lastCheckpoint)
	sameContent(t, "V2 checkpoint without hint", loadAll(t, only), s)
	light, err := load(t.Context(), only, -1, true)
	if err != nil || len(light.txns) != 1 || light.metadata.ID != "m" {
		t.Errorf("without files: %+v, %v", light, err)
	}

	used, err := l.Sidecars(t.Context())
	if err != nil || len(used) != 1 {
		t.Fatal(used, err)
	}
	put(t, store, sidecarDir+"orphan.parquet", []byte("x"))
	week := 7 * 24 * time.Hour
	future := Config{Clock: func() time.Time { return time.Now().Add(200 * 24 * time.Hour) }}
	later, err := Open(t.Context(), store, future)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	got, err := later.Cleanup(t.Context(), CleanupOptions{Retention: &week})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got.Files, sidecarDir+"orphan.parquet") || slices.Contains(got.Files, used[0]) || got.Earliest != 21 {
		t.Errorf("%+v", got)
	}
	sameContent(t, "after the cleanup", loadAll(t, store), s)
	put(t, store, used[0], []byte("broken"))
	if _, err := load(t.Context(), store, -1, false); err == nil {
		t.Error("a broken sidecar was accepted")
	}
}

// TestManySidecars: files are spread over sidecars, and an empty table has none.
func TestManySidecars(t *testing.T) {
	store := mem.New()
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: map[string]string{"delta.checkpointPolicy": "v2"}}, Config{CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
		t.Fatal(err)
	}
	adds := make([]Add, sidecarRows+1)
	for i := range adds {
		adds[i] = add(fmt.Sprint("f", i))
	}
	mustCommit(t, l, Commit{Adds: adds})
	if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
		t.Fatal(err)
	}
	if used, err := l.Sidecars(t.Context()); err != nil || len(used) != 2 {
		t.Errorf("%v, %v", used, err)
	}
	got := loadAll(t, clone(t, store, func(k string) bool { return !strings.HasSuffix(k, ".json") }))
	if got.NumFiles() != len(adds) || got.SizeBytes() != int64(len(adds))*10 {
		t.Errorf("%d files of %d bytes", got.NumFiles(), got.SizeBytes())
	}
}

func TestCheckpointByBytes(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{CheckpointInterval: 1000, CheckpointBytes: 4000})
	hint := func() Version {
		v, err := readHint(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var at []Version
	for v := Version(0); v < 40; v++ {
		mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add(strings.Repeat("x", 300) + fmt.Sprint(v))}})
		l.work.Wait()
		if h := hint(); h >= 0 && (len(at) == 0 || at[len(at)-1] != h) {
			at = append(at, h)
		}
	}
	// A commit is about 560 bytes, so that some eight of them are due.
	if len(at) < 3 || len(at) > 8 {
		t.Errorf("checkpoints at %v", at)
	}
	off := mustCreate(t, mem.New(), Config{CheckpointInterval: 1000, CheckpointBytes: -1})
	if off.cfg.due(&Snapshot{version: 5, metadata: &Metadata{}}, 0, 1<<40) {
		t.Error("bytes count though they are switched off")
	}
}

// A writer that died between its checkpoint and the hint left a hint that names the one before: the cleanup does
// not leave it without that checkpoint, wherever it stops.
func TestCleanupStaleHint(t *testing.T) {
	week := 7 * 24 * time.Hour
	for stop := range 4 { // 0: never
		store, l := agedLog(t, 20, 20, 5)
		stale := get(t, store, lastCheckpoint)
		s, err := l.SnapshotAt(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Checkpoint(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		put(t, store, lastCheckpoint, stale)
		if _, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week, DryRun: true}); err != nil || !bytes.Equal(get(t, store, lastCheckpoint), stale) {
			t.Fatal("a dry run changed the hint", err)
		}
		deletes := 0
		store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.Op == mem.OpDelete {
				if deletes++; deletes == stop {
					return mem.Fault{Before: errors.New("power loss")}
				}
			}
			return mem.Fault{}
		})
		c, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &week})
		store.SetHook(nil)
		if (err != nil) != (stop > 0) || err == nil && c.Earliest != 10 {
			t.Fatal(c, err)
		}
		found, err := Check(t.Context(), store)
		if err != nil || len(found) > 0 {
			t.Errorf("stopped at delete %d: %v %v", stop, found, err)
		}
		if v := loadAll(t, store).version; v != 19 {
			t.Errorf("version %d", v)
		}
	}
}
