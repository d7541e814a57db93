package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// States of a transaction, as Kafka numbers and names them.
const (
	txnEmpty          = kmsg.TransactionStateEmpty
	txnOngoing        = kmsg.TransactionStateOngoing
	txnPrepareCommit  = kmsg.TransactionStatePrepareCommit
	txnPrepareAbort   = kmsg.TransactionStatePrepareAbort
	txnCompleteCommit = kmsg.TransactionStateCompleteCommit
	txnCompleteAbort  = kmsg.TransactionStateCompleteAbort
)

// maxProducerEpoch is the last epoch that a client is given: one more is left to fence it.
const maxProducerEpoch = 1<<15 - 2

// Errors of the coordinator.
var (
	errTxnMapping    = errors.New("the producer id is not that of the transactional id")
	errTxnFenced     = errors.New("there is a newer producer with the same transactional id")
	errTxnState      = errors.New("the transaction is in another state")
	errTxnConcurrent = errors.New("the previous transaction is not completed yet")
	errTxnTimeout    = errors.New("invalid transaction timeout")
	errTxnNotAdded   = errors.New("the partition is not part of an open transaction of the producer")
)

// txnCoordinator keeps the transactions of all transactional ids.
//
// Each change of state is a record of TransactionsTopic, in Kafka's encoding, before it counts. PrepareCommit
// and PrepareAbort are the decision: what follows from it, the markers in all partitions and the positions of
// groups, is done again after a crash until the Complete record stands. Positions that a transaction brings are
// a second record of the same topic until then.
//
// Nobody appends to a transaction that is over: appends share the lock of their transaction, and what ends it
// has that alone.
type txnCoordinator struct {
	log        broker.Transactor
	lg         *slog.Logger
	topic      *stateTopic
	offsets    *offsetStore
	kept       *held
	now        func() time.Time
	maxTimeout time.Duration

	mu     sync.Mutex // guards what follows; taken after that of a transaction, never before
	byID   map[string]*txn
	groups map[string]map[record.TopicPartition]int // positions of open transactions, or on their way into one, by group
}

// txn is the transaction of one transactional id.
type txn struct {
	id    string
	mu    sync.RWMutex
	state txnState
	gone  bool // forgotten: look it up again
}

// txnState is never changed in place: it is replaced by the one that was made durable.
type txnState struct {
	producer     int64
	epoch        int16 // -1: no producer yet
	lastProducer int64 // the one before the newest bump, so that who was bumped can ask again (KIP-360)
	lastEpoch    int16
	timeout      time.Duration
	state        kmsg.TransactionState
	v2           bool // its epoch grows with every transaction (KIP-890)
	parts        map[record.TopicPartition]bool
	offsets      map[string]groupOffsets // by group: what the commit makes
	started      int64
	updated      int64
}

func newTxnCoordinator(cfg Config, log broker.Transactor, offsets *offsetStore, kept *held) *txnCoordinator {
	topic := newStateTopic(log, TransactionsTopic)
	topic.whole = true
	return &txnCoordinator{
		log: log, lg: cfg.Logger, topic: topic, offsets: offsets, kept: kept, now: time.Now, maxTimeout: cfg.MaxTransactionTimeout,
		byID: map[string]*txn{}, groups: map[string]map[record.TopicPartition]int{},
	}
}

func (s txnState) prepared() bool { return s.state == txnPrepareCommit || s.state == txnPrepareAbort }

func (s txnState) cost(id string) int64 {
	if s.epoch < 0 {
		return 0
	}
	n := 1024 + 3*len(id)
	for tp := range s.parts {
		n += 96 + len(tp.Topic)
	}
	for group, g := range s.offsets {
		n += int(groupCost(group))
		for tp, c := range g {
			n += 2 * int(positionCost(tp, &c))
		}
	}
	return int64(n)
}

