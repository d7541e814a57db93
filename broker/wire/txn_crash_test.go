package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// steppedLog tells of every append before it begins and after it is durable.
type steppedLog struct {
	*local.Log
	step func() // one at a time
	mu   *sync.Mutex
}

func (l steppedLog) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step()
}

func (l steppedLog) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	l.mark()
	defer l.mark()
	return l.Log.Append(ctx, tp, batch)
}

func (l steppedLog) AppendMarker(ctx context.Context, tp record.TopicPartition, m broker.TxnMarker) (record.Offset, error) {
	l.mark()
	defer l.mark()
	return l.Log.AppendMarker(ctx, tp, m)
}

func openLocal(t *testing.T, fs vfs.FS) *local.Log {
	t.Helper()
	l, err := local.Open(t.Context(), local.Config{Dir: "log", FS: fs, JournalBytes: 1 << 20, GroupDelay: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// txnsOn is a coordinator on any Log.
func txnsOn(t *testing.T, log broker.Transactor) *txnCoordinator {
	t.Helper()
	cfg := Config{Log: log}.withDefaults()
	kept := &held{limit: cfg.stateMemory()}
	offsets := newOffsetStore(log, kept)
	if err := offsets.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newTxnCoordinator(cfg, log, offsets, kept)
	if err := c.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// committedRecords counts what a read_committed reader of a partition is given, to the stable end.
func committedRecords(t *testing.T, log broker.Log, tp record.TopicPartition) (n int) {
	t.Helper()
	var (
		filter record.AbortFilter
		it     record.Iterator
	)
	b, err := log.Bounds(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	for at := b.Start; at < b.Stable; {
		got, err := log.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: at, MaxBytes: 1 << 20}}, broker.FetchOptions{Isolation: broker.ReadCommitted})
		if err != nil || got[0].Err != nil || len(got[0].Batches) == 0 {
			t.Fatalf("fetch %s at %d: %+v %v", tp, at, got, err)
		}
		filter.Reset(got[0].Aborted)
		for raw := got[0].Batches; len(raw) > 0; {
			batch, err := record.ReadBatch(raw)
			if err != nil {
				t.Fatal(err)
			}
			raw, at = raw[batch.Size():], batch.LastOffset()+1
			if !filter.Keep(batch) {
				continue
			}
			if err := it.Reset(batch); err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				n++
			}
		}
	}
	return n
}

// script is one client's life with a transactional id: a committed transaction, an aborted one, a committed one,
// each with a record in two partitions and a position. It does again what was not acknowledged, as clients do.
type script struct {
	t      *testing.T
	v2     bool
	p      producerID
	begun  bool // transaction `done` has its records and position
	seq    [2]int32
	done   int // transactions that ended, acknowledged
	commit []bool
}

func (s *script) run(log broker.Transactor, c *txnCoordinator, transactions int) {
	t, ctx := s.t, s.t.Context()
	if s.p.id < 0 {
		p, err := c.init(ctx, "x", time.Minute, nop)
		if err != nil {
			t.Fatal(err)
		}
		s.p = p
	}
	for ; s.done < transactions; s.done++ {
		if !s.begun {
			s.begin(log, c)
		}
		next, err := c.end(ctx, "x", s.p, s.commit[s.done], s.v2)
		if err != nil {
			t.Fatalf("end of transaction %d: %v", s.done, err)
		}
		if next != s.p {
			s.seq = [2]int32{}
		}
		s.p, s.begun = next, false
	}
}

func (s *script) begin(log broker.Transactor, c *txnCoordinator) {
	t, ctx := s.t, s.t.Context()
	parts := []record.TopicPartition{tp0, tp1}
	if err := c.add(ctx, "x", s.p, parts, s.v2); err != nil {
		t.Fatalf("add to transaction %d: %v", s.done, err)
	}
	for i, tp := range parts {
		leave, err := c.enter("x", s.p, tp)
		if err != nil {
			t.Fatalf("append to transaction %d: %v", s.done, err)
		}
		if _, err := log.Append(ctx, tp, txnBatch(t, s.p, s.seq[i])); err != nil {
			t.Fatalf("append to transaction %d: %v", s.done, err)
		}
		leave()
		s.seq[i]++
	}
	if !s.v2 {
		if err := c.add(ctx, "x", s.p, []record.TopicPartition{{Topic: OffsetsTopic}}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.hold(ctx, "x", s.p, "g", groupOffsets{tp0: {offset: int64(s.done + 1)}}, s.v2); err != nil {
		t.Fatal(err)
	}
	s.begun = true
}

// I1, I4: power is lost at every step of a client's transactions over the durable log. The server starts again,
// the client asks again for what it has no answer to, and then every transaction has happened once: its records in
// both partitions and its position, or nothing of it.
func TestTxnPowerLoss(t *testing.T) {
	seed := seedtest.New(t)
	const transactions = 3
	for _, v2 := range []bool{false, true} {
		for stop, more := 0, true; more; stop++ {
			t.Run(fmt.Sprintf("v2=%v/step %d", v2, stop), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(stop)))
				mem := vfs.NewMem()
				l := openLocal(t, mem)
				if _, err := l.CreateTopic(t.Context(), "t", topicOf(2)); err != nil {
					t.Fatal(err)
				}
				s := &script{t: t, v2: v2, p: nop, commit: []bool{true, false, true}}
				var (
					after *vfs.Mem
					known script
					steps int
				)
				log := steppedLog{l, func() {}, new(sync.Mutex)}
				c := txnsOn(t, &log)
				log.step = func() {
					if steps == stop {
						after, known = mem.Crash(rng, []vfs.CrashMode{vfs.KeepNothing, vfs.KeepSome, vfs.KeepAll}[rng.IntN(3)]), *s
					}
					steps++
				}
				s.run(&log, c, transactions)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if more = after != nil; !more {
					return // the life was shorter than that
				}
				checkAfterPowerLoss(t, after, &known, transactions)
			})
		}
	}
}

