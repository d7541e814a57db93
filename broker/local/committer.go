package local

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Kinds of queue entries that are not frames.
const (
	entryBarrier    FrameKind = 0   // done when all before it is
	entryRotate     FrameKind = 254 // goes on in a new journal file when the present one is full
	entryCheckpoint FrameKind = 255 // a checkpoint begins here
)

// entry waits in the queue for the journal. When it is done, then gets its error; it must not block.
type entry struct {
	kind   FrameKind
	p      *partition
	offset record.Offset
	batch  []byte
	h      record.BatchHeader
	staged bool      // the batch is in its segment, and not yet visible
	snap   *snapshot // of a checkpoint
	refuse error     // the entry could not be done, which hurts nobody else
	then   func(error)
}

// queue holds entries in the order in which partitions gave their offsets.
type queue struct {
	mu      sync.Mutex
	entries []*entry
	bytes   int
	closed  bool
	wake    chan struct{} // capacity 1
}

// push adds an entry, which waits until somebody signals.
func (q *queue) push(e *entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return broker.ErrClosed
	}
	q.entries = append(q.entries, e)
	q.bytes += len(e.batch)
	return nil
}

// signal lets the journal begin.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take gives all entries and takes an empty slice in return; closed is true when there are none and will
// be none.
func (q *queue) take(empty []*entry) (got []*entry, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	got, q.entries, q.bytes = q.entries, empty, 0
	return got, q.closed && len(got) == 0
}

func (q *queue) size() (entries, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries), q.bytes
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// group is what one sync made durable, or failed to.
type group struct {
	entries []*entry
	err     error
}

const (
	// applyHere is up to how many entries are applied without a second goroutine: to wake one takes longer.
	applyHere = 8

	// Groups up to these sizes are staged while they are synced, so that they are visible right after. Larger ones are bound by
	// the disk's rate: applying one and syncing the next go side by side.
	stageEntries = 64
	stageBytes   = 64 << 10
)

// commitLoop writes groups to the journal. While it syncs one, the next gathers.
func (l *Log) commitLoop() {
	defer close(l.groups)
	defer close(l.staging)
	var last int // entries of the last group
	var syncTime time.Duration
	for {
		var spare []*entry
		select {
		case spare = <-l.spare:
		default:
		}
		if n, _ := l.queue.size(); n > 0 && n < last/2 {
			l.linger(last, min(l.cfg.GroupDelay, syncTime/4))
		}
		entries, closed := l.queue.take(spare)
		if closed {
			return
		}
		if len(entries) == 0 {
			<-l.queue.wake
			continue
		}
		begin := time.Now()
		err := l.failure()
		if err == nil {
			staged := l.stage(entries)
			err = l.writeGroup(entries)
			syncTime = time.Since(begin)
			staged()
			if err != nil {
				err = l.fail(err)
			}
		}
		last = len(entries)
		if g := (group{entries, err}); len(entries) <= applyHere && l.waiting.Load() == 0 {
			l.applyGroup(g) // the others are through
		} else {
			l.waiting.Add(1)
			l.groups <- g
		}
	}
}

// linger waits for the appenders of the last group to come back: a sync for few of them now would make the
// others wait for a second one. It is a fraction of what a sync costs, so one that is alone loses little.
func (l *Log) linger(want int, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		n, bytes := l.queue.size()
		if n >= want || bytes >= l.cfg.GroupBytes {
			return
		}
		select {
		case <-l.queue.wake:
		case <-timer.C:
			l.queue.signal() // a wake-up that was taken here belongs to the loop
			return
		case <-l.closed:
			return
		}
	}
}

func (l *Log) writeGroup(entries []*entry) error {
	for _, e := range entries {
		switch e.kind {
		case entryBarrier:
			continue
		case entryCheckpoint:
			var none error
			if err := l.rotate(&none); err != nil {
				return err
			}
			// Without a new file the present one is replayed as a whole, and what the checkpoint has is skipped by its
			// offset. So retention goes on where the disk is full, and makes the room that a new file wants.
			e.snap.journal = l.journal.seq
			continue
		}
		f := Frame{Kind: e.kind, Payload: e.batch}
		switch {
		case !l.journal.full(f.size()):
			l.crowded.Store(nil)
		case e.kind == entryRotate || l.crowded.Load() == nil:
			if err := l.rotate(&e.refuse); err != nil {
				return err
			}
		}
		if e.kind != entryRotate {
			f.Topic, f.Partition, f.Offset, e.refuse = e.p.topic.id, e.p.number, e.offset, nil
			l.journal.add(f)
		}
	}
	return l.journal.flush()
}

// rotate begins a new journal file. When none can be made, as without free file descriptors, that is refuse,
// the journal goes on in the old file with what has its offsets already. Once that is full, Append takes nothing
// until a new one can be made.
func (l *Log) rotate(refuse *error) error {
	err := l.journal.rotate()
	if errors.Is(err, errNoFile) {
		err = fmt.Errorf("%w: %w", broker.ErrStorage, err)
		*refuse = err
		if l.journal.full(0) && l.crowded.CompareAndSwap(nil, &err) {
			l.cfg.Logger.Error("no new journal file can be made; no appends until one can", "dir", l.cfg.Dir, "error", err)
			l.requestCheckpoint() // the files before it make room; appends, which ask for one else, are refused
		}
		return nil
	}
	if err == nil {
		l.crowded.Store(nil)
	}
	return err
}

// stage begins to write the batches of a small group into their segments; wait ends when all are there.
func (l *Log) stage(entries []*entry) (wait func()) {
	bytes := 0
	for _, e := range entries {
		bytes += len(e.batch)
	}
	if len(entries) > stageEntries || bytes > stageBytes || bytes == 0 {
		return func() {}
	}
	l.staged.Add(1)
	l.staging <- entries
	return l.staged.Wait
}

// stageLoop stages groups.
func (l *Log) stageLoop() {
	for entries := range l.staging {
		for _, e := range entries {
			if e.kind == FrameBatch {
				e.p.stage(e)
			}
		}
		l.staged.Done()
	}
}

// applyLoop applies large groups while the next one is synced.
func (l *Log) applyLoop() {
	for g := range l.groups {
		l.applyGroup(g)
		l.waiting.Add(-1)
	}
}

// applyGroup brings durable entries into the partitions, in the order of the journal: one goroutine at a time.
func (l *Log) applyGroup(g group) {
	for i, e := range g.entries {
		err := g.err
		if err == nil {
			err = l.broken
		}
		if err == nil {
			err = e.refuse
		}
		if err == nil {
			if err = l.apply(e); err != nil {
				l.broken = l.fail(err)
				err = l.broken
			}
		}
		g.entries[i] = nil
		e.then(err)
	}
	select {
	case l.spare <- g.entries[:0]:
	default:
	}
}

func (l *Log) apply(e *entry) error {
	switch e.kind {
	case entryBarrier, entryRotate:
		return nil
	case entryCheckpoint:
		l.snapshotInto(e.snap)
		return nil
	default:
		return e.p.apply(e)
	}
}
