package deltalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// One table as commits alone, with a checkpoint in one file, with one that names sidecars, with a compaction in the place of
// commits, and cleaned up, is the same table at each version and at each time that the copy still has.
func TestCopiesAreIdentical(t *testing.T) {
	const last, middle = Version(12), Version(8)
	start := time.Now().Add(-100 * time.Hour).Truncate(time.Millisecond)
	now := start
	cfg := Config{CheckpointInterval: -1, Clock: func() time.Time { return now }}
	plain := mem.New()
	l, err := Create(t.Context(), plain, CreateOptions{Schema: testSchema(), Configuration: map[string]string{
		ictSetting: "true", "delta.checkpointPolicy": "v2", "delta.feature.domainMetadata": "supported"}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for v := Version(1); v <= last; v++ {
		now = start.Add(time.Duration(v) * time.Hour)
		c := Commit{ReadVersion: v - 1, Adds: []Add{add(fmt.Sprint("f", v)), add(EncodePath(fmt.Sprint("o dd%", v)))}, Txns: []Txn{{AppID: fmt.Sprint("app", v%3), Version: int64(v)}},
			Domains: []DomainMetadata{{Domain: fmt.Sprint("d", v%4), Configuration: fmt.Sprint(v), Removed: v%5 == 0}}}
		for a := range mustSnapshot(t, l).Files() {
			if strings.HasSuffix(a.Path, fmt.Sprint(v/2)) {
				c.Removes = append(c.Removes, RemoveOf(a, now.UnixMilli(), true))
			}
		}
		mustCommit(t, l, c)
	}
	copies := map[string]objstore.Store{"compacted": compactedCopy(t, plain, 3, 9)}
	for name, write := range map[string]func(*Log, *Snapshot) error{
		"checkpointed": func(l *Log, s *Snapshot) error { _, err := l.writeClassic(t.Context(), s); return err },
		"V2":           func(l *Log, s *Snapshot) error { _, err := l.writeV2(t.Context(), s); return err },
		"hinted":       func(l *Log, s *Snapshot) error { return l.Checkpoint(t.Context(), s) },
	} {
		store := clone(t, plain, func(string) bool { return true })
		withLog(t, store, cfg, func(l *Log) {
			s, err := l.SnapshotAt(t.Context(), middle)
			if err == nil {
				err = write(l, s)
			}
			if err != nil {
				t.Fatal(name, err)
			}
		})
		copies[name] = store
		cleaned := clone(t, store, func(string) bool { return true })
		withLog(t, cleaned, cfg, func(l *Log) {
			none := time.Duration(0)
			now = now.Add(48 * time.Hour)
			if done, err := l.Cleanup(t.Context(), CleanupOptions{Retention: &none}); err != nil || len(done.Files) < int(middle) {
				t.Fatal(name, done, err)
			}
		})
		copies[name+", cleaned up"] = cleaned
		copies[name+", without the commits before"] = clone(t, store, func(k string) bool {
			return !(strings.HasSuffix(k, ".json") && k < commitName(middle) && k >= commitName(0))
		})
	}
	for name, store := range copies {
		withLog(t, store, cfg, func(c *Log) {
			first := Version(0)
			switch {
			case strings.Contains(name, ","):
				first = middle
			case name == "compacted":
				first = 9
			}
			for v := first; v <= last; v++ {
				want, err := l.SnapshotAt(t.Context(), v)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.SnapshotAt(t.Context(), v)
				if err != nil {
					t.Fatalf("%s, version %d: %v", name, v, err)
				}
				sameContent(t, fmt.Sprintf("%s, version %d", name, v), got, want)
				at := start.Add(time.Duration(v) * time.Hour)
				if byTime, err := c.VersionAt(t.Context(), at); byTime != v || err != nil {
					t.Errorf("%s: at %s stands version %d (%v), want %d", name, at, byTime, err, v)
				}
			}
		})
	}
}

func withLog(t *testing.T, store objstore.Store, cfg Config, use func(*Log)) {
	t.Helper()
	l, err := Open(t.Context(), store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	use(l)
}

// compactedCopy has what the commits of a range come to in one file, in the place of those commits.
func compactedCopy(t *testing.T, store *mem.Store, from, to Version) *mem.Store {
	t.Helper()
	out := clone(t, store, func(k string) bool { return k < commitName(from) || k > commitName(to-1) })
	lines, order := map[string]string{}, []string{}
	for v := from; v <= to; v++ {
		for line := range strings.Lines(string(get(t, store, commitName(v)))) {
			kind, rest, _ := strings.Cut(line, ":")
			if kind == `{"commitInfo"` {
				continue
			}
			id, _, _ := strings.Cut(rest, ",") // {"path":"...", {"appId":"...", {"domain":"..."
			key := strings.NewReplacer(`{"add"`, "", `{"remove"`, "").Replace(kind) + id
			if _, ok := lines[key]; !ok {
				order = append(order, key)
			}
			lines[key] = line
		}
	}
	var b strings.Builder
	for _, key := range order {
		b.WriteString(lines[key])
	}
	put(t, out, fmt.Sprintf("%s%020d.%020d.compacted.json", logDir, from, to), []byte(b.String()))
	return out
}
