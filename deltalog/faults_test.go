package deltalog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// fault is a fault that a Delta implementation has had, and what shows that this one does not: a check, or the
// tests that cover it, by name.
type fault struct {
	name  string
	check func(t *testing.T)
	tests string
}

// faults are those of notes/delta-protocol, section 6, by their numbers there, and what kernel-rs lists as its own.
func faults() []fault {
	return []fault{
		{"01 checkpoint fails on columns that are nullable in one batch and not in another", nil, "TestCheckpointSchema"},
		{"02 null values of tags", nil, "TestAllFieldsSurvive TestLargeCommitsInPieces"},
		{"03 physical types that Spark does not write", nil, "TestCheckpointSchema"},
		{"04 inner names of maps", nil, "TestCheckpointSchema TestCorpus"},
		{"05 feature lists at low versions", nil, "TestProtocolJSON TestRaise"},
		{"06 features in the checkpoint's protocol", checkpointProtocols, ""},
		{"07 domains lost or risen from the dead", domainsInCheckpoints, ""},
		{"08 checksum files as the base of a replay", wrongChecksumsAreNotBelieved, ""},
		{"09 removes without size, transactions lost, wrong checksums", removesSayAll, "TestAllFieldsSurvive TestChecksumsAreExact"},
		{"10 statistics missing for columns that are NOT NULL", missingStats, ""},
		{"11 empty groups in Parquet", nil, "TestCheckpointSchema"},
		{"12 dictionaries in checkpoints", plainEncodings, ""},
		{"13 paths encoded again", pathsAreDecodedOnce, "TestPaths"},
		{"14 folders with special characters", nil, "TestPartitionVectors TestPaths"},
		{"15 paths not encoded or twice", nil, "TestPartitionVectors"},
		{"16 vacuum compares other forms of paths", nil, "TestVacuumPathsAndVectors"},
		{"17 keys by encoded path", keysAreDecoded, ""},
		{"18 the name of Hive's null folder as a value", nil, "TestPartitionRefusals TestPartitionVectors"},
		{"19 empty partition values", nil, "TestPartitionRefusals TestPartitionColumns"},
		{"20 files of other kinds taken for commits", nil, "TestStrayFilesAreIgnored"},
		{"21 names that are matched in part", nil, "TestParseName"},
		{"22 timestamps before 1970 and in other zones", nil, "TestPartitionRoundTrip TestPartitionVectors"},
		{"23 values written and read by different rules", nil, "TestPartitionRoundTrip"},
		{"24 maxima of timestamps cut to milliseconds", nil, "TestStatsVectors"},
		{"25 nulls in statistics of columns that are NOT NULL", missingStats, ""},
		{"26 columns without statistics after a checkpoint", missingStats, ""},
		{"27 files with and without statistics, and with broken ones", missingStats, "TestParseStats"},
		{"28 other columns have statistics in each file", missingStats, "TestStatsColumns"},
		{"29 zone offsets of old dates are cut", nil, "TestStatsRuleOutNothingKept"},
		{"30 a checkpointed copy answers otherwise", nil, "TestCorpus TestStructStatsEqualJSONStats"},
		{"31 row counts of 32 bits, hint sizes in bytes", largeCounts, ""},
		{"32 cleanup removes the only checkpoint", nil, "TestCleanup TestCleanupNeedsAWholeCheckpoint"},
		{"33 cleanup cuts at the newest checkpoint", nil, "TestCleanup"},
		{"34 cleanup behind a cached snapshot", nil, "TestRefreshSurvivesCleanup"},
		{"35 empty hint", nil, "TestBadHints"},
		{"36 stale hint", nil, "TestBadHints"},
		{"37 two checkpoints behind the hint", nil, "TestBadHints TestFallbackFromBrokenCheckpoints"},
		{"38 broken or deleted checkpoint", nil, "TestFallbackFromBrokenCheckpoints"},
		{"39 vacuum removes files that died a moment ago", nil, "TestVacuumRetention"},
		{"40 vacuum misses files whose tombstones expired", nil, "TestVacuum"},
		{"41 vacuum removes what time travel needs", nil, "TestVacuumRetention TestVacuumLease"},
		{"42 time travel behind a cleanup", nil, "TestVersionAtAfterCleanup"},
		{"43 stores without a judge", nil, "TestUnsafeStoreIsRefused TestWithoutConditionalPut"},
		{"44 concurrent overwrites", nil, "TestConflictMatrix"},
		{"45 failure reported for a commit that is in", nil, "TestNoLostNoDoubledCommit TestGivesUpAndSaysSo"},
		{"46 retries from a stale snapshot", retriesFromTheNewest, ""},
		{"47 transaction versions that go down", transactionsGoDown, ""},
		{"48 second metadata, new table id", nil, "TestSchemaEvolution TestRefusedEvolution TestLargeCommitsInPieces"},
		{"memory: checkpoints, snapshots that grow", nil, "TestStateStaysSmall TestManySidecars TestNoFiles"},
		{"panic on broken JSON", nil, "FuzzParseCommit"},
		{"suffix ranges", absoluteRanges, ""},
		{"no schemaString", missingSchema, ""},
		{"nulls of optional fields", noNulls, ""},

		{"kernel-rs: checkpoint files missing or incomplete", nil, "TestFallbackFromBrokenCheckpoints TestIncompleteMultiPart"},
		{"kernel-rs: deletion vector at an encoded absolute path", nil, "TestAbsolutePaths TestCorpusDeletionVectors"},
		{"kernel-rs: truncated log with a checksum file", truncatedLogs, ""},
		{"kernel-rs: checkpoint without commits", checkpointOnly, ""},
		{"kernel-rs: corrupt commit or checkpoint", nil, "TestParseErrorsSayWhere TestFlippedCheckpointBytesNeverPanic TestCheckFindsDamage"},
		{"kernel-rs: duplicate actions in a commit", nil, "TestReplayRules TestLargeCommitsInPieces"},
		{"kernel-rs: deletion vectors not verified", nil, "TestDamagedDeletionVectors"},
		{"kernel-rs: schema not verified", brokenSchemas, ""},
		{"kernel-rs: no version 0", truncatedLogs, ""},
		{"kernel-rs: unknown reader features", nil, "TestFeatureGate TestUnsupportedTableIsRefusedBeforeReplay"},
		{"kernel-rs: no safety of time travel", nil, "TestVersionAtAfterCleanup"},
		{"kernel-rs: time travel by timestamp", nil, "TestVersionAt TestVersionAtInCommit"},
		{"kernel-rs: column mapping by id", nil, "TestColumnMapping"},
		{"kernel-rs: unsupported mapping mode", nil, "TestColumnMappingRefused TestFeatureGate"},
	}
}

