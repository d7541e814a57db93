package local

import (
	"context"
	"fmt"
	"math"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Hold keeps the records at and above lakeEnd from retention (I6). It is durable when it returns. A hold above
// the end is refused with an *broker.OutOfRangeError: such a lake belongs to another log.
func (l *Log) Hold(_ context.Context, tp record.TopicPartition, lakeEnd record.Offset) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	p, err := l.partition(tp)
	if err != nil {
		return err
	}
	p.mu.Lock()
	bounds := p.boundsLocked()
	p.mu.Unlock()
	if lakeEnd > bounds.End {
		return fmt.Errorf("hold %s: %w", tp, &broker.OutOfRangeError{TP: tp, Offset: lakeEnd, Bounds: bounds})
	}
	if err := l.submit(&entry{kind: FrameHold, p: p, offset: max(lakeEnd, 0)}); err != nil {
		return fmt.Errorf("hold %s: %w", tp, err)
	}
	return nil
}

// DeleteRecords moves the log start. It is durable when it returns; the files go later.
func (l *Log) DeleteRecords(_ context.Context, tp record.TopicPartition, before record.Offset) (record.Offset, error) {
	if err := l.enter(); err != nil {
		return 0, err
	}
	defer l.leave()
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	bounds := p.boundsLocked()
	p.mu.Unlock()
	if before == -1 {
		before = bounds.End
	}
	if before < 0 || before > bounds.End {
		return 0, &broker.OutOfRangeError{TP: tp, Offset: before, Bounds: bounds}
	}
	if before <= bounds.Start {
		return bounds.Start, nil
	}
	if err := l.submit(&entry{kind: FrameStart, p: p, offset: before}); err != nil {
		return 0, fmt.Errorf("delete records of %s: %w", tp, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start, nil
}

// EnforceRetention drops what the topics' settings no longer keep. The log calls it by itself.
func (l *Log) EnforceRetention() error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if l.awaiting.Load() {
		return nil
	}
	now := l.cfg.Clock().UnixMilli()
	drop := false
	for _, p := range l.all() {
		start, dropped := p.expired(now)
		drop = drop || dropped
		if start >= 0 {
			// The mark comes before the files go, so that recovery never misses one that it expects.
			if err := l.submit(&entry{kind: FrameStart, p: p, offset: start}); err != nil {
				return fmt.Errorf("retention of %s: %w", p.tp(), err)
			}
			drop = true
		}
	}
	if !drop {
		return nil
	}
	return l.checkpointLocked()
}

// expired gives the log start that retention asks for, -1 when it asks for none; dropped tells that files
// lie below the present one.
func (p *partition) expired(nowMS int64) (start record.Offset, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cfg := p.topic.config()
	p.sealAgedLocked(cfg, nowMS)
	limit := record.Offset(math.MaxInt64)
	if p.held || cfg.Tiered {
		limit = p.hold // I6: 0 before the first Hold
	}
	limit = min(limit, p.stableLocked()) // what is not decided does not expire
	var total int64
	for _, s := range p.segs {
		if info := s.state(); info.Next > p.start {
			total += info.Size
		}
	}
	start = -1
	for _, s := range p.segs {
		if s.sealed && s.info.Next <= p.start {
			dropped = true
			continue
		}
		last := s.info.MaxTimestamp
		if last < 0 {
			last = s.appended
		}
		// A compacted topic keeps the newest value of each key, whatever its age, unless it says delete too.
		deletes := !cfg.Compact || cfg.CompactDelete
		old := deletes && cfg.RetentionAge > 0 && nowMS-last > cfg.RetentionAge.Milliseconds()
		large := deletes && cfg.RetentionBytes > 0 && total-s.info.Size >= cfg.RetentionBytes
		if !s.sealed || s.info.Next > limit || !old && !large {
			break
		}
		total -= s.info.Size
		start = s.info.Next
	}
	return start, dropped
}

// sealAgedLocked ends an active segment that nothing may be appended to any more, so that it can go.
func (p *partition) sealAgedLocked(cfg *broker.TopicConfig, nowMS int64) {
	s := p.active()
	if s == nil || p.next != p.end { // what is on its way needs it
		return
	}
	info := s.w.Info()
	deleted := p.start >= info.Next
	aged := nowMS-s.created >= cfg.SegmentAge.Milliseconds() ||
		cfg.Compact && cfg.MaxCompactionLag > 0 && nowMS-s.created >= cfg.MaxCompactionLag.Milliseconds() ||
		cfg.RetentionAge > 0 && nowMS-max(info.MaxTimestamp, 0) > cfg.RetentionAge.Milliseconds() && info.MaxTimestamp >= 0
	if info.Size > 0 && (deleted || aged) && s.w.Mend() == nil {
		p.sealLocked(s)
	}
}