// find gives the transaction of an id, nil when there is none.
func (c *txnCoordinator) find(id string) *txn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// open gives the transaction of an id, a new one when there is none, locked.
func (c *txnCoordinator) open(id string) *txn {
	for {
		c.mu.Lock()
		t := c.byID[id]
		if t == nil {
			t = &txn{id: id, state: txnState{producer: -1, epoch: -1, lastProducer: -1, lastEpoch: -1}}
			c.byID[id] = t
		}
		c.mu.Unlock()
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
	}
}

// close unlocks a transaction, and forgets it when it never came to be.
func (c *txnCoordinator) close(t *txn) {
	if t.state.epoch < 0 {
		c.forget(t)
	}
	t.mu.Unlock()
}

func (c *txnCoordinator) forget(t *txn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.gone = true
	delete(c.byID, t.id)
}

// all gives a snapshot, ordered by id.
func (c *txnCoordinator) all() []*txn {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*txn, 0, len(c.byID))
	for _, id := range slices.Sorted(maps.Keys(c.byID)) {
		out = append(out, c.byID[id])
	}
	return out
}

// save makes the next state of a transaction durable and then the present one.
func (c *txnCoordinator) save(ctx context.Context, t *txn, next txnState) error {
	next.updated = c.now().UnixMilli()
	more := next.cost(t.id) - t.state.cost(t.id)
	if more > 0 && !next.prepared() { // what ends a transaction is never refused
		if !c.kept.take(more) {
			return errNoMemory
		}
		defer c.kept.add(-more) // what is kept of it counts by then
	}
	var recs []stateRecord
	if len(next.offsets) > 0 || len(t.state.offsets) > 0 {
		recs = append(recs, next.offsetsRecord(t.id))
	}
	if err := c.topic.append(ctx, append(recs, next.record(t.id))); err != nil {
		return err
	}
	c.set(t, next)
	return nil
}

// set replaces the state of a transaction, and what is counted of it.
func (c *txnCoordinator) set(t *txn, next txnState) {
	c.kept.add(next.cost(t.id) - t.state.cost(t.id))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(t.state, -1)
	c.count(next, 1)
	t.state = next
}

func (c *txnCoordinator) count(s txnState, d int) {
	for group, g := range s.offsets {
		n := c.groups[group]
		if n == nil {
			n = map[record.TopicPartition]int{}
			c.groups[group] = n
		}
		for tp := range g {
			if n[tp] += d; n[tp] == 0 {
				delete(n, tp)
			}
		}
		if len(n) == 0 {
			delete(c.groups, group)
		}
	}
}

// unstable says whether an open transaction brings a position of a group, or may be about to (KIP-447).
func (c *txnCoordinator) unstable(group string, tp record.TopicPartition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups[group][tp] > 0
}

// Keys of TransactionsTopic: version 0 is Kafka's, the other one ours.
const (
	txnKeyState   = 0
	txnKeyOffsets = 1000
)

func txnKey(version int16, id string) []byte {
	k := kmsg.TxnMetadataKey{Version: version, TransactionalID: id}
	return k.AppendTo(nil)
}

// tagLastEpoch is a field of ours in Kafka's record of a transaction's state: the epoch before the present one. A
// client whose InitProducerId was answered into a connection that died with the server repeats it with that epoch,
// and must be told from one that was fenced, also by the next process (KIP-360). Kafka keeps it in memory only.
const tagLastEpoch = 10_000

func (s txnState) record(id string) stateRecord {
	v := kmsg.NewTxnMetadataValue()
	v.Version = 1
	v.ProducerID, v.ProducerEpoch, v.TimeoutMillis, v.State = s.producer, s.epoch, int32(s.timeout.Milliseconds()), s.state
	v.LastUpdateTimestamp, v.StartTimestamp, v.PreviousProducerID = s.updated, s.started, s.lastProducer
	if s.v2 {
		v.ClientTransactionVersion = 2
	}
	if s.lastEpoch >= 0 {
		v.UnknownTags.Set(tagLastEpoch, binary.BigEndian.AppendUint16(nil, uint16(s.lastEpoch)))
	}
	by := map[string][]int32{}
	for tp := range s.parts {
		by[tp.Topic] = append(by[tp.Topic], tp.Partition)
	}
	for _, topic := range slices.Sorted(maps.Keys(by)) {
		vt := kmsg.NewTxnMetadataValueTopic()
		vt.Topic, vt.Partitions = topic, by[topic]
		slices.Sort(vt.Partitions)
		v.Topics = append(v.Topics, vt)
	}
	return stateRecord{key: txnKey(txnKeyState, id), value: v.AppendTo(nil)}
}

