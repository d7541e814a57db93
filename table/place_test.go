package table

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/record"
)

func TestNotedPlace(t *testing.T) {
	key := PlaceProperty("a", 3)
	for _, want := range []NotedPlace{
		{Offset: 0, Origin: record.Origin{Batch: -1, FirstLedger: -1, FirstEntry: -1, Index: -1}},
		{Offset: 1 << 50, Origin: record.Origin{Ledger: 1 << 40, Entry: 7, Batch: 9, FirstLedger: 5, FirstEntry: 6, Index: 1 << 60}},
	} {
		snap := withProperties(t, map[string]string{key: want.String()})
		got, ok, err := PlaceOf(snap, "a", 3)
		if d := cmp.Diff(want, got); err != nil || !ok || d != "" {
			t.Errorf("%v, %v: %s", ok, err, d)
		}
		if _, ok, err := PlaceOf(snap, "a", 4); ok || err != nil {
			t.Errorf("another partition: %v, %v", ok, err)
		}
	}
	for _, bad := range []string{"", "x", "[]", "[1,2,3,4,5,6]", "[-1,1,1,-1,-1,-1,-1]", "[1,1,1,4294967296,-1,-1,-1]"} { // I8
		if _, ok, err := PlaceOf(withProperties(t, map[string]string{key: bad}), "a", 3); ok || err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v, %v", bad, ok, err)
		}
	}
}
