package deltalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// conflictMatrix has a row for what another writer committed first and a column for what we commit then, without
// having seen it. "ok" or the conflict; a slash gives the answers under WriteSerializable and Serializable.
const conflictMatrix = `
winner               append txn  optimize delete overwrite compact meta  readmeta protocol domain
blind append         ok     ok   ok       ok     ok/app    ok      ok    ok/app   ok       ok
append after reading ok     ok   ok       ok     app       ok      ok    app      ok       ok
txn append           ok     txn  ok       ok     app       ok      ok    app      ok       ok
other txn append     ok     ok   ok       ok     app       ok      ok    app      ok       ok
delete of a          ok     ok   del      del    del       del     ok    read     ok       ok
delete of b          ok     ok   read     read   read      read    ok    read     ok       ok
delete of c          ok     ok   ok       ok     read      read    ok    read     ok       ok
optimize of a        ok     ok   del      del    del       del     ok    read     ok       ok
optimize of c        ok     ok   ok       ok     read      read    ok    read     ok       ok
deletion vector on a ok     ok   del      del    del       del     ok    read     ok       ok
metadata             meta   meta meta     meta   meta      meta    meta  meta     meta     meta
protocol             ok     ok   ok       ok     ok        ok      proto proto    proto    ok
same domain          ok     ok   ok       ok     ok        ok      ok    ok       ok       dom
other domain         ok     ok   ok       ok     ok        ok      ok    ok       ok       ok
`

var conflictNames = map[string]error{"ok": nil, "app": ErrConcurrentAppend, "del": ErrConcurrentDelete, "read": ErrConcurrentDeleteRead,
	"meta": ErrMetadataChanged, "proto": ErrProtocolChanged, "dom": ErrDomainConflict}

// conflictCase gives the commit that a row or column of the matrix stands for.
func conflictCase(t *testing.T, name string, s *Snapshot) Commit {
	files := map[string]Add{}
	for a := range s.Files() {
		files[a.Path] = *a
	}
	rm := func(path string, dataChange bool) []Remove {
		a := files[path]
		return []Remove{RemoveOf(&a, 1, dataChange)}
	}
	meta := *s.Metadata()
	meta.Description = "changed by " + name
	p := s.Protocol()
	p.ReaderFeatures, p.WriterFeatures = []string{"deletionVectors", "v2Checkpoint"}, append(p.WriterFeatures, "v2Checkpoint")
	dv := &DeletionVector{StorageType: "u", PathOrInlineDV: "ab^-aqEH.-t@S}K{vb[*k^", SizeInBytes: 1, Cardinality: 1}
	rewritten := func(path string) Add { return Add{Path: path, Size: 1} }
	c, ok := map[string]Commit{
		"blind append":         {Adds: []Add{add("w")}, BlindAppend: true},
		"append":               {Adds: []Add{add("x")}, BlindAppend: true},
		"append after reading": {Adds: []Add{add("w")}, ReadAll: true},
		"txn append":           {Adds: []Add{add("w")}, Txns: []Txn{{AppID: "1", Version: 1}, {AppID: "3", Version: 1}}},
		"other txn append":     {Adds: []Add{add("w")}, Txns: []Txn{{AppID: "2", Version: 1}}},
		"txn":                  {Adds: []Add{add("x")}, Txns: []Txn{{AppID: "0", Version: 1}, {AppID: "1", Version: 1}}},
		"optimize":             {Removes: rm("a", false), Adds: []Add{rewritten("x")}, ReadFiles: []string{"a", "b"}},
		"compact":              {Removes: rm("a", false), Adds: []Add{rewritten("x")}, ReadAll: true},
		"delete":               {Removes: rm("a", true), Adds: []Add{add("x")}, ReadFiles: []string{"a", "b"}},
		"overwrite":            {Removes: rm("a", true), Adds: []Add{add("x")}, ReadAll: true},
		"delete of a":          {Removes: rm("a", true)},
		"delete of b":          {Removes: rm("b", true)},
		"delete of c":          {Removes: rm("c", true)},
		"optimize of a":        {Removes: rm("a", false), Adds: []Add{rewritten("w")}},
		"optimize of c":        {Removes: rm("c", false), Adds: []Add{rewritten("w")}},
		"deletion vector on a": {Removes: rm("a", true), Adds: []Add{{Path: "a", Size: 1, DataChange: true, DeletionVector: dv, Stats: `{"numRecords":3}`}}},
		"metadata":             {Metadata: &meta},
		"meta":                 {Metadata: &meta},
		"readmeta":             {Metadata: &meta, ReadAll: true},
		"protocol":             {Protocol: &p},
		"same domain":          {Domains: []DomainMetadata{{Domain: "d", Configuration: "w"}}},
		"other domain":         {Domains: []DomainMetadata{{Domain: "e", Configuration: "w"}}},
		"domain":               {Domains: []DomainMetadata{{Domain: "d", Configuration: "x"}}},
	}[name]
	if !ok {
		t.Fatalf("no case %q", name)
	}
	c.ReadVersion = s.Version()
	return c
}

func TestConflictMatrix(t *testing.T) { // I5
	rows := strings.Split(strings.TrimSpace(conflictMatrix), "\n")
	columns := strings.Fields(rows[0])[1:]
	for _, row := range rows[1:] {
		f := strings.Fields(row)
		cells, winner := f[len(f)-len(columns):], strings.Join(f[:len(f)-len(columns)], " ")
		for i, column := range columns {
			weak, strong, two := strings.Cut(cells[i], "/")
			if !two {
				strong = weak
			}
			t.Run(column+" after "+winner, func(t *testing.T) {
				testConflict(t, "WriteSerializable", winner, column, weak)
				testConflict(t, "Serializable", winner, column, strong)
			})
		}
	}
}

func testConflict(t *testing.T, isolation, winner, mine, want string) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","domainMetadata"]}}` + "\n" +
		strings.Replace(metadataLine, `"configuration":{}`, `"configuration":{"delta.isolationLevel":"`+isolation+`"}`, 1) + addLine("a") + addLine("b") + addLine("c")})
	open := func() *Log {
		l, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	ours, other := open(), open()
	s := mustSnapshot(t, ours)
	c := conflictCase(t, mine, s)
	v := mustCommit(t, other, conflictCase(t, winner, s))
	got, err := ours.Commit(t.Context(), c)
	if want == "txn" {
		var tc *TxnConflictError
		if !errors.As(err, &tc) || fmt.Sprint(tc.AppIDs) != "[1]" {
			t.Fatalf("%s: got %v", isolation, err)
		}
		return
	}
	if !errors.Is(err, conflictNames[want]) || (err == nil) != (want == "ok") {
		t.Fatalf("%s: got %v, want %s", isolation, err, want)
	}
	if err == nil && got != v+1 {
		t.Fatalf("%s: version %d, want %d", isolation, got, v+1)
	}
}

// TestProtocolAdopted: a newer protocol of another writer is kept to when it is known, and refused by its name
// when it is not.
func TestProtocolAdopted(t *testing.T) {
	for feature, ok := range map[string]bool{"v2Checkpoint": true, "rowTracking": false} {
		store := mem.New()
		l := mustCreate(t, store, Config{})
		put(t, store, commitName(1), []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants","`+feature+`"]}}`))
		_, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}, BlindAppend: true})
		var u *UnsupportedError
		if ok && err != nil || !ok && (!errors.As(err, &u) || !strings.Contains(err.Error(), feature)) {
			t.Errorf("%s: %v", feature, err)
		}
	}
}
