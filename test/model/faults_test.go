package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// mangled is a source whose answers are changed on the way.
type mangled struct {
	broker.Source
	change func([]broker.Fetched)
}

func (m mangled) Fetch(ctx context.Context, r []broker.FetchRange, o broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := m.Source.Fetch(ctx, r, o)
	if err == nil {
		m.change(got)
	}
	return got, err
}

// readSome reads until an error and gives the offsets before it.
func readSome(t *testing.T, c *reader.Cursor) ([]int64, error) {
	t.Helper()
	var out []int64
	for {
		rb, err := c.Next(t.Context())
		if err != nil {
			return out, err
		}
		off := rb.Column(rb.Schema().FieldIndices("_offset")[0]).(*array.Int64)
		out = append(out, off.Int64Values()...)
	}
}

// A damaged batch in the log ends the stream behind the good records before it. The error stays, and the
// token leads to the damage, not over it (I4).
func TestReaderMeetsDamage(t *testing.T) {
	w := filled(t, 30, 0) // three batches of ten
	cfg := w.config()
	cfg.Source = mangled{w.log, func(got []broker.Fetched) {
		for i := range got {
			raw := bytes.Clone(got[i].Batches)
			at := 0
			for at < len(raw) {
				b, err := record.ReadBatch(raw[at:])
				if err != nil {
					t.Error(err)
					return
				}
				if b.BaseOffset == 10 {
					raw[at+b.Size()-1] ^= 1
				}
				at += b.Size()
			}
			got[i].Batches = raw
		}
	}}
	cfg.OnGap = func(g reader.Gap) { t.Errorf("gap %+v", g) }
	c := open(t, cfg)
	got, err := readSome(t, c)
	wantRun(t, got, 0, 10)
	if !errors.Is(err, record.ErrCorrupt) {
		t.Fatalf("got %v, want a corrupt batch", err)
	}
	for range 3 {
		if _, again := c.Next(t.Context()); !errors.Is(again, record.ErrCorrupt) {
			t.Fatalf("the next call gives %v, want the same error", again)
		}
	}
	cfg.Source = w.log
	if cfg.From, err = reader.AtToken(c.Token(), topic); err != nil {
		t.Fatal(err)
	}
	wantRun(t, offsets(t, open(t, cfg)), 10, 30)
}

// A store error in the lake stays: nothing behind it is given, and a new cursor from the token reads all (I4).
func TestReaderMeetsStoreErrors(t *testing.T) {
	w := filled(t, 100, 60)
	cfg := w.config()
	for k := int64(1); ; k++ {
		if k > 1000 {
			t.Fatal("the read never came through clean")
		}
		first := w.store.Calls()
		w.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
			if c.N == first+k {
				return mem.Fault{Before: errInjected}
			}
			return mem.Fault{}
		})
		c, err := reader.Open(t.Context(), cfg)
		if err != nil { // the snapshot failed: nothing was given
			continue
		}
		got, err := readSome(t, c)
		if errors.Is(err, io.EOF) {
			w.store.SetHook(nil)
			wantRun(t, got, 0, 100)
			_ = c.Close()
			return
		}
		if _, again := c.Next(t.Context()); again == nil || errors.Is(again, io.EOF) {
			t.Fatalf("fault %d: after %v the next call gives %v", k, err, again)
		}
		w.store.SetHook(nil)
		next := cfg
		if next.From, err = reader.AtToken(c.Token(), topic); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		wantRun(t, append(got, offsets(t, open(t, next))...), 0, 100)
	}
}

// Retention overtakes two partitions at once: one way back to the table serves both (I4, I6).
func TestReaderOvertakenTwice(t *testing.T) {
	w := filled(t, 10, 0)
	add := func(p int32, values ...string) {
		b := record.NewBuilder(record.None)
		for _, v := range values {
			b.Append(1, nil, []byte(v), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(t.Context(), tp(p), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(1, `{"n":0}`, `{"n":1}`)
	cfg := w.config()
	cfg.Partitions = nil
	c := open(t, cfg) // its snapshot has nothing in the table
	w.tierWith(0)
	w.cut(10)
	if _, err := w.log.DeleteRecords(t.Context(), tp(1), 2); err != nil {
		t.Fatal(err)
	}
	if got := offsets(t, c); len(got) != 12 {
		t.Fatalf("offsets %v, want 10 of partition 0 and 2 of partition 1", got)
	}
}

// Bytes behind the last record of a batch make a dead letter at that batch; the bad record that comes next
// has its own (I7).
func TestDamageHidesNoDeadLetter(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(3, 3)))
	add := func(values ...string) {
		b := record.NewBuilder(record.None)
		for _, v := range values {
			b.Append(1, nil, []byte(v), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(t.Context(), tp(0), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(`{"n":0}`, `{"n":1}`)
	add(`{"n":"bad"}`)
	w.source = mangled{w.log, func(got []broker.Fetched) {
		for i, f := range got {
			if len(f.Batches) > 0 && f.TP.Partition == 0 {
				b, err := record.ReadBatch(f.Batches)
				if err == nil && b.BaseOffset == 0 {
					got[i].Batches = append(trailing(bytes.Clone(b.Raw)), f.Batches[b.Size():]...)
				}
			}
		}
	}}
	w.tierWith(0)
	if got := w.deadOffsets(); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Errorf("dead letters at offsets %v, want one at 1 for the damage and one at 2 for the bad value", got)
	}
}

// trailing gives the uncompressed batch with bytes behind its last record, and a CRC that is right for them.
func trailing(raw []byte) []byte {
	raw = append(raw, 1, 2, 3)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))                                          // batchLength
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))) // crc
	return raw
}

// deadOffsets are those of the dead letters of partition 0, ascending.
func (w *world) deadOffsets() []int64 {
	w.t.Helper()
	dead, err := tiering.OpenDeadLetters(w.t.Context(), w.dead, tiering.LetterConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	snap, err := dead.Log.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var out []int64
	for rb, err := range dead.Scan(w.t.Context(), snap, table.ScanOptions{Columns: []string{"_offset"}}) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, rb.Column(0).(*array.Int64).Int64Values()...)
		rb.Release()
	}
	slices.Sort(out)
	return out
}
