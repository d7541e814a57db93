package deltalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func alter(t testing.TB, l *Log, ch Change) Version {
	t.Helper()
	c, err := mustSnapshot(t, l).Alter(ch)
	if err != nil {
		t.Fatal(err)
	}
	return mustCommit(t, l, c)
}

func field(name string, typ DataType) StructField {
	return StructField{Name: name, Type: typ, Nullable: true}
}

func TestRaise(t *testing.T) {
	base := Protocol{1, 2, nil, nil}
	for _, c := range []struct {
		from Protocol
		need string
		want Protocol
	}{
		{base, "", base},
		{base, "appendOnly", base},
		{base, "changeDataFeed", Protocol{1, 4, nil, nil}},
		{base, "columnMapping", Protocol{2, 5, nil, nil}},
		{base, "inCommitTimestamp", Protocol{1, 7, nil, []string{"appendOnly", "inCommitTimestamp", "invariants"}}},
		{base, "columnMapping inCommitTimestamp", Protocol{2, 7, nil, []string{"appendOnly", "columnMapping", "inCommitTimestamp", "invariants"}}},
		{base, "timestampNtz", Protocol{3, 7, []string{"timestampNtz"}, []string{"appendOnly", "invariants", "timestampNtz"}}},
		{Protocol{2, 5, nil, nil}, "v2Checkpoint", Protocol{3, 7, []string{"columnMapping", "v2Checkpoint"},
			[]string{"appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "generatedColumns", "invariants", "v2Checkpoint"}}},
		{Protocol{1, 7, nil, []string{"rowTracking"}}, "domainMetadata", Protocol{1, 7, nil, []string{"domainMetadata", "rowTracking"}}},
		{Protocol{3, 7, []string{}, nil}, "domainMetadata", Protocol{3, 7, []string{}, []string{"domainMetadata"}}},
		{Protocol{3, 7, []string{"deletionVectors"}, []string{"deletionVectors"}}, "domainMetadata", Protocol{3, 7, []string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata"}}},
	} {
		got, err := c.from.raise(strings.Fields(c.need))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v + %s: %v, %v; want %v", c.from, c.need, got, err, c.want)
		}
		if err := errors.Join(checkUpgrade(&c.from, &got), checkRead(&got)); err != nil {
			t.Errorf("%v + %s is no upgrade: %v", c.from, c.need, err)
		}
	}
}

// TestSchemaEvolution adds columns beside data and transactions in one version, as tiering does, and keeps the
// table's identity (fault 48).
func TestSchemaEvolution(t *testing.T) {
	l := mustCreate(t, mem.New(), Config{})
	before := mustSnapshot(t, l)
	s := before.Schema().clone()
	s.Fields = append(s.Fields, field("n", &StructType{Fields: []StructField{field("a", Long)}}), field("at", TimestampNTZ))
	c, err := before.Alter(Change{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	c.Adds, c.Txns = []Add{add("x")}, []Txn{{AppID: "events-0", Version: 4}, {AppID: "events-1", Version: 9}}
	v := mustCommit(t, l, c)
	after := mustSnapshot(t, l)
	if m, o := after.Metadata(), before.Metadata(); m.ID != o.ID || *m.CreatedTime != *o.CreatedTime {
		t.Errorf("the table became another one: %+v, was %+v", m, o)
	}
	if p := after.Protocol(); !slices.Equal(p.ReaderFeatures, []string{"timestampNtz"}) || len(after.Schema().Fields) != 4 || after.NumFiles() != 1 || len(after.Txns()) != 2 || after.Version() != v {
		t.Errorf("%+v with %v", p, after.Schema())
	}
	// What was planned on the old schema conflicts; planned anew it goes in.
	if _, err := l.Commit(t.Context(), Commit{ReadVersion: 0, Adds: []Add{add("y")}, BlindAppend: true}); !errors.Is(err, ErrMetadataChanged) {
		t.Errorf("commit for the old schema: %v", err)
	}
}

func TestRefusedEvolution(t *testing.T) {
	old := &StructType{Fields: []StructField{field("id", Integer), {Name: "s", Nullable: true, Type: &StructType{Fields: []StructField{field("x", Long)}}},
		field("l", &ArrayType{Element: Long, ContainsNull: true}), field("p", String)}}
	l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: old, PartitionColumns: []string{"p"}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	snap := mustSnapshot(t, l)
	for name, c := range map[string]struct {
		change func(s *StructType)
		err    string
	}{
		"same": {func(s *StructType) {}, ""},
		"nested column": {func(s *StructType) {
			st := s.Fields[1].Type.(*StructType)
			st.Fields = append(st.Fields, field("y", Date))
		}, ""},
		"reorder":         {func(s *StructType) { s.Fields[0], s.Fields[1] = s.Fields[1], s.Fields[0] }, ""},
		"required column": {func(s *StructType) { s.Fields = append(s.Fields, StructField{Name: "r", Type: Long}) }, `"r" must be nullable`},
		"drop":            {func(s *StructType) { s.Fields = s.Fields[1:] }, `"id" cannot be dropped`},
		"nested drop":     {func(s *StructType) { s.Fields[1].Type = &StructType{Fields: []StructField{field("z", Long)}} }, `"s.x" cannot be dropped`},
		"type":            {func(s *StructType) { s.Fields[0].Type = String }, `"id" cannot change from integer to string`},
		"widening":        {func(s *StructType) { s.Fields[0].Type = Long }, "set delta.enableTypeWidening=true"},
		"not null":        {func(s *StructType) { s.Fields[0].Nullable = false }, "NOT NULL"},
		"element":         {func(s *StructType) { s.Fields[2].Type = &ArrayType{Element: String, ContainsNull: true} }, `"l.element" cannot change`},
		"struct":          {func(s *StructType) { s.Fields[1].Type = Long }, `"s" cannot change`},
		"partition":       {func(s *StructType) { s.Fields = s.Fields[:3] }, `partition column "p"`},
	} {
		s := snap.Schema().clone()
		c.change(s)
		_, err := snap.Alter(Change{Schema: s})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
	other := *snap.Metadata()
	other.ID = "another"
	if _, err := l.Commit(t.Context(), Commit{Metadata: &other}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("new id: %v", err)
	}
	needs := *snap.Metadata()
	needs.Configuration = map[string]string{"delta.enableDeletionVectors": "true"}
	if _, err := l.Commit(t.Context(), Commit{Metadata: &needs}); err == nil || !strings.Contains(err.Error(), "needs feature deletionVectors") {
		t.Errorf("setting without its feature: %v", err)
	}
}

func TestTypeWidening(t *testing.T) {
	l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: &StructType{Fields: []StructField{field("n", Short), field("f", Float)}}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	alter(t, l, Change{Set: map[string]string{"delta.enableTypeWidening": "true"}})
	alter(t, l, Change{Schema: &StructType{Fields: []StructField{field("n", Integer), field("f", Float)}}})
	alter(t, l, Change{Schema: &StructType{Fields: []StructField{field("n", Long), field("f", Double)}}})
	s := mustSnapshot(t, l)
	raw, _ := s.Schema().Fields[0].MetadataValue("delta.typeChanges")
	if want := `[{"fromType":"short","toType":"integer"},{"fromType":"integer","toType":"long"}]`; string(raw) != want {
		t.Errorf("type changes %s, want %s", raw, want)
	}
	for _, c := range []struct {
		from, to DataType
		ok       bool
	}{{Byte, Short, true}, {Long, Integer, false}, {Long, Double, false}, {Integer, Double, true}, {Date, TimestampNTZ, true}, {Date, Timestamp, false},
		{Decimal{5, 2}, Decimal{7, 4}, true}, {Decimal{5, 2}, Decimal{6, 4}, false}, {Decimal{5, 2}, Decimal{5, 2}, false},
		{Integer, Decimal{10, 0}, true}, {Integer, Decimal{9, 0}, false}, {Long, Decimal{20, 0}, true}, {Long, Decimal{21, 2}, false}, {String, Long, false}} {
		if widens(c.from, c.to) != c.ok {
			t.Errorf("%v to %v: want %v", c.from, c.to, c.ok)
		}
	}
}

// TestColumnMapping upgrades a table with files to name mode, renames and drops columns, and adds one with the
// name of a dropped one.
func TestColumnMapping(t *testing.T) {
	store := mem.New()
	s := &StructType{Fields: []StructField{field("id", Long), field("s", &StructType{Fields: []StructField{field("x", Long)}}), field("p", String)}}
	l, err := Create(t.Context(), store, CreateOptions{Schema: s, PartitionColumns: []string{"p"}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := "1"
	mustCommit(t, l, Commit{Adds: []Add{{Path: "a", PartitionValues: map[string]*string{"p": &v}}}})
	alter(t, l, Change{Set: map[string]string{mappingMode: "name"}})
	snap := mustSnapshot(t, l)
	if p := snap.Protocol(); p.MinReaderVersion != 2 || p.MinWriterVersion != 5 || snap.Metadata().Configuration[mappingMaxID] != "4" {
		t.Fatalf("%+v %v", p, snap.Metadata().Configuration)
	}
	walkFields(snap.Schema(), "", func(path string, f *StructField) {
		if f.PhysicalName() != f.Name { // existing files keep being read
			t.Errorf("%s is %s in files", path, f.PhysicalName())
		}
	})
	renamed := snap.Schema().clone()
	renamed.Fields[0].Name = "id, renamed" // any name goes
	alter(t, l, Change{Schema: renamed})
	dropped := mustSnapshot(t, l).Schema().clone()
	dropped.Fields = dropped.Fields[:1:1]
	dropped.Fields = append(dropped.Fields, mustSnapshot(t, l).Schema().Fields[2])
	alter(t, l, Change{Schema: dropped})
	again := mustSnapshot(t, l).Schema().clone()
	again.Fields = append(again.Fields, field("s", Long))
	alter(t, l, Change{Schema: again})
	got := mustSnapshot(t, l)
	f, _ := got.Schema().Field("s")
	id, _ := f.FieldID()
	if id != 5 || !strings.HasPrefix(f.PhysicalName(), "col-") || got.Schema().Fields[0].PhysicalName() != "id" {
		t.Errorf("new column has id %d, name %s; the renamed one is %s", id, f.PhysicalName(), got.Schema().Fields[0].PhysicalName())
	}
	if _, err := got.Alter(Change{Set: map[string]string{mappingMode: "id"}}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("name to id: %v", err)
	}
	if _, err := got.Alter(Change{Unset: []string{mappingMode}}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("name to none: %v", err)
	}

	// A new table has random names from the start, and partition values go by them.
	l2, err := Create(t.Context(), mem.New(), CreateOptions{Schema: s, PartitionColumns: []string{"p"}, Configuration: map[string]string{mappingMode: "id"}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	sn := mustSnapshot(t, l2)
	pf, _ := sn.Schema().Field("p")
	if _, ok := s.Fields[0].FieldID(); ok || sn.Metadata().Configuration[mappingMaxID] != "4" || pf.PhysicalName() == "p" {
		t.Errorf("caller's schema %v; partition column %s", s, pf.PhysicalName())
	}
	if _, err := l2.Commit(t.Context(), Commit{Adds: []Add{{Path: "a", PartitionValues: map[string]*string{"p": &v}}}}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("logical partition name: %v", err)
	}
	mustCommit(t, l2, Commit{Adds: []Add{{Path: "a", PartitionValues: map[string]*string{pf.PhysicalName(): &v}}}})
	broken := *sn.Metadata()
	broken.SchemaString = strings.Replace(broken.SchemaString, `"delta.columnMapping.id":2`, `"delta.columnMapping.id":1`, 1)
	if _, err := l2.Commit(t.Context(), Commit{ReadVersion: 1, Metadata: &broken}); err == nil || !strings.Contains(err.Error(), "same id") {
		t.Errorf("equal ids: %v", err)
	}
}

// TestTurnOnTimestamps: the first commit with a time of its own says so in the metadata, and time travel works over the seam.
func TestTurnOnTimestamps(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	store := mem.New()
	l := mustCreate(t, store, Config{Clock: func() time.Time { return now }})
	mustCommit(t, l, Commit{Adds: []Add{add("a")}})
	file := mustSnapshot(t, l).Timestamp() // the store's clock is ahead of ours
	v := alter(t, l, Change{Set: map[string]string{ictSetting: "true"}})
	mustCommit(t, l, Commit{ReadVersion: v, Adds: []Add{add("b")}})
	s := mustSnapshot(t, l)
	conf := s.Metadata().Configuration
	if conf[ictFromVersion] != "2" || conf[ictFromTime] == "" {
		t.Fatalf("%v", conf)
	}
	at, err := l.VersionAt(t.Context(), s.Timestamp())
	if err != nil || at != 3 || !s.Timestamp().After(file) {
		t.Errorf("version %d at %v, %v; files' time %v", at, s.Timestamp(), err, file)
	}
	if at, err = l.VersionAt(t.Context(), s.Timestamp().Add(-time.Millisecond)); err != nil || at != 2 {
		t.Errorf("version %d, %v", at, err)
	}
	alter(t, l, Change{Unset: []string{ictSetting}})
	if conf := mustSnapshot(t, l).Metadata().Configuration; conf[ictFromVersion] != "" {
		t.Errorf("%v", conf)
	}
}

// TestClusteringIsKept: statistics of the clustering columns are demanded, domain and provider survive.
func TestClusteringIsKept(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{0: `{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["clustering","domainMetadata"]}}` + "\n" + metadataLine +
		`{"domainMetadata":{"domain":"delta.clustering","configuration":"{\"clusteringColumns\":[[\"id\"]]}","removed":false}}`})
	l, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("without statistics: %v", err)
	}
	a := add("x")
	a.Stats, a.ClusteringProvider = `{"numRecords":1,"nullCount":{"id":0}}`, "liquid"
	mustCommit(t, l, Commit{Adds: []Add{a}})
	s := mustSnapshot(t, l)
	if err := l.Checkpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := loadAll(t, store)
	sameContent(t, "from the checkpoint", got, s)
	if d, ok := got.Domain("delta.clustering"); !ok || !json.Valid([]byte(d)) {
		t.Error("the domain is gone")
	}
	if _, err := l.Commit(t.Context(), Commit{ReadVersion: 1, Domains: []DomainMetadata{{Domain: "delta.clustering", Removed: true}}}); !errors.Is(err, ErrInvalidCommit) {
		t.Errorf("a domain of the protocol: %v", err)
	}
}

// TestRulesForRowsBindNewRowsOnly: a table with constraints takes rewrites and deletes, not rows that nobody evaluated.
func TestRulesForRowsBindNewRowsOnly(t *testing.T) {
	for name, meta := range map[string]string{
		"check constraint pos": strings.Replace(metadataLine, `"configuration":{}`, `"configuration":{"delta.constraints.pos":"id > 0"}`, 1),
		"invariant":            strings.Replace(metadataLine, `\"metadata\":{}`, `\"metadata\":{\"delta.invariants\":\"{}\"}`, 1),
		"generated column":     strings.Replace(metadataLine, `\"metadata\":{}`, `\"metadata\":{\"delta.generationExpression\":\"1\"}`, 1),
		"identity column":      strings.Replace(metadataLine, `\"metadata\":{}`, `\"metadata\":{\"delta.identity.start\":1}`, 1),
	} {
		store := mem.New()
		putLog(t, store, map[Version]string{0: `{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}` + "\n" + meta + addLine("a") + addLine("b")})
		l, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var u *UnsupportedError
		if _, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}}); !errors.As(err, &u) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: append gave %v", name, err)
		}
		if _, err := l.Commit(t.Context(), Commit{Adds: []Add{add("x")}, RowRules: []RowRule{{Name: name, Expression: "id > 1"}}}); !errors.As(err, &u) {
			t.Errorf("%s: append with another rule kept gave %v", name, err)
		}
		a, b := add("a"), add("b")
		mustCommit(t, l, Commit{Removes: []Remove{RemoveOf(&a, 1, false)}, Adds: []Add{{Path: "c", Size: 1}}})
		mustCommit(t, l, Commit{ReadVersion: 1, Removes: []Remove{RemoveOf(&b, 1, true)}})
		mustCommit(t, l, Commit{ReadVersion: 2, Adds: []Add{add("y")}, RowRules: mustSnapshot(t, l).RowRules()})
		s := mustSnapshot(t, l)
		if s.CheckWritable() == nil || s.CheckWritable(s.RowRules()...) != nil || s.CheckRewritable() != nil || l.Checkpoint(t.Context(), s) != nil {
			t.Errorf("%s: %v, %v", name, s.CheckWritable(), s.CheckRewritable())
		}
		l.Close()
	}
}