// offsetsRecord holds the positions as pairs of Kafka's key and value, each behind its length.
func (s txnState) offsetsRecord(id string) stateRecord {
	r := stateRecord{key: txnKey(txnKeyOffsets, id)}
	for group, g := range s.offsets {
		for tp, c := range g {
			kv := c.record(group, tp)
			r.value = binary.AppendUvarint(r.value, uint64(len(kv.key)))
			r.value = append(r.value, kv.key...)
			r.value = binary.AppendUvarint(r.value, uint64(len(kv.value)))
			r.value = append(r.value, kv.value...)
		}
	}
	return r
}

// load replays the topic, finishes what was decided, and ends what nobody owns.
func (c *txnCoordinator) load(ctx context.Context) error {
	states, offsets := map[string]txnState{}, map[string]map[string]groupOffsets{}
	err := c.topic.load(ctx, func(rec *record.Record) error {
		var k kmsg.TxnMetadataKey
		if err := k.ReadFrom(rec.Key); err != nil {
			return fmt.Errorf("key of offset %d: %w", rec.Offset, err)
		}
		id, err := k.TransactionalID, error(nil)
		switch {
		case k.Version == txnKeyState && rec.Value == nil:
			delete(states, id)
		case k.Version == txnKeyState:
			states[id], err = readTxnState(rec.Value)
		case k.Version == txnKeyOffsets && rec.Value == nil:
			delete(offsets, id)
		case k.Version == txnKeyOffsets:
			offsets[id], err = readTxnOffsets(rec.Value)
		}
		if err != nil {
			return fmt.Errorf("value of offset %d: %w", rec.Offset, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, st := range states {
		if st.state == txnOngoing || st.prepared() {
			st.offsets = offsets[id]
		}
		t := &txn{id: id, state: txnState{epoch: -1}}
		c.byID[id] = t
		c.set(t, st)
	}
	c.sweep(ctx)
	return c.abortHanging(ctx)
}

func readTxnState(b []byte) (s txnState, err error) {
	var v kmsg.TxnMetadataValue
	if err := v.ReadFrom(b); err != nil {
		return s, err
	}
	s = txnState{
		producer: v.ProducerID, epoch: v.ProducerEpoch, lastProducer: v.PreviousProducerID, lastEpoch: -1,
		timeout: time.Duration(v.TimeoutMillis) * time.Millisecond, state: v.State, v2: v.ClientTransactionVersion >= 2,
		started: v.StartTimestamp, updated: v.LastUpdateTimestamp, parts: map[record.TopicPartition]bool{},
	}
	v.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == tagLastEpoch && len(b) == 2 {
			s.lastEpoch = int16(binary.BigEndian.Uint16(b))
		}
	})
	if s.epoch < 0 || v.State > txnCompleteAbort {
		return s, fmt.Errorf("transaction in state %d with epoch %d", v.State, v.ProducerEpoch)
	}
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			s.parts[record.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	return s, nil
}

func readTxnOffsets(b []byte) (map[string]groupOffsets, error) {
	out := map[string]groupOffsets{}
	part := func() (p []byte, err error) {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, errors.New("positions of a transaction are cut")
		}
		p, b = b[k:k+int(n)], b[k+int(n):]
		return p, nil
	}
	for len(b) > 0 {
		key, err := part()
		if err != nil {
			return nil, err
		}
		value, err := part()
		if err != nil {
			return nil, err
		}
		group, tp, c, err := readPosition(key, value)
		if err != nil {
			return nil, err
		}
		if out[group] == nil {
			out[group] = groupOffsets{}
		}
		out[group][tp] = *c
	}
	return out, nil
}
