package logdir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// partition is what was found in one folder. It never changes after Open.
type partition struct {
	tp      record.TopicPartition
	dir     string
	bases   []record.Offset
	tail    int64         // good bytes of the last segment
	whole   record.Offset // behind the last good batch
	mark    record.Offset // the high watermark: what stands from there on is not looked at
	bounds  broker.Bounds
	open    map[int64]record.Offset // first offset of the transactions that have no end, by producer
	aborted []abortedTxn            // by last
}

type abortedTxn struct {
	record.AbortedTxn
	last record.Offset // of the marker
}

// openPartition walks through all segments of a partition.
func openPartition(cfg Config, tp record.TopicPartition, dir string, mark record.Offset) (*partition, error) {
	p := &partition{tp: tp, dir: dir, mark: mark, open: map[int64]record.Offset{}}
	var err error
	if p.bases, err = segment.List(cfg.FS, dir); err != nil {
		return nil, err
	}
	if len(p.bases) > 0 {
		p.bounds.Start, p.whole = p.bases[0], p.bases[0]
	}
	for i, base := range p.bases {
		if base < p.whole {
			return nil, fmt.Errorf("%s: segments overlap: one ends at %d: is the copy older in one file than in another?",
				segment.FileName(dir, base, segment.LogSuffix), p.whole)
		}
		good, err := segment.Walk(cfg.FS, dir, base, p.whole, func(h record.BatchHeader) error { return p.note(cfg, base, h) })
		p.whole, p.tail = good.Next, good.Size
		var damage *segment.DamageError
		if errors.As(err, &damage) && i == len(p.bases)-1 && damage.Cut {
			cfg.Logger.Warn("the last batch is cut: what stands before it is taken", "partition", tp.String(), "file", damage.File, "position", damage.Offset, "end", int64(p.whole))
			err = nil
		}
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w: copy the file again, or move the segment and all behind it away to do without them", tp, err)
		}
	}
	p.bounds.End = p.whole
	return p, nil
}

// note follows the transactions of a partition.
func (p *partition) note(cfg Config, base record.Offset, h record.BatchHeader) error {
	switch first, open := p.open[h.ProducerID]; {
	case !h.Transactional(), h.BaseOffset >= p.mark:
	case !h.Control():
		if !open {
			p.open[h.ProducerID] = h.BaseOffset
		}
	case open:
		kind, err := p.marker(cfg, base, h)
		if err != nil {
			return err
		}
		delete(p.open, h.ProducerID)
		if kind == record.AbortMarker {
			p.aborted = append(p.aborted, abortedTxn{record.AbortedTxn{ProducerID: h.ProducerID, First: first}, h.BaseOffset})
		}
	}
	return nil
}

// marker reads how a transaction ended.
func (p *partition) marker(cfg Config, base record.Offset, h record.BatchHeader) (record.Marker, error) {
	r, err := segment.Open(cfg.FS, p.dir, base)
	if err != nil {
		return 0, err
	}
	raw, err := r.Read(h.BaseOffset, 1)
	if err = errors.Join(err, r.Close()); err != nil {
		return 0, err
	}
	b, err := record.ReadBatch(raw)
	if err != nil {
		return 0, err
	}
	var it record.Iterator
	if err := it.Reset(b); err != nil {
		return 0, err
	}
	if it.Next() {
		if kind, ok := record.ControlType(it.Record()); ok {
			return kind, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("the control batch at offset %d is no end of a transaction", h.BaseOffset), it.Err())
}

// limit applies what the broker noted beside the logs.
func (p *partition) limit(cfg Config, starts map[record.TopicPartition]record.Offset) {
	if p.mark < p.bounds.End {
		p.bounds.End = max(p.mark, p.bounds.Start)
		cfg.Logger.Warn("the log ends behind the high watermark that the broker noted", "partition", p.tp.String(), "watermark", int64(p.mark), "end", int64(p.whole))
	}
	if start, ok := starts[p.tp]; ok {
		p.bounds.Start = min(max(p.bounds.Start, start), p.bounds.End)
	}
	p.bounds.Stable = p.bounds.End
	for _, first := range p.open {
		p.bounds.Stable = min(p.bounds.Stable, first)
	}
	p.bounds.Stable = max(p.bounds.Stable, p.bounds.Start)
}

// first gives the segment that an offset is in, or the one before a hole that it is in.
func (p *partition) first(o record.Offset) int {
	return max(sort.Search(len(p.bases), func(i int) bool { return p.bases[i] > o })-1, 0)
}

// abortedIn gives the aborted transactions that have offsets between from and the end of some batches.
func (p *partition) abortedIn(from record.Offset, batches []byte) (out []record.AbortedTxn) {
	to := from
	for raw := batches; len(raw) > 0; {
		h, err := record.ParseHeader(raw)
		if err != nil {
			break // read has gone through them
		}
		from, to, raw = min(from, h.BaseOffset), h.LastOffset()+1, raw[h.Size():]
	}
	for i := sort.Search(len(p.aborted), func(i int) bool { return p.aborted[i].last >= from }); i < len(p.aborted); i++ {
		if p.aborted[i].First < to {
			out = append(out, p.aborted[i].AbortedTxn)
		}
	}
	slices.SortFunc(out, func(a, b record.AbortedTxn) int { return cmp.Compare(a.First, b.First) })
	return out
}

// segment opens a segment as far as it is good.
func (p *partition) segment(fsys vfs.FS, i int) (*segment.Reader, error) {
	r, err := segment.Open(fsys, p.dir, p.bases[i])
	if err == nil && i == len(p.bases)-1 {
		r.Limit(p.tail)
	}
	return r, err
}
