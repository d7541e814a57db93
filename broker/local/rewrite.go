package local

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// cleanDir begins the name of a directory with new segments.
const cleanDir = "clean-"

// minSwapBytes is how much is written anew, at least, before a checkpoint puts it into place.
const minSwapBytes = 64 << 20

// rewriter writes segments anew.
type rewriter struct {
	*cleaning
	dir     string
	swap    *swap
	out     *seg  // the new segment that is being written
	group   int64 // size of the old segments that are in it
	written int64 // in this swap
	lost    *seg  // the first new segment of the last swap
	changed bool  // something was left out since the swap began
	claimed int64 // in this swap
	refused bool  // a claim
	it      record.Iterator
	b       map[record.Codec]*record.Builder
}

// rewrite writes all chosen segments anew, some at a time.
func (c *cleaning) rewrite() error {
	r := &rewriter{cleaning: c, it: record.Iterator{MaxBytes: c.l.cfg.MaxBatchMemory}, b: map[record.Codec]*record.Builder{}}
	c.p.mu.Lock()
	c.aborted.Reset(abortedIn(c.p.txns.aborted, 0, math.MaxInt64))
	c.p.mu.Unlock()
	for i, s := range c.segs {
		if s.info.Base >= c.mapEnd {
			break
		}
		err := r.segment(s)
		if err == nil && (i == len(c.segs)-1 || c.segs[i+1].info.Base >= c.mapEnd || r.written >= max(4*c.cfg.SegmentBytes, minSwapBytes)) {
			err = r.commit()
			if err == nil && r.lost != nil && !c.p.has(r.lost) { // retention took an old segment: what is left of the swap is dirty
				return r.abandon()
			}
		}
		switch {
		case r.refused:
			c.p.hindered.again(c.l.room.floor(c.p.topic.leaves.compaction) + r.claimed + r.claimed/4)
		case vfs.NoSpace(err): // more than the log knew of: there is no reserve, or a quota
			c.p.hindered.again(math.MaxInt64)
		}
		if err != nil {
			return errors.Join(err, r.abandon())
		}
	}
	c.p.hindered = hindered{}
	return nil
}

// hindered is the compaction of a partition that found no room. It would end where it ended as long as there is no more than then.
type hindered struct {
	enough       int64 // it begins again when so much of the disk is free,
	passes, left int   // or when so many passes have left it out, each time more
}

// mostPasses bounds for how many passes a partition that had no room is left out: half an hour, by default.
const mostPasses = 64

// again notes that a pass found no room, and how much of the disk must be free for the next.
func (h *hindered) again(enough int64) {
	h.enough = enough
	h.passes = min(max(2*h.passes, 1), mostPasses)
	h.left = h.passes
}

// waits says whether this pass leaves the partition out.
func (h *hindered) waits(free int64) bool {
	if h.left == 0 || free >= h.enough {
		return false
	}
	h.left--
	return true
}

// segment writes one old segment anew.
func (r *rewriter) segment(s *seg) error {
	if r.swap == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if r.out != nil && !r.joins(s) {
		if err := r.seal(s.info.Base); err != nil {
			return err
		}
	}
	if r.out == nil {
		if err := r.create(s, s.info.Base); err != nil {
			return err
		}
	}
	r.swap.old = append(r.swap.old, s)
	r.group += s.info.Size
	r.out.appended = max(r.out.appended, s.appended)
	err := r.batches(s, func(b record.Batch) error {
		if b.BaseOffset >= r.mapEnd && r.out.cleaned != 0 { // the rest is as dirty as before
			if err := r.seal(b.BaseOffset); err != nil {
				return err
			}
			if err := r.create(s, b.BaseOffset); err != nil {
				return err
			}
			r.out.cleaned, r.changed = 0, true
		}
		return r.batch(s, b)
	})
	if err != nil {
		return err
	}
	r.out.info.Next = s.info.Next
	return nil
}

// joins tells whether an old segment may go into the new one that was begun: it must fit, and the tombstones of
// both must have had their time, or both begin it now.
func (r *rewriter) joins(s *seg) bool {
	last := r.swap.old[len(r.swap.old)-1]
	same := last.cleaned == 0 && s.cleaned == 0 || r.expired(last) && r.expired(s)
	return same && r.out.cleaned != 0 && r.group+s.info.Size <= r.cfg.SegmentBytes && s.info.Next-r.out.info.Base <= math.MaxInt32
}

func (r *rewriter) begin() error {
	var token [8]byte
	if _, err := rand.Read(token[:]); err != nil {
		return fmt.Errorf("make a name: %w", err)
	}
	r.swap = &swap{token: hex.EncodeToString(token[:]), gone: map[record.Offset]bool{}}
	r.dir, r.written, r.claimed, r.changed = path.Join(r.p.dir, cleanDir+r.swap.token), 0, 0, false
	if err := removeCleanDirs(r.l.fs, r.p.dir); err != nil { // of swaps that came to nothing
		return err
	}
	return r.l.fs.MkdirAll(r.dir)
}

