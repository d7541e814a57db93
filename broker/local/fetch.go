package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// defaultFetchBytes is for ranges that set no limit.
const defaultFetchBytes = 1 << 20

// waiter is a Fetch that waits for more.
type waiter struct{ ch chan struct{} } // capacity 1

func (w *waiter) wake() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
}

func newTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// Bounds gives the marks of a partition.
func (l *Log) Bounds(_ context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	if l.isClosed() {
		return broker.Bounds{}, broker.ErrClosed
	}
	p, err := l.partition(tp)
	if err != nil {
		return broker.Bounds{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boundsLocked(), nil
}

// fetch is one call of Fetch.
type fetch struct {
	l      *Log
	ranges []broker.FetchRange
	opts   broker.FetchOptions
	parts  []*partition    // of the ranges; nil where there is none
	seen   []int64         // partition.bytes when it was read
	stable []record.Offset // last stable offset when it was read
	got    int             // bytes of the answer so far

	inMemory int // of them
}

// Fetch answers all ranges. See broker.Source.
func (l *Log) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	f := &fetch{l: l, ranges: ranges, opts: opts, parts: make([]*partition, len(ranges)), seen: make([]int64, len(ranges)),
		stable: make([]record.Offset, len(ranges))}
	for i, r := range ranges {
		p, err := l.partition(r.TP)
		if err == nil && (r.ID == [16]byte{} || r.ID == p.topic.id) {
			f.parts[i] = p // nil: answered as unknown
		}
	}
	if opts.MaxWait <= 0 || opts.MinBytes <= 0 {
		out, _, err := f.read()
		return out, err
	}
	w := &waiter{ch: make(chan struct{}, 1)}
	f.watch(w, true)
	defer f.watch(w, false)
	timer := time.NewTimer(opts.MaxWait)
	defer timer.Stop()
	for {
		out, final, err := f.read()
		if err != nil || final || f.got >= opts.MinBytes || broker.KeptBack(ranges, out, opts.Isolation) {
			return out, err
		}
		for !f.enough() {
			select {
			case <-w.ch:
				continue
			case <-timer.C:
				return out, nil
			case <-ctx.Done():
				releaseFiles(out)
				return nil, ctx.Err()
			case <-l.closed:
				releaseFiles(out)
				return nil, broker.ErrClosed
			}
		}
		releaseFiles(out)
	}
}

// watch registers or unregisters the waiter with all partitions.
func (f *fetch) watch(w *waiter, on bool) {
	for _, p := range f.parts {
		if p == nil {
			continue
		}
		p.mu.Lock()
		if on {
			p.waiters[w] = struct{}{}
		} else {
			delete(p.waiters, w)
		}
		p.mu.Unlock()
	}
}

// enough tells whether reading again would give MinBytes, or a fault.
func (f *fetch) enough() bool {
	more := int64(f.got)
	for i, p := range f.parts {
		if p == nil {
			continue
		}
		p.mu.Lock()
		if f.opts.Isolation != broker.ReadCommitted {
			more += p.bytes - f.seen[i]
		} else if p.stableLocked() > f.stable[i] {
			more = math.MaxInt64 // how much of it is stable now, only reading tells
		}
		gone := p.deleted || f.ranges[i].From < p.start
		p.mu.Unlock()
		if gone {
			return true
		}
	}
	return more >= int64(f.opts.MinBytes)
}

// read answers all ranges from what is there. final is true when waiting would not help.
func (f *fetch) read() (out []broker.Fetched, final bool, err error) {
	if f.l.isClosed() {
		return nil, true, broker.ErrClosed
	}
	out = make([]broker.Fetched, len(f.ranges))
	f.got, f.inMemory = 0, 0
	for i, r := range f.ranges {
		out[i].TP = r.TP
		if f.parts[i] == nil {
			out[i].Err, final = fmt.Errorf("%s: %w", r.TP, broker.ErrUnknownTopic), true
			continue
		}
		limit, whole := r.MaxBytes, true
		if limit <= 0 {
			limit = defaultFetchBytes
		}
		if f.opts.MaxBytes > 0 {
			left := f.opts.MaxBytes - f.got
			if whole = f.got == 0; !whole && left <= 0 {
				limit = 0
			} else {
				limit = min(limit, left)
			}
		}
		f.readOne(i, limit, whole, &out[i])
		f.got += fetchedBytes(&out[i])
		f.inMemory += len(out[i].Batches)
		final = final || out[i].Err != nil
	}
	if f.l.isClosed() {
		releaseFiles(out)
		return nil, true, broker.ErrClosed
	}
	return out, final, nil
}

// readOne reads one partition. whole: the first batch comes even when it is larger than the limit.
func (f *fetch) readOne(i, limit int, whole bool, out *broker.Fetched) {
	p, from := f.parts[i], f.ranges[i].From
	for try := 0; ; try++ {
		var v view
		v, out.Err = p.view(from, &out.Bounds, &f.seen[i])
		f.stable[i] = out.Bounds.Stable
		for at := from; out.Err == nil && v.r != nil && limit > 0; {
			out.Err = f.readFrom(v, at, limit, out)
			if !errors.Is(out.Err, io.EOF) {
				break
			}
			// Compaction has left nothing of these offsets: the next segment goes on.
			at = v.next
			f.l.done(v)
			v, out.Err = p.view(at, new(broker.Bounds), new(int64))
		}
		if out.Err == nil {
			if !whole && fetchedBytes(out) > limit {
				releaseFile(out)
				out.Batches = nil
			}
		}
		f.l.done(v)
		if f.opts.Isolation == broker.ReadCommitted && out.Err == nil {
			p.committedOnly(out, from, v.aborted)
		}
		// A checkpoint closes and retention removes files under a reader; what is there now answers.
		if try < 3 && (errors.Is(out.Err, fs.ErrClosed) || errors.Is(out.Err, fs.ErrNotExist)) && !f.l.isClosed() {
			continue
		}
		return
	}
}

// committedOnly cuts an answer at the last stable offset, and adds the aborted transactions that are in it.
func (p *partition) committedOnly(out *broker.Fetched, from record.Offset, aborted []segment.AbortedTxn) {
	if out.File != nil { // which ends before it
		out.Aborted = abortedIn(aborted, from, out.File.Next)
		return
	}
	end, to := 0, from
	for end < len(out.Batches) {
		h, err := record.ParseHeader(out.Batches[end:])
		if err != nil { // what was read is whole batches
			out.Batches, out.Err = nil, fmt.Errorf("read %s: %w", p.tp(), err)
			return
		}
		if h.LastOffset() >= out.Bounds.Stable {
			break
		}
		end, to = end+h.Size(), h.LastOffset()+1
	}
	out.Batches = out.Batches[:end:end]
	if end > 0 {
		out.Aborted = abortedIn(aborted, from, to)
	}
}

// view is one use of a segment's reader; done ends it.
type view struct {
	r *segment.Reader
	s *seg
	h *handle // nil when the reader is a writer's

	next    record.Offset        // where the segment ends
	aborted []segment.AbortedTxn // as of when the view was made: retention takes them with their segments
}

func (l *Log) done(v view) {
	if v.h != nil {
		l.handles.put(v.h)
	}
}

// view gives a reader of the segment that holds an offset, none when the offset is the end.
func (p *partition) view(from record.Offset, bounds *broker.Bounds, seen *int64) (view, error) {
	s, v, err := p.segmentOf(from, bounds, seen)
	if s == nil || v.r != nil || err != nil {
		return v, err
	}
	v.h, err = p.log.handles.get(p.dir, s, s.info)
	if err != nil {
		return view{}, fmt.Errorf("read %s: %w: %w", p.tp(), broker.ErrStorage, err)
	}
	v.r = v.h.Reader
	if !p.has(s) { // what was opened may be in part of the segment that has taken its place
		p.log.handles.drop(s)
		p.log.done(v)
		return view{}, fmt.Errorf("read %s: %w", p.tp(), fs.ErrClosed)
	}
	return v, nil
}

func (p *partition) has(s *seg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.segs, s)
}

