package local

import (
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// seg is one segment of a partition. Only the last of a partition may be active.
type seg struct {
	info     segment.Info    // of a sealed one; an active one's is in w
	w        *segment.Writer // nil once it is sealed and synced
	sealed   bool
	created  int64 // Unix ms
	appended int64 // Unix ms of the last append
	cleaned  int64 // Unix ms of the first pass of the cleaner over it, 0: none yet
	tombs    bool  // the cleaner left something in it that goes later

	pinned pinned // guarded by pins.mu
}

func (s *seg) state() segment.Info {
	if s.w != nil {
		return s.w.Info()
	}
	return s.info
}

// partition is one partition's state. mu guards all below it.
type partition struct {
	log    *Log
	topic  *topic
	number int32
	dir    string

	hindered hindered // compaction; guarded by Log.cleaner

	mu        sync.Mutex
	segs      []*seg // ascending
	next      record.Offset
	end       record.Offset // high watermark
	start     record.Offset
	hold      record.Offset
	held      bool
	producers map[int64]*producer
	txns      txns
	waiters   map[*waiter]struct{}
	bytes     int64 // ever made visible; tells a waiter what has come
	newFiles  bool  // the directory must be synced
	unsynced  unsynced
	changed   bool // since the last checkpoint
	cached    *partitionState
	deleted   bool
	swap      *swap         // waits for a checkpoint
	rollErr   error         // why the active segment is larger than it should be
	staged    record.Offset // end of what is in the active segment and may not be visible yet
}

func newPartition(l *Log, t *topic, number int32) *partition {
	return &partition{log: l, topic: t, number: number, dir: partitionDir(l.dataDir, t.name, number),
		producers: map[int64]*producer{}, txns: txns{open: map[int64]record.Offset{}}, waiters: map[*waiter]struct{}{}, changed: true}
}

func partitionDir(dataDir, topic string, number int32) string {
	return path.Join(dataDir, fmt.Sprintf("%s-%d", topic, number))
}

func (p *partition) tp() record.TopicPartition {
	return record.TopicPartition{Topic: p.topic.name, Partition: p.number}
}

func (p *partition) boundsLocked() broker.Bounds {
	return broker.Bounds{Start: p.start, Stable: p.stableLocked(), End: p.end}
}

// active gives the segment that takes appends, nil when there is none yet.
func (p *partition) active() *seg {
	if n := len(p.segs); n > 0 && !p.segs[n-1].sealed {
		return p.segs[n-1]
	}
	return nil
}

// readyLocked makes the segment for the next batch before that gets its offset: a batch without an offset can
// still be refused. While batches are on their way, there is a segment that they fit.
func (p *partition) readyLocked() error {
	if p.next != p.end || p.active() != nil && p.rollErr == nil {
		return nil
	}
	return p.rollLocked(p.next)
}

// rollLocked ends the active segment and begins the next one. After an error nothing has changed.
func (p *partition) rollLocked(base record.Offset) error {
	if s := p.active(); s != nil {
		if err := s.w.Mend(); err != nil {
			return err
		}
	}
	w, err := segment.Create(p.log.fs, p.dir, base)
	if p.log.madeRoom(err) {
		w, err = segment.Create(p.log.fs, p.dir, base)
	}
	if err != nil {
		return err
	}
	if s := p.active(); s != nil {
		p.sealLocked(s)
	}
	p.segs = append(p.segs, &seg{w: w, created: p.log.cfg.Clock().UnixMilli()})
	p.newFiles, p.changed, p.rollErr, p.unsynced.dir = true, true, nil, true
	return nil
}

// stage writes the batch of an entry into the active segment while the journal's sync has yet to say whether it counts: behind
// what readers and checkpoints know of, where a crash leaves nothing of it (I2). What does not go so is written when it is
// applied, and so is all that comes behind it until then.
func (p *partition) stage(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.active()
	if p.deleted || s == nil || e.offset != max(p.end, p.staged) || p.fullLocked(s, e.h, p.log.cfg.Clock()) {
		return
	}
	if s.w.Stage(e.batch, e.h) == nil {
		e.staged, p.staged = true, e.h.LastOffset()+1
	}
}

// applyBatchLocked makes a batch visible: one that is staged stays where it is.
func (p *partition) applyBatchLocked(e *entry) error {
	if !e.staged {
		return p.writeLocked(e.batch, e.h)
	}
	s := p.active()
	if err := s.w.Publish(e.h); err != nil {
		return err
	}
	p.appendedLocked(s, e.batch, e.h, p.log.cfg.Clock())
	return nil
}

// writeLocked puts a batch at the end of the active segment and makes it visible. After an error nothing
// has changed. When no new segment can be made, the old one grows on, and readyLocked refuses what comes next.
func (p *partition) writeLocked(raw []byte, h record.BatchHeader) error {
	now := p.log.cfg.Clock()
	if s := p.active(); s == nil || p.fullLocked(s, h, now) {
		if err := p.rollLocked(h.BaseOffset); err != nil {
			if s == nil || !s.w.Fits(h) {
				return err
			}
			if p.rollErr == nil {
				p.log.cfg.Logger.Error("no new segment can be made", "partition", p.tp().String(), "error", err)
			}
			p.rollErr = err
		}
	}
	s := p.active()
	err := s.w.Append(raw, h)
	if p.log.madeRoom(err) {
		err = s.w.Append(raw, h)
	}
	if err != nil {
		return err
	}
	p.appendedLocked(s, raw, h, now)
	return nil
}

// appendedLocked makes visible what the active segment has.
func (p *partition) appendedLocked(s *seg, raw []byte, h record.BatchHeader, now time.Time) {
	s.appended = now.UnixMilli()
	p.changed = true
	p.end = h.LastOffset() + 1
	p.next = max(p.next, p.end)
	p.bytes += int64(len(raw))
	p.seeTxnLocked(s, h, raw)
	p.wakeLocked()
}

func (p *partition) fullLocked(s *seg, h record.BatchHeader, now time.Time) bool {
	end, cfg := s.w.End(), p.topic.config()
	if end == 0 {
		return false
	}
	return end+int64(h.Size()) > cfg.SegmentBytes || !s.w.Fits(h) ||
		now.UnixMilli()-s.created >= cfg.SegmentAge.Milliseconds()
}

// sealLocked ends the active segment. The next checkpoint syncs and closes it.
func (p *partition) sealLocked(s *seg) {
	s.w.Finish()
	p.log.pins.end(s)
	s.info, s.sealed, p.changed = s.w.Info(), true, true
	if n := p.log.sealedOpen.Add(1); n >= int64(p.log.cfg.OpenSegments) {
		p.log.requestCheckpoint()
	}
}

// apply brings a durable entry into the partition.
func (p *partition) apply(e *entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted {
		return nil // as if it had come just before the topic went
	}
	switch e.kind {
	case FrameBatch:
		if err := p.applyBatchLocked(e); err != nil {
			return err
		}
		if s := p.producers[e.h.ProducerID]; s != nil {
			s.forget(p.end)
		}
	case FrameStart:
		p.advanceStartLocked(e.offset)
	case FrameHold:
		p.hold, p.held, p.changed = e.offset, true, true
	}
	return nil
}

// advanceStartLocked moves the log start. The files below it go with the next checkpoint.
func (p *partition) advanceStartLocked(o record.Offset) {
	if o > p.start {
		p.start, p.changed = o, true
	}
}

// droppedLocked takes the sealed segments below the log start out of the list.
func (p *partition) droppedLocked() []*seg {
	n := 0
	for n < len(p.segs) && p.segs[n].sealed && p.segs[n].info.Next <= p.start {
		n++
	}
	out := p.segs[:n:n]
	p.segs = p.segs[n:]
	if n > 0 {
		p.forgetAbortedLocked()
	}
	return out
}

func (p *partition) wakeLocked() {
	for w := range p.waiters {
		w.wake()
	}
}

// closeLocked closes the files. Reads that still use them fail with fs.ErrClosed.
func (p *partition) closeLocked() error {
	p.unsynced.stop()
	var err error
	for _, s := range p.segs {
		p.log.handles.drop(s)
		p.log.pins.end(s)
		if s.w != nil {
			if cerr := s.w.Close(); err == nil {
				err = cerr
			}
		}
	}
	return err
}
