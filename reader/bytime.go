package reader

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/record"
)

// ByTimeConfig are the settings of a read in the order of time.
type ByTimeConfig struct {
	Config
	// Idle is how long a partition without new records holds the others back while the log is followed; default 5 s.
	// Its later records come late then: with times below Watermark.
	Idle time.Duration
}

// ByTime reads all partitions of a topic as one stream in the order of the records' timestamps, as a job over history
// that joins or windows by time needs it. The order of each partition stays that of its offsets: a record that is
// older than one before it in its partition comes right behind that one. Equal times come by partition.
//
// MaxRows and Rate are those of all partitions together. OnGap is called by one goroutine at a time, but not by that of
// Next, and for rows that Next has not given yet.
//
// Each partition is read by a Cursor of its own, so memory grows with their number: about BatchRows rows each, twice.
type ByTime struct {
	batchRows int
	follow    bool
	idle      time.Duration
	schema    *arrow.Schema
	hide      int // columns at the end that the caller did not ask for
	parts     []*timed
	batches   chan timedBatch // those asked for
	running   sync.WaitGroup
	heap      timedHeap
	watermark int64 // microseconds; what comes is not older
	left      int64 // rows that may still be given; -1: no bound
	pace      *Pace
	given     arrow.RecordBatch
	inLake    bool            // all of given
	streams   []string        // their names; nil: there is one
	topic     string          // of the one
	read      context.Context // of the whole read: behind its end no batch comes any more
	cancel    context.CancelFunc
}

// timed is one partition, of one stream where there are several.
type timed struct {
	cur   *Cursor
	to    *widening // nil: one stream
	name  string    // of the stream
	topic string    // of a token
	id    int32
	order int // of equal times: the place in parts
	time  int // column
	off   int // column
	rb    arrow.RecordBatch
	times []int64 // of rb: the largest so far in the partition, so they never fall
	row   int
	last  int64
	next  record.Offset // behind what was given: what a token holds
	end   record.Offset // behind rb
	lake  bool          // rb is of the table

	wide  arrow.RecordBatch // rb with the columns of all streams; nil where there is one stream
	more  chan struct{}     // asks for the next; the one before is no longer used
	asked bool
	ended bool
	idle  bool // nothing came for long: it holds nobody back
}

type timedBatch struct {
	p    *timed
	rb   arrow.RecordBatch
	err  error
	end  record.Offset
	lake bool
}

// OpenByTime opens a cursor for each partition, all on one snapshot. The context is that of the whole read.
func OpenByTime(ctx context.Context, cfg ByTimeConfig) (b *ByTime, err error) {
	if err := cfg.Config.withDefaults().validate(); err != nil { // Open is not told MaxRows and Rate
		return nil, err
	}
	names := cfg.names()
	if names.Timestamp == "" || !names.Ordered() {
		return nil, fmt.Errorf("by time: %w: it has no timestamp, partition and offset columns", ErrNotReplayable)
	}
	one := cfg.Config
	one.byPartition = true
	one.MaxRows, one.Rate = 0, Rate{} // of all partitions together: Next keeps to them
	if one.ReadAhead == 0 {
		one.ReadAhead = 1
	}
	if one.Columns != nil {
		one.Columns = append([]string(nil), one.Columns...)
		for _, name := range []string{names.Timestamp, names.Offset} {
			if !slices.Contains(one.Columns, name) {
				one.Columns = append(one.Columns, name)
			}
		}
	}
	first, err := Open(ctx, one)
	if err != nil {
		return nil, err
	}
	b = newByTime(first.Schema(), cfg.Config, cfg.Idle)
	if cfg.Columns != nil {
		b.hide = len(one.Columns) - len(cfg.Columns)
		if b.schema, err = Project(first.Schema(), cfg.Columns); err != nil {
			return nil, errors.Join(err, first.Close())
		}
	}
	b.read, b.cancel = context.WithCancel(ctx)
	b.startAt(cfg.From)
	b.topic = cfg.Topic
	like := timed{topic: cfg.Topic, time: first.Schema().FieldIndices(names.Timestamp)[0], off: first.Schema().FieldIndices(names.Offset)[0]}
	if err := b.add(b.read, first, one, like); err != nil {
		return nil, errors.Join(err, first.Close(), b.Close())
	}
	return b, first.Close()
}

