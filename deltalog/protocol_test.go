package deltalog

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

func TestFeatureGate(t *testing.T) {
	schema := func(meta string) *StructType {
		return &StructType{Fields: []StructField{{Name: "c", Type: Long, Nullable: true, Metadata: json.RawMessage(meta)}}}
	}
	plain := schema("")
	for _, c := range []struct {
		name        string
		p           Protocol
		conf        map[string]string
		s           *StructType
		read, write string // what the refusal names; empty: allowed
	}{
		{name: "default", p: Protocol{1, 2, nil, nil}},
		{name: "empty arrays at low versions", p: Protocol{1, 2, []string{}, []string{}}},
		{name: "legacy writer 6, nothing active", p: Protocol{1, 6, nil, nil}},
		{name: "reader features", p: Protocol{3, 7, []string{"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "typeWidening", "vacuumProtocolCheck"},
			[]string{"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "typeWidening", "vacuumProtocolCheck"}}},
		{name: "unknown reader feature", p: Protocol{3, 7, []string{"teleport"}, []string{"teleport"}}, read: "teleport", write: "teleport"},
		{name: "unknown writer feature", p: Protocol{1, 7, nil, []string{"teleport"}}, write: "teleport"},
		{name: "row tracking", p: Protocol{1, 7, nil, []string{"rowTracking", "domainMetadata"}}, write: "rowTracking"},
		{name: "iceberg", p: Protocol{2, 7, nil, []string{"icebergCompatV2", "columnMapping"}}, write: "icebergCompatV2"},
		{name: "catalog", p: Protocol{3, 7, []string{"catalogManaged"}, []string{"catalogManaged"}}, read: "catalogManaged", write: "catalogManaged"},
		{name: "coordinated", p: Protocol{1, 7, nil, []string{"coordinatedCommits-preview"}}, read: "coordinatedCommits", write: "coordinatedCommits"},
		{name: "reader 4", p: Protocol{4, 7, nil, nil}, read: "reader version 4", write: "reader version 4"},
		{name: "writer 8", p: Protocol{1, 8, nil, nil}, write: "writer version 8"},
		{name: "reader 3 with writer 2", p: Protocol{3, 2, nil, nil}, read: "(3,2)", write: "(3,2)"},
		{name: "reader 3 without its list", p: Protocol{3, 7, nil, []string{}}, read: "without readerFeatures", write: "without readerFeatures"},
		{name: "reader 3 with an empty list", p: Protocol{3, 7, []string{}, []string{}}},
		{name: "constraint", p: Protocol{1, 3, nil, nil}, conf: map[string]string{"delta.constraints.pos": "c > 0"}, write: "pos"},
		{name: "invariant", p: Protocol{1, 2, nil, nil}, s: schema(`{"delta.invariants":"{}"}`), write: "invariant of column c"},
		{name: "generated", p: Protocol{1, 4, nil, nil}, s: schema(`{"delta.generationExpression":"x"}`), write: "generated column c"},
		{name: "identity", p: Protocol{1, 6, nil, nil}, s: schema(`{"delta.identity.start":1,"delta.identity.step":1}`), write: "identity column c"},
		{name: "mapping active", p: Protocol{2, 5, nil, nil}, conf: map[string]string{"delta.columnMapping.mode": "name"}},
		{name: "mapping without the feature", p: Protocol{1, 2, nil, nil}, conf: map[string]string{"delta.columnMapping.mode": "name"}, write: "without the feature"},
		{name: "unknown mapping mode", p: Protocol{2, 5, nil, nil}, conf: map[string]string{"delta.columnMapping.mode": "psychic"}, write: "psychic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			if s == nil {
				s = plain
			}
			check := func(what string, err error, want string) {
				var u *UnsupportedError
				if want == "" && err != nil || want != "" && (!errors.As(err, &u) || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: got %v, want %q", what, err, want)
				}
			}
			check("read", checkRead(&c.p), c.read)
			check("write", checkWrite(&c.p, &Metadata{Configuration: c.conf}, s, nil), c.write)
		})
	}
}

func TestUnsupportedTableIsRefusedBeforeReplay(t *testing.T) {
	store := mem.New()
	putLog(t, store, map[Version]string{
		0: protocolLine + metadataLine + addLine("a"),
		1: `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["adaptiveMetadata"],"writerFeatures":["adaptiveMetadata"]}}`,
	})
	_, err := Open(t.Context(), store, Config{})
	var u *UnsupportedError
	if !errors.As(err, &u) || len(u.Features) != 1 || !strings.Contains(u.Features[0], "adaptiveMetadata") {
		t.Fatal(err)
	}
	// A feature that was dropped again does not matter.
	putLog(t, store, map[Version]string{2: protocolLine})
	if s := loadAll(t, store); s.NumFiles() != 1 {
		t.Fatal("not readable after the feature was dropped")
	}
}

// At reader version 3 a list that is missing says nothing of what the data needs, and an empty one that it needs nothing (I8).
func TestMissingReaderFeaturesAreRefused(t *testing.T) {
	for list, refused := range map[string]bool{`"readerFeatures":[],`: false, `"readerFeatures":null,`: true, ``: true} {
		store := mem.New()
		putLog(t, store, map[Version]string{0: `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,` + list + `"writerFeatures":[]}}` + "\n" + metadataLine})
		_, err := Open(t.Context(), store, Config{})
		var u *UnsupportedError
		if errors.As(err, &u) != refused || refused != (err != nil) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// A table whose data files are not Parquet is refused by their format.
func TestOtherFileFormatIsRefused(t *testing.T) {
	for format, refused := range map[string]bool{"parquet": false, "PARQUET": false, "": false, "csv": true} {
		store := mem.New()
		meta := strings.Replace(metadataLine, `"provider":"parquet"`, `"provider":"`+format+`"`, 1)
		if format != "parquet" && meta == metadataLine {
			t.Fatal("the line has another form")
		}
		put(t, store, commitName(0), []byte(protocolLine+"\n"+meta))
		_, err := Open(t.Context(), store, Config{})
		var u *UnsupportedError
		if errors.As(err, &u) != refused || refused && !strings.Contains(err.Error(), "csv") {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func TestProtocolJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":[],"writerFeatures":[]}`: `{"minReaderVersion":1,"minWriterVersion":2}`,
		`{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}`:         `{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}`,
		`{"minReaderVersion":3,"minWriterVersion":7}`:                                         `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":[]}`,
	} {
		var p Protocol
		if err := json.Unmarshal([]byte(in), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"readerVersion":1}`), &Protocol{}); err == nil {
		t.Error("protocol without versions was accepted")
	}
}

func TestCreateProtocol(t *testing.T) {
	for _, c := range []struct {
		conf        map[string]string
		ntz         bool
		read, write int32
		refused     bool
	}{
		{read: 1, write: 2},
		{conf: map[string]string{"delta.appendOnly": "true"}, read: 1, write: 2},
		{conf: map[string]string{"delta.enableChangeDataFeed": "true"}, read: 1, write: 4},
		{ntz: true, read: 3, write: 7},
		{conf: map[string]string{"delta.enableInCommitTimestamps": "true"}, read: 1, write: 7},
		{conf: map[string]string{"delta.enableDeletionVectors": "true"}, read: 3, write: 7},
		{conf: map[string]string{"delta.columnMapping.mode": "name"}, read: 2, write: 5},
		{conf: map[string]string{"delta.columnMapping.mode": "id", "delta.enableInCommitTimestamps": "true"}, read: 2, write: 7},
		{conf: map[string]string{"delta.checkpointPolicy": "v2"}, read: 3, write: 7},
		{conf: map[string]string{"delta.feature.domainMetadata": "supported"}, read: 1, write: 7},
		{conf: map[string]string{"delta.enableRowTracking": "true"}, refused: true},
		{conf: map[string]string{"delta.enableIcebergCompatV2": "true"}, refused: true},
		{conf: map[string]string{"delta.constraints.c": "id > 0"}, refused: true},
		{conf: map[string]string{"delta.feature.rowTracking": "supported"}, refused: true},
		{conf: map[string]string{"delta.feature.teleport": "supported"}, refused: true},
		{conf: map[string]string{"delta.columnMapping.mode": "psychic"}, refused: true},
	} {
		s := testSchema()
		if c.ntz {
			s.Fields = append(s.Fields, StructField{Name: "t", Type: &MapType{Key: String, Value: &ArrayType{Element: TimestampNTZ}}, Nullable: true})
		}
		l, err := Create(t.Context(), mem.New(), CreateOptions{Schema: s, Configuration: c.conf}, Config{})
		if c.refused {
			var u *UnsupportedError
			if !errors.As(err, &u) {
				t.Errorf("%v: %v", c.conf, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(c.conf, err)
		}
		snap := mustSnapshot(t, l)
		if p := snap.Protocol(); p.MinReaderVersion != c.read || p.MinWriterVersion != c.write || snap.CheckWritable() != nil {
			t.Errorf("%v: %+v %v", c.conf, p, snap.CheckWritable())
		}
		mustCommit(t, l, Commit{ReadVersion: 0, Adds: []Add{add("x")}})
		l.Close()
	}
}

func TestProtocolUpgrades(t *testing.T) {
	old := Protocol{1, 2, nil, nil}
	for _, c := range []struct {
		p  Protocol
		ok bool
	}{
		{Protocol{1, 2, nil, nil}, true},
		{Protocol{1, 4, nil, nil}, true},
		{Protocol{1, 1, nil, nil}, false},
		{Protocol{1, 7, nil, []string{"appendOnly", "invariants", "domainMetadata"}}, true},
		{Protocol{1, 7, nil, []string{"domainMetadata"}}, false}, // forgets what version 2 stands for
		{Protocol{3, 7, []string{"timestampNtz"}, []string{"appendOnly", "invariants", "timestampNtz"}}, true},
		{Protocol{3, 7, []string{"timestampNtz"}, []string{"appendOnly", "invariants"}}, false},
		{Protocol{3, 7, []string{"teleport"}, []string{"appendOnly", "invariants", "teleport"}}, false},
	} {
		store := mem.New()
		l := mustCreate(t, store, Config{})
		_, err := l.Commit(t.Context(), Commit{Protocol: &c.p})
		if (err == nil) != c.ok {
			t.Errorf("%+v -> %+v: %v", old, c.p, err)
		}
		if got := loadAll(t, store).Protocol(); c.ok && got.MinWriterVersion != c.p.MinWriterVersion {
			t.Errorf("%+v", got)
		}
	}
	if err := checkUpgrade(&Protocol{3, 7, []string{"v2Checkpoint"}, []string{"v2Checkpoint"}}, &Protocol{3, 7, nil, []string{"v2Checkpoint"}}); err == nil {
		t.Error("a reader feature was dropped")
	}
}
