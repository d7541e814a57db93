package rpc

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// What a node decodes is what the writer had: all that a file's removal says, deletion vectors too, so that nothing is lost
// on the way into the table (I3).
func TestBodySurvivesTheWire(t *testing.T) {
	text, yes, number, size := "x", true, int64(7), int64(70)
	dv := &deltalog.DeletionVector{StorageType: "u", PathOrInlineDV: "ab^-aqEH.-t@S}K{vb[*k^", Offset: new(int32), SizeInBytes: 36, Cardinality: 2}
	add := deltalog.Add{Path: "a%20b.parquet", PartitionValues: map[string]*string{"p": &text, "q": nil}, Size: 10, ModificationTime: 5, DataChange: true,
		Stats: `{"numRecords":3}`, Tags: map[string]*string{"k": &text}, DeletionVector: dv, BaseRowID: &number}
	want := CommitBody{Adds: []deltalog.Add{add}, Removes: []deltalog.Remove{deltalog.RemoveOf(&add, 9, false),
		{Path: "z", DeletionTimestamp: &number, DataChange: true, ExtendedFileMetadata: &yes, Size: &size}}}
	raw, err := codec{}.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got CommitBody
	if err := (codec{}).Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What the group cannot take is refused before anything is sent (I8).
func TestChangesThatAreRefused(t *testing.T) {
	c, err := NewClient(Config{Addrs: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tab := c.Table("/lake/events")
	for name, x := range map[string]deltalog.Commit{
		"the whole table": {Operation: "RESTORE", ReadAll: true},
		"no operation":    {},
		"no plan":         {Operation: "OPTIMIZE", ReadVersion: -1},
		"positions":       {Operation: "WRITE", Txns: []deltalog.Txn{{AppID: "a"}}},
	} {
		if _, err := tab.Change(context.Background(), x); !errors.Is(err, committer.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	big := deltalog.Commit{Operation: "OPTIMIZE", Adds: []deltalog.Add{{Path: strings.Repeat("x", stageAbove)}}}
	if _, err := tab.Change(context.Background(), big); !errors.Is(err, committer.ErrInvalidRequest) || !strings.Contains(err.Error(), "commit fewer files") {
		t.Errorf("too large: %v", err)
	}
}
