package local

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

const (
	checkpointFile    = "checkpoint"
	checkpointVersion = 2 // 1 has no open transactions and no swaps
	checkpointMagic   = "ledgerlake-checkpoint"
)

// checkpointState is the content of the checkpoint file: a line with magic, version, CRC-32C and length,
// then this as JSON.
type checkpointState struct {
	Journal    uint64           `json:"journal"`    // the first file that is to be replayed
	Durability string           `json:"durability"` // of the log that runs from here on
	Partitions []partitionState `json:"partitions"`
}

// partitionState is what recovery must know of one partition.
type partitionState struct {
	Topic     string              `json:"topic"` // id, in hex
	Partition int32               `json:"partition"`
	Start     record.Offset       `json:"start"`
	End       record.Offset       `json:"end"`
	Hold      record.Offset       `json:"hold,omitempty"`
	Held      bool                `json:"held,omitempty"`
	Segments  []segmentState      `json:"segments,omitempty"`
	Producers map[int64]*producer `json:"producers,omitempty"`
	Open      []openTxn           `json:"open,omitempty"` // transactions
}

type segmentState struct {
	segment.Info
	Sealed   bool  `json:",omitempty"`
	Created  int64 // Unix ms
	Appended int64
	Cleaned  int64  `json:",omitempty"` // Unix ms of the cleaner's first pass
	Tombs    bool   `json:",omitempty"`
	Swap     string `json:",omitempty"` // the files may still be in the directory of this swap
}

func (s *seg) checkpointed() segmentState {
	return segmentState{Info: s.state(), Sealed: s.sealed, Created: s.created, Appended: s.appended, Cleaned: s.cleaned, Tombs: s.tombs}
}

// snapshot is the log at one point of the journal.
type snapshot struct {
	journal uint64
	state   checkpointState
	sync    []syncJob
	swaps   []swapJob
}

// swapJob is a swap that the checkpoint decides.
type swapJob struct {
	p    *partition
	swap *swap
}

type syncJob struct {
	p      *partition
	sealed []*seg
	active *segment.Writer
	txn    []record.Offset // active segment, when it has aborted transactions
	dir    bool
}

// droppedSegment is one that the partition has no more, and the files of which go when a checkpoint says so.
type droppedSegment struct {
	p *partition
	s *seg
}

// snapshotInto takes the state of all partitions; the applier calls it, so that exactly the journal's frames
// before the checkpoint are in it. The caller of the checkpoint holds maintain.
func (l *Log) snapshotInto(snap *snapshot) {
	expired := l.cfg.Clock().Add(-l.cfg.ProducerExpiry).UnixMilli()
	snap.state = checkpointState{Durability: l.cfg.Durability.String(), Partitions: []partitionState{}}
	for _, p := range l.all() {
		p.mu.Lock()
		p.expireProducersLocked(expired)
		if p.changed {
			p.snapshotLocked(snap)
		}
		if p.cached != nil {
			snap.state.Partitions = append(snap.state.Partitions, *p.cached)
		}
		p.mu.Unlock()
	}
}

// snapshotLocked remembers the partition's state and what must be synced before it may be relied on.
func (p *partition) snapshotLocked(snap *snapshot) {
	for _, s := range p.droppedLocked() {
		p.log.dropped = append(p.log.dropped, droppedSegment{p, s})
	}
	st := &partitionState{Topic: hex.EncodeToString(p.topic.id[:]), Partition: p.number, Start: p.start, End: p.end,
		Hold: p.hold, Held: p.held, Producers: map[int64]*producer{}}
	job := syncJob{p: p, dir: p.newFiles}
	swapAt := p.swapIndexLocked()
	if swapAt >= 0 {
		snap.swaps = append(snap.swaps, swapJob{p, p.swap})
	} else {
		p.swap = nil // retention was there first; the next pass removes the files
	}
	for i, s := range p.segs {
		if swapAt >= 0 && i >= swapAt && i < swapAt+len(p.swap.old) {
			if i == swapAt {
				for _, n := range p.swap.new {
					as := n.checkpointed()
					as.Swap = p.swap.token
					st.Segments = append(st.Segments, as)
				}
			}
			continue
		}
		st.Segments = append(st.Segments, s.checkpointed())
		switch {
		case s.w == nil:
		case s.sealed:
			job.sealed = append(job.sealed, s)
		default:
			job.active = s.w
			if s.w.Info().Aborted > 0 {
				job.txn = append(job.txn, s.w.Info().Base)
			}
		}
	}
	for id, s := range p.producers {
		st.Producers[id] = s.durable(p.end)
	}
	for id, first := range p.txns.open {
		st.Open = append(st.Open, openTxn{id, first})
	}
	p.cached, p.changed, p.newFiles = st, false, false
	snap.sync = append(snap.sync, job)
}

