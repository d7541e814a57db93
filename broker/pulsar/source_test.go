package pulsar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	topicName  = "a/b/events"
	brokerName = "persistent://a/b/events"
)

var part = record.TopicPartition{Topic: topicName}

// row is a record as a table would have it.
type row struct {
	place Place
	value string
}

// rows are a table: an Index of what was taken into it.
type rows struct {
	mu   sync.Mutex
	list []row
}

func (r *rows) Before(_ context.Context, _ record.TopicPartition, limit record.Offset) (Place, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].place.Offset < limit {
			return r.list[i].place, true, nil
		}
	}
	return Place{}, false, nil
}

func (r *rows) End(context.Context, record.TopicPartition) (record.Offset, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return 0, false, nil
	}
	return r.list[len(r.list)-1].place.Offset + 1, true, nil
}

func openTest(t *testing.T, b *pulsartest.Broker, index Index) *Source {
	t.Helper()
	s, err := Open(t.Context(), Config{Service: b.Addr(), Index: index, Subscription: "hold", RetryTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fetch gives records from an offset on, some of them at least.
func fetch(t *testing.T, s *Source, from record.Offset) ([]row, record.Offset, error) {
	t.Helper()
	got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: part, From: from, MaxBytes: 1 << 20}}, broker.FetchOptions{MinBytes: 1, MaxWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Err != nil {
		return nil, from, got[0].Err
	}
	var out []row
	next := pulsartest.Records(t, got[0].Batches, func(r *record.Record) { out = append(out, rowOf(t, r)) })
	return out, max(from, next), nil
}

// rowOf gives a record as a table has it.
func rowOf(t *testing.T, r *record.Record) row {
	t.Helper()
	var o record.Origin
	if !record.OriginOf(r, &o) {
		t.Fatal("a record without an origin")
	}
	p := Place{Offset: r.Offset, ID: MessageID{Ledger: o.Ledger, Entry: o.Entry, Batch: o.Batch}, Index: o.Index}
	p.First = p.ID
	if o.FirstLedger >= 0 {
		p.First = MessageID{Ledger: o.FirstLedger, Entry: o.FirstEntry, Batch: -1}
	}
	return row{p, string(r.Value)}
}

// fetchAll gives n records from an offset on.
func fetchAll(t *testing.T, s *Source, from record.Offset, n int) []row {
	t.Helper()
	var out []row
	for len(out) < n {
		some, next, err := fetch(t, s, from)
		if err != nil || len(some) == 0 {
			t.Fatalf("%d of %d records, then at offset %d: %d records, %v", len(out), n, from, len(some), err)
		}
		out, from = append(out, some...), next
	}
	return out
}

// TestEveryStartCountsAlike: messages, batches and chunks that mix come in order and under the same offsets and ids,
// whatever offset a source begins at, though connections break and ledgers that are acknowledged go (I2, I4, I6).
func TestEveryStartCountsAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.New(t), 1))
	b := pulsartest.Start(t)
	b.Create(brokerName)
	var want []string
	var log []string
	defer func() {
		if t.Failed() {
			t.Log(log[max(0, len(log)-30):])
		}
	}()
	pending := map[string]int{} // chunks sent of messages of 3
	n := 0
	grow := func() {
		n++
		switch k := r.IntN(10); {
		case k < 4:
			v := fmt.Sprint("m", n)
			at := b.Append(brokerName, 1, pulsartest.Message(int64(n), v))
			log = append(log, fmt.Sprint(at, " message ", len(want)))
			want = append(want, v)
		case k < 7:
			var values []string
			for i := range 1 + r.IntN(5) {
				values = append(values, fmt.Sprint("b", n, ".", i))
			}
			at := b.Append(brokerName, len(values), pulsartest.Batch(int64(n), values...))
			log = append(log, fmt.Sprint(at, " batch ", len(want), " ", len(values)))
			want = append(want, values...)
		case k < 9:
			id := fmt.Sprint("u", r.IntN(3)) // three producers at a time
			at := b.Append(brokerName, 1, pulsartest.Chunk(id, int64(n), pending[id], 3, 9, fmt.Sprintf("%s-%d", id, pending[id])[:3]))
			log = append(log, fmt.Sprint(at, " chunk ", id, " ", pending[id], " ", len(want)))
			if pending[id]++; pending[id] == 3 {
				want = append(want, id+"-"+id+"-"+id+"-")
				delete(pending, id)
			}
		default:
			b.Roll(brokerName, 1+int64(r.IntN(3)))
		}
	}
	table := &rows{}
	s := openTest(t, b, table)
	for round := range 60 {
		for range 1 + r.IntN(30) {
			grow()
		}
		if r.IntN(4) == 0 {
			b.Disconnect()
		}
		if r.IntN(4) == 0 { // a process begins anew
			_ = s.Close()
			s = openTest(t, b, table)
		}
		have := len(table.list)
		if have < len(want) {
			from := record.Offset(have)
			got := fetchAll(t, s, from, 1+r.IntN(len(want)-have))
			table.mu.Lock()
			table.list = append(table.list, got...)
			table.mu.Unlock()
		}
		if err := s.Hold(t.Context(), part, record.Offset(len(table.list))); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			b.TrimAcked(brokerName, "hold")
		}
		if end, err := s.CountEnd(t.Context(), part); err != nil || int(end) != len(want) {
			t.Log("table ends at ", len(table.list), table.list[len(table.list)-1])
			t.Fatalf("round %d: the end is %d, %v; want %d", round, end, err, len(want))
		}
	}
	table.list = append(table.list, fetchAll(t, s, record.Offset(len(table.list)), len(want)-len(table.list))...)
	for i, got := range table.list {
		if got.value != want[i] || int(got.place.Offset) != i {
			t.Fatalf("record %d is %q at offset %d, want %q", i, got.value, got.place.Offset, want[i])
		}
	}
	if len(table.list) != len(want) {
		t.Errorf("%d records, want %d", len(table.list), len(want))
	}
}

