package local

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// partitionKey finds partitions by what the journal and the checkpoint call them.
type partitionKey struct {
	topic  [16]byte
	number int32
}

// recover brings memory and disk to the state that was acknowledged last and writes a checkpoint of it. It
// gives the number of the next journal file.
func (l *Log) recover(ctx context.Context) (uint64, error) {
	found, err := l.loadTopics()
	if err != nil {
		return 0, err
	}
	ckpt, err := readCheckpoint(l.fs, l.cfg.Dir)
	if err != nil {
		return 0, err
	}
	if ckpt == nil {
		if found { // the first checkpoint is written before the first topic
			return 0, &segment.DamageError{Finding: segment.Finding{File: l.cfg.Dir + "/" + checkpointFile,
				Expected: "a checkpoint, since there are topics", Found: "no file"}}
		}
		ckpt = &checkpointState{Journal: 1, Durability: l.cfg.Durability.String()}
	}
	if err := l.loadProducerIDs(); err != nil {
		return 0, err
	}
	byKey, err := l.openPartitions(ctx, ckpt)
	if err != nil {
		return 0, err
	}
	next, err := l.replay(ctx, ckpt.Journal, byKey)
	if err != nil {
		return 0, err
	}
	for _, p := range byKey {
		p.passLost()
	}
	l.removeDeleted()
	if err := l.fs.SyncDir(l.dataDir); err != nil {
		return 0, fmt.Errorf("sync data directory: %w", err)
	}
	// The checkpoint names the next journal file before that is made: a crash in between must not leave a
	// torn file that has a successor.
	l.journal = newJournal(&l.cfg, l.journalDir, next)
	return next, l.finalCheckpoint()
}

func (l *Log) openPartitions(ctx context.Context, ckpt *checkpointState) (map[partitionKey]*partition, error) {
	states := map[partitionKey]*partitionState{}
	for i := range ckpt.Partitions {
		s := &ckpt.Partitions[i]
		id, err := parseID(s.Topic)
		if err != nil {
			return nil, fmt.Errorf("read checkpoint: %w", err)
		}
		states[partitionKey{id, s.Partition}] = s
	}
	byKey := map[partitionKey]*partition{}
	for _, p := range l.all() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key := partitionKey{p.topic.id, p.number}
		byKey[key] = p
		state := states[key]
		if state == nil {
			state = &partitionState{Topic: hex.EncodeToString(p.topic.id[:]), Partition: p.number}
		}
		if err := p.load(state, ckpt.Durability == DurabilityNone.String()); err != nil {
			return nil, fmt.Errorf("recover %s: %w", p.tp(), err)
		}
	}
	return byKey, nil
}

// load brings a partition to the checkpoint's state. With keepTail it then takes over the undamaged batches
// that lie behind it; without, they prove nothing, and the journal has them.
func (p *partition) load(state *partitionState, keepTail bool) error {
	p.start, p.end, p.hold, p.held = state.Start, state.End, state.Hold, state.Held
	for id, s := range state.Producers {
		p.producers[id] = s
	}
	p.log.producers.added.Add(int64(len(state.Producers)))
	for _, t := range state.Open {
		p.txns.open[t.Producer] = t.First
		if s := p.producers[t.Producer]; s != nil {
			s.TxnFirst = &t.First
		}
	}
	if err := p.log.fs.MkdirAll(p.dir); err != nil {
		return err
	}
	if err := p.finishSwaps(state); err != nil {
		return err
	}
	bases, err := segment.List(p.log.fs, p.dir)
	if err != nil {
		return err
	}
	onDisk := map[record.Offset]bool{}
	for _, b := range bases {
		onDisk[b] = true
	}
	for _, s := range state.Segments {
		if !onDisk[s.Base] {
			if s.Next <= p.start {
				continue
			}
			return &segment.DamageError{Finding: segment.Finding{File: segment.FileName(p.dir, s.Base, segment.LogSuffix),
				Expected: fmt.Sprintf("a segment of %d bytes", s.Size), Found: "no file"}}
		}
		delete(onDisk, s.Base)
		if err := p.loadSegment(s); err != nil {
			return err
		}
		aborted, err := segment.ReadAborted(p.log.fs, p.dir, s.Info)
		if err != nil {
			return err
		}
		p.txns.aborted = append(p.txns.aborted, aborted...)
	}
	if keepTail {
		if err := p.extend(bases, onDisk); err != nil {
			return err
		}
	}
	for _, base := range bases {
		if onDisk[base] {
			if err := segment.Remove(p.log.fs, p.dir, base); err != nil {
				return err
			}
			p.newFiles = true
		}
	}
	p.next = p.end
	return p.cutAll()
}

// loadSegment opens a segment at its checkpointed length. A sealed one is durable and stays closed.
func (p *partition) loadSegment(s segmentState) error {
	if s.Sealed {
		return p.loadSealed(s)
	}
	w, err := segment.OpenWriter(p.log.fs, p.dir, s.Info)
	if err != nil {
		return err
	}
	p.segs = append(p.segs, &seg{info: s.Info, w: w, created: s.Created, appended: s.Appended, cleaned: s.Cleaned, tombs: s.Tombs})
	return nil
}

func (p *partition) loadSealed(s segmentState) error {
	name := segment.FileName(p.dir, s.Base, segment.LogSuffix)
	st, err := p.log.fs.Stat(name)
	if err != nil {
		return err
	}
	if st.Size() != s.Size {
		return &segment.DamageError{Finding: segment.Finding{File: name, Offset: min(st.Size(), s.Size),
			Expected: fmt.Sprintf("a segment of %d bytes", s.Size), Found: fmt.Sprintf("%d bytes", st.Size())}}
	}
	p.segs = append(p.segs, &seg{info: s.Info, sealed: true, created: s.Created, appended: s.Appended, cleaned: s.Cleaned, tombs: s.Tombs})
	return nil
}

