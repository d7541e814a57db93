package deltalog_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// A version that is put together from its parts and put by the caller is a commit like any other.
func TestDecidedVersion(t *testing.T) {
	store := mem.New()
	schema, err := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := snap.EncodeActions(deltalog.Commit{Adds: []deltalog.Add{{Path: "x.parquet", Size: 3, DataChange: true}}, BlindAppend: true})
	if err != nil {
		t.Fatal(err)
	}
	h := deltalog.Header{TxnID: "id", Timestamp: 5, Operation: "WRITE", ReadVersion: -1, BlindAppend: true,
		Parameters: map[string]string{"b": "2", "a": "x"}, Txns: []deltalog.Txn{{AppID: "app-0", Version: 9}}}
	head, err := deltalog.EncodeHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	again, err := deltalog.EncodeHeader(h)
	if err != nil || !bytes.Equal(head, again) { // I5: one content
		t.Errorf("the same header gives other bytes: %v", err)
	}
	data := append(head, lines...)
	if err := store.PutIfAbsent(t.Context(), deltalog.CommitKey(1), data); err != nil {
		t.Fatal(err)
	}
	log.Published(1, data)
	other, err := deltalog.Open(t.Context(), store, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, l := range []*deltalog.Log{log, other} {
		s, err := l.Snapshot(t.Context())
		if err != nil || s.Version() != 1 || s.NumFiles() != 1 {
			t.Fatalf("snapshot %v, %v", s, err)
		}
		if v, _ := s.Txn("app-0"); v != 9 {
			t.Errorf("position %d", v)
		}
	}
	c, err := deltalog.ParseCommit(data, "1")
	if err != nil || c.Info.TxnID != "id" || len(c.Adds) != 1 || len(c.Txns) != 1 {
		t.Errorf("parsed %+v, %v", c, err)
	}
}

func TestEncodeActionsRefuses(t *testing.T) {
	store := mem.New()
	schema, _ := deltalog.ParseSchema(`{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}`)
	log, err := deltalog.Create(t.Context(), store, deltalog.CreateOptions{Schema: schema}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, _ := log.Snapshot(t.Context())
	v := "1"
	for name, add := range map[string]deltalog.Add{
		"no path":         {},
		"partition value": {Path: "p", PartitionValues: map[string]*string{"x": &v}},
		"broken escape":   {Path: "a%zz"},
	} {
		if _, err := snap.EncodeActions(deltalog.Commit{Adds: []deltalog.Add{add}}); !errors.Is(err, deltalog.ErrInvalidCommit) { // I8
			t.Errorf("%s = %v", name, err)
		}
	}
	m := *snap.Metadata()
	p := snap.Protocol()
	a, errA := deltalog.Fingerprint(&m)
	m.Configuration = nil
	b, errB := deltalog.Fingerprint(&m)
	m.Name = "other"
	c, errC := deltalog.Fingerprint(&m)
	d, errD := deltalog.Fingerprint(&p)
	if err := errors.Join(errA, errB, errC, errD); err != nil || a != b || a == c || d == a {
		t.Errorf("fingerprints %s %s %s %s, %v", a, b, c, d, err)
	}
}