func checkAfterPowerLoss(t *testing.T, fs *vfs.Mem, s *script, transactions int) {
	t.Helper()
	l := openLocal(t, fs)
	defer l.Close()
	c := txnsOn(t, l)
	s.t = t
	if !s.begun && s.p.id >= 0 { // what was begun in part is given up: the client starts anew
		before := s.p
		p, err := c.init(t.Context(), "x", time.Minute, nop)
		if err != nil || p.id == before.id && p.epoch <= before.epoch {
			t.Fatalf("the client is %+v, was %+v: %v", p, before, err)
		}
		s.p, s.seq = p, [2]int32{}
	}
	s.run(l, c, transactions)
	for _, tp := range []record.TopicPartition{tp0, tp1} {
		if n := committedRecords(t, l, tp); n != 2 {
			t.Errorf("%s: %d committed records, want 2", tp, n)
		}
		b, err := l.Bounds(t.Context(), tp)
		if err != nil || b.Stable != b.End {
			t.Errorf("%s: something is open: %+v %v", tp, b, err)
		}
	}
	if pos, ok := c.offsets.get("g", tp0); !ok || pos.offset != 3 {
		t.Errorf("position %+v %v, want 3", pos, ok)
	}
	if c.unstable("g", tp0) {
		t.Error("a position is still in a transaction")
	}
}