// OpenTopicsByTime is OpenByTime for several streams: all partitions of all of them in the order of time, with columns
// that are put together as OpenTopics does it. Equal times come by stream, in their order, then by partition.
func OpenTopicsByTime(ctx context.Context, cfg TopicsConfig, idle time.Duration) (b *ByTime, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	asked := len(cfg.Columns)
	if cfg.Columns != nil {
		cfg.Columns = slices.Clone(cfg.Columns)
		for _, s := range cfg.Streams {
			for _, name := range []string{s.names().Timestamp, s.names().Offset} {
				if name != "" && !slices.Contains(cfg.Columns, name) {
					cfg.Columns = append(cfg.Columns, name)
				}
			}
		}
	}
	streams, schema, err := cfg.widen(ctx)
	if err != nil {
		return nil, err
	}
	all := Config{MaxRows: cfg.MaxRows, Rate: cfg.Rate, Follow: slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return s.Follow })}
	b = newByTime(schema, all, idle)
	if cfg.Columns != nil {
		b.hide = len(cfg.Columns) - asked
		b.schema = arrow.NewSchema(schema.Fields()[:asked], nil)
	}
	b.read, b.cancel = context.WithCancel(ctx)
	for _, w := range streams {
		b.startAt(w.cfg.From)
		b.streams = append(b.streams, w.name)
		if err := b.addStream(b.read, w, schema); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", w.name, err), b.Close())
		}
	}
	return b, nil
}

// addStream reads the partitions of one stream of several.
func (b *ByTime) addStream(ctx context.Context, w *widened, schema *arrow.Schema) error {
	names := w.cfg.names()
	if names.Timestamp == "" || !names.Ordered() {
		return fmt.Errorf("by time: %w: it has no timestamp, partition and offset columns", ErrNotReplayable)
	}
	if w.cfg.ReadAhead == 0 {
		w.cfg.ReadAhead = 1
	}
	w.cfg.byPartition = true
	first, err := open(ctx, w.cfg, w.snap)
	if err != nil {
		return err
	}
	like := timed{to: &w.to, name: w.name + " ", topic: w.name, time: schema.FieldIndices(names.Timestamp)[0], off: schema.FieldIndices(names.Offset)[0]}
	return errors.Join(b.add(ctx, first, w.cfg, like), first.Close())
}

// startAt goes on with the watermark of a token: what a partition still has comes right then, if it is older.
func (b *ByTime) startAt(from Bound) {
	if from.kind == boundOffsets {
		b.watermark = max(b.watermark, from.watermark)
	}
}

func newByTime(schema *arrow.Schema, cfg Config, idle time.Duration) *ByTime {
	b := &ByTime{schema: schema, watermark: math.MinInt64, batches: make(chan timedBatch), left: -1, pace: NewPace(cfg.Rate),
		batchRows: cfg.BatchRows, follow: cfg.Follow, idle: idle}
	if b.batchRows == 0 {
		b.batchRows = logBatchRows
	}
	if cfg.Rate.set() {
		b.batchRows = cfg.Rate.batchRows(b.batchRows)
	}
	if cfg.MaxRows > 0 {
		b.left = cfg.MaxRows
	}
	if b.idle == 0 {
		b.idle = 5 * time.Second
	}
	return b
}

// add reads each partition of a stream by a cursor of its own, all on the snapshot of the first one.
func (b *ByTime) add(ctx context.Context, first *Cursor, one Config, like timed) error {
	if tell := one.OnGap; tell != nil {
		var mu sync.Mutex
		one.OnGap = func(g Gap) {
			mu.Lock()
			defer mu.Unlock()
			tell(g)
		}
	}
	for _, id := range first.Partitions() {
		own := one
		own.Partitions, own.rowEnds = []int32{id}, first.rowEnds
		cur, err := open(ctx, own, first.snap)
		if err != nil {
			return err
		}
		p := like
		p.cur, p.id, p.order, p.last, p.more = cur, id, len(b.parts), b.watermark, make(chan struct{})
		p.next = cur.Position()[id]
		if like.to != nil {
			to := *like.to // each has a goroutine of its own
			p.to = &to
		}
		b.parts = append(b.parts, &p)
		b.running.Go(func() { p.run(ctx, b.batches) })
	}
	return nil
}

