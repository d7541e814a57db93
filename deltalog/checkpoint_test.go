package deltalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// TestCheckpointSchema spells out the physical schema that other readers rely on.
func TestCheckpointSchema(t *testing.T) {
	b, _, err := encodeCheckpoint(loadAll(t, checkpointedLog(t, 2)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i := range f.MetaData().Schema.NumColumns() {
		c := f.MetaData().Schema.Column(i)
		logical := ""
		if _, none := c.LogicalType().(schema.NoLogicalType); !none {
			logical = " " + c.LogicalType().String()
		}
		fmt.Fprintf(&out, "%s %s%s %d/%d\n", c.Path(), strings.ToLower(c.PhysicalType().String()), logical, c.MaxDefinitionLevel(), c.MaxRepetitionLevel())
		md, err := f.MetaData().RowGroup(0).ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		if md.Compression() != compress.Codecs.Snappy || md.HasDictionaryPage() {
			t.Errorf("%s: codec %v, dictionary %v", c.Path(), md.Compression(), md.HasDictionaryPage())
		}
		for _, e := range md.Encodings() {
			if e != parquet.Encodings.Plain && e != parquet.Encodings.RLE {
				t.Errorf("%s: encoding %v", c.Path(), e)
			}
		}
	}
	const dv = `P.deletionVector.storageType byte_array String 3/0
P.deletionVector.pathOrInlineDv byte_array String 3/0
P.deletionVector.offset int32 3/0
P.deletionVector.sizeInBytes int32 3/0
P.deletionVector.cardinality int64 3/0
P.deletionVector.maxRowIndex int64 3/0
`
	want := `txn.appId byte_array String 2/0
txn.version int64 2/0
txn.lastUpdated int64 2/0
add.path byte_array String 2/0
add.partitionValues.key_value.key byte_array String 3/1
add.partitionValues.key_value.value byte_array String 4/1
add.size int64 2/0
add.modificationTime int64 2/0
add.dataChange boolean 2/0
add.tags.key_value.key byte_array String 3/1
add.tags.key_value.value byte_array String 4/1
` + strings.ReplaceAll(dv, "P.", "add.") + `add.baseRowId int64 2/0
add.defaultRowCommitVersion int64 2/0
add.clusteringProvider byte_array String 2/0
add.stats byte_array String 2/0
remove.path byte_array String 2/0
remove.deletionTimestamp int64 2/0
remove.dataChange boolean 2/0
remove.extendedFileMetadata boolean 2/0
remove.partitionValues.key_value.key byte_array String 3/1
remove.partitionValues.key_value.value byte_array String 4/1
remove.size int64 2/0
` + strings.ReplaceAll(dv, "P.", "remove.") + `remove.baseRowId int64 2/0
remove.defaultRowCommitVersion int64 2/0
metaData.id byte_array String 2/0
metaData.name byte_array String 2/0
metaData.description byte_array String 2/0
metaData.format.provider byte_array String 3/0
metaData.format.options.key_value.key byte_array String 4/1
metaData.format.options.key_value.value byte_array String 5/1
metaData.schemaString byte_array String 2/0
metaData.partitionColumns.list.element byte_array String 4/1
metaData.configuration.key_value.key byte_array String 3/1
metaData.configuration.key_value.value byte_array String 4/1
metaData.createdTime int64 2/0
protocol.minReaderVersion int32 2/0
protocol.minWriterVersion int32 2/0
protocol.readerFeatures.list.element byte_array String 4/1
protocol.writerFeatures.list.element byte_array String 4/1
domainMetadata.domain byte_array String 2/0
domainMetadata.configuration byte_array String 2/0
domainMetadata.removed boolean 2/0
`
	if out.String() != want {
		t.Fatalf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestAllFieldsSurvive writes every field that the protocol names and reads it back through a checkpoint.
func TestAllFieldsSurvive(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: `{"commitInfo":{"timestamp":"odd","operationParameters":{"n":1,"o":{}},"unknown":[1]}}
{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","domainMetadata"]}}
{"metaData":{"id":"not a uuid","name":"n","description":"d","format":{"provider":"parquet","options":{"o":"1"}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["p","q"],"createdTime":17,"configuration":{"a":"b","c":""}}}
{"add":{"path":"x%20y","partitionValues":{"p":null,"q":"","r":"\u00e9\ud83d\ude00\n"},"size":9007199254740993,"modificationTime":-5,"dataChange":true,"stats":"{\"numRecords\":1}","tags":{"t":null,"u":"v"},"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6,"maxRowIndex":9},"baseRowId":0,"defaultRowCommitVersion":3,"clusteringProvider":"liquid"}}
{"add":{"path":"plain","partitionValues":{},"size":0,"modificationTime":0,"dataChange":false}}
{"remove":{"path":"gone","deletionTimestamp":99999999999999,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{"p":"1"},"size":7,"tags":{"x":"y"},"deletionVector":{"storageType":"i","pathOrInlineDv":"w","sizeInBytes":1,"cardinality":1},"baseRowId":8,"defaultRowCommitVersion":2}}
{"txn":{"appId":"a","version":-1,"lastUpdated":5}}
{"txn":{"appId":"b","version":2}}
{"domainMetadata":{"domain":"d1","configuration":"{\"k\":1}","removed":false}}
{"domainMetadata":{"domain":"d2","configuration":"","removed":true}}`})
	s := loadAll(t, store)
	if v, ok := s.Txn("a"); !ok || v != -1 {
		t.Fatal("txn")
	}
	if _, ok := s.Domain("d2"); ok {
		t.Fatal("a removed domain is there")
	}
	if got := s.ReaderFeatures(); len(got) != 1 || got[0] != "deletionVectors" {
		t.Fatal(got)
	}
	first := true
	for a := range s.Files() {
		if first && (a.Size != 9007199254740993 || *a.PartitionValues["r"] != "\u00e9\U0001f600\n" || a.PartitionValues["p"] != nil || *a.DeletionVector.Offset != 4) {
			t.Fatalf("%+v", a)
		}
		first = false
	}
	l, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Checkpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	remove(t, store, commitName(0))
	sameContent(t, "read from the checkpoint", loadAll(t, store), s)
	if hint := string(get(t, store, lastCheckpoint)); !strings.Contains(hint, `"size":8`) || !strings.Contains(hint, `"numOfAddFiles":2`) {
		t.Fatal(hint)
	}
	// Again through a commit of ours: what is carried over must be written as it was read.
	var b Commit
	b.ReadVersion = 0
	for r := range s.Removed() {
		b.Removes = append(b.Removes, *r)
	}
	for a := range s.Files() {
		if a.Path == "plain" {
			b.Removes = append(b.Removes, RemoveOf(a, 5, false))
		}
	}
	a := &actions{adds: nil, removes: b.Removes}
	data, err := encodeCommit(map[string]any{}, a)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"extendedFileMetadata":true,"partitionValues":{},"size":0`) {
		t.Fatalf("a promised field is missing:\n%s", data)
	}
	if back, err := parseCommit(data, "x"); err != nil || len(back.removes) != 2 {
		t.Fatal(err)
	}
}

func TestExpiredTombstonesAreDropped(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for setting, kept := range map[string]string{"": "fresh", "interval 1 days": "", "interval 30 days": "fresh old", "nonsense": "fresh old"} {
		store := mem.New()
		conf := map[string]string{}
		if setting != "" {
			conf["delta.deletedFileRetentionDuration"] = setting
		}
		l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: conf}, Config{Clock: func() time.Time { return now }, CheckpointInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		fresh, old, never := now.Add(-2*24*time.Hour).UnixMilli(), now.Add(-8*24*time.Hour).UnixMilli(), add("never")
		r := RemoveOf(&never, 0, true)
		r.DeletionTimestamp = nil // counts as expired
		mustCommit(t, l, Commit{Removes: []Remove{{Path: "fresh", DeletionTimestamp: &fresh}, {Path: "old", DeletionTimestamp: &old}, r}})
		b, _, err := encodeCheckpoint(mustSnapshot(t, l), now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = parseParquet(&checkpointSource{size: int64(len(b)), window: b}, false, func(a *actions) error {
			for _, r := range a.removes {
				got = append(got, r.Path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, " ") != kept {
			t.Errorf("%q: kept %v, want %q", setting, got, kept)
		}
		l.Close()
	}
}

func TestParseInterval(t *testing.T) {
	for s, want := range map[string]time.Duration{"interval 1 week": week, "INTERVAL 30 days": 30 * 24 * time.Hour,
		"interval 1 day 2 hours": 26 * time.Hour, "5 minutes": 5 * time.Minute, "interval 0 seconds": 0} {
		if got, err := ParseInterval(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "interval", "interval 1", "interval x days", "interval -1 days", "interval 1 fortnight"} {
		if _, err := ParseInterval(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestCheckpointInBackground(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{CheckpointInterval: 4})
	for i := range 9 {
		mustCommit(t, l, Commit{ReadVersion: Version(i), Adds: []Add{add(fmt.Sprint(i))}})
	}
	l.Close() // waits
	if v, err := readHint(t.Context(), store); err != nil || v < 4 {
		t.Fatalf("hint %d, %v", v, err)
	}
	// An older checkpoint that comes late does not turn the hint back.
	again, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Checkpoint(t.Context(), mustSnapshot(t, again)); err != nil {
		t.Fatal(err)
	}
	old, err := again.SnapshotAt(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Checkpoint(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if v, _ := readHint(t.Context(), store); v != 9 {
		t.Fatalf("hint %d", v)
	}
}

// TestShortLivedWriters: a process that opens the table for one commit must not checkpoint each time.
func TestShortLivedWriters(t *testing.T) {
	store := mem.New()
	mustCreate(t, store, Config{})
	for i := range 25 {
		l, err := Open(t.Context(), store, Config{CheckpointInterval: 10})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, l, Commit{ReadVersion: Version(i), Adds: []Add{add(fmt.Sprint(i))}})
		l.Close()
	}
	found, err := list(t.Context(), store, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.checkpoints) != 2 || found.checkpoints[0].version != 20 || found.checkpoints[1].version != 10 {
		t.Fatalf("checkpoints %+v", found.checkpoints)
	}
}

func TestBrokenCheckpointIsNotNamed(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{CheckpointInterval: -1})
	mustCommit(t, l, Commit{Adds: []Add{add("a")}})
	bad := truncating{store}
	broken, err := Open(t.Context(), bad, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if err := broken.Checkpoint(t.Context(), mustSnapshot(t, broken)); err == nil {
		t.Fatal("a truncated checkpoint was accepted")
	}
	if _, err := store.Get(t.Context(), lastCheckpoint); err == nil {
		t.Fatal("the hint names a broken checkpoint")
	}
	if s := loadAll(t, store); s.NumFiles() != 1 {
		t.Fatal("the table is not readable")
	}
}

func TestCheckpointProtection(t *testing.T) {
	store := mem.New()
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema(), Configuration: map[string]string{"delta.requireCheckpointProtectionBeforeVersion": "5"}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Checkpoint(t.Context(), mustSnapshot(t, l)); err == nil {
		t.Fatal("the protected version was checkpointed")
	}
}

func TestRecreatedTableIsNotContinued(t *testing.T) {
	store := mem.New()
	l := mustCreate(t, store, Config{})
	for i := range 3 {
		mustCommit(t, l, Commit{ReadVersion: Version(i), Adds: []Add{add(fmt.Sprint(i))}})
	}
	for v := Version(0); v <= 3; v++ {
		remove(t, store, commitName(v))
	}
	mustCreate(t, store, Config{})
	if _, err := l.Commit(t.Context(), Commit{ReadVersion: 3, Adds: []Add{add("x")}}); !errors.Is(err, ErrInvalidCommit) {
		t.Fatal(err)
	}
	if s := mustSnapshot(t, l); s.Version() != 0 {
		t.Fatalf("version %d", s.Version())
	}
}