// extend takes over what a log without a journal wrote behind the checkpoint: the tail of the last segment
// and newer segments, up to the first damage or gap.
func (p *partition) extend(bases []record.Offset, unknown map[record.Offset]bool) error {
	now := p.log.cfg.Clock().UnixMilli()
	visit := func(h record.BatchHeader, control []byte) {
		p.end = h.LastOffset() + 1
		p.noteProducerLocked(h, control, now)
		p.seeTxnLocked(p.active(), h, control)
	}
	whole := true
	grow := func(s *seg) error {
		found, err := s.w.Extend(visit)
		if found != nil {
			whole = false
			p.log.cfg.Logger.Warn("cut an unsynced segment", "partition", p.tp().String(), "finding", found.String())
		}
		return err
	}
	if s := p.active(); s != nil {
		if err := grow(s); err != nil {
			return err
		}
	}
	for _, base := range bases {
		if !unknown[base] || base < p.end || !whole {
			continue
		}
		if base > p.end {
			return nil // a gap: its predecessor was lost
		}
		w, err := segment.OpenWriter(p.log.fs, p.dir, segment.EmptyInfo(base))
		if err != nil {
			return err
		}
		if s := p.active(); s != nil {
			p.sealLocked(s)
		}
		s := &seg{w: w, created: now, appended: now}
		p.segs = append(p.segs, s)
		p.newFiles = true
		delete(unknown, base)
		if err := grow(s); err != nil {
			return err
		}
	}
	return nil
}

// cutAll removes what lies behind the good parts.
func (p *partition) cutAll() error {
	for _, s := range p.segs {
		if s.w == nil {
			continue
		}
		if err := s.w.Cut(); err != nil {
			return err
		}
	}
	return nil
}

// replay reads the journal from a file on and gives the number of the next one.
func (l *Log) replay(ctx context.Context, first uint64, byKey map[partitionKey]*partition) (uint64, error) {
	seqs, err := listJournals(l.fs, l.journalDir)
	if err != nil {
		return 0, err
	}
	// What is left over from before the checkpoint is room, and a full disk may have no other. Open has synced the checkpoint's name
	// when it made the folders: a power loss does not bring the one back that needs these files.
	for len(seqs) > 0 && seqs[0] < first {
		if err := l.fs.Remove(journalName(l.journalDir, seqs[0])); err != nil {
			return 0, fmt.Errorf("drop journal: %w", err)
		}
		seqs = seqs[1:]
	}
	next := first
	for i, seq := range seqs {
		if seq != next {
			return 0, &segment.DamageError{Finding: segment.Finding{File: journalName(l.journalDir, next),
				Expected: fmt.Sprintf("a journal file, since there is number %d", seq), Found: "no file"}}
		}
		next = seq + 1
		if err := l.replayFile(ctx, seq, seqs[i+1:], byKey); err != nil {
			return 0, fmt.Errorf("replay journal: %w", err)
		}
	}
	return next, nil
}

// replayFile applies the frames of one file; later are the files behind it.
func (l *Log) replayFile(ctx context.Context, seq uint64, later []uint64, byKey map[partitionKey]*partition) (err error) {
	r, err := openJournal(l.fs, journalName(l.journalDir, seq), seq)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.checkEnd(l.fs, l.journalDir, later)
		}
		if err != nil {
			return err
		}
		p := byKey[partitionKey{f.Topic, f.Partition}]
		if p == nil {
			continue // of a topic that was deleted
		}
		if err := p.replay(r, f); err != nil {
			return err
		}
	}
}

// passLost goes on behind offsets that were given but whose batches are gone. Marks are synced and, without
// durability, batches are not: a power loss can leave a log start or a hold above the end. Offsets below them
// were given to somebody, so they are not given again (I2); below the hold the lake has the records, so reading
// from the log begins there too.
func (p *partition) passLost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := max(p.start, p.hold)
	if to <= p.end {
		return
	}
	p.log.cfg.Logger.Error("a power loss took records of a log without durability; it goes on behind them",
		"partition", p.tp().String(), "lost from", int64(p.end), "to", int64(to))
	if s := p.active(); s != nil {
		p.sealLocked(s)
	}
	p.start, p.end, p.next, p.changed = to, to, to, true
	clear(p.txns.open) // nothing of them is left
	for _, s := range p.producers {
		s.TxnFirst = nil
	}
}

// replay applies a frame unless the checkpoint has it already.
func (p *partition) replay(r *journalReader, f Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f.Kind {
	case FrameStart:
		p.advanceStartLocked(f.Offset)
		return nil
	case FrameHold:
		p.hold, p.held, p.changed = f.Offset, true, true
		return nil
	case FrameBatch:
	default:
		return r.damage(f.Position, "a frame of a known kind", f.Kind.String())
	}
	switch {
	case f.Offset < p.end:
		return nil
	case f.Offset > p.end:
		return r.damage(f.Position, fmt.Sprintf("offset %d of %s", p.end, p.tp()), fmt.Sprint(f.Offset))
	}
	b, err := record.ReadBatch(f.Payload)
	if err == nil && (b.Size() != len(f.Payload) || b.BaseOffset != f.Offset) {
		err = errors.New("a batch of another size or offset")
	}
	if err != nil {
		return r.damage(f.Position+frameHeaderSize, "a record batch", err.Error())
	}
	if err := p.writeLocked(f.Payload, b.BatchHeader); err != nil {
		return err
	}
	p.noteProducerLocked(b.BatchHeader, f.Payload, p.log.cfg.Clock().UnixMilli())
	return nil
}
