package table

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func withProperties(t *testing.T, props map[string]string) *deltalog.Snapshot {
	t.Helper()
	tab, err := Create(t.Context(), mem.New(), nil, Config{Properties: props})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestLost(t *testing.T) {
	key := LostProperty("a", 3)
	text, err := AddLost(withProperties(t, nil), "a", 3, []Range{{3, 20, 30}})
	if err != nil || text != "[[20,30]]" {
		t.Fatalf("%s, %v", text, err)
	}
	text, err = AddLost(withProperties(t, map[string]string{key: text}), "a", 3, []Range{{3, 5, 6}, {3, 30, 40}})
	if err != nil || text != "[[5,6],[20,40]]" {
		t.Fatalf("%s, %v", text, err)
	}
	snap := withProperties(t, map[string]string{key: text})
	got, err := Lost(snap, "a", 3)
	if err != nil || fmt.Sprint(got) != fmt.Sprint([]Range{{3, 5, 6}, {3, 20, 40}}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Lost(snap, "a", 4); err != nil || got != nil {
		t.Errorf("another partition: %v, %v", got, err)
	}
	for _, bad := range []string{"", "x", "[[1]]", "[[3,2]]", "[[-1,2]]"} { // I8
		if _, err := Lost(withProperties(t, map[string]string{key: bad}), "a", 3); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLostIsBounded proves I8: the property does not grow without end, and what was lost stays in it.
func TestLostIsBounded(t *testing.T) {
	var many []Range
	for i := range record.Offset(3 * maxLost) {
		many = append(many, Range{0, i * 10, i*10 + 1 + i%7})
	}
	got := joinClosest(normalize(many), maxLost)
	if len(got) != maxLost {
		t.Errorf("%d ranges", len(got))
	}
	for _, r := range many {
		held := false
		for _, g := range got {
			held = held || g.From <= r.From && r.To <= g.To
		}
		if !held {
			t.Errorf("%s is gone", r)
		}
	}
}

func TestCheckTopic(t *testing.T) {
	id, other := [16]byte{1}, [16]byte{2}
	plain := withProperties(t, nil)
	if recorded, err := CheckTopic(plain, "a", "t", id); recorded || err != nil {
		t.Errorf("nothing recorded: %v, %v", recorded, err)
	}
	snap := withProperties(t, map[string]string{TopicProperty("a"): FormatTopicID(id), TopicProperty("b"): "no id"})
	for _, ok := range [][16]byte{id, {}} {
		if recorded, err := CheckTopic(snap, "a", "t", ok); !recorded || err != nil {
			t.Errorf("id %v: %v, %v", ok, recorded, err)
		}
	}
	var changed *TopicChangedError
	if _, err := CheckTopic(snap, "a", "t", other); !errors.As(err, &changed) || changed.Was != id || changed.Is != other {
		t.Errorf("another id: %v", err)
	}
	if _, err := CheckTopic(snap, "b", "t", id); err == nil {
		t.Error("a broken id is taken")
	}
}

// I3: who begins is refused where another fills the table; who is recorded goes on, at his own position.
func TestCheckAlone(t *testing.T) {
	id := func(b byte) [16]byte { return [16]byte{b} }
	one := map[string]string{TopicProperty("a"): FormatTopicID(id(1))}
	both := map[string]string{TopicProperty("a"): FormatTopicID(id(1)), TopicProperty("b"): FormatTopicID(id(2))}
	for _, c := range []struct {
		props   map[string]string
		app     string
		id      [16]byte
		refused bool
		same    bool
	}{
		{nil, "a", id(1), false, false},
		{one, "a", id(1), false, false},
		{one, "b", id(2), true, false},
		{one, "b", id(1), true, true},
		{one, "b", id(0), true, false},
		{both, "b", id(2), false, false},
		{both, "a", id(1), false, false},
		{both, "c", id(3), true, false},
	} {
		err := CheckAlone(withProperties(t, c.props), c.app, c.id)
		var other *OtherTopicError
		if errors.As(err, &other) != c.refused || c.refused && (other.App != "a" || other.Same != c.same) || !c.refused && err != nil {
			t.Errorf("%v, %s of %x: %v", c.props, c.app, c.id[:1], err)
		}
	}
}
