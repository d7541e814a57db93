package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/record"
)

// transact produces values in one transaction and ends it.
func transact(t testing.TB, ctx context.Context, cl *kgo.Client, topic string, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce %s: %v", v, err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := txnend.End(ctx, cl, end, topic); err != nil {
		t.Fatal(err)
	}
}

func valuesOf(rs []*kgo.Record) (out []string) {
	for _, r := range rs {
		out = append(out, string(r.Value))
	}
	slices.Sort(out)
	return out
}

// I4: a read_committed consumer sees committed records only, a read_uncommitted one all; with clients that add
// partitions themselves, and with those that leave it to Produce (KIP-890).
func TestTransactions(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{"0.11": kversion.V0_11_0(), "2.8": kversion.V2_8_0(), "3.9": kversion.V3_9_0(), "newest": kversion.Stable()} {
		t.Run(name, func(t *testing.T) {
			s := start(t, newMemLog(t), nil)
			ctx := within(t, 20*time.Second)
			cl := client(t, s, kgo.MaxVersions(v), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			for i := range 6 {
				end := kgo.TryCommit
				if i%2 == 1 {
					end = kgo.TryAbort
				}
				transact(t, ctx, cl, "t", end, fmt.Sprintf("%d-a", i), fmt.Sprintf("%d-b", i), fmt.Sprintf("%d-c", i))
			}
			from := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
			committed := consume(t, ctx, client(t, s, kgo.ConsumeTopics("t"), from, kgo.FetchIsolationLevel(kgo.ReadCommitted())), 9)
			want := []string{"0-a", "0-b", "0-c", "2-a", "2-b", "2-c", "4-a", "4-b", "4-c"}
			if got := valuesOf(committed); !slices.Equal(got, want) {
				t.Fatalf("committed: %v", got)
			}
			consume(t, ctx, client(t, s, kgo.ConsumeTopics("t"), from), 18)

			ls, err := admin(t, s).ListTransactions(ctx, nil, nil)
			if err != nil || len(ls) != 1 || ls["x"].State != "CompleteAbort" {
				t.Fatalf("listed: %+v %v", ls, err)
			}
		})
	}
}

// Records of an open transaction are not given to a read_committed consumer; DescribeTransactions and
// DescribeProducers tell of it.
func TestOpenTransaction(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.DefaultPartitions = 1 })
	ctx := within(t, 20*time.Second)
	cl := client(t, s, kgo.TransactionalID("x"))
	transact(t, ctx, cl, "t", kgo.TryCommit, "first")
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("open")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	adm := admin(t, s)
	d, err := adm.DescribeTransactions(ctx, "x", "unknown")
	if err != nil || d["x"].State != "Ongoing" || !d["x"].Topics.Lookup("t", 0) || !errors.Is(d["unknown"].Err, kerr.TransactionalIDNotFound) {
		t.Fatalf("described: %+v %v", d, err)
	}
	ps, err := adm.DescribeProducers(ctx, kadm.TopicsSet{"t": {0: {}}})
	if err != nil || len(ps.SortedProducers()) != 1 || ps.SortedProducers()[0].CurrentTxnStartOffset != 2 {
		t.Fatalf("producers: %+v %v", ps, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, "t")
	if o, _ := ends.Lookup("t", 0); err != nil || o.Offset != 2 {
		t.Fatalf("stable end: %+v %v", ends, err)
	}
	rc := client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if got := valuesOf(consume(t, ctx, rc, 1)); got[0] != "first" {
		t.Fatal(got)
	}
	if err := txnend.End(ctx, cl, kgo.TryCommit, "t"); err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(consume(t, ctx, rc, 1)); got[0] != "open" {
		t.Fatal(got)
	}
}