func TestFaults(t *testing.T) {
	have := testNames(t)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if f.check == nil && f.tests == "" {
				t.Fatal("nothing shows it")
			}
			for _, name := range strings.Fields(f.tests) {
				if !have[name] {
					t.Errorf("there is no test %s", name)
				}
			}
			if f.check != nil {
				f.check(t)
			}
		})
	}
}

// testNames finds the tests of the repository.
func testNames(t *testing.T) map[string]bool {
	have := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, dir := range []string{".", "../table", "../maintenance", "../objstore", "../internal/where"} {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
				return err
			}
			b, err := os.ReadFile(p)
			for _, m := range function.FindAllSubmatch(b, -1) {
				have[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return have
}

// checkpointed gives the snapshot of a log's own checkpoint, without its commits.
func checkpointed(t *testing.T, store objstore.Store) *Snapshot {
	t.Helper()
	l, err := Open(t.Context(), store, Config{CheckpointInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
		t.Fatal(err)
	}
	return loadAll(t, clone(t, store, func(k string) bool { return !strings.HasSuffix(k, ".json") }))
}

func checkpointProtocols(t *testing.T) {
	for text, want := range map[string]string{
		`{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":[],"writerFeatures":[]}`:                              `{"minReaderVersion":1,"minWriterVersion":2}`,
		`{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}`:                                      `{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}`,
		`{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}`:  `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}`,
		`{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["appendOnly","domainMetadata"]}`: `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["appendOnly","domainMetadata"]}`,
	} {
		store := mem.New()
		putLog(t, store, map[Version]string{0: `{"protocol":` + text + "}\n" + metadataLine})
		p := checkpointed(t, store).Protocol()
		if got, err := p.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
}

func domainsInCheckpoints(t *testing.T) {
	domain := func(name string, removed bool) string {
		return fmt.Sprintf(`{"domainMetadata":{"domain":%q,"configuration":"{}","removed":%v}}`+"\n", name, removed)
	}
	store := mem.New()
	putLog(t, store, map[Version]string{0: `{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["domainMetadata"]}}` + "\n" + metadataLine + domain("kept", false) + domain("gone", false)})
	first := checkpointed(t, store)
	if len(first.domains) != 2 {
		t.Fatalf("%v", first.domains)
	}
	putLog(t, store, map[Version]string{1: domain("gone", true)})
	for name, s := range map[string]*Snapshot{"over the checkpoint": loadAll(t, store), "checkpointed again": checkpointed(t, store)} {
		if _, gone := s.Domain("gone"); gone || len(s.domains) != 1 {
			t.Errorf("%s: %v", name, s.domains)
		}
	}
}

func wrongChecksumsAreNotBelieved(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine + addLine("a"), 1: addLine("b")})
	want := loadAll(t, store)
	put(t, store, checksumName(1), []byte(`{"numFiles":99,"tableSizeBytes":1,"setTransactions":[{"appId":"x","version":9}]}`))
	put(t, store, checksumName(7), []byte(`malformed`))
	sameContent(t, "beside wrong checksum files", loadAll(t, store), want)
}

func removesSayAll(t *testing.T) {
	a := add("x")
	a.PartitionValues = map[string]*string{"p": nil}
	a.DeletionVector = &DeletionVector{StorageType: "u", PathOrInlineDV: "x"}
	r := RemoveOf(&a, 5, true)
	if r.Size == nil || *r.Size != 10 || r.ExtendedFileMetadata == nil || !*r.ExtendedFileMetadata || r.PartitionValues == nil || r.DeletionVector == nil || *r.DeletionTimestamp != 5 {
		t.Errorf("%+v", r)
	}
}

// missingStats writes files with all sorts of statistics into a table of NOT NULL columns.
func missingStats(t *testing.T) {
	store := mem.New()
	s := &StructType{Fields: []StructField{{Name: "id", Type: Long}, {Name: "name", Type: String}}}
	l, err := Create(t.Context(), store, CreateOptions{Schema: s}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stats := []string{"", "{}", `{"numRecords":3}`, `{"numRecords":3,"minValues":{"id":null},"maxValues":{},"nullCount":{"id":null}}`,
		`{"numRecords":3,"minValues":{"name":"a"},"nullCount":{"name":0}}`, "torn{", `{"numRecords":-1}`, `{"numRecords":"3"}`}
	var adds []Add
	for i, text := range stats {
		a := add(fmt.Sprint(i))
		a.Stats = text
		adds = append(adds, a)
	}
	mustCommit(t, l, Commit{Adds: adds})
	got := checkpointed(t, store)
	sameContent(t, "from the checkpoint", got, mustSnapshot(t, l))
	for a := range got.Files() {
		n, ok := a.NumRecords()
		if known := strings.HasPrefix(a.Stats, `{"numRecords":3`); ok != known || known && n != 3 {
			t.Errorf("%q: %d, %v", a.Stats, n, ok)
		}
	}
	if _, ok := got.NumRows(); ok {
		t.Error("the table's rows are known though those of a file are not")
	}
}

func plainEncodings(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine + addLine("a") + addLine("b")})
	checkpointed(t, store)
	f, err := file.NewParquetReader(bytes.NewReader(get(t, store, checkpointName(0))))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range f.MetaData().Schema.NumColumns() {
		cc, err := f.RowGroup(0).MetaData().ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range cc.Encodings() {
			if e != parquet.Encodings.Plain && e != parquet.Encodings.RLE {
				t.Errorf("column %s has encoding %v", f.MetaData().Schema.Column(i).Path(), e)
			}
		}
	}
}

func pathsAreDecodedOnce(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine + addLine("p=a%2520b/x%20y") + addLine("plus+sign")})
	s := checkpointed(t, store)
	if got := paths(s); got != "p=a%2520b/x%20y plus+sign" {
		t.Errorf("paths in the checkpoint: %s", got)
	}
	for a := range s.Files() {
		if got := a.DecodedPath(); got != "p=a%20b/x y" && got != "plus+sign" {
			t.Errorf("%s is %s in the store", a.Path, got)
		}
	}
}

