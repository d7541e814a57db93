package pulsar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// A batch that is under way when ledgers turn out to be gone ends before them: one that went on over their offsets would call
// them empty, and who reads would never look into the table, which has them (I4).
func TestBatchEndsBeforeALoss(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	s := openTest(t, b, &rows{})
	for i := range int64(3) {
		b.Append(brokerName, 1, pulsartest.Message(i, "here"))
	}
	fetchAll(t, s, 0, 3)
	p, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.take(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	deliver := func(ledger, at int64, sequence int64) *wire.Delivery {
		d := &wire.Delivery{ID: MessageID{Ledger: ledger, Entry: at, Batch: -1}}
		d.Entry, d.Corrupt = entry.Parse(pulsartest.Message(sequence, "there"))
		return d
	}
	if err := st.process(t.Context(), deliver(st.at.Ledger, st.at.Entry+1, 3), true); err != nil {
		t.Fatal(err)
	}
	b.Roll(brokerName, 1)
	b.Append(brokerName, 1, pulsartest.Message(4, "gone"))
	b.Roll(brokerName, 1)
	b.Append(brokerName, 1, pulsartest.Message(5, "behind"))
	b.Trim(brokerName, st.at.Ledger+2)
	st.stash = deliver(st.at.Ledger+2, 0, 5)
	out, err := st.read(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if batch, err := record.ReadBatch(out); err != nil || batch.BaseOffset != 3 || batch.LastOffset() != 3 || batch.Size() != len(out) {
		t.Errorf("the batch before the loss is [%d, %d], in %d of %d bytes, %v; want offset 3 alone", batch.BaseOffset, batch.LastOffset(), batch.Size(), len(out), err)
	}
	if out, err := st.read(t.Context(), 1<<20); !errors.Is(err, errLost) || len(out) > 0 {
		t.Errorf("behind the batch came %d bytes, %v", len(out), err)
	}
	var gone *broker.OutOfRangeError
	if err := p.lost(4); !errors.As(err, &gone) || gone.Bounds.Start != 5 {
		t.Errorf("offset 4 is %v", err)
	}
}

// Who stands below what the table has by now, and whose ledgers went because the table has them, is sent to the table, and no
// offset is called lost or given to another message (I2, I4).
func TestWhatATableHasIsNotLost(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	table := &rows{}
	s := openTest(t, b, table)
	b.Append(brokerName, 1, pulsartest.Message(0, "0"))
	all := fetchAll(t, s, 0, 1)
	b.Roll(brokerName, 1)
	for i := range int64(2) {
		b.Append(brokerName, 1, pulsartest.Message(1+i, fmt.Sprint(1+i)))
	}
	all = append(all, fetchAll(t, s, 1, 2)...)
	table.mu.Lock()
	table.list = all
	table.mu.Unlock()
	b.Trim(brokerName, 2) // as it may: the place before the end of the table is kept
	b.Append(brokerName, 1, pulsartest.Message(3, "3"))
	b.Disconnect()
	for _, late := range []*Source{s, openTest(t, b, table)} { // one that had read all of it, and one that begins
		for from := range record.Offset(3) {
			rows, _, err := fetch(t, late, from)
			var there *broker.OutOfRangeError
			switch {
			case err == nil: // a stream that found the place before it
				if rows[0].place != all[from].place {
					t.Errorf("offset %d is %+v, want %+v", from, rows[0].place, all[from].place)
				}
			case !errors.As(err, &there) || there.Bounds.Start != 3:
				t.Errorf("offset %d: %v", from, err)
			}
		}
		if got := fetchAll(t, late, 3, 1); got[0].value != "3" || got[0].place.Offset != 3 {
			t.Errorf("behind the table came %+v", got)
		}
	}
}

// growing is a table that is found to be longer from its second look on.
type growing struct {
	*rows
	looks atomic.Int32
}

func (g *growing) End(ctx context.Context, tp record.TopicPartition) (record.Offset, bool, error) {
	if g.looks.Add(1) == 1 {
		return 1, true, nil
	}
	return g.rows.End(ctx, tp)
}

// The end of a topic, and the offset of a time, are found while the table takes over what the search was to begin with: it begins
// again behind that.
func TestSearchWhileTheTableGrows(t *testing.T) {
	for name, search := range map[string]func(*Source) (record.Offset, error){
		"end":  func(s *Source) (record.Offset, error) { return s.CountEnd(t.Context(), part) },
		"time": func(s *Source) (record.Offset, error) { return s.OffsetForTime(t.Context(), part, math.MaxInt64) },
	} {
		b := pulsartest.Start(t)
		b.Create(brokerName)
		b.Append(brokerName, 1, pulsartest.Message(0, "0"))
		b.Roll(brokerName, 1)
		for i := range int64(2) {
			b.Append(brokerName, 1, pulsartest.Message(1+i, fmt.Sprint(1+i)))
		}
		table := &rows{list: fetchAll(t, openTest(t, b, &rows{}), 0, 3)}
		b.Trim(brokerName, 2)
		b.Append(brokerName, 1, pulsartest.Message(3, "3"))
		b.Disconnect()
		if got, err := search(openTest(t, b, &growing{rows: table})); err != nil || got != 4 {
			t.Errorf("%s: offset %d, %v; want 4", name, got, err)
		}
	}
}

// A stream that goes back for a chunk's beginning, with a batch under way or none, finds the last message that has an offset
// again though one of its chunks is damaged this time, and nothing is given up. When that one does not come at all, the loss
// is told behind the batch, once, and the entry that told of it comes next: no other comes twice (I1, I4).
func TestLossAfterGoingBack(t *testing.T) {
	for _, under := range []bool{false, true} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("under way %v, gone %v", under, gone), func(t *testing.T) { lossAfterGoingBack(t, under, gone) })
		}
	}
}