// A producer that comes with the same id ends what the old one left open, and the old one can do nothing more.
func TestZombieProducer(t *testing.T) {
	for name, v := range map[string]*kversion.Versions{"2.8": kversion.V2_8_0(), "newest": kversion.Stable()} {
		t.Run(name, func(t *testing.T) {
			s := start(t, newMemLog(t), func(c *Config) { c.DefaultPartitions = 1 })
			ctx := within(t, 20*time.Second)
			zombie := client(t, s, kgo.MaxVersions(v), kgo.TransactionalID("x"))
			if err := zombie.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := zombie.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("zombie")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			transact(t, ctx, client(t, s, kgo.MaxVersions(v), kgo.TransactionalID("x")), "t", kgo.TryCommit, "new")
			if err := zombie.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("late")}).FirstErr(); err == nil {
				t.Fatal("the old producer still produces")
			}
			if err := zombie.EndTransaction(ctx, kgo.TryCommit); err == nil {
				t.Fatal("the old producer still commits")
			}
			rc := client(t, s, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			if got := valuesOf(consume(t, ctx, rc, 1)); got[0] != "new" {
				t.Fatalf("committed: %v", got)
			}
		})
	}
}

// testTxns is a coordinator on a log with topic t of two partitions. Its clock stands at *now.
func testTxns(t *testing.T, log *memLog, now *time.Time) *txnCoordinator {
	t.Helper()
	cfg := Config{Log: log, Logger: nil}.withDefaults()
	kept := &held{limit: cfg.stateMemory()}
	offsets := newOffsetStore(log, kept)
	if err := offsets.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newTxnCoordinator(cfg, log, offsets, kept)
	if now != nil {
		c.now = func() time.Time { return *now }
	}
	if err := c.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func txnLog(t *testing.T) *memLog {
	t.Helper()
	log := newMemLog(t)
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(2)); err != nil {
		t.Fatal(err)
	}
	return log
}

