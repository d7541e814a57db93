package deltalog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func testSchema() *StructType {
	return &StructType{Fields: []StructField{{Name: "id", Type: Long, Nullable: true}, {Name: "name", Type: String, Nullable: true}}}
}

func mustCreate(t testing.TB, store objstore.Store, cfg Config) *Log {
	t.Helper()
	l, err := Create(t.Context(), store, CreateOptions{Schema: testSchema()}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func add(path string) Add { return Add{Path: path, Size: 10, ModificationTime: 1, DataChange: true} }

func mustCommit(t testing.TB, l *Log, c Commit) Version {
	t.Helper()
	v, err := l.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustSnapshot(t testing.TB, l *Log) *Snapshot {
	t.Helper()
	s, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCreateAppendRead(t *testing.T) {
	store := mem.New()
	if _, err := Open(t.Context(), store, Config{}); !errors.Is(err, ErrNotTable) {
		t.Fatalf("open of nothing: %v", err)
	}
	l := mustCreate(t, store, Config{})
	if _, err := Create(t.Context(), store, CreateOptions{Schema: testSchema()}, Config{}); !errors.Is(err, ErrTableExists) {
		t.Fatalf("second create: %v", err)
	}
	first := mustSnapshot(t, l)
	for i := range 5 {
		v := mustCommit(t, l, Commit{Operation: "WRITE", ReadVersion: Version(i), BlindAppend: true,
			Adds: []Add{add(fmt.Sprintf("f%d.parquet", i))}, Txns: []Txn{{AppID: "a", Version: int64(i)}}})
		if v != Version(i+1) {
			t.Fatalf("version %d, want %d", v, i+1)
		}
	}
	if first.NumFiles() != 0 || first.Version() != 0 {
		t.Fatal("a snapshot changed")
	}
	other, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Snapshot{mustSnapshot(t, l), mustSnapshot(t, other)} {
		n := 0
		for range s.Files() {
			n++
		}
		if v, ok := s.Txn("a"); n != 5 || s.NumFiles() != 5 || s.Version() != 5 || !ok || v != 4 {
			t.Fatalf("version %d, %d files, txn %d", s.Version(), n, v)
		}
		if p := s.Protocol(); p.MinReaderVersion != 1 || p.MinWriterVersion != 2 {
			t.Fatalf("protocol %+v", p)
		}
	}
}