// TestLossIsToldWhereverItIsMet: ledgers that went before they were read give an error with the offsets, for one who
// begins there and for one who reads across; offsets go on behind it by the broker's index (I4).
func TestLossIsToldWhereverItIsMet(t *testing.T) {
	for _, where := range []string{"at the start", "in between"} {
		t.Run(where, func(t *testing.T) {
			b := pulsartest.Start(t)
			b.Create(brokerName)
			table := &rows{}
			s := openTest(t, b, table)
			for i := range 5 {
				b.Append(brokerName, 1, pulsartest.Message(int64(i), fmt.Sprint(i)))
			}
			table.list = fetchAll(t, s, 0, 5)
			if where == "at the start" {
				_ = s.Close()
			} else {
				b.Disconnect()
			}
			b.Roll(brokerName, 1)
			b.Append(brokerName, 3, pulsartest.Batch(5, "5", "6", "7"))
			b.Roll(brokerName, 1)
			b.Trim(brokerName, 3)
			b.Append(brokerName, 2, pulsartest.Batch(8, "8", "9"))
			if where == "at the start" {
				s = openTest(t, b, table)
			}
			var out *broker.OutOfRangeError
			for range 3 {
				if _, _, err := fetch(t, s, 5); !errors.As(err, &out) || out.Bounds.Start != 8 {
					t.Fatalf("what is lost gave %v", err)
				}
			}
			got := fetchAll(t, s, 8, 2)
			if got[0].value != "8" || got[0].place.Offset != 8 || got[1].value != "9" {
				t.Errorf("behind the loss came %+v", got)
			}
		})
	}
}

// TestDamagedEntryIsARecord: its bytes are kept, and what comes behind it keeps its offset (I7).
func TestDamagedEntryIsARecord(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	b.Append(brokerName, 1, pulsartest.Message(0, "before"))
	b.Append(brokerName, 1, pulsartest.Damaged())
	b.Append(brokerName, 1, pulsartest.Message(2, "behind"))
	s := openTest(t, b, &rows{})
	got := fetchAll(t, s, 0, 3)
	if got[0].value != "before" || got[2].value != "behind" || got[2].place.Offset != 2 || len(got[1].value) < 7 {
		t.Errorf("got %+v", got)
	}
}

// TestCountingBeginsAtTheIndex: without a table the oldest message has the offset of the broker's index.
func TestCountingBeginsAtTheIndex(t *testing.T) {
	b := pulsartest.Start(t)
	b.Create(brokerName)
	b.Append(brokerName, 3, pulsartest.Batch(0, "0", "1", "2"))
	b.Roll(brokerName, 1)
	b.Append(brokerName, 2, pulsartest.Batch(3, "3", "4"))
	b.Trim(brokerName, 2)
	s := openTest(t, b, nil)
	bounds, err := s.Bounds(t.Context(), part)
	if err != nil || bounds.Start != 3 {
		t.Fatalf("bounds are %+v, %v", bounds, err)
	}
	if got := fetchAll(t, s, 3, 2); got[0].value != "3" || got[0].place.Offset != 3 {
		t.Errorf("got %+v", got)
	}
	if _, _, err := fetch(t, s, 1); err == nil {
		t.Error("an offset below the first message gave no error")
	}
	if at, err := s.OffsetOf(t.Context(), part, MessageID{Ledger: 2, Entry: 0, Batch: 1}); err != nil || at != 4 {
		t.Errorf("the id of the last message leads to %d, %v", at, err)
	}
	if at, err := s.OffsetForTime(t.Context(), part, 1_700_000_000_003); err != nil || at != 3 {
		t.Errorf("its time leads to %d, %v", at, err)
	}
}