func txnBatch(t *testing.T, p producerID, seq int32) []byte {
	t.Helper()
	b := record.NewBuilder(record.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = p.id, p.epoch, seq, true
	b.Append(1, nil, []byte("v"), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var (
	tp0 = record.TopicPartition{Topic: "t"}
	tp1 = record.TopicPartition{Topic: "t", Partition: 1}
	nop = producerID{-1, -1}
)

// openTxn begins a transaction with a record in both partitions and a position of group g.
func openTxn(t *testing.T, log *memLog, c *txnCoordinator, id string, v2 bool) producerID {
	t.Helper()
	ctx := t.Context()
	p, err := c.init(ctx, id, time.Minute, nop)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.add(ctx, id, p, []record.TopicPartition{tp0, tp1}, v2); err != nil {
		t.Fatal(err)
	}
	for _, tp := range []record.TopicPartition{tp0, tp1} {
		leave, err := c.enter(id, p, tp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(ctx, tp, txnBatch(t, p, 0)); err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if !v2 {
		if err := c.add(ctx, id, p, []record.TopicPartition{{Topic: OffsetsTopic}}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.hold(ctx, id, p, "g", groupOffsets{tp0: {offset: 7}}, v2); err != nil {
		t.Fatal(err)
	}
	return p
}

func openIn(log *memLog, tp record.TopicPartition) int {
	log.mu.Lock()
	defer log.mu.Unlock()
	return len(log.topics[tp.Topic].parts[tp.Partition].open)
}

// I1, I4: after a crash in any state the coordinator goes on from there: an open transaction can be ended either
// way, and a decided one is finished at start, whichever of its markers were written.
func TestTxnCrashInEachState(t *testing.T) {
	crash := errors.New("crash")
	for _, v2 := range []bool{false, true} {
		for _, commit := range []bool{false, true} {
			for _, at := range []string{"ongoing", "prepared", "one marker", "all markers", "complete"} {
				t.Run(fmt.Sprintf("v2=%v/commit=%v/%s", v2, commit, at), func(t *testing.T) {
					ctx := t.Context()
					log := txnLog(t)
					c := testTxns(t, log, nil)
					p := openTxn(t, log, c, "x", v2)
					n := 0
					log.failMarker = func(record.TopicPartition) error {
						n++
						if at == "prepared" || at == "one marker" && n == 2 {
							return crash
						}
						return nil
					}
					if at == "all markers" { // the state's own record is lost
						log.failMarker = nil
						before, _ := log.Bounds(ctx, c.topic.tp)
						if _, err := c.end(ctx, "x", p, commit, v2); err != nil {
							t.Fatal(err)
						}
						cutLog(log, TransactionsTopic, before.End+1)
					} else if at != "ongoing" {
						if _, err := c.end(ctx, "x", p, commit, v2); err != nil {
							t.Fatal(err)
						}
					}
					log.failMarker = nil

					c = testTxns(t, log, nil) // the server starts again
					if at == "ongoing" {
						if !c.unstable("g", tp0) || openIn(log, tp0) != 1 {
							t.Fatal("the open transaction is gone")
						}
					}
					next, err := c.end(ctx, "x", p, commit, v2) // the client asks, or asks again
					if err != nil {
						t.Fatal(err)
					}
					if want := p.epoch; v2 && next.epoch != want+1 || !v2 && next.epoch != want {
						t.Fatalf("epoch %d after the end, was %d", next.epoch, want)
					}
					if openIn(log, tp0)+openIn(log, tp1) != 0 || c.unstable("g", tp0) {
						t.Fatal("the transaction is still open somewhere")
					}
					if pos, ok := c.offsets.get("g", tp0); ok != commit || commit && pos.offset != 7 {
						t.Fatalf("position of the group: %+v %v", pos, ok)
					}
					if st, _ := c.describe("x"); len(st.parts) != 0 || (st.state == txnCompleteCommit) != commit {
						t.Fatalf("state %+v", st)
					}
					if err := c.add(ctx, "x", next, []record.TopicPartition{tp0}, v2); err != nil {
						t.Fatalf("the next transaction: %v", err)
					}
				})
			}
		}
	}
}

// cutLog loses what was appended at and above an offset.
func cutLog(log *memLog, topic string, at record.Offset) {
	log.mu.Lock()
	defer log.mu.Unlock()
	p := log.topics[topic].parts[0]
	p.batches = slices.DeleteFunc(p.batches, func(b record.Batch) bool { return b.BaseOffset >= at })
	p.end = at
}

// A transaction that is open for longer than its time-out is aborted and its producer fenced; the producer
// can go on after it has asked for its next epoch (KIP-360). Ids that nobody uses are forgotten.
func TestTxnTimeout(t *testing.T) {
	ctx := t.Context()
	now := time.Now()
	log := txnLog(t)
	c := testTxns(t, log, &now)
	p := openTxn(t, log, c, "x", false)
	now = now.Add(59 * time.Second)
	c.sweep(ctx)
	if openIn(log, tp0) != 1 {
		t.Fatal("aborted too early")
	}
	now = now.Add(2 * time.Second)
	c.sweep(ctx)
	if openIn(log, tp0)+openIn(log, tp1) != 0 {
		t.Fatal("the transaction is still open")
	}
	if _, ok := c.offsets.get("g", tp0); ok {
		t.Fatal("the position of an aborted transaction counts")
	}
	if _, err := c.end(ctx, "x", p, true, false); !errors.Is(err, errTxnFenced) {
		t.Fatalf("commit after the time: %v", err)
	}
	if _, err := c.enter("x", p, tp0); !errors.Is(err, errTxnFenced) {
		t.Fatalf("append after the time: %v", err)
	}
	next, err := c.init(ctx, "x", time.Minute, p)
	if err != nil || next.id != p.id || next.epoch != p.epoch+1 {
		t.Fatalf("went on as %+v %v, was %+v", next, err, p)
	}
	now = now.Add(txnIDExpiry + time.Second)
	c.sweep(ctx)
	if _, ok := c.describe("x"); ok || len(c.byID) != 0 {
		t.Fatalf("the id stays: %d ids", len(c.byID))
	}
	if used := c.kept.used.Load(); used != 0 {
		t.Fatalf("%d bytes stay", used)
	}
	if c = testTxns(t, log, &now); len(c.byID) != 0 {
		t.Fatal("the id is back after a restart")
	}
}

// Who asks for a producer id and names the one it has is told the same after a lost answer, and fenced when it
// is not the newest; epochs that are used up give a new id.
func TestTxnInit(t *testing.T) {
	ctx := t.Context()
	log := txnLog(t)
	c := testTxns(t, log, nil)
	get := func(known producerID, want error) producerID {
		t.Helper()
		p, err := c.init(ctx, "x", time.Minute, known)
		if !errors.Is(err, want) {
			t.Fatalf("init with %+v: %v, want %v", known, err, want)
		}
		return p
	}
	first := get(nop, nil)
	second := get(first, nil)
	if second.id != first.id || second.epoch != first.epoch+1 {
		t.Fatalf("%+v after %+v", second, first)
	}
	if again := get(first, nil); again != second {
		t.Fatalf("asked again: %+v, want %+v", again, second)
	}
	c = testTxns(t, log, nil) // the answer was lost with the process that gave it
	if again := get(first, nil); again != second {
		t.Fatalf("asked again after a restart: %+v, want %+v", again, second)
	}
	third := get(second, nil)
	get(first, errTxnFenced)
	get(producerID{third.id + 1, third.epoch}, errTxnFenced)
	if err := c.add(ctx, "x", third, []record.TopicPartition{tp0}, true); err != nil {
		t.Fatal(err)
	}
	get(second, errTxnFenced) // and what the newest has open stays
	if st, _ := c.describe("x"); st.state != txnOngoing || st.current() != third {
		t.Fatalf("a fenced producer ended the transaction: %+v", st)
	}
	for _, timeout := range []time.Duration{0, -1, 16 * time.Minute} {
		if _, err := c.init(ctx, "y", timeout, nop); !errors.Is(err, errTxnTimeout) {
			t.Errorf("timeout %v: %v", timeout, err)
		}
	}
	if len(c.byID) != 1 {
		t.Fatalf("%d ids, a refused one stays", len(c.byID))
	}

	tx := c.find("x")
	tx.state.epoch, tx.state.state = maxProducerEpoch-1, txnEmpty
	last := get(nop, nil)
	if last.epoch != maxProducerEpoch {
		t.Fatalf("epoch %d", last.epoch)
	}
	rotated := get(last, nil)
	if rotated.id == last.id || rotated.epoch != 0 {
		t.Fatalf("after the last epoch: %+v", rotated)
	}
	if again := get(last, nil); again != rotated {
		t.Fatalf("asked again: %+v, want %+v", again, rotated)
	}
}

// A new instance, which names no producer, fences the old one for good: that asks for the next epoch as after a
// lost answer (KIP-360), and must not be given that of its successor, nor append or end in its place.
func TestTxnInitFencesZombie(t *testing.T) {
	ctx := t.Context()
	log := txnLog(t)
	c := testTxns(t, log, nil)
	get := func(known producerID) producerID {
		t.Helper()
		p, err := c.init(ctx, "x", time.Minute, known)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, open := range []bool{false, true} {
		old := get(nop)
		if open { // the new instance aborts it
			if err := c.add(ctx, "x", old, []record.TopicPartition{tp0}, true); err != nil {
				t.Fatal(err)
			}
		}
		next := get(nop)
		c = testTxns(t, log, nil) // also after a restart
		if p, err := c.init(ctx, "x", time.Minute, old); !errors.Is(err, errTxnFenced) {
			t.Fatalf("the zombie %+v got %+v, %v; its successor has %+v", old, p, err, next)
		}
		if err := c.add(ctx, "x", next, []record.TopicPartition{tp0}, true); err != nil {
			t.Fatal(err)
		}
		if leave, err := c.enter("x", old, tp0); err == nil {
			leave()
			t.Error("the zombie appends to the transaction of its successor")
		}
		if _, err := c.end(ctx, "x", old, false, true); err == nil {
			t.Error("the zombie ends the transaction of its successor")
		}
		if again := get(next); again.epoch <= next.epoch {
			t.Errorf("the successor %+v got %+v", next, again)
		}
	}
}

// KIP-890: each end gives the next epoch, an abort of nothing too; the same end again gives the same answer, the
// other one is refused; the last epoch gives a new id.
func TestTxnEndBumps(t *testing.T) {
	ctx := t.Context()
	log := txnLog(t)
	c := testTxns(t, log, nil)
	end := func(p producerID, commit bool, want error) producerID {
		t.Helper()
		next, err := c.end(ctx, "x", p, commit, true)
		if !errors.Is(err, want) {
			t.Fatalf("end of %+v, commit %v: %v, want %v", p, commit, err, want)
		}
		return next
	}
	p := openTxn(t, log, c, "x", true)
	next := end(p, true, nil)
	if next.epoch != p.epoch+1 || end(p, true, nil) != next {
		t.Fatalf("after the commit: %+v, was %+v", next, p)
	}
	end(p, false, errTxnState)
	end(next, true, errTxnState) // nothing is open
	third := end(next, false, nil)
	if third.epoch != next.epoch+1 {
		t.Fatalf("after an abort of nothing: %+v", third)
	}
	end(producerID{p.id + 100, 0}, true, errTxnMapping)
	if _, err := c.end(ctx, "unknown", p, true, true); !errors.Is(err, errTxnMapping) {
		t.Fatalf("an unknown id: %v", err)
	}
	if _, err := log.Append(ctx, tp0, txnBatch(t, p, 1)); !errors.Is(err, broker.ErrProducerFenced) {
		t.Fatalf("a late batch of the old epoch: %v", err)
	}
	tx := c.find("x")
	tx.state.epoch = maxProducerEpoch
	last := producerID{tx.state.producer, maxProducerEpoch}
	if err := c.add(ctx, "x", last, []record.TopicPartition{tp1}, true); err != nil {
		t.Fatal(err)
	}
	rotated := end(last, true, nil)
	if rotated.id == last.id || rotated.epoch != 0 || end(last, true, nil) != rotated {
		t.Fatalf("after the last epoch: %+v", rotated)
	}
	if c = testTxns(t, log, nil); end(last, true, nil) != rotated {
		t.Fatal("the retry after a restart gives another producer")
	}
}

// The rules of the single requests: unknown topics, verification, positions without AddOffsetsToTxn, stable fetch.
func TestTxnRequests(t *testing.T) {
	log := txnLog(t)
	s := start(t, log, nil)
	ctx := t.Context()
	p := openTxn(t, log, s.txns, "x", false)

	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = "x", p.id, p.epoch
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}}
	got := handle(t, s, s.addPartitionsToTxn, add, 3).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions
	if got[0].ErrorCode != codeNotAttempted || got[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("one unknown partition: %+v", got)
	}
	verify := kmsg.NewPtrAddPartitionsToTxnRequest()
	vt := kmsg.NewAddPartitionsToTxnRequestTransaction()
	vt.TransactionalID, vt.ProducerID, vt.ProducerEpoch, vt.VerifyOnly = "x", p.id, p.epoch, true
	vt.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: []int32{0, 9}}}
	verify.Transactions = append(verify.Transactions, vt)
	for version, want := range map[int16]int16{4: codeInvalidTxnState, 5: codeTxnAbortable} {
		parts := handle(t, s, s.addPartitionsToTxn, verify, version).(*kmsg.AddPartitionsToTxnResponse).Transactions[0].Topics[0].Partitions
		if parts[0].ErrorCode != codeNone || parts[1].ErrorCode != want {
			t.Errorf("verification, version %d: %+v", version, parts)
		}
	}
	fetch := func(stable bool) int16 {
		req := kmsg.NewPtrOffsetFetchRequest()
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = "g"
		rg.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
		req.Groups, req.RequireStable = append(req.Groups, rg), stable
		return handle(t, s, s.offsetFetch, req, 8).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0].ErrorCode
	}
	if fetch(true) != codeUnstableOffsetCommit || fetch(false) != codeNone {
		t.Error("a position in an open transaction is stable")
	}
	if _, err := s.txns.end(ctx, "x", p, true, false); err != nil {
		t.Fatal(err)
	}
	if fetch(true) != codeNone {
		t.Error("a committed position is not stable")
	}
	toc := kmsg.NewPtrTxnOffsetCommitRequest()
	toc.TransactionalID, toc.Group, toc.ProducerID, toc.ProducerEpoch, toc.Generation = "x", "g", p.id, p.epoch, -1
	toc.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 9}}}}
	commit := func(version int16) int16 {
		return handle(t, s, s.txnOffsetCommit, toc, version).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	if code := commit(3); code != codeInvalidTxnState {
		t.Errorf("positions of a group that was not added: %d", code)
	}
	toc.MemberID, toc.Generation = "nobody", 3
	if code := commit(5); code != codeIllegalGeneration {
		t.Errorf("positions of an unknown member: %d", code)
	}
	toc.MemberID, toc.Generation = "", -1
	if code := commit(5); code != codeNone {
		t.Errorf("positions, added with the request: %d", code)
	}
	nc := dial(t, s)
	plain := produceRequest(t, -1, "t", "v")
	plain.TransactionID = ptr("x")
	if out := sendProduce(t, nc, plain, 11); out.ErrorCode != codeInvalidRecord {
		t.Errorf("a plain batch in a transactional request: %d", out.ErrorCode)
	}
	late := produceRequest(t, -1, "t", "v")
	late.TransactionID = ptr("x")
	late.Topics[0].Partitions[0].Partition = 1
	late.Topics[0].Partitions[0].Records = txnBatch(t, p, 1)
	for version, want := range map[int16]int16{9: codeInvalidTxnState, 11: codeTxnAbortable} {
		if out := sendProduce(t, nc, late, version); out.ErrorCode != want {
			t.Errorf("a batch for a partition that was not added, version %d: %d", version, out.ErrorCode)
		}
	}
	if out := sendProduce(t, nc, late, 12); out.ErrorCode != codeNone {
		t.Errorf("a batch that adds its partition: %d", out.ErrorCode)
	}
	late.TransactionID = nil
	if out := sendProduce(t, nc, late, 9); out.ErrorCode != codeInvalidRecord {
		t.Errorf("a transactional batch without its id: %d", out.ErrorCode)
	}
}

