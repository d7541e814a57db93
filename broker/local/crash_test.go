package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// model is what the log has acknowledged and what it was asked for.
type model struct {
	mu    sync.Mutex
	acked map[record.TopicPartition]map[record.Offset]string
	asked map[string]bool
	holds map[record.TopicPartition]record.Offset
	retry map[record.TopicPartition]retry // the last acknowledged batch of the partition's producer
}

type retry struct {
	epoch int16
	seq   int32
	value string
	base  record.Offset
}

func newModel() *model {
	return &model{acked: map[record.TopicPartition]map[record.Offset]string{}, asked: map[string]bool{},
		holds: map[record.TopicPartition]record.Offset{}, retry: map[record.TopicPartition]retry{}}
}

func (m *model) clone() *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newModel()
	for k, v := range m.acked {
		c.acked[k] = maps.Clone(v)
	}
	c.asked, c.holds, c.retry = maps.Clone(m.asked), maps.Clone(m.holds), maps.Clone(m.retry)
	return c
}

func (m *model) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// work appends to one partition until it is through or the log fails.
func (m *model) work(t *testing.T, l *Log, p record.TopicPartition, round, n int, rng *rand.Rand) {
	m.set(func() {
		if m.acked[p] == nil {
			m.acked[p] = map[record.Offset]string{}
		}
	})
	seq := int32(0)
	for i := range n {
		if rng.IntN(4) == 0 && !m.burst(t, l, p, fmt.Sprint(round, i), 2+rng.IntN(25)) {
			return
		}
		v := fmt.Sprintf("%s %d %d %0*d", p, round, i, rng.IntN(900), 7)
		m.set(func() { m.asked[v] = true })
		// Each round is a new epoch of one producer, so that retries can be tried after the crash.
		res, err := appendEither(t, l, p, producedBatch(t, int64(p.Partition), int16(round), seq, v))
		if err != nil {
			if !errors.Is(err, broker.ErrStorage) {
				t.Errorf("append: %v", err)
			}
			return
		}
		m.set(func() {
			m.acked[p][res.Base] = v
			m.retry[p] = retry{int16(round), seq, v, res.Base}
		})
		seq++
		if rng.IntN(8) == 0 {
			hold := record.Offset(rng.IntN(int(res.Base) + 1))
			if err := l.Hold(t.Context(), p, hold); err == nil {
				m.set(func() { m.holds[p] = hold })
			}
		}
	}
}

// burst appends small batches that wait for the disk together, so that groups are of all sizes; false when the log fails.
func (m *model) burst(t *testing.T, l *Log, p record.TopicPartition, name string, n int) bool {
	var told sync.WaitGroup
	var failed atomic.Bool
	for i := range n {
		v := fmt.Sprintf("%s %s burst %d", p, name, i)
		m.set(func() { m.asked[v] = true })
		told.Add(1)
		l.AppendThen(t.Context(), broker.Append{TP: p, Batch: batchOf(t, v), Then: func(res broker.AppendResult, err error) {
			defer told.Done()
			switch {
			case err == nil:
				m.set(func() { m.acked[p][res.Base] = v })
			case errors.Is(err, broker.ErrStorage):
				failed.Store(true)
			default:
				t.Errorf("append: %v", err)
			}
		}})
	}
	told.Wait()
	return !failed.Load()
}

