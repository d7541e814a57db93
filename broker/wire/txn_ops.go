package wire

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	markersParallel = 64                 // partitions that get their marker at the same time: they share one group commit
	txnIDExpiry     = 7 * 24 * time.Hour // an id without transactions is forgotten, as in Kafka
)

// producerID is a producer id with its epoch, -1 and -1 for none.
type producerID struct {
	id    int64
	epoch int16
}

func (s txnState) current() producerID { return producerID{s.producer, s.epoch} }

// bump gives the state its next producer: the epoch grows, and where it cannot, there is a new id.
func (c *txnCoordinator) bump(ctx context.Context, s *txnState) error {
	s.lastProducer, s.lastEpoch = s.producer, s.epoch
	if s.epoch >= 0 && s.epoch < maxProducerEpoch {
		s.epoch++
		return nil
	}
	id, epoch, err := c.log.InitProducerID(ctx)
	if err == nil {
		s.producer, s.epoch = id, epoch
	}
	return err
}

// init gives a transactional id its producer: what an earlier producer left open is aborted, and that producer is
// fenced. One that names its present id and epoch keeps both it and, after a lost answer, the newer one (KIP-360).
func (c *txnCoordinator) init(ctx context.Context, id string, timeout time.Duration, known producerID) (producerID, error) {
	if timeout <= 0 || timeout > c.maxTimeout {
		return producerID{}, errTxnTimeout
	}
	t := c.open(id)
	defer c.close(t)
	bumped := known == producerID{t.state.lastProducer, t.state.lastEpoch}
	if known.id >= 0 && t.state.epoch >= 0 && known != t.state.current() && !bumped {
		return producerID{}, errTxnFenced
	}
	if t.state.state == txnOngoing {
		if known.id >= 0 && known != t.state.current() {
			return producerID{}, errTxnFenced // who comes late must not end what the newer one has begun
		}
		if err := c.abort(ctx, t); err != nil {
			return producerID{}, err
		}
		bumped = known.id >= 0 // the abort has bumped it
	}
	if err := c.settle(ctx, t); err != nil {
		return producerID{}, err
	}
	next := t.state
	next.timeout = timeout
	if bumped && known.id >= 0 && next.epoch <= maxProducerEpoch {
		return next.current(), c.save(ctx, t, next)
	}
	next.state, next.started = txnEmpty, 0
	if err := c.bump(ctx, &next); err != nil {
		return producerID{}, err
	}
	if known.id < 0 { // a new instance: nobody who had an older epoch may be told this one
		next.lastProducer, next.lastEpoch = -1, -1
	}
	if err := c.save(ctx, t, next); err != nil {
		return producerID{}, err
	}
	return next.current(), nil
}

// abort ends an open transaction without its producer, which is fenced by the epoch.
func (c *txnCoordinator) abort(ctx context.Context, t *txn) error {
	next := t.state
	next.state, next.lastProducer, next.lastEpoch = txnPrepareAbort, next.producer, next.epoch
	next.epoch++ // at most one above maxProducerEpoch, which nobody is given
	return c.decide(ctx, t, next)
}

// decide makes a decision durable and carries it out. The error is for the decision alone: what is left to do
// after it is done later.
func (c *txnCoordinator) decide(ctx context.Context, t *txn, next txnState) error {
	if next.state == txnPrepareAbort {
		next.offsets = nil
	}
	if err := c.save(ctx, t, next); err != nil {
		return err
	}
	_ = c.settle(ctx, t) // logged there
	return nil
}

// settle finishes a transaction whose end is decided.
func (c *txnCoordinator) settle(ctx context.Context, t *txn) error {
	if !t.state.prepared() {
		return nil
	}
	err := c.carryOut(ctx, t)
	if err == nil {
		next := t.state
		next.state = txnCompleteAbort
		if t.state.state == txnPrepareCommit {
			next.state = txnCompleteCommit
		}
		next.parts, next.offsets = nil, nil
		if next.epoch > maxProducerEpoch && next.v2 {
			last, lastEpoch := next.lastProducer, next.lastEpoch
			if err = c.bump(ctx, &next); err == nil {
				next.lastProducer, next.lastEpoch = last, lastEpoch
			}
		}
		if err == nil {
			err = c.save(ctx, t, next)
		}
	}
	if err != nil {
		c.lg.Error("finish a transaction", "id", t.id, "state", t.state.state.String(), "err", err)
		return errors.Join(errTxnConcurrent, err)
	}
	return nil
}

