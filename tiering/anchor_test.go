package tiering_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// countedLog is a log that learns offsets by reading.
type countedLog struct{ *fakeLog }

func (c countedLog) CountEnd(ctx context.Context, tp record.TopicPartition) (record.Offset, error) {
	b, err := c.Bounds(ctx, tp)
	return b.Stable, err
}

// appendPlaces adds one batch of records that say where they were: ledger 5, the offset being the entry.
func (l *fakeLog) appendPlaces(t *testing.T, values ...string) {
	t.Helper()
	b := record.NewBuilder(record.None)
	l.update(0, func(part *fakePartition) {
		for i, v := range values {
			at := part.bounds.End + record.Offset(i)
			o := record.Origin{Ledger: 5, Entry: int64(at), Batch: -1, FirstLedger: -1, FirstEntry: -1, Index: int64(at)}
			b.Append(1000, nil, []byte(v), []record.Header{{Key: []byte(record.OriginHeader), Value: o.AppendTo(nil)}})
		}
		raw, err := b.Build(part.bounds.End)
		if err != nil {
			t.Error(err)
		}
		part.add(raw, len(values))
	})
}

// TestHeldAtTheLastRow: a log that counts offsets is held at the last row, whatever a filter or dead letters leave behind it; behind
// so many offsets the table notes a place, and the log is held there, also by the next process (I2, I6).
func TestHeldAtTheLastRow(t *testing.T) {
	r := newRig(t, 1)
	r.store = mem.New()
	conf := tableConfig()
	conf.Names = table.DefaultNames().WithOrigin()
	tab, err := table.Create(t.Context(), r.store, payload(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	r.cfg.Source, r.cfg.Transform, r.cfg.MaxHeldBack = countedLog{r.log}, transform.Spec{Where: "s != 'no'"}, 5
	const row, no, bad = `{"n":1}`, `{"n":1,"s":"no"}`, `{"n":"x"}`
	for i, step := range []struct {
		values []string
		held   record.Offset
		noted  string
	}{
		{[]string{no, no}, 0, ""},
		{[]string{row, row, no, bad}, 4, ""},           // to offset 6
		{[]string{no, no}, 8, "[7,5,7,-1,-1,-1,7]"},    // another process does not know of the row
		{[]string{bad, row}, 10, "[7,5,7,-1,-1,-1,7]"}, // to offset 10
		{[]string{row, no, no, no, no, no}, 16, "[15,5,15,-1,-1,-1,15]"},
		{[]string{no}, 16, "[15,5,15,-1,-1,-1,15]"}, // it knows of what is noted
		{[]string{no, no, no, bad}, 21, "[20,5,20,-1,-1,-1,20]"},
		{[]string{no, row, no}, 23, "[20,5,20,-1,-1,-1,20]"},
	} {
		r.log.appendPlaces(t, step.values...)
		r.mustRun()
		snap, err := tab.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.log.holds[0]; got != step.held {
			t.Errorf("step %d: held at %d, want %d", i, got, step.held)
		}
		if got := snap.Metadata().Configuration[table.PlaceProperty("orders", 0)]; got != step.noted {
			t.Errorf("step %d: noted is %q, want %q", i, got, step.noted)
		}
		if end, _ := table.LakeEnd(snap, "orders", 0); end != r.log.parts[0].bounds.End {
			t.Errorf("step %d: the table is at %d", i, end)
		}
	}
	r.cfg.Source = r.log // one that does not count is held at the end of the lake
	r.log.appendPlaces(t, row, no)
	r.mustRun()
	if got, want := fmt.Sprint(r.log.holds[0]), fmt.Sprint(r.log.parts[0].bounds.End); got != want {
		t.Errorf("held at %s, want %s", got, want)
	}
}