func keysAreDecoded(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine + addLine("p=a%20b/x"), 1: removeLine("p=a b/x") + addLine("y")})
	if got := paths(loadAll(t, store)); got != "y" {
		t.Errorf("files %s", got)
	}
}

func largeCounts(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{})
	a := add("x")
	a.Size, a.Stats = 1<<40, `{"numRecords":5000000000}`
	mustCommit(t, l, Commit{Adds: []Add{a}})
	if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err != nil {
		t.Fatal(err)
	}
	s := loadAll(t, store)
	if n, ok := s.NumRows(); n != 5_000_000_000 || !ok || s.SizeBytes() != 1<<40 {
		t.Errorf("%d rows, %d bytes", n, s.SizeBytes())
	}
	if hint := string(get(t, store, lastCheckpoint)); !strings.Contains(hint, `"size":3`) { // protocol, metadata, file
		t.Errorf("hint %s", hint)
	}
}

// retriesFromTheNewest lets another writer win several versions at once before each of our attempts.
func retriesFromTheNewest(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{RetryBase: time.Nanosecond, RetryMax: time.Nanosecond})
	other, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	v, puts, inside := Version(0), 0, false
	store.SetHook(putHook(func() {
		if puts++; puts > 3 || inside {
			return
		}
		inside = true
		for range 3 {
			v = mustCommit(t, other, Commit{ReadVersion: v, Adds: []Add{add(fmt.Sprint("other", v))}})
		}
		inside = false
	}))
	got, err := l.Commit(t.Context(), Commit{Adds: []Add{add("ours")}, BlindAppend: true})
	if err != nil || got != v+1 {
		t.Fatalf("version %d, %v; want %d", got, err, v+1)
	}
}

