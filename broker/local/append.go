package local

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Append adds one batch. See broker.Log.
func (l *Log) Append(ctx context.Context, tp record.TopicPartition, batch []byte) (broker.AppendResult, error) {
	if err := l.enter(); err != nil {
		return broker.AppendResult{}, err
	}
	defer l.leave()
	p, in, err := l.admit(ctx, tp, batch)
	if err != nil {
		return broker.AppendResult{}, err
	}
	return l.put(ctx, p, in)
}

// AppendThen adds batches. See broker.Appender. The journal begins to write when all are queued: it would sync some of them
// alone, and let the others wait for that.
func (l *Log) AppendThen(ctx context.Context, batches ...broker.Append) {
	for _, b := range batches {
		l.appendThen(ctx, b)
	}
	l.queue.signal()
}

// appendThen queues a batch, for the caller to signal.
func (l *Log) appendThen(ctx context.Context, b broker.Append) {
	if l.cfg.Durability == DurabilityNone || l.crowded.Load() != nil { // does not wait, or for what is rare
		b.Then(l.Append(ctx, b.TP, b.Batch))
		return
	}
	if err := l.enter(); err != nil {
		b.Then(broker.AppendResult{}, err)
		return
	}
	p, in, err := l.admit(ctx, b.TP, b.Batch)
	if err == nil {
		if in.h.ProducerID >= 0 {
			l.capProducers()
		}
		err = l.queueBatch(ctx, p, in, func(res broker.AppendResult, err error) {
			l.leave()
			b.Then(res, err)
		})
	}
	if err != nil {
		l.leave()
		b.Then(broker.AppendResult{}, err)
	}
}

// admitted is a batch that may go into a partition.
type admitted struct {
	batch []byte // as it came, or in the codec of the topic
	h     record.BatchHeader
	held  int64 // of Log.validating, for what was compressed anew, until the journal's queue counts it
}

func (l *Log) unhold(in *admitted) {
	if in.held > 0 {
		l.validating.Release(in.held)
		in.held = 0
	}
}

// admit looks whether a batch may go into a partition. What it gives is handed to put or queueBatch, which let go what it holds.
func (l *Log) admit(ctx context.Context, tp record.TopicPartition, batch []byte) (*partition, *admitted, error) {
	p, err := l.partition(tp)
	if err != nil {
		return nil, nil, err
	}
	in := &admitted{batch: batch}
	if err := l.validate(ctx, p.topic.config(), in); err != nil {
		l.unhold(in)
		return nil, nil, fmt.Errorf("append to %s: %w", tp, err)
	}
	return p, in, nil
}

// put takes a batch that is known to be right.
func (l *Log) put(ctx context.Context, p *partition, in *admitted) (broker.AppendResult, error) {
	if in.h.ProducerID >= 0 {
		l.capProducers()
	}
	if l.cfg.Durability == DurabilityNone {
		defer l.unhold(in)
		return l.appendNow(p, in.batch, in.h)
	}
	if l.crowded.Load() != nil {
		if err := l.submit(&entry{kind: entryRotate}); err != nil {
			l.unhold(in)
			return broker.AppendResult{}, fmt.Errorf("append to %s: %w", p.tp(), err)
		}
	}
	return l.appendGroup(ctx, p, in)
}

// prepareLocked gives the batch its offset, or finds that it is a retry. What it claims of the disk is for the caller to settle.
func (p *partition) prepareLocked(batch []byte, h *record.BatchHeader) (*produced, error) {
	if p.deleted {
		return nil, fmt.Errorf("%s: %w", p.tp(), broker.ErrUnknownTopic)
	}
	if h.ProducerID >= 0 {
		check := p.checkProducerLocked
		if h.Control() {
			m, _ := markerOf(batch)
			check = func(h record.BatchHeader) (*produced, error) { return p.checkMarkerLocked(h, m) }
		}
		first, err := check(*h)
		if first != nil || err != nil {
			return first, err
		}
	}
	if err := p.claimLocked(batch, h); err != nil {
		return nil, fmt.Errorf("append to %s: %w", p.tp(), err)
	}
	if err := p.readyLocked(); err != nil {
		p.log.room.settle(p.log.cost(batch))
		return nil, fmt.Errorf("append to %s: %w: %w", p.tp(), broker.ErrStorage, err)
	}
	h.BaseOffset, h.LeaderEpoch = p.next, 0
	record.SetBaseOffset(batch, h.BaseOffset)
	record.SetLeaderEpoch(batch, h.LeaderEpoch)
	return nil, nil
}