// Checkpoint makes the segments durable and drops the journal before them. The log calls it by itself.
func (l *Log) Checkpoint() error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	return l.checkpointLocked()
}

func (l *Log) checkpointLocked() (err error) {
	defer func() { l.owed.Store(err != nil || l.crowded.Load() != nil) }() // one that makes a journal file ends the want of it
	l.sinceCheckpoint.Store(0)
	l.sealedOpen.Store(0)
	snap := &snapshot{}
	if err := l.submit(&entry{kind: entryCheckpoint, snap: snap}); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := l.finish(snap); err != nil {
		l.spoil(snap)
		return fmt.Errorf("checkpoint: %w", err)
	}
	l.room.look()
	return nil
}

// finalCheckpoint is that of Close and of recovery, when nothing else runs.
func (l *Log) finalCheckpoint() error {
	snap := &snapshot{}
	l.snapshotInto(snap)
	snap.journal = l.journal.seq
	if l.journal.file != nil {
		snap.journal++ // no file of that number is there: nothing to replay
	}
	l.journal.giveBack() // no later file will want them, and a full disk has no other room for a checkpoint
	l.journal.spares.forget()
	if err := l.finish(snap); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// spoil makes the next checkpoint look at everything again that this one was to make durable.
func (l *Log) spoil(snap *snapshot) {
	for _, job := range snap.sync {
		job.p.mu.Lock()
		job.p.changed = true
		job.p.newFiles = job.p.newFiles || job.dir
		job.p.mu.Unlock()
	}
}

// finish syncs what the snapshot relies on, writes it, and removes what it makes superfluous.
func (l *Log) finish(snap *snapshot) error {
	for _, job := range snap.sync {
		err := job.flush()
		if l.madeRoom(err) {
			err = job.flush()
		}
		if err != nil && !job.p.isDeleted() {
			return err
		}
	}
	for _, job := range snap.sync {
		if err := job.run(); err != nil {
			if job.p.isDeleted() {
				continue
			}
			if outOfHandles(err) {
				return fmt.Errorf("%w: %w", broker.ErrStorage, err) // an open failed, so nothing was synced
			}
			// The page cache may have lost what it could not write: only the journal can be trusted now.
			return l.fail(err)
		}
	}
	snap.state.Journal = snap.journal
	if err := l.writeCheckpoint(&snap.state); err != nil {
		if len(snap.swaps) > 0 && errors.Is(err, vfs.ErrUnknownOutcome) {
			return l.fail(err) // which files count is for the next start to see
		}
		return err
	}
	for _, job := range snap.sync {
		job.closeSealed()
	}
	for _, job := range snap.swaps {
		if err := job.place(); err != nil {
			return l.fail(err) // the checkpoint counts, so only the next start can go on
		}
	}
	l.removeDropped()
	return l.dropJournals(snap.journal)
}

// removeDropped removes the files of dropped segments, which no checkpoint names any more. What cannot be
// removed stays in the list for the next time.
func (l *Log) removeDropped() {
	l.dropped = slices.DeleteFunc(l.dropped, func(d droppedSegment) bool {
		d.close()
		if d.p.hasBase(d.s.info.Base) {
			return true // compaction has made files of these names since
		}
		if err := segment.Remove(l.fs, d.p.dir, d.s.info.Base); err != nil {
			l.cfg.Logger.Warn("remove a segment; the next checkpoint tries again", "dir", d.p.dir, "error", err)
			return false
		}
		return true
	})
}

func (p *partition) hasBase(base record.Offset) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.segs, func(s *seg) bool { return s.state().Base == base })
}

// forgetDropped forgets the segments of deleted topics: their directories go as a whole, and a new topic may
// have the same names.
func (l *Log) forgetDropped() {
	l.dropped = slices.DeleteFunc(l.dropped, func(d droppedSegment) bool {
		if !d.p.isDeleted() {
			return false
		}
		d.close()
		return true
	})
}

func (d droppedSegment) close() {
	d.p.log.handles.drop(d.s)
	if d.s.w == nil {
		return
	}
	if err := d.s.w.Close(); err != nil {
		d.p.log.cfg.Logger.Warn("close a dropped segment", "dir", d.p.dir, "error", err)
	}
	d.s.w = nil
}