func transactionsGoDown(t *testing.T) {
	store := mem.New()
	txn := func(v int) string { return fmt.Sprintf(`{"txn":{"appId":"a","version":%d}}`+"\n", v) }
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine, 1: txn(9), 2: txn(4)})
	for name, s := range map[string]*Snapshot{"replayed": loadAll(t, store), "checkpointed": checkpointed(t, store)} {
		if v, ok := s.Txn("a"); v != 4 || !ok {
			t.Errorf("%s: %d", name, v)
		}
	}
}

func absoluteRanges(t *testing.T) {
	src := &checkpointSource{size: 100, read: func(off, n int64) ([]byte, error) {
		if off < 0 || n < 0 || off+n > 100 {
			return nil, fmt.Errorf("range %d+%d", off, n)
		}
		return make([]byte, n), nil
	}}
	for _, off := range []int64{0, 50, 92, 99, 100, 200, -5} {
		if _, err := src.ReadAt(make([]byte, 8), off); err != nil && strings.HasPrefix(err.Error(), "range") {
			t.Errorf("at %d: %v", off, err)
		}
	}
}

func missingSchema(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: protocolLine + `{"metaData":{"id":"m","format":{"provider":"parquet"},"partitionColumns":[],"configuration":{}}}` + "\n" + addLine("a")})
	if s := loadAll(t, store); s.NumFiles() != 1 || len(s.Schema().Fields) != 0 {
		t.Errorf("%v", s.Schema())
	}
}

func noNulls(t *testing.T) {
	m := &Metadata{ID: "m"}
	m.normalize()
	b, err := encodeCommit(map[string]any{"operation": "x"}, &actions{adds: []Add{{Path: "a"}}, removes: []Remove{{Path: "b"}},
		txns: []Txn{{AppID: "a"}}, metadata: m, protocol: &Protocol{MinReaderVersion: 1, MinWriterVersion: 2}})
	if err != nil || bytes.Contains(b, []byte("null")) {
		t.Errorf("%s, %v", b, err)
	}
	if !bytes.Contains(b, []byte(`"partitionValues":{}`)) || !bytes.Contains(b, []byte(`"dataChange":false`)) || !bytes.Contains(b, []byte(`"size":0`)) || !bytes.Contains(b, []byte(`"version":0`)) {
		t.Errorf("required fields are left out: %s", b)
	}
}

func truncatedLogs(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{3: protocolLine + metadataLine + addLine("a"), 4: addLine("b")})
	put(t, store, checksumName(3), []byte(`{"numFiles":1}`))
	if _, err := load(t.Context(), store, -1, false); !errors.Is(err, ErrVersionNotFound) {
		t.Errorf("a log without version 0 and without checkpoint: %v", err)
	}
}

// checkpointOnly: a checkpoint says all that there is to know of its version, so it is read; what is damaged about
// the log is for Check to say.
func checkpointOnly(t *testing.T) {
	store := checkpointedLog(t, 4, 3)
	only := clone(t, store, func(k string) bool { return k == checkpointName(3) })
	sameContent(t, "checkpoint alone", loadAll(t, only), loadAll(t, clone(t, store, func(k string) bool { return k <= checkpointName(3) && k != commitName(4) })))
}

func brokenSchemas(t *testing.T) {
	for name, m := range map[string]string{
		"no JSON":          `"schemaString":"{","partitionColumns":[]`,
		"no struct":        `"schemaString":"\"long\"","partitionColumns":[]`,
		"field twice":      `"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\"},{\"name\":\"A\",\"type\":\"long\"}]}","partitionColumns":[]`,
		"unknown type":     `"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":{\"type\":\"hypercube\"}}]}","partitionColumns":[]`,
		"partition column": `"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\"}]}","partitionColumns":["b"]`,
	} {
		store := mem.New()
		putLog(t, store, map[Version]string{0: protocolLine + `{"metaData":{"id":"m","format":{"provider":"parquet"},` + m + `,"configuration":{}}}`})
		var corrupt *CorruptError
		if _, err := load(t.Context(), store, -1, false); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
