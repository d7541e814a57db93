package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// changelog is what a compacted topic with transactions has acknowledged.
type changelog struct {
	all  map[record.Offset]kv // every record that was acknowledged or found
	out  map[record.Offset]bool
	open map[int64][]record.Offset // of each producer's open transaction
	ends map[int64]bool            // producers whose marker was asked for; how it ends
}

func newChangelog() *changelog {
	return &changelog{all: map[record.Offset]kv{}, out: map[record.Offset]bool{}, open: map[int64][]record.Offset{}, ends: map[int64]bool{}}
}

func (c *changelog) clone() *changelog {
	return &changelog{all: maps.Clone(c.all), out: maps.Clone(c.out), open: maps.Clone(c.open), ends: maps.Clone(c.ends)}
}

// end settles a producer's transaction.
func (c *changelog) end(id int64, commit bool) {
	for _, o := range c.open[id] {
		c.out[o] = !commit
	}
	delete(c.open, id)
	delete(c.ends, id)
}

// committed gives the newest committed value of each key.
func (c *changelog) committed() map[string]string {
	recs := map[record.Offset]kv{}
	for o, r := range c.all {
		if !c.out[o] {
			recs[o] = r
		}
	}
	return state(recs)
}

// TestCompactTxnCrash compacts a topic with transactions of two producers, with files that cannot be opened for a
// while and the power cut at random operations: the newest committed value of each key is there, and nothing that
// was aborted (I1, I2).
func TestCompactTxnCrash(t *testing.T) {
	seeds := 400
	if testing.Short() {
		seeds = 30
	}
	seedtest.Each(t, seeds, compactTxnCrashOnce)
}

// compactTxnRun is one life of the log, until the power goes.
type compactTxnRun struct {
	t     *testing.T
	l     *Log
	p     record.TopicPartition
	rng   *rand.Rand
	round int

	mu  sync.Mutex
	log *changelog
}

func (r *compactTxnRun) set(f func(c *changelog)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.log)
}

// refused tells a passing error from one that must not be.
func (r *compactTxnRun) refused(err error) bool {
	if err != nil && !errors.Is(err, broker.ErrStorage) {
		r.t.Fatalf("round %d: %v", r.round, err)
	}
	return err != nil
}

func (r *compactTxnRun) step(i int, seq map[int64]int32) {
	id := int64(r.rng.IntN(3)) // the third is no producer
	rec := kv{fmt.Sprint("k", r.rng.IntN(6)), fmt.Sprintf("%d %d %0*d", r.round, i, r.rng.IntN(300), 1)}
	if r.rng.IntN(6) == 0 {
		rec.value = "-"
	}
	raw := kvBatch(r.t, record.None, rec)
	if id < 2 {
		if len(r.log.open[id]) > 0 && r.rng.IntN(2) == 0 {
			commit := r.rng.IntN(2) == 0
			r.set(func(c *changelog) { c.ends[id] = commit })
			_, err := r.l.AppendMarker(r.t.Context(), r.p, broker.TxnMarker{ProducerID: id, Epoch: int16(2 * r.round), Commit: commit})
			if !r.refused(err) {
				r.set(func(c *changelog) { c.end(id, commit) })
			}
			return
		}
		b := record.NewBuilder(record.None)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = id, int16(2*r.round), seq[id], true
		value := []byte(rec.value)
		if rec.value == "-" {
			value = nil
		}
		b.Append(start.UnixMilli(), []byte(rec.key), value, nil)
		var err error
		if raw, err = b.Build(0); err != nil {
			r.t.Fatal(err)
		}
	}
	res, err := r.l.Append(r.t.Context(), r.p, raw)
	if r.refused(err) {
		return
	}
	r.set(func(c *changelog) {
		c.all[res.Base] = rec
		if id < 2 {
			seq[id]++
			c.open[id] = append(append([]record.Offset{}, c.open[id]...), res.Base)
			c.out[res.Base] = true
		}
	})
}

func compactTxnCrashOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 8))
	mem, now, p := vfs.NewMem(), newClock(), tp("t", 0)
	cfg := smallConfig(mem)
	l := mustOpen(t, cfg)
	c := compactConfig()
	c.SegmentBytes = 1200
	if seed%2 == 0 {
		c.SegmentBytes = 4000
	}
	mustCreate(t, l, "t", c)
	mustClose(t, l)
	log := newChangelog()
	for round := range 3 {
		inject := vfs.NewInject(mem)
		cfg := smallConfig(inject)
		cfg.Clock, cfg.CheckpointBytes = now.time, 4<<10
		if seed%2 == 0 { // passes end in the middle of segments
			cfg.CleanerMemory = 4 * keyBytes
		}
		r := &compactTxnRun{t: t, l: mustOpen(t, cfg), p: p, rng: rng, round: round, log: log}
		crashRNG, mode := rand.New(rand.NewPCG(seed, uint64(round)+30)), vfs.CrashMode(rng.IntN(3))
		var after *vfs.Mem
		var survived *changelog
		k, seen := rng.IntN(200), 0
		snapshot := func(now bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if seen++; after == nil && (now || seen > k) {
				survived, after = r.log.clone(), mem.Crash(crashRNG, mode)
			}
		}
		inject.Observe(func(vfs.Op, string) { snapshot(false) })
		seq := map[int64]int32{}
		for i := range 60 {
			r.step(i, seq)
			switch rng.IntN(12) {
			case 0:
				if err := r.l.Compact(t.Context()); err != nil && !errors.Is(err, syscall.EMFILE) {
					t.Fatalf("round %d: compact: %v", round, err)
				}
				now.pass(time.Duration(rng.IntN(50)) * time.Minute)
			case 1:
				inject.Fail(vfs.Rule{Op: []vfs.Op{vfs.OpOpen, vfs.OpCreate}[rng.IntN(2)], K: 1 + rng.IntN(6), Err: syscall.EMFILE})
			case 2:
				inject.Heal()
			}
			if r.l.failure() != nil { // a topic or checkpoint whose fate is not known
				break
			}
		}
		snapshot(true)
		inject.Heal()
		mustClose(t, r.l)
		mem, log = after, survived
		if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
			t.Fatalf("round %d: check: %v %v", round, found, err)
		}
		cfg = smallConfig(mem)
		cfg.Clock = now.time
		l := mustOpen(t, cfg)
		log.settle(t, l, p, int16(2*round+1))
		for range 2 {
			got, err := scan(l, p, 0, broker.ReadCommitted)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for o, rec := range got {
				if want, ok := log.all[o]; ok && want != rec { // I2
					t.Fatalf("round %d: offset %d: %v, want %v", round, o, rec, want)
				}
				if log.out[o] {
					t.Fatalf("round %d: offset %d is visible, and was aborted", round, o)
				}
				log.all[o] = rec // was on its way
			}
			if diff := cmp.Diff(log.committed(), state(got)); diff != "" { // I1
				t.Fatalf("round %d (-want +got):\n%s", round, diff)
			}
			mustCompact(t, l)
		}
		mustClose(t, l)
	}
}

// settle ends what is open as a coordinator would, and finds out how the others ended.
func (c *changelog) settle(t *testing.T, l *Log, p record.TopicPartition, epoch int16) {
	t.Helper()
	states, err := l.Producers(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		commit, asked := c.ends[s.ID]
		if s.TxnStart >= 0 {
			mustEnd(t, l, p, s.ID, epoch, commit)
			c.end(s.ID, commit)
		} else if asked {
			c.end(s.ID, commit) // the marker is there
		}
	}
	if len(c.open) > 0 {
		t.Fatalf("transactions of %v are not open any more", c.open)
	}
}
