package offload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/entry"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

func open(t testing.TB, cfg Config) *Feed {
	t.Helper()
	if cfg.Topic == "" {
		cfg.Topic = "a/b/events"
	}
	f, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// read gives the values of a partition from its oldest message to the end, as "offset value".
func read(t testing.TB, f *Feed, partition int32) (out []string) {
	t.Helper()
	return readBy(t, pulsar.Config{}, f, partition)
}

func readBy(t testing.TB, cfg pulsar.Config, f *Feed, partition int32) (out []string) {
	t.Helper()
	src := pulsar.OpenFeed(t.Context(), cfg, f)
	tp := record.TopicPartition{Topic: f.topic, Partition: partition}
	b, err := src.Bounds(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	end, err := src.CountEnd(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	for from := b.Start; from < end; {
		got, err := src.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: from}}, broker.FetchOptions{})
		if err != nil || got[0].Err != nil || len(got[0].Batches) == 0 {
			t.Fatalf("at %d of %d: %v %v, %d bytes", from, end, err, got[0].Err, len(got[0].Batches))
		}
		from = pulsartest.Records(t, got[0].Batches, func(r *record.Record) { out = append(out, fmt.Sprintf("%d %s", r.Offset, r.Value)) })
	}
	return out
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLedgersAreReadInOrder: blocks, padding and several ledgers; offsets begin at the running index (I2, I4).
func TestLedgersAreReadInOrder(t *testing.T) {
	store := mem.New()
	var want []string
	n := int64(40)
	for _, id := range []int64{9, 10, 100} { // as text, 100 comes before 9
		var all [][]byte
		for range 7 {
			all = append(all, message(strings.Repeat("v", int(n)), n, nil))
			want = append(want, fmt.Sprintf("%d %s", n, strings.Repeat("v", int(n))))
			n++
		}
		put(t, store, id, all...)
	}
	f := open(t, Config{Store: store})
	equal(t, read(t, f, 0), want...)
	if r := f.Reports(); len(r) != 1 || r[0].Ledgers != 3 || r[0].First != 9 || r[0].Last != 100 || r[0].Gap != nil || r[0].Unproven {
		t.Errorf("reports %+v", r)
	}
	for from := range 7 {
		k, err := f.Open(t.Context(), "persistent://a/b/events", pulsar.MessageID{Ledger: 10, Entry: int64(from)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, ok, err := k.TryReceive()
		if err != nil || !ok || d.ID != (pulsar.MessageID{Ledger: 10, Entry: int64(from), Batch: -1}) {
			t.Errorf("from entry %d: %v %v %v", from, d.ID, ok, err)
		}
		k.Close()
	}
}

// TestTransactions: committed ones are given, aborted ones are not, whichever ledger their end stands in; nothing comes
// from the first message on whose transaction has no end, as a broker does it (I4).
func TestTransactions(t *testing.T) {
	store := mem.New()
	put(t, store, 1, message("a", -1, inTransaction(1)), message("b", -1, inTransaction(2)), message("c", -1, nil), marker(entry.AbortMarker, 2))
	put(t, store, 2, message("d", -1, inTransaction(1)), marker(entry.CommitMarker, 1), message("e", -1, nil),
		message("f", -1, inTransaction(3)), message("g", -1, nil))
	f := open(t, Config{Store: store})
	equal(t, read(t, f, 0), "0 a", "1 c", "2 d", "3 e")
	if r := f.Reports()[0]; r.Hidden == nil || *r.Hidden != (pulsar.MessageID{Ledger: 2, Entry: 3, Batch: -1}) {
		t.Errorf("hidden from %v, want 2:3", r.Hidden)
	}
	put(t, store, 3, marker(entry.CommitMarker, 3))
	f = open(t, Config{Store: store})
	equal(t, read(t, f, 0), "0 a", "1 c", "2 d", "3 e", "4 f", "5 g")
	if r := f.Reports()[0]; r.Hidden != nil || !r.Unproven {
		t.Errorf("report %+v", r)
	}
}

// TestAMissingLedgerEndsTheTopic: whether a list names it or the running index shows it, what comes behind a missing
// ledger is not given as if nothing were missing (I4).
func TestAMissingLedgerEndsTheTopic(t *testing.T) {
	store := mem.New()
	put(t, store, 1, message("a", 0, nil), message("b", 1, nil))
	put(t, store, 3, message("e", 5, nil))
	put(t, store, 4, message("f", 6, nil))
	f := open(t, Config{Store: store})
	equal(t, read(t, f, 0), "0 a", "1 b")
	if g := f.Reports()[0].Gap; g == nil || *g != (Gap{Before: 3, Messages: 3, More: 2}) {
		t.Errorf("gap %+v", g)
	}
	f = open(t, Config{Store: store, From: map[int32]int64{AllPartitions: 3}})
	equal(t, read(t, f, 0), "5 e", "6 f")

	lists, err := ParseLists("a/b/events", []byte(`{"version":1,"ledgers":[{"ledgerId":2,"entries":3},{"ledgerId":1,"entries":2},{"ledgerId":3,"entries":1,"offloadedContextUuid":"00000003-0000-4000-8000-000000000000"},{"ledgerId":5,"entries":0}]}`))
	if err != nil {
		t.Fatal(err)
	}
	f = open(t, Config{Store: store, Lists: lists})
	equal(t, read(t, f, 0), "0 a", "1 b")
	if g := f.Reports()[0].Gap; g == nil || *g != (Gap{Before: 2, Missing: true, More: 1}) {
		t.Errorf("gap %+v", g)
	}
	f = open(t, Config{Store: store, Lists: lists, From: map[int32]int64{0: 3}})
	equal(t, read(t, f, 0), "5 e")
	lists["a/b/events"] = append(lists["a/b/events"][:0:0], Listed{ID: 1, Entries: 2}, Listed{ID: 2, Entries: 9})
	f = open(t, Config{Store: store, Lists: lists})
	if r := f.Reports()[0]; r.Gap != nil || r.Rest != 2 {
		t.Errorf("the rest is in Pulsar: %+v", r)
	}
	lists["a/b/events"][0].Entries = 3
	if _, err := Open(t.Context(), Config{Store: store, Topic: "a/b/events", Lists: lists}); err == nil || !strings.Contains(err.Error(), "has 2 entries") {
		t.Errorf("a ledger of another size than listed: %v", err)
	}
}

// TestPartitionsAndTopics: the ledgers say whose they are; an attempt that was cut off leaves no ledger, one that was
// repeated leaves one.
func TestPartitionsAndTopics(t *testing.T) {
	store := mem.New()
	for i, topic := range []string{"a/b/persistent/orders-partition-2", "a/b/persistent/orders-partition-0", "a/b/persistent/with%2Fslash", "a/b/persistent/orders-partition-x"} {
		data, idx := objects(topic, 1000, message(topic, -1, nil))
		for key, raw := range map[string][]byte{objectName(int64(i)): data, objectName(int64(i)) + "-index": idx, "11111111" + objectName(int64(i))[8:]: data,
			"22222222" + objectName(int64(i))[8:]: data, "22222222" + objectName(int64(i))[8:] + "-index": idx, "other": data} {
			if err := store.Put(t.Context(), key, raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := open(t, Config{Store: store, Topic: "a/b/orders"})
	if n, err := f.Partitions(t.Context(), "persistent://a/b/orders"); n != 3 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	equal(t, read(t, f, 2), "0 a/b/persistent/orders-partition-2")
	equal(t, read(t, f, 1))
	lists := map[string][]Listed{"a/b/orders-partition-2": {{ID: 0, Entries: 1}}}
	equal(t, read(t, open(t, Config{Store: store, Topic: "a/b/orders", Lists: lists}), 2), "0 a/b/persistent/orders-partition-2")
	lists["a/b/orders-partition-2"][0].UUID = "11111111-0000-4000-8000-000000000000" // whose index was never written
	if _, err := Open(t.Context(), Config{Store: store, Topic: "a/b/orders", Lists: lists}); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("a listed ledger without an index: %v", err)
	}
	data, idx := objects("a/b/persistent/orders-partition-2", 1000, message("other", -1, nil), message("bytes", -1, nil))
	for key, raw := range map[string][]byte{"33333333" + objectName(0)[8:]: data, "33333333" + objectName(0)[8:] + "-index": idx} {
		if err := store.Put(t.Context(), key, raw); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), Config{Store: store, Topic: "a/b/orders"}); err == nil || !strings.Contains(err.Error(), "not the same") {
		t.Errorf("two attempts that do not say the same: %v", err)
	}
	lists["a/b/orders-partition-2"][0] = Listed{ID: 0, Entries: 2, UUID: "33333333-0000-4000-8000-000000000000"}
	equal(t, read(t, open(t, Config{Store: store, Topic: "a/b/orders", Lists: lists}), 2), "0 other", "1 bytes")
	equal(t, read(t, open(t, Config{Store: store, Topic: "a/b/with/slash"}), 0), "0 a/b/persistent/with%2Fslash")
	_, err := Open(t.Context(), Config{Store: store, Topic: "a/b/none"})
	if !errors.Is(err, broker.ErrUnknownTopic) || !strings.Contains(err.Error(), "a/b/orders-partition-2") {
		t.Errorf("an unknown topic: %v", err)
	}
}

// TestDamage: what an offloader did not write is an error that names object and place, never a panic, never other
// messages than were written (I8).
func TestDamage(t *testing.T) {
	data, idx := objects(managed, 300, message("first", 0, nil), message(strings.Repeat("x", 100), 1, nil), message("third", 2, nil))
	whole := []string{"0 first", "1 " + strings.Repeat("x", 100), "2 third"}
	try := func(data, idx []byte) (got []string, err error) {
		store := mem.New()
		for key, raw := range map[string][]byte{objectName(1): data, objectName(1) + "-index": idx} {
			if err := store.Put(t.Context(), key, raw); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Open(t.Context(), Config{Store: store, Topic: "a/b/events"})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		k, err := f.Open(t.Context(), "persistent://a/b/events", pulsar.MessageID{Ledger: -1, Entry: -1}, nil)
		if err != nil {
			return nil, err
		}
		defer k.Close()
		for {
			d, err := k.Receive(t.Context())
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				return got, nil
			case err != nil:
				return got, err
			case d.Corrupt == nil:
				got = append(got, fmt.Sprintf("%d %s", d.ID.Entry, d.Entry.Payload))
			}
		}
	}
	if got, err := try(data, idx); err != nil || !slices.Equal(got, whole) {
		t.Fatalf("undamaged: %q %v", got, err)
	}
	for _, object := range []struct {
		name string
		raw  []byte
	}{{"data", data}, {"index", idx}} {
		for i := range object.raw {
			for _, cut := range []bool{false, true} {
				bad := bytes.Clone(object.raw)
				if bad[i] ^= 0x40; cut {
					bad = bad[:i]
				}
				got, err := []string(nil), error(nil)
				if object.name == "data" {
					got, err = try(bad, idx)
				} else {
					got, err = try(data, bad)
				}
				var damage *DamageError
				if err != nil && !errors.As(err, &damage) && !errors.Is(err, broker.ErrUnknownTopic) {
					t.Errorf("%s, byte %d, cut %v: %v", object.name, i, cut, err)
				}
				for _, v := range got {
					if !slices.Contains(whole, v) {
						t.Errorf("%s, byte %d, cut %v: %q was never written", object.name, i, cut, v)
					}
				}
				if cut && err == nil {
					t.Errorf("%s cut at byte %d is taken for whole", object.name, i)
				}
			}
		}
	}
}

// FuzzObjects: any two objects give entries or an error, and memory stays near their size (I8).
func FuzzObjects(f *testing.F) {
	data, idx := objects(managed, 300, message("first", 0, nil), message("second", 1, nil), marker(entry.CommitMarker, 1), message("t", 2, inTransaction(1)))
	f.Add(data, idx)
	f.Fuzz(func(t *testing.T, data, idx []byte) {
		x, need, err := parseHead("index", idx, int64(len(idx)))
		if err != nil {
			return
		}
		if x == nil {
			t.Fatalf("a whole index of %d bytes, of which %d are needed", len(idx), need)
		}
		store := mem.New()
		if err := errors.Join(store.Put(t.Context(), "data", data), store.Put(t.Context(), "data-index", idx)); err != nil {
			t.Fatal(err)
		}
		l := &ledger{id: 1, key: "data", indexSize: int64(len(idx)), head: x}
		if x.size != int64(len(data)) {
			return // Open refuses it
		}
		r, err := l.read(t.Context(), store, 0)
		for n := int64(0); err == nil; n++ {
			var id int64
			if id, _, err = r.entry(); err == nil && id != n {
				t.Fatalf("entry %d where %d was due", id, n)
			}
		}
	})
}

// faulty is a store that fails now and then.
type faulty struct {
	objstore.Store
	calls *atomic.Int64
}

func (s faulty) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if n := s.calls.Add(1); n > 0 && n%3 == 0 {
		return nil, errors.New("the store is away")
	}
	return s.Store.GetRange(ctx, key, off, n)
}

// TestAStoreThatFailsNowAndThen: faults of the store are retried and change nothing (I4).
func TestAStoreThatFailsNowAndThen(t *testing.T) {
	store := mem.New()
	var want []string
	for id := range int64(20) {
		put(t, store, id+1, message("x", id, inTransaction(uint64(id))), marker(entry.CommitMarker, uint64(id)))
		want = append(want, fmt.Sprintf("%d x", id))
	}
	var calls atomic.Int64
	calls.Store(-20) // Open reads the heads of the indexes
	f := open(t, Config{Store: faulty{store, &calls}})
	k, err := f.Open(t.Context(), "persistent://a/b/events", pulsar.MessageID{Ledger: -1, Entry: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var got []string
	for {
		d, err := k.Receive(t.Context())
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil && !errors.Is(err, wire.ErrLost) {
			t.Fatalf("%v is no fault that may pass", err)
		}
		if err == nil {
			got = append(got, fmt.Sprintf("%d %s", d.ID.Ledger-1, d.Entry.Payload))
		}
	}
	equal(t, got, want...)
	if n := calls.Load(); n <= 80 { // four for each ledger, by two readers, where none fails
		t.Errorf("%d calls: the store was never asked again", n)
	}
}