func (p *partition) isDeleted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deleted
}

// flush writes the indexes: one partition at a time, and not with the snapshot, for which all wait. Those of the active segment
// may tell of more than the snapshot does. What cannot be written now, on a full disk, the next checkpoint writes.
func (j *syncJob) flush() error {
	for _, s := range j.sealed {
		if err := s.w.FlushIndex(); err != nil {
			return err
		}
	}
	if j.active == nil {
		return nil
	}
	j.p.mu.Lock()
	defer j.p.mu.Unlock()
	return j.active.FlushIndex()
}

func (j *syncJob) run() error {
	for _, s := range j.sealed {
		if err := s.w.Seal(); err != nil {
			return err
		}
	}
	if j.active != nil {
		if err := j.active.SyncLogPaced(); err != nil {
			return err
		}
	}
	for _, base := range j.txn {
		if err := segment.SyncAborted(j.p.log.fs, j.p.dir, base); err != nil {
			return err
		}
	}
	if j.dir {
		return j.p.log.fs.SyncDir(j.p.dir)
	}
	return nil
}

// closeSealed closes the files of segments that are durable; reads open them by name from now on.
func (j *syncJob) closeSealed() {
	j.p.mu.Lock()
	defer j.p.mu.Unlock()
	if j.p.deleted {
		return // closed already
	}
	for _, s := range j.sealed {
		w := s.w
		s.w = nil
		if err := w.Close(); err != nil {
			j.p.log.cfg.Logger.Warn("close segment", "dir", j.p.dir, "error", err)
		}
	}
}

func (l *Log) writeCheckpoint(state *checkpointState) error {
	body, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	head := fmt.Sprintf("%s %d %08x %d\n", checkpointMagic, checkpointVersion, crc32.Checksum(body, castagnoli()), len(body))
	if err := l.replaceFile(checkpointFile, append([]byte(head), body...)); err != nil {
		return fmt.Errorf("write checkpoint: %w: %w", broker.ErrStorage, err)
	}
	return nil
}

// readCheckpoint gives nil when there is no checkpoint.
func readCheckpoint(fsys vfs.FS, dir string) (*checkpointState, error) {
	name := path.Join(dir, checkpointFile)
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	damage := func(pos int, expected, found string) error {
		return &segment.DamageError{Finding: segment.Finding{File: name, Offset: int64(pos), Expected: expected, Found: found}}
	}
	head, body, ok := bytes.Cut(b, []byte("\n"))
	var version, length int
	var crc uint32
	if _, err := fmt.Sscanf(string(head), checkpointMagic+" %d %x %d", &version, &crc, &length); !ok || err != nil {
		return nil, damage(0, "a checkpoint's first line", fmt.Sprintf("%.40q", b))
	}
	if version < 1 || version > checkpointVersion {
		return nil, damage(0, fmt.Sprintf("version 1 to %d", checkpointVersion), fmt.Sprint(version))
	}
	if length != len(body) {
		return nil, damage(len(head)+1, fmt.Sprintf("%d bytes", length), fmt.Sprint(len(body)))
	}
	if sum := crc32.Checksum(body, castagnoli()); sum != crc {
		return nil, damage(len(head)+1, fmt.Sprintf("CRC-32C %08x", crc), fmt.Sprintf("%08x", sum))
	}
	state := &checkpointState{}
	if err := json.Unmarshal(body, state); err != nil {
		return nil, damage(len(head)+1, "JSON", err.Error())
	}
	return state, nil
}

// dropJournals removes the journal files before a sequence number, but for the spares: none where appends are refused for want of room.
func (l *Log) dropJournals(before uint64) error {
	most := int(l.cfg.CheckpointBytes/l.cfg.JournalBytes) + 1
	if l.room.refused(leavingAll) != nil {
		most = 0
	}
	stay := l.journal.spares.release(before, most)
	seqs, err := listJournals(l.fs, l.journalDir)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if seq < before && !slices.Contains(stay, seq) {
			err := l.fs.Remove(journalName(l.journalDir, seq))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that was given back meanwhile
				return fmt.Errorf("drop journal: %w", err)
			}
		}
	}
	return nil
}

func listJournals(fsys vfs.FS, dir string) ([]uint64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var out []uint64
	for _, e := range entries {
		if seq, ok := parseJournalName(e.Name()); ok {
			out = append(out, seq)
		}
	}
	return out, nil
}