func (p *partition) resultLocked(h record.BatchHeader, first *produced) broker.AppendResult {
	res := broker.AppendResult{Base: h.BaseOffset, LogAppendTime: -1, LogStart: p.start}
	if first != nil {
		res.Base, res.Duplicate, h.MaxTimestamp = first.Base, true, first.Time
	}
	if h.LogAppendTime() {
		res.LogAppendTime = h.MaxTimestamp
	}
	return res
}

// appendNow writes straight into the segment (DurabilityNone).
func (l *Log) appendNow(p *partition, batch []byte, h record.BatchHeader) (broker.AppendResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, err := p.prepareLocked(batch, &h)
	switch {
	case err != nil:
		return p.resultLocked(h, first), err
	case first != nil: // it may wait for a sync that its first try did not get
		if err := p.syncDueLocked(0); err != nil {
			return broker.AppendResult{}, fmt.Errorf("append to %s: %w", p.tp(), err)
		}
		return p.resultLocked(h, first), nil
	}
	err = p.writeLocked(batch, h)
	l.room.settle(l.cost(batch))
	if err != nil {
		return broker.AppendResult{}, fmt.Errorf("append to %s: %w: %w", p.tp(), broker.ErrStorage, err)
	}
	p.noteProducerLocked(h, batch, l.cfg.Clock().UnixMilli())
	l.wrote(len(batch))
	if err := p.syncDueLocked(int64(h.Count)); err != nil {
		return broker.AppendResult{}, fmt.Errorf("append to %s: %w", p.tp(), err)
	}
	return p.resultLocked(h, nil), nil
}

// appendGroup queues the batch for the journal and waits until it is durable and visible.
func (l *Log) appendGroup(ctx context.Context, p *partition, in *admitted) (res broker.AppendResult, err error) {
	done := make(chan struct{})
	failed := l.queueBatch(ctx, p, in, func(r broker.AppendResult, e error) {
		res, err = r, e
		close(done)
	})
	if failed != nil {
		return broker.AppendResult{}, failed
	}
	l.queue.signal()
	<-done
	return res, err
}

// queueBatch queues the batch for the journal, and leaves it to the caller to signal that. then is called when the batch is durable
// and visible, or failed; not after an error.
func (l *Log) queueBatch(ctx context.Context, p *partition, in *admitted, then func(broker.AppendResult, error)) error {
	defer l.unhold(in)
	weight := min(int64(len(in.batch)), l.cfg.QueueBytes)
	if err := l.acquire(ctx, l.budget, weight); err != nil {
		return fmt.Errorf("append to %s: %w", p.tp(), err)
	}
	if err := p.queue(in.batch, in.h, weight, then); err != nil {
		l.budget.Release(weight)
		return err
	}
	return nil
}

// queue gives the batch its offset, and its place in the journal's queue in that order.
func (p *partition) queue(batch []byte, h record.BatchHeader, weight int64, then func(broker.AppendResult, error)) error {
	l := p.log
	p.mu.Lock()
	defer p.mu.Unlock()
	first, err := p.prepareLocked(batch, &h)
	if err != nil {
		return err
	}
	res := p.resultLocked(h, first)
	e := &entry{p: p, then: func(err error) {
		l.budget.Release(weight)
		if first == nil {
			l.room.settle(l.cost(batch))
		}
		switch {
		case err != nil:
			then(broker.AppendResult{}, fmt.Errorf("append to %s: %w", p.tp(), err))
			return
		case first == nil:
			l.wrote(len(batch))
		}
		then(res, nil)
	}}
	if first != nil {
		// The first append may still be on its way to the disk: its retry is answered behind it (I1).
		e.kind = entryBarrier
	} else {
		e.kind, e.offset, e.batch, e.h = FrameBatch, h.BaseOffset, batch, h
	}
	if err := l.queue.push(e); err != nil {
		if first == nil {
			l.room.settle(l.cost(batch))
		}
		return err
	}
	if first == nil {
		p.next = h.LastOffset() + 1
		p.noteProducerLocked(h, batch, l.cfg.Clock().UnixMilli())
	}
	return nil
}

// acquire waits for memory. What was queued and not signalled may have it.
func (l *Log) acquire(ctx context.Context, of *semaphore.Weighted, n int64) error {
	if of.TryAcquire(n) {
		return nil
	}
	l.queue.signal()
	return of.Acquire(ctx, n)
}

// wrote counts towards the next checkpoint.
func (l *Log) wrote(n int) {
	if l.sinceCheckpoint.Add(int64(n)) >= l.cfg.CheckpointBytes {
		l.requestCheckpoint()
	}
}

// submit sends a mark through the journal and waits for it.
func (l *Log) submit(e *entry) error {
	done := make(chan error, 1)
	e.then = func(err error) { done <- err }
	if err := l.queue.push(e); err != nil {
		return err
	}
	l.queue.signal()
	return <-done
}