// run reads one batch for each that is asked for.
func (p *timed) run(ctx context.Context, to chan<- timedBatch) {
	for range p.more {
		rb, err := p.cur.Next(ctx)
		if err == nil && p.to != nil {
			p.release()
			rb, err = p.to.batch(rb)
			p.wide = rb
		}
		select {
		case to <- timedBatch{p, rb, err, p.cur.Position()[p.id], p.cur.InLake()}:
		case <-ctx.Done():
		}
	}
}

// release lets go of the widened batch, which nobody uses any more.
func (p *timed) release() {
	if p.wide != nil {
		p.wide.Release()
		p.wide = nil
	}
}

// Schema is that of the batches.
func (b *ByTime) Schema() *arrow.Schema { return b.schema }

// Watermark says that whatever Next gives from now on is not older, late records of idle partitions aside. It is
// zero before the first batch.
func (b *ByTime) Watermark() time.Time {
	if b.watermark == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMicro(b.watermark).UTC()
}

// Next gives the next rows in the order of time, io.EOF at the end, and the error of the context of the whole read once that
// has ended. The batch is valid until the next call.
func (b *ByTime) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if b.given != nil {
		b.given.Release()
		b.given = nil
	}
	limit := b.batchRows
	if b.left == 0 {
		return nil, io.EOF
	}
	if b.left > 0 {
		limit = int(min(int64(limit), b.left))
	}
	if err := b.pace.Wait(ctx); err != nil {
		return nil, err
	}
	var pieces []arrow.RecordBatch
	defer func() {
		for _, p := range pieces {
			p.Release()
		}
	}()
	for rows := 0; rows < limit; {
		if err := b.fill(ctx, len(pieces) == 0); err != nil {
			if len(pieces) > 0 { // these first; the error comes again
				break
			}
			return nil, err
		}
		if len(b.heap) == 0 {
			break
		}
		p := b.heap[0]
		n := b.run(p, limit-rows)
		piece := p.rb.NewSlice(int64(p.row), int64(p.row+n))
		pieces = append(pieces, piece)
		rows += n
		b.watermark = max(b.watermark, p.times[p.row+n-1])
		b.inLake = p.lake && (b.inLake || len(pieces) == 1)
		if p.row += n; p.row < len(p.times) {
			p.next = p.offset(p.row-1) + 1
			heap.Fix(&b.heap, 0)
			continue
		}
		heap.Pop(&b.heap)
		p.rb, p.next = nil, p.end
		break // its memory is used again with the next batch: what points into it is given first
	}
	if len(pieces) == 0 {
		return nil, io.EOF
	}
	out, err := joined(pieces)
	if err != nil {
		return nil, err
	}
	b.given = out
	if b.hide > 0 {
		b.given = array.NewRecordBatch(b.schema, out.Columns()[:b.schema.NumFields()], out.NumRows())
		out.Release()
	}
	if b.left > 0 {
		b.left -= b.given.NumRows()
	}
	b.pace.Used(b.given.NumRows(), batchSize(b.given))
	return b.given, nil
}

// run is how many rows of the first partition come before those of all others.
func (b *ByTime) run(p *timed, most int) int {
	end := min(len(p.times), p.row+most)
	for i := 1; i < min(3, len(b.heap)); i++ { // the second smallest is a child of the root
		q := b.heap[i]
		at, equal := q.times[q.row], q.order > p.order
		end = min(end, p.row+sort.Search(end-p.row, func(i int) bool {
			t := p.times[p.row+i]
			return t > at || t == at && !equal
		}))
	}
	return max(1, end-p.row)
}