// verify compares a recovered log with what was acknowledged before the crash.
func (m *model) verify(t *testing.T, l *Log) {
	t.Helper()
	for p, acked := range m.acked {
		got, bounds := mustRead(t, l, p)
		if bounds.Start != 0 {
			t.Fatalf("%s begins at %d", p, bounds.Start)
		}
		for o, v := range acked {
			if got[o] != v { // I1, I2
				t.Fatalf("%s offset %d: acknowledged %.40q, found %.40q; bounds %v", p, o, v, got[o], bounds)
			}
		}
		for o, v := range got {
			if !m.asked[v] {
				t.Fatalf("%s offset %d: nobody sent %.40q", p, o, v)
			}
		}
		part, err := l.partition(p)
		if err != nil {
			t.Fatal(err)
		}
		if part.hold < m.holds[p] && !part.held {
			t.Fatalf("%s: the hold at %d is lost", p, m.holds[p])
		}
		if r, ok := m.retry[p]; ok {
			res, err := appendEither(t, l, p, producedBatch(t, int64(p.Partition), r.epoch, r.seq, r.value))
			if err == nil && (!res.Duplicate || res.Base != r.base) {
				t.Fatalf("%s: retry of offset %d gave %+v", p, r.base, res)
			}
			if err != nil { // more than five batches were durable behind it, or were begun
				if !errors.Is(err, broker.ErrOutOfOrder) && !errors.Is(err, broker.ErrProducerFenced) {
					t.Fatalf("%s: retry: %v", p, err)
				}
			}
		}
	}
}

// TestCrash cuts the power at random operations of the log, several times in a row, and looks whether all
// that was acknowledged is there (I1) under its offset (I2).
func TestCrash(t *testing.T) {
	seeds := 1200
	if testing.Short() {
		seeds = 200
	}
	seedtest.Each(t, seeds, func(t *testing.T, seed uint64) { crashOnce(t, seed, 12, 160) })
}

// TestCrashOverSpares does so for longer, so that journal files are made of others.
func TestCrashOverSpares(t *testing.T) {
	played, renewed := 0, 0
	seedtest.Each(t, 100, func(t *testing.T, seed uint64) {
		played++
		renewed += crashOnce(t, seed, 50, 700)
	})
	if played > 1 && renewed < played {
		t.Fatalf("%d files were made of others before the crashes of %d seeds", renewed, played)
	}
}

// crashOnce has each of three partitions append so many batches, and cuts the power within so many operations. It gives how
// many journal files were made of others before.
func crashOnce(t *testing.T, seed uint64, batches, ops int) (renewed int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := newModel()
	mem := vfs.NewMem()
	created := false
	for round := range 3 {
		durability := Durability(0)
		mode := vfs.CrashMode(rng.IntN(3))
		if seed%5 == 0 { // without durability only the process may die
			durability, mode = DurabilityNone, vfs.KeepAll
		}
		inject := vfs.NewInject(mem)
		var after *vfs.Mem
		var survived *model
		var survivedTopic bool
		var mu sync.Mutex
		k, seen := rng.IntN(ops), 0
		crash := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; after == nil && (now || seen > k) {
				survived = m.clone() // before the crash: what is acknowledged meanwhile may be lost
				survivedTopic = created
				after = mem.Crash(rng, mode)
			}
		}
		inject.Observe(func(op vfs.Op, name string) {
			crash(false)
			mu.Lock()
			defer mu.Unlock()
			if op == vfs.OpRename && path.Ext(name) == journalSuffix && after == nil {
				renewed++
			}
		})
		cfg := smallConfig(inject)
		cfg.Durability = durability
		l := mustOpen(t, cfg)
		if !created {
			_, err := l.CreateTopic(t.Context(), "t", broker.TopicConfig{Partitions: 3})
			if err != nil && !errors.Is(err, broker.ErrTopicExists) { // it may have survived without its answer
				t.Fatalf("create: %v", err)
			}
			mu.Lock()
			created = true
			mu.Unlock()
		}
		m.retry = map[record.TopicPartition]retry{}
		var wg sync.WaitGroup
		for p := range int32(3) {
			prng := rand.New(rand.NewPCG(seed, uint64(p)+10))
			wg.Go(func() { m.work(t, l, tp("t", p), round, batches, prng) })
		}
		wg.Wait()
		crash(true) // when there were fewer operations than hoped for
		mustClose(t, l)
		mem, m, created = after, survived, survivedTopic
		if !created {
			continue
		}
		l = mustOpen(t, smallConfig(mem))
		m.verify(t, l)
		mustClose(t, l)
		if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("round %d: check: %v %v", round, found, err)
		}
	}
	return renewed
}