// segmentOf finds the segment that holds an offset, and a reader when it has a writer; else it is sealed, and its
// info does not change any more.
func (p *partition) segmentOf(from record.Offset, bounds *broker.Bounds, seen *int64) (*seg, view, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted {
		return nil, view{}, fmt.Errorf("%s: %w", p.tp(), broker.ErrUnknownTopic)
	}
	*bounds, *seen = p.boundsLocked(), p.bytes
	if from < p.start || from > p.end {
		return nil, view{}, &broker.OutOfRangeError{TP: p.tp(), Offset: from, Bounds: *bounds}
	}
	if from == p.end {
		return nil, view{}, nil
	}
	i := sort.Search(len(p.segs), func(i int) bool { return p.segs[i].state().Next > from })
	if i == len(p.segs) {
		return nil, view{}, fmt.Errorf("read %s: no segment holds offset %d", p.tp(), from)
	}
	s := p.segs[i]
	if s.w != nil {
		return s, view{r: s.w.Reader(), s: s, next: s.w.Info().Next, aborted: p.txns.aborted}, nil
	}
	return s, view{s: s, next: s.info.Next, aborted: p.txns.aborted}, nil
}

// OffsetForTime finds the first offset with a timestamp at or after ms.
func (l *Log) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	if l.isClosed() {
		return 0, broker.ErrClosed
	}
	p, err := l.partition(tp)
	if err != nil {
		return 0, err
	}
	for try := 0; ; try++ {
		o, err := p.offsetForTime(ctx, ms)
		var overtaken *broker.OutOfRangeError // by retention
		if try < 3 && (errors.Is(err, fs.ErrClosed) || errors.Is(err, fs.ErrNotExist) || errors.As(err, &overtaken)) && !l.isClosed() {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("find time in %s: %w", tp, err)
		}
		return o, nil
	}
}

// finder looks into one batch, in memory that all who look into batches share (I8).
func (l *Log) finder(ctx context.Context) segment.Finder {
	return func(b record.Batch, from record.Offset, ms int64) (record.Offset, error) {
		need := min(b.ScanMemory(), l.cfg.ValidateMemory)
		if err := l.validating.Acquire(ctx, need); err != nil {
			return -1, err
		}
		defer l.validating.Release(need)
		o, _, err := record.FirstAt(b, from, ms)
		return o, err
	}
}

func (p *partition) offsetForTime(ctx context.Context, ms int64) (record.Offset, error) {
	p.mu.Lock()
	start, end := p.start, p.end
	var bases []record.Offset // a first offset in each segment that may have the time
	for _, s := range p.segs {
		if info := s.state(); info.MaxTimestamp >= ms && info.Next > start {
			bases = append(bases, max(info.Base, start))
		}
	}
	p.mu.Unlock()
	for _, from := range bases {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var bounds broker.Bounds
		var seen int64
		v, err := p.view(from, &bounds, &seen)
		if err != nil || v.r == nil {
			return end, err
		}
		o, ok, err := v.r.OffsetForTime(ms, from, p.log.finder(ctx))
		p.log.done(v)
		if err != nil {
			return 0, err
		}
		if ok {
			return o, nil
		}
	}
	return end, nil
}