// carryOut puts a marker into every partition and commits the positions. All of it may be done twice.
func (c *txnCoordinator) carryOut(ctx context.Context, t *txn) error {
	commit := t.state.state == txnPrepareCommit
	m := broker.TxnMarker{ProducerID: t.state.producer, Epoch: t.state.epoch, Commit: commit}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		sem  = make(chan struct{}, markersParallel)
	)
	for tp := range t.state.parts {
		if internalTopic(tp.Topic) {
			continue // its positions follow
		}
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			_, err := c.log.AppendMarker(ctx, tp, m)
			switch {
			case errors.Is(err, broker.ErrUnknownTopic): // deleted meanwhile
			case errors.Is(err, broker.ErrProducerFenced):
				// The Log takes no newer epoch while something is open, so nothing of this transaction is: somebody has
				// appended under the producer's id, and must not keep its transaction from ending.
				c.lg.Warn("a partition has a newer epoch than the transaction that ends", "id", t.id, "partition", tp.String())
			case err != nil:
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	if commit {
		for group, g := range t.state.offsets {
			pos := make(map[record.TopicPartition]*committed, len(g))
			for tp, p := range g {
				pos[tp] = &p
			}
			errs = append(errs, c.offsets.commitTxn(ctx, group, pos))
		}
	}
	return errors.Join(errs...)
}

// checkProducer says whether a request comes from the present producer of a transactional id. The epoch that was left to
// fence the last one is nobody's: there is none above it to fence it with.
func (s txnState) checkProducer(p producerID) error {
	switch {
	case s.producer != p.id || s.epoch < 0:
		return errTxnMapping
	case s.epoch != p.epoch || p.epoch > maxProducerEpoch:
		return errTxnFenced
	}
	return nil
}

// lock gives the transaction of a request that changes it: locked, its producer checked, nothing left to finish.
func (c *txnCoordinator) lock(ctx context.Context, id string, p producerID) (*txn, error) {
	t := c.find(id)
	if t == nil {
		return nil, errTxnMapping
	}
	t.mu.Lock()
	err := t.state.checkProducer(p)
	if t.gone {
		err = errTxnMapping
	}
	if err == nil {
		err = c.settle(ctx, t)
	}
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	return t, nil
}

// expect says, until done is called, that positions of a group may come into a transaction: who asks for stable ones is
// told to wait. Who expects them before it looks whether the member that they come from is the present one leaves no moment
// in which the next owner of its partitions is told what they are about to replace (KIP-447).
func (c *txnCoordinator) expect(group string, pos groupOffsets) (done func()) {
	s := txnState{offsets: map[string]groupOffsets{group: pos}}
	add := func(d int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count(s, d)
	}
	add(1)
	return func() { add(-1) }
}

// begun gives the state with a transaction open.
func (c *txnCoordinator) begun(s txnState, v2 bool) txnState {
	if s.state != txnOngoing {
		s.state, s.started, s.parts, s.offsets = txnOngoing, c.now().UnixMilli(), nil, nil
	}
	s.v2 = v2
	return s
}

// add makes partitions part of the transaction, which it begins when none is open.
func (c *txnCoordinator) add(ctx context.Context, id string, p producerID, parts []record.TopicPartition, v2 bool) error {
	t, err := c.lock(ctx, id, p)
	if err != nil {
		return err
	}
	defer t.mu.Unlock()
	return c.addLocked(ctx, t, parts, v2)
}

func (c *txnCoordinator) addLocked(ctx context.Context, t *txn, parts []record.TopicPartition, v2 bool) error {
	next := c.begun(t.state, v2)
	next.parts = maps.Clone(next.parts)
	if next.parts == nil {
		next.parts = map[record.TopicPartition]bool{}
	}
	for _, tp := range parts {
		next.parts[tp] = true
	}
	if t.state.state == txnOngoing && len(next.parts) == len(t.state.parts) {
		return nil
	}
	return c.save(ctx, t, next)
}

// has says whether partitions are part of the open transaction of a producer by now.
func (c *txnCoordinator) has(id string, p producerID, parts []record.TopicPartition) bool {
	t := c.find(id)
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.state.checkProducer(p) != nil || t.state.state != txnOngoing {
		return false
	}
	return !slices.ContainsFunc(parts, func(tp record.TopicPartition) bool { return !t.state.parts[tp] })
}

// enter lets an append to an open transaction begin; leave ends it. In between the transaction cannot end.
func (c *txnCoordinator) enter(id string, p producerID, tp record.TopicPartition) (leave func(), err error) {
	t := c.find(id)
	if t == nil {
		return nil, errTxnMapping
	}
	t.mu.RLock()
	err = t.state.checkProducer(p)
	if err == nil && (t.state.state != txnOngoing || !t.state.parts[tp]) {
		err = errTxnNotAdded
	}
	if err != nil {
		t.mu.RUnlock()
		return nil, err
	}
	return t.mu.RUnlock, nil
}

// hold adds positions of a group to the transaction: they are committed with it.
func (c *txnCoordinator) hold(ctx context.Context, id string, p producerID, group string, pos groupOffsets, implicit bool) error {
	t, err := c.lock(ctx, id, p)
	if err != nil {
		return err
	}
	defer t.mu.Unlock()
	at := record.TopicPartition{Topic: OffsetsTopic}
	if !implicit && (t.state.state != txnOngoing || !t.state.parts[at]) {
		return errTxnState
	}
	next := c.begun(t.state, implicit)
	next.parts = maps.Clone(next.parts)
	if next.parts == nil {
		next.parts = map[record.TopicPartition]bool{}
	}
	next.parts[at] = true
	next.offsets = maps.Clone(next.offsets)
	if next.offsets == nil {
		next.offsets = map[string]groupOffsets{}
	}
	all := maps.Clone(next.offsets[group])
	if all == nil {
		all = groupOffsets{}
	}
	maps.Copy(all, pos)
	next.offsets[group] = all
	return c.save(ctx, t, next)
}

// end commits or aborts. With bump every end gives the producer its next epoch, an end of nothing too, and one
// that is asked for again is told the same (KIP-890).
func (c *txnCoordinator) end(ctx context.Context, id string, p producerID, commit, bump bool) (producerID, error) {
	t := c.find(id)
	if t == nil {
		return producerID{}, errTxnMapping
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return producerID{}, errTxnMapping
	}
	if err := c.settle(ctx, t); err != nil {
		return producerID{}, err
	}
	st := t.state
	done := st.state == txnCompleteCommit && commit || st.state == txnCompleteAbort && !commit
	if bump && st.endedFor(p) {
		if !done {
			return producerID{}, errTxnState
		}
		return st.current(), nil
	}
	if err := st.checkProducer(p); err != nil {
		return producerID{}, err
	}
	next := st
	switch {
	case st.state == txnOngoing:
		next.state = txnPrepareAbort
		if commit {
			next.state = txnPrepareCommit
		}
		if next.v2 = bump; bump {
			next.lastProducer, next.lastEpoch = st.producer, st.epoch
			next.epoch++
		}
		if err := c.decide(ctx, t, next); err != nil {
			return producerID{}, err
		}
		return t.state.current(), nil
	case bump && !commit:
		next.state, next.v2 = txnCompleteAbort, true
		if err := c.bump(ctx, &next); err != nil {
			return producerID{}, err
		}
		if err := c.save(ctx, t, next); err != nil {
			return producerID{}, err
		}
		return next.current(), nil
	case !bump && done:
		return st.current(), nil
	}
	return producerID{}, errTxnState
}

// endedFor says whether the transaction that ended last was that of p, which was given the next epoch with it.
func (s txnState) endedFor(p producerID) bool {
	if s.state != txnCompleteCommit && s.state != txnCompleteAbort {
		return false
	}
	return p.id == s.producer && p.epoch+1 == s.epoch || p.id == s.lastProducer && p.epoch == maxProducerEpoch && s.epoch == 0
}

// sweep aborts what is open for too long, finishes what is decided, and forgets ids that nobody uses.
func (c *txnCoordinator) sweep(ctx context.Context) {
	for _, t := range c.all() {
		t.mu.RLock()
		due := c.due(t.state)
		t.mu.RUnlock()
		if due {
			c.sweepOne(ctx, t)
		}
	}
}

func (c *txnCoordinator) due(s txnState) bool {
	now := c.now().UnixMilli()
	switch {
	case s.epoch < 0:
		return false
	case s.state == txnOngoing:
		return now-s.started > s.timeout.Milliseconds()
	}
	return s.prepared() || now-s.updated > txnIDExpiry.Milliseconds()
}

func (c *txnCoordinator) sweepOne(ctx context.Context, t *txn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !c.due(t.state): // it ended meanwhile
	case t.state.state == txnOngoing:
		c.lg.Warn("transaction aborted: its time is over", "id", t.id, "timeout", t.state.timeout)
		if err := c.abort(ctx, t); err != nil {
			c.lg.Error("abort a transaction", "id", t.id, "err", err)
		}
	case t.state.prepared():
		_ = c.settle(ctx, t) // logged there
	default:
		none := txnState{producer: -1, epoch: -1, lastProducer: -1, lastEpoch: -1}
		if err := c.topic.append(ctx, []stateRecord{{key: txnKey(txnKeyState, t.id)}}); err != nil {
			c.lg.Error("forget a transactional id", "id", t.id, "err", err)
			return
		}
		c.set(t, none)
		c.forget(t)
	}
}