// The Log compacts what coordinators keep: the topics stay small, and nothing that counts is lost with power.
func TestStateTopicsAreCompacted(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	l := openLocal(t, mem)
	if _, err := l.CreateTopic(ctx, "t", topicOf(2)); err != nil {
		t.Fatal(err)
	}
	c := txnsOn(t, l)
	c.topic.segmentBytes, c.offsets.topic.segmentBytes = 4<<10, 4<<10
	open, err := c.init(ctx, "open", time.Minute, nop)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.hold(ctx, "open", open, "g", groupOffsets{tp0: {offset: 7}}, true); err != nil {
		t.Fatal(err)
	}
	for i := range 150 {
		p, err := c.init(ctx, "x", time.Minute, nop)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.hold(ctx, "x", p, "h", groupOffsets{tp1: {offset: int64(i)}}, true); err != nil {
			t.Fatal(err)
		}
		if _, err := c.end(ctx, "x", p, true, true); err != nil {
			t.Fatal(err)
		}
	}
	size := func(topic string) int64 {
		t.Helper()
		n, err := l.Size(ctx, record.TopicPartition{Topic: topic})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	offsets, txns := size(OffsetsTopic), size(TransactionsTopic)
	if err := l.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if o, x := size(OffsetsTopic), size(TransactionsTopic); o > offsets/2 || o > 10<<10 || x > txns/4 || x > 10<<10 {
		t.Fatalf("positions take %d bytes, took %d; transactions %d, took %d", o, offsets, x, txns)
	}
	after := mem.Crash(rand.New(rand.NewPCG(1, 2)), vfs.KeepNothing)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLocal(t, after)
	defer l.Close()
	c = txnsOn(t, l)
	if pos, ok := c.offsets.get("h", tp1); !ok || pos.offset != 149 || !c.unstable("g", tp0) {
		t.Fatalf("position %+v %v, unstable %v", pos, ok, c.unstable("g", tp0))
	}
	if _, err := c.end(ctx, "open", open, true, true); err != nil {
		t.Fatal(err)
	}
	if pos, ok := c.offsets.get("g", tp0); !ok || pos.offset != 7 {
		t.Fatalf("position %+v %v", pos, ok)
	}
}

// What is open in the Log and belongs to no transaction of the coordinator, whose records were lost, is aborted at
// start; what belongs to one stays open. Lost is: all of it, a later partition of it, or a later epoch.
func TestTxnHanging(t *testing.T) {
	ctx := t.Context()
	for _, lost := range []string{"nothing", "transaction", "partition", "epoch"} {
		t.Run(lost, func(t *testing.T) {
			log := txnLog(t)
			c := testTxns(t, log, nil)
			cut := func() record.Offset {
				b, err := log.Bounds(ctx, c.topic.tp)
				if err != nil {
					t.Fatal(err)
				}
				return b.End
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			p, err := c.init(ctx, "x", time.Minute, nop)
			must(err)
			at := cut()
			must(c.add(ctx, "x", p, []record.TopicPartition{tp0}, true))
			if lost == "partition" || lost == "epoch" {
				at = cut()
			}
			if lost == "epoch" {
				p, err = c.init(ctx, "x", time.Minute, nop) // ends the former one
				must(err)
			}
			must(c.add(ctx, "x", p, []record.TopicPartition{tp0, tp1}, true))
			for _, tp := range []record.TopicPartition{tp0, tp1} {
				_, err := log.Append(ctx, tp, txnBatch(t, p, 0))
				must(err)
			}
			if lost != "nothing" {
				cutLog(log, TransactionsTopic, at)
			}
			c = testTxns(t, log, nil) // the server starts again
			want := map[string][2]int{"nothing": {1, 1}, "partition": {1, 0}}[lost]
			if got := [2]int{openIn(log, tp0), openIn(log, tp1)}; got != want {
				t.Fatalf("%v transactions are open in the partitions, want %v", got, want)
			}
			_, err = c.init(ctx, "x", time.Minute, nop)
			must(err)
			if n := openIn(log, tp0) + openIn(log, tp1); n != 0 {
				t.Errorf("%d are open after the next producer began", n)
			}
		})
	}
}

// With a Log that syncs nothing a power loss takes what it likes: no transaction is left that nobody will end.
func TestTxnHangingAfterPowerLoss(t *testing.T) {
	ctx, seed := t.Context(), seedtest.New(t)
	for run := range uint64(40) {
		m := vfs.NewMem()
		cfg := local.Config{Dir: "log", FS: m, JournalBytes: 1 << 20, Durability: local.DurabilityNone}
		open := func() *local.Log {
			l, err := local.Open(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		_, err := l.CreateTopic(ctx, "t", topicOf(1))
		c := txnsOn(t, l)
		p, ierr := c.init(ctx, "x", time.Minute, nop)
		if err = errors.Join(err, ierr, l.Checkpoint(), c.add(ctx, "x", p, []record.TopicPartition{tp0}, true)); err != nil {
			t.Fatal(err)
		}
		_, err = l.Append(ctx, tp0, txnBatch(t, p, 0))
		if _, eerr := c.end(ctx, "x", p, true, true); err != nil || eerr != nil {
			t.Fatal(err, eerr)
		}
		cfg.FS = m.Crash(rand.New(rand.NewPCG(seed, run)), vfs.KeepSome)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open()
		c = txnsOn(t, l)
		c.now = func() time.Time { return time.Now().Add(time.Hour) }
		c.sweep(ctx)
		if b, err := l.Bounds(ctx, tp0); err != nil || b.Stable != b.End {
			t.Fatalf("run %d: something is open for ever: %+v %v", run, b, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
