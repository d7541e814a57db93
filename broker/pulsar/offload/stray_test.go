package offload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// putRaw stores two objects as those of a ledger.
func putRaw(t testing.TB, store objstore.Store, id int64, data, idx []byte) {
	t.Helper()
	if err := errors.Join(store.Put(t.Context(), objectName(id), data), store.Put(t.Context(), objectName(id)+"-index", idx)); err != nil {
		t.Fatal(err)
	}
}

// TestIndexesOfNobody: an index that does not say whose it is blocks no topic where the running index shows that nothing is
// missing; where nothing shows it, the topic ends there and says why, and the list of ledgers is the way round (I4, I8).
func TestIndexesOfNobody(t *testing.T) {
	junk := []byte("somebody else's file, of fifty bytes or a few more...")
	stream := binary.BigEndian.AppendUint32(nil, magicStreamIndex)
	noTopic, noTopicIndex := objects("", 300, message("whose?", -1, nil))
	for _, indexed := range []bool{true, false} {
		store := mem.New()
		n := func(i int64) int64 {
			if indexed {
				return i
			}
			return -1
		}
		put(t, store, 7, message("a", n(0), nil))
		put(t, store, 9, message("b", n(1), nil))
		putRaw(t, store, 3, junk, junk)
		putRaw(t, store, 8, junk, append(stream, make([]byte, 60)...))
		putRaw(t, store, 99, noTopic, noTopicIndex)
		others, damaged := objects("x/y/persistent/other", 300, message("theirs", -1, nil))
		putRaw(t, store, 6, others[1:], damaged)
		f := open(t, Config{Store: store})
		want := []string{"0 a", "1 b"}
		if !indexed {
			want = want[:1]
		}
		equal(t, read(t, f, 0), want...)
		if s := f.Strays(); len(s) != 3 || s[0].Ledger != 3 || s[1].Ledger != 8 || s[2].Ledger != 99 || !errors.Is(s[1].Err, broker.ErrUnsupported) || !strings.HasSuffix(s[0].Object, "-ledger-3-index") {
			t.Errorf("strays %+v", s)
		}
		if g := f.Reports()[0].Gap; indexed != (g == nil) || g != nil && (g.Before != 8 || !g.Missing || g.More != 1 || g.Stray == nil) {
			t.Errorf("indexed %v: gap %+v", indexed, g)
		}
		f = open(t, Config{Store: store, Lists: map[string][]Listed{"a/b/events": {{ID: 7, Entries: 1}, {ID: 9, Entries: 1}}}})
		equal(t, read(t, f, 0), "0 a", "1 b")
		if len(f.Strays()) != 0 {
			t.Errorf("with a list: strays %+v", f.Strays())
		}
		ours, idx := objects(managed, 300, message("c", n(2), nil))
		putRaw(t, store, 2, ours[1:], idx)
		var damage *DamageError
		if _, err := Open(t.Context(), Config{Store: store, Topic: "a/b/events"}); !errors.As(err, &damage) || damage.Object != objectName(2) {
			t.Errorf("a damaged ledger of the topic: %v", err)
		}
		f = open(t, Config{Store: store, From: map[int32]int64{AllPartitions: 9}}) // not looked at
		if s := f.Strays(); len(s) != 1 || s[0].Ledger != 99 {
			t.Errorf("from ledger 9: strays %+v", s)
		}
	}
}

// reading is a store that notes the most bytes that it gave at once.
type reading struct {
	objstore.Store
	most atomic.Int64
}

func (s *reading) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	return s.Store.GetRange(ctx, key, off, n)
}

func (s *reading) Get(context.Context, string) ([]byte, error) {
	return nil, errors.New("a whole object, of whatever size")
}

// TestBlocksAreReadWithTheirLedger: to find a topic only the heads of indexes are read, whatever their size, and no block is
// kept; a head that is longer than most is read too (I8).
func TestBlocksAreReadWithTheirLedger(t *testing.T) {
	const n = 300_000
	store := &reading{Store: mem.New()}
	put(t, store, 7, message("x", -1, nil))
	data := make([]byte, n*blockHeader)
	for id, pad := range []int{0, 100_000} {
		m := pbfield.AppendUint(pbfield.AppendInt(nil, 4, n), 5, 3)
		m = pbfield.AppendBytes(m, 11, pbfield.AppendString(pbfield.AppendString(nil, 1, "other"), 2, strings.Repeat("m", pad)))
		m = pbfield.AppendBytes(m, 11, pbfield.AppendString(pbfield.AppendString(nil, 1, "pulsar/managed-ledger"), 2, fmt.Sprintf("x/y/persistent/other%d", id)))
		b := binary.BigEndian.AppendUint32(nil, magicIndex)
		b = binary.BigEndian.AppendUint32(b, uint32(indexFixed+len(m)+n*indexEntry))
		b = binary.BigEndian.AppendUint64(b, uint64(len(data)))
		b = binary.BigEndian.AppendUint64(b, blockHeader)
		b = binary.BigEndian.AppendUint32(b, n)
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(m))), m...)
		for i := range uint64(n) {
			b = binary.BigEndian.AppendUint64(b, i)
			b = binary.BigEndian.AppendUint32(b, 1)
			b = binary.BigEndian.AppendUint64(b, i*blockHeader)
		}
		putRaw(t, store, int64(20+id), data, b)
		store.most.Store(0)
		f := open(t, Config{Store: store})
		if most := store.most.Load(); most > 32<<10+int64(pad) {
			t.Errorf("%d bytes were read at once to find a topic", most)
		}
		if len(f.Strays()) != 0 {
			t.Errorf("strays %+v", f.Strays())
		}
	}
}

// denied is a store that does not let the objects with data be read.
type denied struct{ objstore.Store }

func (s denied) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if strings.HasSuffix(key, "-index") {
		return s.Store.GetRange(ctx, key, off, n)
	}
	return nil, fmt.Errorf("get %s: %w: mend it", key, objstore.ErrDenied)
}

// TestADeniedReadEndsTheRun: nobody waits for a right that only a person can give.
func TestADeniedReadEndsTheRun(t *testing.T) {
	store := mem.New()
	put(t, store, 7, message("x", -1, nil))
	f := open(t, Config{Store: denied{store}})
	k, err := f.Open(t.Context(), "persistent://a/b/events", pulsar.MessageID{Ledger: -1, Entry: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Receive(t.Context()); !errors.Is(err, broker.ErrGiveUp) || !strings.Contains(err.Error(), "mend it") || !strings.Contains(err.Error(), objectName(7)) {
		t.Errorf("a read that is denied: %v", err)
	}
}
