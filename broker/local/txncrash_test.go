package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// txnFate is how far the end of a transaction has come.
type txnFate int

const (
	undecided txnFate = iota
	asked             // the marker may or may not be there
	decided
)

// modelTxn is one transaction of the model. Its maps are replaced, not changed.
type modelTxn struct {
	p      record.TopicPartition
	values map[record.Offset]string // acknowledged
	sent   map[string]bool          // all that was sent, acknowledged or not
	commit bool
	fate   txnFate
}

// txnModel is what a log with transactions has acknowledged.
type txnModel struct {
	mu    sync.Mutex
	txns  []*modelTxn
	plain map[record.TopicPartition]map[record.Offset]string
}

func (m *txnModel) clone() *txnModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &txnModel{plain: map[record.TopicPartition]map[record.Offset]string{}}
	for _, x := range m.txns {
		y := *x
		c.txns = append(c.txns, &y)
	}
	for p, v := range m.plain {
		c.plain[p] = maps.Clone(v)
	}
	return c
}

func (m *txnModel) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// work runs transactions of two producers and plain appends on one partition until it is through or the log fails.
func (m *txnModel) work(t *testing.T, l *Log, p record.TopicPartition, round int, rng *rand.Rand) {
	open := [2]*modelTxn{}
	seq := [2]int32{}
	for i := range 25 {
		v := fmt.Sprintf("%s %d %d %0*d", p, round, i, rng.IntN(500), 7)
		who := rng.IntN(3)
		if who == 2 {
			res, err := appendEither(t, l, p, batchOf(t, v))
			if err != nil {
				return
			}
			m.set(func() {
				if m.plain[p] == nil {
					m.plain[p] = map[record.Offset]string{}
				}
				m.plain[p][res.Base] = v
			})
			continue
		}
		id := int64(10*int(p.Partition) + who)
		if x := open[who]; x != nil && rng.IntN(2) == 0 {
			commit := rng.IntN(2) == 0
			m.set(func() { x.fate, x.commit = asked, commit })
			if _, err := l.AppendMarker(t.Context(), p, broker.TxnMarker{ProducerID: id, Epoch: int16(round), Commit: commit}); err != nil {
				return
			}
			m.set(func() { x.fate = decided })
			open[who] = nil
			continue
		}
		if open[who] == nil {
			open[who] = &modelTxn{p: p}
			m.set(func() { m.txns = append(m.txns, open[who]) })
		}
		x := open[who]
		m.set(func() { x.sent = maps.Clone(x.sent); x.add(v) })
		res, err := appendEither(t, l, p, txnBatch(t, id, int16(round), seq[who], v))
		if err != nil {
			if !errors.Is(err, broker.ErrStorage) {
				t.Errorf("append: %v", err)
			}
			return
		}
		seq[who]++
		m.set(func() {
			values := maps.Clone(x.values)
			if values == nil {
				values = map[record.Offset]string{}
			}
			values[res.Base] = v
			x.values = values
		})
	}
}

func (x *modelTxn) add(v string) {
	if x.sent == nil {
		x.sent = map[string]bool{}
	}
	x.sent[v] = true
}

