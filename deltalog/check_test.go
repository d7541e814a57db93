package deltalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// checkable is a log with checkpoints of both kinds, checksum files, transactions and removed files.
func checkable(t *testing.T) *mem.Store {
	store := mem.New()
	l := mustCreate(t, store, Config{Checksums: true, CheckpointInterval: -1})
	for v := Version(0); v < 12; v++ {
		c := Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint(v))}, Txns: []Txn{{AppID: "a", Version: int64(v)}}}
		if v > 3 {
			gone := add(fmt.Sprint(v - 3))
			c.Removes = []Remove{RemoveOf(&gone, time.Now().UnixMilli(), true)}
		}
		switch mustCommit(t, l, c) {
		case 5:
			if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
				t.Fatal(err)
			}
			ch, err := mustSnapshot(t, l).Alter(Change{Set: map[string]string{"delta.checkpointPolicy": "v2"}})
			if err != nil {
				t.Fatal(err)
			}
			v = mustCommit(t, l, ch) - 1 // the loop goes on behind it
		case 10:
			if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return store
}

func TestCheckFindsDamage(t *testing.T) {
	v2 := func(s *mem.Store) (manifest, sidecar string) {
		for _, k := range keys(t, s) {
			if strings.Contains(k, "10.checkpoint.") {
				manifest = k
			}
			if strings.HasPrefix(k, sidecarDir) {
				sidecar = k
			}
		}
		return manifest, sidecar
	}
	edit := func(s *mem.Store, key, old, text string) {
		b := string(get(t, s, key))
		if !strings.Contains(b, old) {
			t.Fatalf("%s has no %s: %s", key, old, b)
		}
		put(t, s, key, []byte(strings.Replace(b, old, text, 1)))
	}
	const compacted = logDir + "00000000000000000001.00000000000000000002.compacted.json"
	addsAnd := func(s *mem.Store, one, whole Version) []byte { // what two commits come to
		var b []byte
		for row := range bytes.Lines(get(t, s, commitName(one))) {
			if bytes.HasPrefix(row, []byte(`{"add"`)) {
				b = append(b, row...)
			}
		}
		return append(b, get(t, s, commitName(whole))...)
	}
	const removing = logDir + "00000000000000000004.00000000000000000005.compacted.json"
	reconciled := func(s *mem.Store, without ...string) []byte { // what removing holds
		var b []byte
		for row := range bytes.Lines(addsAnd(s, 4, 5)) {
			if len(without) == 0 || !bytes.HasPrefix(row, []byte(without[0])) {
				b = append(b, row...)
			}
		}
		return b
	}
	for _, c := range []struct {
		name   string
		damage func(s *mem.Store)
		want   string
	}{
		{"none", func(s *mem.Store) {}, ""},
		{"torn commit", func(s *mem.Store) { b := get(t, s, commitName(3)); put(t, s, commitName(3), b[:len(b)-20]) }, "00003.json"},
		{"missing commit", func(s *mem.Store) { remove(t, s, commitName(7)) }, "the commit is missing"},
		{"empty hint", func(s *mem.Store) { put(t, s, lastCheckpoint, nil) }, "_last_checkpoint: broken"},
		{"stale hint", func(s *mem.Store) { put(t, s, lastCheckpoint, []byte(`{"version":99}`)) }, "names version 99"},
		{"torn checkpoint", func(s *mem.Store) { b := get(t, s, checkpointName(5)); put(t, s, checkpointName(5), b[:len(b)/2]) }, "05.checkpoint.parquet"},
		{"checkpoint of another version", func(s *mem.Store) { put(t, s, checkpointName(6), get(t, s, checkpointName(5))) }, "not what the commits come to"},
		{"half a set", func(s *mem.Store) {
			put(t, s, logDir+"00000000000000000006.checkpoint.0000000001.0000000002.parquet", get(t, s, checkpointName(5)))
		}, "part 1 of 2"},
		{"missing sidecar", func(s *mem.Store) { _, sc := v2(s); remove(t, s, sc) }, "not there"},
		{"broken sidecar", func(s *mem.Store) { _, sc := v2(s); put(t, s, sc, []byte("x")) }, "_sidecars/"},
		{"broken manifest", func(s *mem.Store) { m, _ := v2(s); put(t, s, m, []byte("x")) }, "10.checkpoint."},
		{"checksum is no JSON", func(s *mem.Store) { put(t, s, checksumName(4), []byte("malformed")) }, "not JSON"},
		{"wrong size in the checksum", func(s *mem.Store) { edit(s, checksumName(4), `"tableSizeBytes":`, `"tableSizeBytes":9`) }, "tableSizeBytes"},
		{"wrong number in the checksum", func(s *mem.Store) { edit(s, checksumName(4), `"numFiles":4`, `"numFiles":5`) }, "numFiles 5, the log comes to 4"},
		{"wrong transaction in the checksum", func(s *mem.Store) { edit(s, checksumName(4), `"version":3`, `"version":4`) }, "transaction a at 4"},
		{"a good compaction", func(s *mem.Store) { put(t, s, compacted, addsAnd(s, 1, 2)) }, ""},
		{"a compaction with a removal", func(s *mem.Store) { put(t, s, removing, reconciled(s)) }, ""},
		{"a compaction without the removal", func(s *mem.Store) { put(t, s, removing, reconciled(s, `{"remove"`)) }, "no removal of file 1"},
		{"a compaction without the transaction", func(s *mem.Store) { put(t, s, removing, reconciled(s, `{"txn"`)) }, "no transaction a, which is at 4"},
		{"a compaction that removes more", func(s *mem.Store) {
			put(t, s, removing, append(reconciled(s), `{"remove":{"path":"0","dataChange":true}}`...))
		}, "2 removals, not 1"},
		{"a compaction with other partition values", func(s *mem.Store) {
			put(t, s, removing, bytes.Replace(reconciled(s), []byte(`"partitionValues":{}`), []byte(`"partitionValues":{"p":"1"}`), 1))
		}, "another add of file"},
		{"a compaction of other commits", func(s *mem.Store) { put(t, s, compacted, get(t, s, commitName(2))) }, "compacted.json: the compaction is not what the commits come to"},
		{"torn compaction", func(s *mem.Store) { put(t, s, compacted, addsAnd(s, 1, 2)[:100]) }, "compacted.json"},
		{"duplicate action", func(s *mem.Store) { put(t, s, commitName(4), append(get(t, s, commitName(4)), addLine("3")...)) }, `second add of "3"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checkable(t)
			c.damage(s)
			found, err := Check(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(found)
			if (len(found) == 0) != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// A compaction that leaves out the removal of a domain, or whose removal of a file that was added in its own range is a removal
// alone: the first brings the domain back, the second is sound.
func TestCheckReconcilesCompactions(t *testing.T) {
	const compacted = logDir + "00000000000000000001.00000000000000000002.compacted.json"
	commits := []string{
		addLine("a") + `{"domainMetadata":{"domain":"d","configuration":"x","removed":false}}` + "\n",
		removeLine("a") + `{"domainMetadata":{"domain":"d","configuration":"x","removed":true}}` + "\n",
	}
	for text, want := range map[string]string{
		commits[1]:      "",
		removeLine("a"): "another domain d",
		commits[0]:      "1 domains, not 0",
		removeLine("b") + commits[1][strings.Index(commits[1], "\n")+1:]: "no removal of file a",
	} {
		store := mem.New()
		mustCreate(t, store, Config{CheckpointInterval: -1})
		for i, c := range commits {
			put(t, store, commitName(Version(i+1)), []byte(c))
		}
		put(t, store, compacted, []byte(text))
		found, err := Check(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(found); (len(found) == 0) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\nfound %s, want %q", text, got, want)
		}
	}
}

// TestChecksumsAreExact replays random commits: each checksum file says what a replay from the start comes to.
func TestChecksumsAreExact(t *testing.T) {
	store := mem.New()
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: map[string]string{ictSetting: "true"}}, Config{Checksums: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for v := Version(0); v < 8; v++ {
		mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint(v))}})
	}
	for v := Version(1); v <= 8; v++ {
		var c checksum
		if err := json.Unmarshal(get(t, store, checksumName(v)), &c); err != nil {
			t.Fatal(err)
		}
		s, err := l.SnapshotAt(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if d := c.compare(s); len(d) > 0 || c.InCommit == nil {
			t.Errorf("version %d: %v", v, d)
		}
	}
	// Without the list of files there is nothing exact to say.
	light, err := Open(t.Context(), store, Config{NoFiles: true, Checksums: true})
	if err != nil {
		t.Fatal(err)
	}
	defer light.Close()
	mustCommit(t, light, Commit{ReadVersion: 8, Adds: []Add{add("x")}})
	if _, err := store.Get(t.Context(), checksumName(9)); err == nil {
		t.Error("a checksum file of an unknown list of files")
	}
}

// TestCheckCorpus: logs that others wrote have no faults but those that they were made to have.
func TestCheckCorpus(t *testing.T) {
	made := map[string]string{
		"data-reader-absolute-paths-escaped-chars":                       "no metaData",
		"deltalog-state-reconstruction-without-metadata":                 "no metaData",
		"deltalog-state-reconstruction-from-checkpoint-missing-metadata": "without protocol or metaData",
		"deltalog-state-reconstruction-from-checkpoint-missing-protocol": "without protocol or metaData",
		"corrupted-last-checkpoint-kernel":                               "_last_checkpoint: broken",
		"parsed-stats":                                                   "other metadata", // its checkpoint was made by hand
		"crc-full":                                                       "numFiles 10, the log comes to 0",
		// Its compactions hold every action, the newest first, where PROTOCOL.md asks for the reconciled ones.
		"compacted-log-files-table": "the compaction is not what the commits come to",
	}
	eachCorpusTable(t, func(t *testing.T, name string, store *mem.Store, _ expectation) {
		found, err := Check(t.Context(), store)
		want := made[tableName(name)]
		if err != nil || len(found) > 0 && want == "" || want != "" && !strings.Contains(fmt.Sprint(found), want) {
			t.Errorf("%v, %v; want %q", found, err, want)
		}
	})
}