// A Log without transactions refuses them with an error that clients take as final, and announces none.
func TestNoTransactions(t *testing.T) {
	s := start(t, plainLog{newMemLog(t)}, nil)
	ctx := within(t, 10*time.Second)
	cl := client(t, s, kgo.TransactionalID("x"))
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
	}
	if !errors.Is(err, kerr.UnsupportedVersion) {
		t.Fatalf("%v, want UNSUPPORTED_VERSION", err)
	}
	if _, ok := s.table[26]; ok {
		t.Fatal("EndTxn is announced")
	}
}

// A client that appends under a foreign producer id, in a partition that the transaction has not reached yet,
// cannot keep it from ending.
func TestTxnForeignEpoch(t *testing.T) {
	ctx := t.Context()
	log := txnLog(t)
	c := testTxns(t, log, nil)
	p, err := c.init(ctx, "x", time.Minute, nop)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.add(ctx, "x", p, []record.TopicPartition{tp0, tp1}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(ctx, tp0, txnBatch(t, p, 0)); err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.None)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = p.id, p.epoch+100, 0
	b.Append(1, nil, []byte("foreign"), nil)
	raw, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(ctx, tp1, raw); err != nil {
		t.Fatal(err)
	}
	next, err := c.end(ctx, "x", p, true, true)
	if err != nil {
		t.Fatal(err)
	}
	if st, _ := c.describe("x"); st.state != txnCompleteCommit || openIn(log, tp0) != 0 {
		t.Fatalf("state %+v", st)
	}
	if err := c.add(ctx, "x", next, []record.TopicPartition{tp0}, true); err != nil {
		t.Fatal(err)
	}
}

