package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// tierAs drains the log into the table with a changed configuration.
func (w *world) tierAs(change func(*tiering.Config)) error {
	cfg := tiering.Config{
		Source: w.log, Topic: topic, Table: w.table, Format: tiering.FormatJSON, UntilEnd: true,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return w.dead, nil },
	}
	change(&cfg)
	tr, err := tiering.Open(w.t.Context(), cfg)
	if err != nil {
		return err
	}
	return errors.Join(tr.Run(w.t.Context()), tr.Close())
}

// append adds good records at the end of partition 0.
func (w *world) append(from, n int) {
	w.t.Helper()
	b := record.NewBuilder(record.None)
	for i := range n {
		b.Append(int64(1000+from+i), nil, fmt.Appendf(nil, `{"n":%d}`, from+i), nil)
	}
	raw, err := b.Build(0)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.log.Append(w.t.Context(), tp(0), raw)
	if err != nil || int(r.Base) != from {
		w.t.Fatalf("append at %d, want %d: %v", r.Base, from, err)
	}
}

// What retention took before it was tiered, accepted by the gap policy, is reported as lost by every later reader,
// also when the commit that says so is only in a checkpoint (I4).
func TestReaderReportsLost(t *testing.T) {
	w := filled(t, 100, 20)
	w.cut(40)
	var gap *tiering.GapError
	if err := w.tierAs(func(*tiering.Config) {}); !errors.As(err, &gap) {
		t.Fatalf("tiering over a gap = %v", err)
	}
	earliest := func(c *tiering.Config) { c.OnGap = tiering.GapEarliest }
	if err := w.tierAs(earliest); err != nil {
		t.Fatal(err)
	}
	w.append(100, 20)
	w.cut(110)
	if err := w.tierAs(earliest); err != nil {
		t.Fatal(err)
	}
	check := func(rows int) {
		t.Helper()
		var gaps []reader.Gap
		cfg := w.config()
		cfg.From, cfg.OnGap = reader.AtOffsets(map[int32]record.Offset{0: 10}), func(g reader.Gap) { gaps = append(gaps, g) }
		c := open(t, cfg)
		if got := offsets(t, c); len(got) != rows {
			t.Errorf("%d rows", len(got))
		}
		want := []reader.Gap{{Partition: 0, From: 20, To: 40, Reason: reader.GapLost}, {Partition: 0, From: 100, To: 110, Reason: reader.GapLost}}
		if fmt.Sprint(gaps) != fmt.Sprint(want) {
			t.Errorf("gaps %v, want %v", gaps, want)
		}
	}
	check(80)
	w.reopenAtCheckpoint()
	check(85)
}

// reopenAtCheckpoint makes a checkpoint, removes all commits that it covers, and opens the table again.
func (w *world) reopenAtCheckpoint() {
	w.t.Helper()
	if err := w.table.Close(); err != nil {
		w.t.Fatal(err)
	}
	tab, err := table.Open(w.t.Context(), w.store, table.Config{Log: deltalog.Config{CheckpointInterval: 1}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.table = tab
	w.append(120, 5)
	if err := w.tierAs(func(*tiering.Config) {}); err != nil {
		w.t.Fatal(err)
	}
	if err := tab.Close(); err != nil { // waits for the checkpoint
		w.t.Fatal(err)
	}
	removed := 0
	for info, err := range w.store.List(w.t.Context(), objstore.ListOptions{Prefix: "_delta_log/0"}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasSuffix(info.Key, ".json") {
			removed++
			if err := w.store.Delete(w.t.Context(), info.Key); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if w.table, err = table.Open(w.t.Context(), w.store, table.Config{}); err != nil || removed < 3 {
		w.t.Fatalf("%d commits removed; %v", removed, err)
	}
	snap, err := w.table.Refresh(w.t.Context())
	if end, ok := table.LakeEnd(snap, topic, 0); err != nil || !ok || end != 125 {
		w.t.Fatalf("the table is at %d, %v", end, err)
	}
}

// A topic that was deleted and made again is not taken for the one before, however far it has grown (I3, I4).
func TestTopicMadeAgain(t *testing.T) {
	w := filled(t, 50, 50)
	remake := func() {
		if err := w.log.DeleteTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		if _, err := w.log.CreateTopic(t.Context(), topic, broker.TopicConfig{Partitions: partitions, Tiered: true}); err != nil {
			t.Fatal(err)
		}
	}
	remake()
	w.append(0, 80)
	var changed *table.TopicChangedError
	if err := w.tierAs(func(*tiering.Config) {}); !errors.As(err, &changed) || !strings.Contains(err.Error(), "--accept-new-topic") {
		t.Fatalf("tiering = %v", err)
	}
	if _, err := reader.Open(t.Context(), w.config()); !errors.As(err, &changed) {
		t.Fatalf("reading over the seam = %v", err)
	}
	if err := w.tierAs(func(c *tiering.Config) { c.AcceptTopic = true }); err != nil {
		t.Fatal(err)
	}
	wantRun(t, offsets(t, open(t, w.config())), 0, 80)
	if err := w.tierAs(func(*tiering.Config) {}); err != nil { // the new id is the table's now
		t.Fatal(err)
	}
}