// fill gets a batch of every partition that has none. One at the end of a followed log is waited for until it counts
// as idle; when nothing else is there and the caller has nothing yet, for as long as it takes.
func (b *ByTime) fill(ctx context.Context, wait bool) error {
	if err := b.read.Err(); err != nil {
		return fmt.Errorf("by time: the read has ended: %w", err)
	}
	for _, p := range b.parts {
		if p.rb == nil && !p.ended && !p.asked {
			p.more <- struct{}{}
			p.asked = true
		}
	}
	var idle <-chan time.Time
	for {
		busy, open := 0, 0
		for _, p := range b.parts {
			if p.asked {
				open++
				if !p.idle {
					busy++
				}
			}
		}
		if open == 0 || busy == 0 && (len(b.heap) > 0 || !wait) {
			select {
			case got := <-b.batches:
				if err := b.take(got); err != nil {
					return err
				}
				continue
			default:
				return nil
			}
		}
		if idle == nil && busy > 0 && b.follow {
			t := time.NewTimer(b.idle)
			defer t.Stop()
			idle = t.C
		}
		select {
		case got := <-b.batches:
			if err := b.take(got); err != nil {
				return err
			}
		case <-idle:
			for _, p := range b.parts {
				p.idle = p.idle || p.asked
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-b.read.Done():
			return fmt.Errorf("by time: the read has ended: %w", b.read.Err())
		}
	}
}

func (b *ByTime) take(got timedBatch) error {
	p := got.p
	p.asked, p.idle = false, false
	if errors.Is(got.err, io.EOF) {
		p.ended, p.next = true, got.end
		return nil
	}
	if got.err != nil {
		return fmt.Errorf("%spartition %d: %w", p.name, p.id, got.err)
	}
	col, ok := got.rb.Column(p.time).(*array.Timestamp)
	if !ok {
		return fmt.Errorf("by time: %w: column %s is no timestamp", ErrNotReplayable, got.rb.ColumnName(p.time))
	}
	perMicro := col.DataType().(*arrow.TimestampType).Unit.Multiplier() / time.Microsecond
	p.times = p.times[:0]
	for i, v := range col.TimestampValues() {
		at := int64(v)
		if perMicro > 0 {
			at *= int64(perMicro)
		} else {
			at /= 1000
		}
		if col.IsValid(i) {
			p.last = max(p.last, at)
		}
		p.times = append(p.times, p.last)
	}
	if _, ok := got.rb.Column(p.off).(*array.Int64); !ok {
		return fmt.Errorf("by time: %w: column %s is no offset", ErrNotReplayable, got.rb.ColumnName(p.off))
	}
	p.rb, p.row, p.end, p.lake = got.rb, 0, got.end, got.lake
	heap.Push(&b.heap, p)
	return nil
}

// offset gives that of a row of rb.
func (p *timed) offset(row int) record.Offset {
	return record.Offset(p.rb.Column(p.off).(*array.Int64).Value(row))
}

// InLake says whether all rows of the last batch came from the table.
func (b *ByTime) InLake() bool { return b.inLake }

// Token names the place behind the last batch that Next gave, in all partitions. A read in the order of time that goes on
// from it gives what this one would; other reads take it too.
func (b *ByTime) Token() string {
	at := token{Version: tokenOfOne, Topic: b.topic, Next: map[int32]int64{}}
	if b.streams != nil {
		at = token{Version: tokenOfSeveral}
	}
	for _, name := range b.streams {
		at.Streams = append(at.Streams, token{Topic: name, Next: map[int32]int64{}})
	}
	for _, p := range b.parts {
		if i := slices.Index(b.streams, p.topic); i >= 0 {
			at.Streams[i].Next[p.id] = int64(p.next)
		} else {
			at.Next[p.id] = int64(p.next)
		}
	}
	if b.watermark != math.MinInt64 {
		at.Time = &b.watermark
	}
	return at.String()
}

// joined makes one batch of several.
func joined(pieces []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(pieces) == 1 {
		pieces[0].Retain()
		return pieces[0], nil
	}
	cols := make([]arrow.Array, pieces[0].NumCols())
	rows := int64(0)
	for i := range cols {
		parts := make([]arrow.Array, len(pieces))
		for j, p := range pieces {
			parts[j] = p.Column(i)
		}
		a, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, fmt.Errorf("by time: %w", err)
		}
		cols[i] = a
		defer a.Release()
	}
	for _, p := range pieces {
		rows += p.NumRows()
	}
	return array.NewRecordBatch(pieces[0].Schema(), cols, rows), nil
}

// Close ends the read.
func (b *ByTime) Close() error {
	b.cancel()
	var errs []error
	for _, p := range b.parts {
		close(p.more)
	}
	b.running.Wait()
	for _, p := range b.parts {
		p.release()
		errs = append(errs, p.cur.Close())
	}
	b.parts = nil
	if b.given != nil {
		b.given.Release()
		b.given = nil
	}
	return errors.Join(errs...)
}

// timedHeap has the partition with the oldest next row first.
type timedHeap []*timed

func (h timedHeap) Len() int { return len(h) }
func (h timedHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if x, y := a.times[a.row], b.times[b.row]; x != y {
		return x < y
	}
	return a.order < b.order
}
func (h timedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timedHeap) Push(x any)   { *h = append(*h, x.(*timed)) }
func (h *timedHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
