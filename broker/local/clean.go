package local

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// Cleaning of compacted topics. A pass over one partition has three steps:
//
//  1. The newest offset of each key is found in the dirty segments: those at the end of what is sealed, durable,
//     decided and, for a topic that is tiered, in the lake, which no pass has seen yet. The map is bounded, so it
//     may end early.
//  2. The segments from the first one on are written anew without superseded records, in a directory beside
//     them (clean-<token>). Offsets stay; where records are gone, they skip.
//  3. A checkpoint names the new segments instead of the old ones. That is the commit point. Then the new files
//     are renamed over the old ones.
//
// What the disk may hold if we stop: a clean directory that the checkpoint does not name, which recovery removes;
// or one that it names, whose files recovery renames, those that are still there.
//
// A record without a value (a tombstone), and the marker of a transaction of which nothing is left, stay for
// delete.retention.ms after the pass that removed what they end, so that who read that before sees them too. The
// time of that pass is kept by segment, and segments are joined only when their tombstones have had their time.
type cleaning struct {
	l        *Log
	ctx      context.Context
	p        *partition
	cfg      *broker.TopicConfig
	now      int64
	segs     []*seg             // all that may be cleaned, from the first of the partition on
	aborted  record.AbortFilter // of the rewrite
	latest   map[keyHash]record.Offset
	mapEnd   record.Offset  // records from here on are not in latest and stay
	retained map[int64]bool // producers whose open transaction has records that stay
}

// cleanRead is how much of a segment is read at once.
const cleanRead = 1 << 20

// errLogClosed ends a pass that the end of the log has overtaken.
var errLogClosed = fmt.Errorf("clean: %w", broker.ErrClosed)

// Compact cleans the partitions of compacted topics for which it is due. The log calls it by itself.
func (l *Log) Compact(ctx context.Context) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	l.cleaner.Lock()
	defer l.cleaner.Unlock()
	if l.awaiting.Load() {
		return nil
	}
	var failed error
	for _, p := range l.all() {
		if !p.topic.config().Compact {
			continue
		}
		if err := l.cleanPartition(ctx, p); err != nil {
			failed = errors.Join(failed, fmt.Errorf("clean %s: %w", p.tp(), err))
		}
		if l.isClosed() || ctx.Err() != nil || l.failure() != nil {
			break
		}
	}
	return failed
}

func (l *Log) cleanPartition(ctx context.Context, p *partition) error {
	if p.hasUnsynced() {
		if err := l.lockedCheckpoint(); err != nil {
			return err
		}
	}
	c := &cleaning{l: l, ctx: ctx, p: p, cfg: p.topic.config(), now: l.cfg.Clock().UnixMilli(), retained: map[int64]bool{}}
	if !c.choose() || p.hindered.waits(l.room.free.Load()) {
		return nil
	}
	if err := c.buildMap(); err != nil {
		return err
	}
	return c.rewrite()
}

func (l *Log) lockedCheckpoint() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	return l.checkpointLocked()
}

// hasUnsynced tells whether a sealed segment waits for a checkpoint.
func (p *partition) hasUnsynced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.segs {
		if s.sealed && s.w != nil {
			return true
		}
	}
	return false
}

// choose finds the segments that may be cleaned, and whether it is worth while.
func (c *cleaning) choose() bool {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted || p.swap != nil {
		return false
	}
	limit, lag := p.stableLocked(), c.cfg.MinCompactionLag.Milliseconds()
	if p.held || c.cfg.Tiered {
		limit = min(limit, p.hold) // I6: the lake gets every record
	}
	// The segment with the last batch stays as it is: who has read all must come to the end of the log.
	var clean, dirty int64
	due := false
	for _, s := range p.segs {
		if !s.sealed || s.w != nil || s.info.Next > limit || s.info.Next >= p.end || lag > 0 && c.now-s.info.MaxTimestamp < lag {
			break
		}
		c.segs = append(c.segs, s)
		if s.cleaned == 0 {
			dirty += s.info.Size
			due = due || c.cfg.MaxCompactionLag > 0 && c.now-s.created >= c.cfg.MaxCompactionLag.Milliseconds()
		} else {
			clean += s.info.Size
			due = due || s.tombs && c.expired(s)
		}
	}
	if dirty > 0 && float64(dirty) >= c.cfg.MinDirtyRatio*float64(clean+dirty) {
		due = true
	}
	c.aborted.Reset(abortedIn(p.txns.aborted, 0, math.MaxInt64))
	return due
}

// expired tells whether the tombstones of a segment have had their time.
func (c *cleaning) expired(s *seg) bool {
	return s.cleaned != 0 && c.now-s.cleaned >= c.cfg.DeleteRetention.Milliseconds()
}

// batches calls visit for every batch of a segment. raw is valid until visit returns.
func (c *cleaning) batches(s *seg, visit func(b record.Batch) error) error {
	h, err := c.l.handles.get(c.p.dir, s, s.info)
	if err != nil {
		return err
	}
	defer c.l.handles.put(h)
	for at := s.info.Base; at < s.info.Next; {
		if c.l.isClosed() {
			return errLogClosed
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		raw, err := h.Read(at, cleanRead)
		if isEOF(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for len(raw) > 0 {
			b, err := record.ReadBatch(raw)
			if err == nil {
				err = b.VerifyCRC()
			}
			if err == nil {
				err = visit(b)
			}
			if err != nil {
				return fmt.Errorf("batch at offset %d: %w", at, err)
			}
			raw, at = raw[b.Size():], b.LastOffset()+1
		}
	}
	return nil
}