func lossAfterGoingBack(t *testing.T, under, gone bool) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	s := openTest(t, b, &rows{})
	for i := range int64(2) {
		b.Append(brokerName, 1, pulsartest.Message(i, "here"))
	}
	fetchAll(t, s, 0, 2)
	p, err := s.partition(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.take(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	st.farthest = false // as of one that began at an anchor
	ledger := st.at.Ledger
	deliver := func(at int64, raw []byte) *wire.Delivery {
		d := &wire.Delivery{ID: MessageID{Ledger: ledger, Entry: at, Batch: -1}}
		d.Entry, d.Corrupt = entry.Parse(raw)
		return d
	}
	meet := func(d *wire.Delivery) {
		t.Helper()
		if err := st.process(t.Context(), d, true); err != nil {
			t.Fatal(err)
		}
	}
	var given []byte
	read := func() error {
		out, err := st.read(t.Context(), 1<<20)
		given = append(given, out...)
		return err
	}
	for i := range 2 { // the message in two chunks at offset 2 is the anchor
		meet(deliver(int64(2+i), pulsartest.Chunk("u", 2, i, 2, 2, "x")))
	}
	if !under {
		if given, err = st.flush(nil); err != nil {
			t.Fatal(err)
		}
	}
	meet(deliver(4, pulsartest.Chunk("v", 3, 1, 2, 2, "y"))) // its beginning lies earlier
	if !st.catching {
		t.Fatal("it did not go back")
	}
	if under {
		if err := read(); err != nil || len(given) == 0 || !st.catching {
			t.Fatalf("the batch under way is %d bytes, %v; catching %v", len(given), err, st.catching)
		}
	}
	for i := range int64(2) {
		meet(deliver(i, pulsartest.Message(i, "here")))
	}
	meet(deliver(2, pulsartest.Damaged()))
	if !gone {
		meet(deliver(3, pulsartest.Chunk("u", 2, 1, 2, 2, "x")))
	}
	st.stash = deliver(5, pulsartest.Message(5, "behind"))
	want := record.Offset(3)
	if gone {
		if err := read(); !errors.Is(err, errLost) {
			t.Fatalf("the loss is not told: %v", err)
		}
		var out *broker.OutOfRangeError
		if err := p.lost(3); !errors.As(err, &out) || out.Bounds.Start != 4 {
			t.Errorf("offset 3 is %v", err)
		}
		want = 4
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	var offsets []record.Offset
	for rest := given; len(rest) > 0; {
		batch, err := record.ReadBatch(rest)
		if err != nil {
			t.Fatal(err)
		}
		for o := batch.BaseOffset; o <= batch.LastOffset(); o++ {
			offsets = append(offsets, o)
		}
		rest = rest[batch.Size():]
	}
	if !slices.Equal(offsets, []record.Offset{2, want}) || st.anchor.ID.Entry != 5 {
		t.Errorf("given were %v up to %s, want 2 and %d up to entry 5", offsets, st.anchor.ID, want)
	}
}
