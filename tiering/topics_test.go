package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// several are the rigs of topics that fill one table and have their dead letters in one.
func several(t *testing.T, partitions int, topics ...string) map[string]*rig {
	t.Helper()
	store, dead := mem.New(), mem.New()
	names := table.DefaultNames()
	names.Topic = table.TopicColumn
	tab, err := table.Create(t.Context(), store, payload(), table.Config{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	out := map[string]*rig{}
	for _, topic := range topics {
		r := newRig(t, partitions)
		r.store, r.dead, r.cfg.Topic = store, dead, topic
		out[topic] = r
	}
	return out
}

// values gives the values of the rows of a topic, by place.
func values(t testing.TB, store objstore.Store, topic string) map[place]string {
	t.Helper()
	out := map[place]string{}
	tab, err := table.Open(t.Context(), store, table.Config{Topic: topic})
	if errors.Is(err, deltalog.ErrNotTable) {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for rb, err := range tab.Scan(t.Context(), snap, table.ScanOptions{Columns: []string{"_partition", "_offset", "_value", table.TopicColumn}}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rb.NumRows()) {
			at := place{rb.Column(0).(*array.Int32).Value(i), rb.Column(1).(*array.Int64).Value(i)}
			if got := rb.Column(3).ValueStr(i); got != topic {
				t.Errorf("a row of topic %s says %s", topic, got)
			}
			out[at] = string(rb.Column(2).(*array.Binary).Value(i))
		}
		rb.Release()
	}
	return out
}

// apart checks that each record of a topic's log is a row or a dead letter of that topic (I3, I7).
func (r *rig) apart() {
	r.t.Helper()
	got, dead := values(r.t, r.store, r.cfg.Topic), values(r.t, r.dead, r.cfg.Topic)
	both := maps.Clone(got)
	for at, v := range dead {
		if _, twice := both[at]; twice {
			r.t.Errorf("%s: %+v is a row and a letter", r.cfg.Topic, at)
		}
		both[at] = v
		if !strings.HasPrefix(v, "bad") {
			r.t.Errorf("%s: %+v is the letter %q", r.cfg.Topic, at, v)
		}
	}
	if want := r.want(); !maps.Equal(both, want) {
		r.t.Errorf("%s: %d rows and %d letters, want %d in all", r.cfg.Topic, len(got), len(dead), len(want))
	}
}

// I3, I7: topics whose records have the same partitions and offsets fill one table side by side, rows and dead letters, each record
// once, also after a stop between letters and rows.
func TestTopicsFillOneTable(t *testing.T) {
	rigs := several(t, 2, "a", "b", "c")
	topics := slices.Sorted(maps.Keys(rigs))
	for round := range 3 {
		for i, topic := range topics {
			r := rigs[topic]
			for p := range int32(2) {
				r.log.append(t, p, record.None, fmt.Appendf(nil, `{"n":%d,"s":"%s"}`, round, topic), fmt.Appendf(nil, "bad %s %d", topic, round), fmt.Appendf(nil, `{"n":%d}`, i))
			}
		}
		if round == 1 {
			rigs["a"].dieBeforeRows() // its letters are there, at the places of letters of others
		}
		var wg sync.WaitGroup
		for _, topic := range topics {
			wg.Go(func() { rigs[topic].mustRun() })
		}
		wg.Wait()
		for _, topic := range topics {
			rigs[topic].apart()
		}
	}
	rigs["b"].log.append(t, 0, record.None, []byte("bad before"))
	rigs["b"].dieBeforeRows()
	rigs["b"].cfg.Format = tiering.FormatRaw // what was bad is good now: its letter goes, and no other topic's
	rigs["b"].mustRun()
	if got := values(t, rigs["b"].dead, "b"); len(got) != 6 {
		t.Errorf("%d letters of b, want the 6 that are older: %v", len(got), got)
	}
	for _, topic := range topics {
		rigs[topic].apart()
	}
	tab, err := table.Open(t.Context(), rigs["a"].store, table.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if found, err := tab.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
	for _, topic := range topics {
		snap, err := tab.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for p, part := range rigs[topic].log.parts {
			if end, _ := table.LakeEnd(snap, topic, int32(p)); end != part.bounds.Stable || rigs[topic].log.holds[int32(p)] > end { // I6
				t.Errorf("%s-%d is at %d, held at %d, want %d", topic, p, end, rigs[topic].log.holds[int32(p)], part.bounds.Stable)
			}
		}
	}
}

// identified is a log whose topic has an id.
type identified struct {
	beforeFetch
	id [16]byte
}

func (i identified) TopicID(context.Context, string) ([16]byte, error) { return i.id, nil }

// I3: a table whose rows do not say their topic takes no second one, and not the same one under a second name, also when both
// find it empty.
func TestSecondTopicRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		id     [16]byte // of the second topic
		at     bool     // it begins before the first one is done
		same   bool
		change func(*tiering.Config)
	}{
		"another topic":          {id: [16]byte{2}, change: func(c *tiering.Config) { c.Topic = "returns" }},
		"another topic, at once": {id: [16]byte{2}, at: true, change: func(c *tiering.Config) { c.Topic = "returns" }},
		"one without an id":      {change: func(c *tiering.Config) { c.Topic = "returns" }},
		"another name":           {id: [16]byte{1}, same: true, change: func(c *tiering.Config) { c.App = "again" }},
	} {
		t.Run(name, func(t *testing.T) {
			one := newRig(t, 1)
			one.log.append(t, 0, record.None, []byte(`{"n":0}`), []byte("bad"))
			two := *one
			one.cfg.Source = identified{beforeFetch{one.log, new(sync.Once), func() {}}, [16]byte{1}}
			first := func() {}
			if tc.at {
				first = func() { one.mustRun() }
			} else {
				one.mustRun()
			}
			two.cfg.Source = identified{beforeFetch{two.log, new(sync.Once), first}, tc.id}
			tc.change(&two.cfg)
			var other *table.OtherTopicError
			if _, err := two.run(t.Context()); !errors.As(err, &other) || other.App != "orders" || other.Same != tc.same {
				t.Fatalf("run = %v, want an OtherTopicError of orders", err)
			}
			one.check(place{0, 1})
			wantDead(t, one, place{0, 1})
		})
	}
}

// A table of dead letters that does not keep topics apart, as older builds made for such topics, loses no letter of another
// topic when one of the same coordinates goes (I7).
func TestLettersOfTopicsThatAreNotApart(t *testing.T) {
	a, b := newRig(t, 1), newRig(t, 1)
	b.dead, b.cfg.Topic = a.dead, "returns"
	a.log.append(t, 0, record.None, []byte("bad of orders"))
	b.log.append(t, 0, record.None, []byte("bad of returns"), []byte("bad too"))
	a.mustRun()
	b.dieBeforeRows()
	b.cfg.Format = tiering.FormatRaw
	b.mustRun()
	got := map[string]string{}
	log, err := deltalog.Open(t.Context(), a.dead, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	snap, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for add := range snap.Files() {
		for _, row := range fileRows(t, a.dead, add.Path) {
			got[row["_value"]] = row["_topic"]
		}
	}
	if want := map[string]string{"bad of orders": "orders"}; !maps.Equal(got, want) {
		t.Errorf("letters %v, want %v", got, want)
	}
}

// A table that was opened for one topic is not filled from another (I8).
func TestTableOfAnotherTopic(t *testing.T) {
	r := several(t, 1, "a")["a"]
	tab, err := table.Open(t.Context(), r.store, table.Config{Topic: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	r.cfg.Table = tab
	if _, err := tiering.Open(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), `opened for "b"`) {
		t.Errorf("Open = %v", err)
	}
}
