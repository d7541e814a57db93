package raft_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/committer/raft/fsm"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func fsmRange(r committer.Range) fsm.Range {
	return fsm.Range{Partition: r.Partition, From: int64(r.From), To: int64(r.To)}
}

// A table with check constraints, invariants and NOT NULL takes rows through a group from a writer that says which rules they
// keep. What it does not say, or a rule that came meanwhile, is refused by name, and nothing of it is in the table (I3).
func TestRowRulesThroughAGroup(t *testing.T) {
	store := mem.New()
	fields := func(metadata string) string {
		return `{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{}},{"name":"b","type":"long","nullable":true,"metadata":` + metadata + `}]}`
	}
	schema, err := deltalog.ParseSchema(fields("{}"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	constrain := func(name, rule string) {
		t.Helper()
		snap, err := log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		meta := *snap.Metadata()
		conf := map[string]string{"delta.constraints." + name: rule}
		for k, v := range meta.Configuration {
			conf[k] = v
		}
		meta.Configuration = conf
		meta.SchemaString = fields(`{"delta.invariants":"{\"expression\":{\"expression\":\"b > 3\"}}"}`)
		raw, err := json.Marshal(map[string]any{"metaData": &meta})
		if err == nil { // as Spark does it: we add no constraints
			raw = append([]byte(`{"commitInfo":{"operation":"ADD CONSTRAINT"}}`+"\n"+`{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}`+"\n"), raw...)
			err = store.PutIfAbsent(t.Context(), deltalog.CommitKey(snap.Version()+1), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rules := func() []deltalog.RowRule {
		t.Helper()
		snap, err := log.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap.RowRules()
	}
	constrain("positive", "a > 0")
	tab := newCluster(t, 1, store, nil).client(nil).Table(location)
	send := func(at record.Offset, kept []deltalog.RowRule) error {
		r := request(0, at, at+10)
		r.RowRules = kept
		_, err := tab.Commit(t.Context(), r)
		return err
	}
	refused := func(err error, names ...string) {
		t.Helper()
		if !errors.Is(err, committer.ErrInvalidRequest) {
			t.Fatalf("%v; want a refusal", err)
		}
		for _, n := range names {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%v; want it to name %s", err, n)
			}
		}
	}
	all := rules()
	if len(all) != 2 {
		t.Fatalf("rules %v", all)
	}
	refused(send(0, nil), "check constraint positive", "invariant of column b")
	refused(send(0, all[1:]), all[0].Name)
	changed := append([]deltalog.RowRule(nil), all...)
	changed[0].Expression = "a > 1"
	refused(send(0, changed), all[0].Name)
	if err := send(0, all); err != nil {
		t.Fatal(err)
	}
	constrain("even", "a % 2 = 0") // by another writer, behind the group's back
	refused(send(10, all), "check constraint even")
	if err := send(10, rules()); err != nil {
		t.Fatal(err)
	}
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Files are moved without a word on rules: their rows are those of the table.
	old := []deltalog.Remove{}
	for f := range snap.Files() {
		old = append(old, deltalog.Remove{Path: f.Path})
	}
	if len(old) != 2 {
		t.Fatalf("%d files, want 2", len(old))
	}
	c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "OPTIMIZE", Removes: old, Adds: []deltalog.Add{{Path: "merged", Size: 1}}}
	if _, err := tab.Change(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// New rows in a change need them.
	c = deltalog.Commit{ReadVersion: snap.Version() + 1, Incarnation: c.Incarnation, Operation: "WRITE", Adds: []deltalog.Add{{Path: "new", Size: 1, DataChange: true}}}
	_, err = tab.Change(t.Context(), c)
	refused(err, "check constraint even")
	c.RowRules = rules()
	if _, err := tab.Change(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if snap, err = log.Snapshot(t.Context()); err != nil || snap.NumFiles() != 2 {
		t.Errorf("%d files, %v", snap.NumFiles(), err)
	}
}