// create begins a new segment in place of s, or of its rest.
func (r *rewriter) create(s *seg, base record.Offset) error {
	w, err := segment.Create(r.l.fs, r.dir, base)
	if err != nil {
		return err
	}
	r.out = &seg{w: w, info: segment.EmptyInfo(base), sealed: true, created: s.created, appended: s.appended, cleaned: s.cleaned}
	if s.cleaned == 0 {
		r.out.cleaned = r.now
	}
	r.group = 0
	return nil
}

// seal ends the new segment; it covers the offsets up to next, whether or not records are left there.
func (r *rewriter) seal(next record.Offset) error {
	s := r.out
	r.out = nil
	err := s.w.Seal()
	s.info = s.w.Info()
	s.info.Next = next
	err = errors.Join(err, s.w.Close())
	s.w = nil
	if err == nil {
		r.swap.new = append(r.swap.new, s)
		r.written += s.info.Size
	}
	return err
}

// batch writes what stays of a batch of an old segment.
func (r *rewriter) batch(s *seg, b record.Batch) error {
	keep := r.aborted.Keep(b)
	switch {
	case b.BaseOffset >= r.mapEnd:
		return r.put(b.Raw, b.BatchHeader)
	case b.Control():
		return r.marker(s, b)
	case !keep:
		r.changed = true
		return nil
	}
	bld := r.builder(b)
	if err := r.it.Reset(b); err != nil {
		return err
	}
	for r.it.Next() {
		rec := r.it.Record()
		if r.stays(s, rec) {
			bld.AppendAt(rec.Offset, rec.Timestamp, rec.Key, rec.Value, rec.Headers)
			if bld.Len() == 1 && b.ProducerID >= 0 {
				bld.BaseSequence = (b.BaseSequence + int32(rec.Offset-b.BaseOffset)) & 0x7fffffff
			}
		}
	}
	if err := r.it.Err(); err != nil {
		return err
	}
	if bld.Len() > 0 && b.Transactional() {
		r.retained[b.ProducerID] = true
	}
	switch int32(bld.Len()) {
	case b.Count:
		return r.put(b.Raw, b.BatchHeader)
	case 0:
		r.changed = true
		return nil
	}
	bld.ExtendTo(b.LastOffset())
	raw, err := bld.Build(-1)
	if err != nil {
		return err
	}
	r.changed = true
	if b.LogAppendTime() {
		record.StampAppendTime(raw, b.MaxTimestamp)
	}
	h, err := record.ParseHeader(raw)
	if err != nil {
		return err
	}
	return r.put(raw, h)
}

func (r *rewriter) builder(b record.Batch) *record.Builder {
	bld := r.b[b.Codec()]
	if bld == nil {
		bld = record.NewBuilder(b.Codec())
		r.b[b.Codec()] = bld
	}
	bld.Reset()
	bld.ProducerID, bld.ProducerEpoch, bld.BaseSequence = b.ProducerID, b.ProducerEpoch, b.BaseSequence
	bld.Transactional, bld.LeaderEpoch = b.Transactional(), b.LeaderEpoch
	return bld
}

// stays tells whether a record stays. One without a key cannot be superseded.
func (r *rewriter) stays(s *seg, rec *record.Record) bool {
	if rec.Key == nil {
		return true
	}
	if newest, ok := r.latest[hashKey(rec.Key)]; ok && newest > rec.Offset {
		return false
	}
	if rec.Value != nil {
		return true
	}
	if r.expired(s) {
		return false
	}
	r.out.tombs = true
	return true
}

// marker writes the marker of a transaction. It goes when nothing of the transaction is left, and not before the
// tombstones of its time.
func (r *rewriter) marker(s *seg, b record.Batch) error {
	_, ok := markerOf(b.Raw)
	empty := ok && !r.retained[b.ProducerID]
	delete(r.retained, b.ProducerID)
	if empty && r.expired(s) {
		r.swap.gone[b.LastOffset()], r.changed = true, true
		return nil
	}
	r.out.tombs = r.out.tombs || empty
	return r.put(b.Raw, b.BatchHeader)
}

func (r *rewriter) put(raw []byte, h record.BatchHeader) error {
	n := int64(len(raw))
	r.claimed += n
	if err := r.l.room.claim(n, r.p.topic.leaves.compaction); err != nil {
		r.refused = true
		return err
	}
	err := r.out.w.Append(raw, h)
	r.l.room.settle(n)
	if err != nil {
		return err
	}
	if h.Control() {
		for _, t := range r.abortedAt(h.LastOffset()) {
			r.out.w.AddAborted(t)
		}
	}
	return nil
}

// abortedAt gives the aborted transaction that ends with the marker at an offset.
func (r *rewriter) abortedAt(o record.Offset) []segment.AbortedTxn {
	r.p.mu.Lock()
	all := r.p.txns.aborted
	r.p.mu.Unlock()
	i := searchAborted(all, o)
	if i < len(all) && all[i].Last == o {
		return all[i : i+1]
	}
	return nil
}
