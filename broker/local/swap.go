package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// swap puts segments in the place of others. A checkpoint that names the new ones decides it.
type swap struct {
	token string                 // names the directory with the new files
	old   []*seg                 // a run of the partition's segments
	new   []*seg                 // cover the same offsets
	gone  map[record.Offset]bool // markers that are in none of the new ones
}

// swapSuffixes are the files of a segment in the order in which they are renamed. The log is the last: as long as
// it is to be renamed, so may others be.
func swapSuffixes() []string {
	return []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix, segment.LogSuffix}
}

// commit makes the new segments durable and puts them into place. When nothing was left out of one segment, the
// old one stays, and only remembers that it was looked at.
func (r *rewriter) commit() error {
	next := r.out.info.Next
	if err := r.seal(next); err != nil {
		return err
	}
	if !r.changed && len(r.swap.old) == len(r.swap.new) {
		r.l.maintain.Lock()
		r.p.mu.Lock()
		for i, s := range r.swap.old {
			s.cleaned, s.tombs = r.swap.new[i].cleaned, r.swap.new[i].tombs
		}
		r.p.changed = true
		r.p.mu.Unlock()
		r.l.maintain.Unlock()
		return r.abandon()
	}
	if err := errors.Join(r.l.fs.SyncDir(r.dir), r.l.fs.SyncDir(r.p.dir)); err != nil {
		return err
	}
	r.l.maintain.Lock()
	defer r.l.maintain.Unlock()
	r.p.mu.Lock()
	if r.p.deleted {
		r.p.mu.Unlock()
		return nil
	}
	if !r.p.topic.config().Compact { // not any more
		r.p.mu.Unlock()
		return r.abandon()
	}
	r.p.swap, r.p.changed = r.swap, true
	r.p.mu.Unlock()
	r.lost = r.swap.new[0]
	waits := r.swap
	r.swap = nil // the checkpoint's from here on
	err := r.l.checkpointLocked()
	if err != nil && r.l.failure() == nil {
		err = errors.Join(err, r.takeBack(waits))
	}
	return err
}

// takeBack removes a swap that a checkpoint could not decide, and that nothing names: on a full disk its files are the room that the
// next checkpoint wants. Had the checkpoint's outcome been unknown, the log would have failed.
func (r *rewriter) takeBack(waits *swap) error {
	r.p.mu.Lock()
	mine := r.p.swap == waits
	if mine {
		r.p.swap, r.p.changed = nil, true
	}
	r.p.mu.Unlock()
	if !mine { // it was placed, and what failed came after
		return nil
	}
	return r.l.fs.RemoveAll(r.dir)
}

// abandon removes new files that no checkpoint names.
func (r *rewriter) abandon() error {
	if r.out != nil {
		_ = r.out.w.Close() // of a segment that is given up
		r.out = nil
	}
	if r.swap == nil {
		return nil
	}
	r.swap = nil
	return r.l.fs.RemoveAll(r.dir)
}

// swapIndexLocked gives where the old segments of the waiting swap stand; -1 when retention took some of them.
func (p *partition) swapIndexLocked() int {
	if p.swap == nil {
		return -1
	}
	at := slices.Index(p.segs, p.swap.old[0])
	if at < 0 || at+len(p.swap.old) > len(p.segs) || !slices.Equal(p.segs[at:at+len(p.swap.old)], p.swap.old) {
		return -1
	}
	return at
}

// place renames the files of a swap that a checkpoint has decided, and uses them from now on.
func (j *swapJob) place() error {
	p, l := j.p, j.p.log
	dir := path.Join(p.dir, cleanDir+j.swap.token)
	p.mu.Lock()
	at := p.swapIndexLocked()
	if p.deleted || at < 0 || p.swap != j.swap {
		p.mu.Unlock()
		return nil
	}
	// With the lock, so that no reader finds files of both kinds: who opens some looks again.
	for _, s := range j.swap.new {
		if err := placeFiles(l.fs, dir, p.dir, s.info.Base); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	p.segs = slices.Replace(p.segs, at, at+len(j.swap.old), j.swap.new...)
	p.txns.aborted = slices.DeleteFunc(slices.Clone(p.txns.aborted), func(t segment.AbortedTxn) bool { return j.swap.gone[t.Last] })
	p.swap, p.changed = nil, true
	p.mu.Unlock()
	if err := l.fs.SyncDir(p.dir); err != nil {
		return err
	}
	kept := map[record.Offset]bool{}
	for _, s := range j.swap.new {
		kept[s.info.Base] = true
	}
	for _, s := range j.swap.old {
		l.handles.drop(s)
		if !kept[s.info.Base] {
			l.dropped = append(l.dropped, droppedSegment{p, s})
		}
	}
	if err := l.fs.RemoveAll(dir); err != nil {
		l.cfg.Logger.Warn("remove a directory; the next pass will", "dir", dir, "error", err)
	}
	return nil
}

// placeFiles renames the files of one segment, those that are there.
func placeFiles(fsys vfs.FS, from, to string, base record.Offset) error {
	for _, suffix := range swapSuffixes() {
		err := fsys.Rename(segment.FileName(from, base, suffix), segment.FileName(to, base, suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put a cleaned segment into place: %w", err)
		}
	}
	return nil
}

// finishSwaps ends what a crash has interrupted: swaps that the checkpoint names are made, others are forgotten.
func (p *partition) finishSwaps(state *partitionState) error {
	swapped := false
	for _, s := range state.Segments {
		if s.Swap == "" {
			continue
		}
		swapped = true
		if err := placeFiles(p.log.fs, path.Join(p.dir, cleanDir+s.Swap), p.dir, s.Base); err != nil {
			return err
		}
	}
	if swapped {
		if err := p.log.fs.SyncDir(p.dir); err != nil {
			return err
		}
	}
	return removeCleanDirs(p.log.fs, p.dir)
}

// removeCleanDirs removes what no checkpoint needs any more.
func removeCleanDirs(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), cleanDir) {
			if err := fsys.RemoveAll(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