// verify compares a recovered log with the model, ends what is open as a coordinator would, and compares again.
func (m *txnModel) verify(t *testing.T, l *Log, parts int32, epoch int16) {
	t.Helper()
	for n := range parts {
		p := tp("t", n)
		m.compare(t, l, p)
		states, err := l.Producers(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			if s.TxnStart >= 0 {
				mustEnd(t, l, p, s.ID, epoch, false)
			}
		}
		bounds, err := l.Bounds(t.Context(), p)
		if err != nil || bounds.Stable != bounds.End {
			t.Fatalf("%s: all are ended, yet %v %v", p, bounds, err)
		}
		for _, x := range m.txns {
			if x.p != p {
				continue
			}
			if x.fate == undecided {
				x.fate, x.commit = decided, false
			}
		}
		m.compare(t, l, p)
		for _, x := range m.txns { // whether an asked one was committed is settled now
			if x.p == p && x.fate == asked {
				got, _, err := readCommitted(l, p, 0, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				x.fate, x.commit = decided, x.commit && len(x.values) > 0 && got[slices.Min(slices.Collect(maps.Keys(x.values)))] != ""
			}
		}
	}
}

func (m *txnModel) compare(t *testing.T, l *Log, p record.TopicPartition) {
	t.Helper()
	all, bounds := mustRead(t, l, p)
	seen, _, err := readCommitted(l, p, 0, 700)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	for o, v := range m.plain[p] {
		if all[o] != v || o < bounds.Stable && seen[o] != v { // I1, I2
			t.Fatalf("%s offset %d: acknowledged %.30q, found %.30q and, committed, %.30q", p, o, v, all[o], seen[o])
		}
	}
	values := map[string]bool{}
	for _, v := range seen {
		values[v] = true
	}
	for i, x := range m.txns {
		if x.p != p {
			continue
		}
		visible := 0
		for v := range x.sent {
			if values[v] {
				visible++
			}
		}
		for o, v := range x.values {
			if all[o] != v { // I1, I2
				t.Fatalf("%s offset %d: acknowledged %.30q, found %.30q", p, o, v, all[o])
			}
		}
		switch {
		case x.fate == decided && x.commit && bounds.Stable == bounds.End && visible < len(x.values), // I1
			visible > 0 && visible < len(x.values) && bounds.Stable == bounds.End,
			visible > 0 && (x.fate == undecided || !x.commit):
			t.Fatalf("%s: transaction %d: %+v, %d visible; bounds %v", p, i, x.fate, visible, bounds)
		}
	}
}

// TestTxnCrash cuts the power at random operations of a log with transactions, several times in a row: what was
// acknowledged is there (I1) under its offset (I2), what was committed is visible as a whole, and nothing else is.
func TestTxnCrash(t *testing.T) {
	seeds := 1000
	if testing.Short() {
		seeds = 60
	}
	seedtest.Each(t, seeds, txnCrashOnce)
}

func txnCrashOnce(t *testing.T, seed uint64) {
	const parts = 2
	rng := rand.New(rand.NewPCG(seed, 5))
	mem := vfs.NewMem()
	l := mustOpen(t, smallConfig(mem))
	mustCreate(t, l, "t", broker.TopicConfig{Partitions: parts, SegmentBytes: 1500})
	mustClose(t, l)
	m := &txnModel{plain: map[record.TopicPartition]map[record.Offset]string{}}
	for round := range 3 {
		cfg, mode := smallConfig(nil), vfs.CrashMode(rng.IntN(3))
		cfg.CheckpointBytes = 4 << 10
		if seed%5 == 0 { // without durability only the process may die
			cfg.Durability, mode = DurabilityNone, vfs.KeepAll
		}
		inject := vfs.NewInject(mem)
		cfg.FS = inject
		var mu sync.Mutex
		var after *vfs.Mem
		var survived *txnModel
		k, seen := rng.IntN(120), 0
		crash := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; after == nil && (now || seen > k) {
				survived = m.clone() // before the crash: what is acknowledged meanwhile may be lost
				after = mem.Crash(rng, mode)
			}
		}
		inject.Observe(func(vfs.Op, string) { crash(false) })
		l := mustOpen(t, cfg)
		var wg sync.WaitGroup
		for n := range int32(parts) {
			prng := rand.New(rand.NewPCG(seed, uint64(n)+uint64(10*round)+10))
			wg.Go(func() { m.work(t, l, tp("t", n), 2*round, prng) })
		}
		wg.Wait()
		crash(true)
		mustClose(t, l)
		mem, m = after, survived
		if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("round %d: check: %v %v", round, found, err)
		}
		l = mustOpen(t, smallConfig(mem))
		m.verify(t, l, parts, int16(2*round+1))
		mustClose(t, l)
	}
}