// FuzzStateRecords reads what stands in the internal topics: it is understood or refused, with bounded memory (I8).
func FuzzStateRecords(f *testing.F) {
	st := txnState{
		producer: 7, epoch: 3, lastProducer: -1, timeout: time.Second, state: txnOngoing, v2: true, started: 1, updated: 2,
		parts: map[record.TopicPartition]bool{tp0: true, tp1: true}, offsets: map[string]groupOffsets{"g": {tp0: {offset: 7, metadata: "m"}}},
	}
	pos := (&committed{offset: 1, metadata: "m"}).record("g", tp0)
	for _, r := range []stateRecord{st.record("x"), st.offsetsRecord("x"), pos} {
		f.Add(r.key, r.value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if s, err := readTxnState(value); err == nil {
			again, err := readTxnState(s.record("x").value)
			if err != nil || again.current() != s.current() || again.state != s.state || len(again.parts) != len(s.parts) {
				t.Fatalf("%+v is read again as %+v: %v", s, again, err)
			}
		}
		if o, err := readTxnOffsets(value); err == nil && len(o) > 0 {
			again, err := readTxnOffsets(txnState{offsets: o}.offsetsRecord("x").value)
			if err != nil || len(again) != len(o) {
				t.Fatalf("%+v is read again as %+v: %v", o, again, err)
			}
		}
		_, _, _, _ = readPosition(key, value)
	})
}
