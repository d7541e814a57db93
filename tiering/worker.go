package tiering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// encodeAt is the size from which the columns of a partition are encoded: what is decoded should not leave the
// processor's cache before, and encoded rows take less memory.
const encodeAt = 1 << 20

// ownFile is the size of columns from which a partition gets a file of its own. Smaller ones share a file, so
// that a commit of many quiet partitions is one file.
const ownFile = 16 << 20

// maxOpen bounds the files that a worker encodes at a time: each has buffers of its own. Beyond it a commit is made
// early. Tables with partition columns have more files, which get more rows at a time.
const (
	maxOpen      = 32
	maxOpenKeyed = 128
	encodeAtKeys = 4 << 20
)

// message goes to a worker: a chunk, or when cut is set the order to hand over what it has.
type message struct {
	chunk chunk
	cut   chan<- *output
}

// output is what one worker gives to a commit.
type output struct {
	ranges  []committer.Range
	files   []*table.FileWriter // not closed yet
	rest    []piece             // what goes to the shared file
	dead    []deadLetter
	passed  []committer.Range // ranges that the log has lost
	lost    []committer.Range // what of them has no dead letter either
	rows    int64
	records int64           // rows and dead letters
	bytes   int64           // of keys and values
	times   map[int32]int64 // ms, of the newest record, by partition

	filtered int64 // records that the filter left out
	steps    steps // what it took
	more     bool  // of what was dispatched before the cut: it was made early
}

// rows are the columns of one partition.
type rows struct {
	partition int32
	sys       *table.SystemColumns
	dec       decode.Decoder
	whole     decode.RecordDecoder // dec, where it looks at the record too
	news      newsDecoder          // dec, where new fields are asked for
	bytes     int64                // as of the last batch
	peak      int64                // the most that bytes ever was: the memory that is kept
}

// piece is what there is of a partition that has no file of its own: columns, or rows that are encoded already.
type piece struct {
	partition int32
	rows      *rows
	file      *dataFile
}

// dataFile is a file of one group of rows, not closed yet.
type dataFile struct {
	*table.FileWriter
	group   group // key and values
	encoded int64 // bytes of columns that are in it
}

func (r *rows) reset() {
	r.sys.Reset()
	r.dec.Reset()
	r.bytes = 0
}

// size is the memory that the columns take.
func (r *rows) size() int64 { return r.sys.Bytes() + decoderSize(r.dec) }

func decoderSize(d decode.Decoder) int64 {
	if s, ok := d.(interface{ Bytes() int64 }); ok {
		return s.Bytes()
	}
	return 0
}

// cursor is a worker's view of one partition since the last cut.
type cursor struct {
	from, decided record.Offset
	*sink
}

// sink is where rows are collected since the last cut: those of one partition, or, in a table whose rows are in no
// order, of all that a worker has.
type sink struct {
	partition int32 // the first
	rows      *rows
	files     map[string]*dataFile // by group; none until there is enough to encode
	wide      bool                 // its rows go to more files than may be open: they wait for the cut
}

// worker decodes the partitions that hash to it.
type worker struct {
	s        *session
	in       chan message
	cursors  map[int32]*cursor
	sinks    []*sink // of the cursors
	it       record.Iterator
	filter   record.AbortFilter
	aborted  []record.AbortedTxn
	out      *output
	buffered int64 // bytes in columns
	deadSize int64
	inFiles  int64 // bytes that the open files report
	held     int64 // of them, bytes in memory
	estimate int64 // what this worker has added to the session's estimate
	open     int   // files of cursors
	pressed  bool  // counted in the session's pressed
	mark     mark  // of the batch
	values   valueSet
	backlog  []message // chunks that came while a cut was awaited
}

func newWorker(s *session) *worker {
	return &worker{s: s, in: make(chan message, 2), cursors: map[int32]*cursor{}, values: valueSet{}, out: &output{times: map[int32]int64{}}}
}

// run works until ctx ends. After a failure it only gives back the budget of what still comes.
func (w *worker) run(ctx context.Context) {
	failed := false
	defer w.abort()
	for {
		m, ok := w.next(ctx)
		if !ok {
			return
		}
		err := error(nil)
		switch {
		case failed:
		case m.cut != nil:
			var out *output
			if out, err = w.cut(ctx); err == nil {
				m.cut <- out
			}
		default:
			start := time.Now()
			err = w.decode(ctx, &m.chunk)
			w.out.steps.decode.add(start)
			w.out.steps.fetch.join(m.chunk.fetch)
		}
		w.s.budget.release(int64(len(m.chunk.batches)))
		if err != nil {
			failed = true
			w.s.fail(err)
		}
	}
}

func (w *worker) abort() {
	for _, c := range w.sinks {
		for _, f := range c.files {
			_ = f.Abort() // best effort: a leftover is no part of the table
		}
	}
}

func (w *worker) cursor(c *chunk) (*cursor, error) {
	cur := w.cursors[c.partition]
	if cur == nil {
		cur = w.begin(c.partition, c.from)
	}
	if cur.decided != c.from {
		return nil, fmt.Errorf("partition %d: fetched from offset %d, decided up to %d", c.partition, c.from, cur.decided)
	}
	return cur, nil
}

// begin makes the cursor of a partition.
func (w *worker) begin(partition int32, from record.Offset) *cursor {
	if !w.s.bare || len(w.sinks) == 0 {
		w.sinks = append(w.sinks, &sink{partition: partition, files: map[string]*dataFile{}})
	}
	cur := &cursor{from: from, decided: from, sink: w.sinks[len(w.sinks)-1]}
	w.cursors[partition] = cur
	return cur
}

func (w *worker) decode(ctx context.Context, c *chunk) error {
	cur, err := w.cursor(c)
	if err != nil {
		return err
	}
	if c.lost {
		w.out.passed = append(w.out.passed, committer.Range{Partition: c.partition, From: c.from, To: c.next})
		cur.decided = c.next
		return nil
	}
	w.aborted = w.aborted[:0]
	for _, a := range c.aborted {
		w.aborted = append(w.aborted, record.AbortedTxn(a))
	}
	w.filter.Reset(w.aborted)
	for rest := c.batches; len(rest) > 0; {
		b, err := record.ReadBatch(rest)
		if err != nil {
			break // the fetcher has read the headers: this is where it stopped too
		}
		rest = rest[b.Size():]
		keep := w.filter.Keep(b)
		if b.LastOffset() < cur.decided {
			continue
		}
		if keep {
			if err := w.batch(ctx, c.partition, cur, b); err != nil {
				return err
			}
		}
		cur.decided = b.LastOffset() + 1
		if !b.Control() {
			w.s.t.stats.fetched(c.partition, b.BaseTimestamp)
			w.out.times[c.partition] = max(w.out.times[c.partition], b.MaxTimestamp)
		}
		if w.values.full() {
			at := cur.decided
			if err := w.awaitCut(ctx); err != nil {
				return err
			}
			cur = w.begin(c.partition, at)
		}
	}
	if cur.decided != c.next {
		return fmt.Errorf("partition %d: decoded up to offset %d, fetched up to %d", c.partition, cur.decided, c.next)
	}
	return nil
}

// batch decodes the records of one batch and writes columns out when they have become too large.
func (w *worker) batch(ctx context.Context, partition int32, cur *cursor, b record.Batch) error {
	if cur.rows == nil {
		r, err := w.s.newRows(partition)
		if err != nil {
			return err
		}
		cur.rows = r
	}
	before := w.out.rows
	if cur.rows.whole != nil {
		cur.rows.whole.Begin(partition, b.BatchHeader)
	}
	w.mark.broken = nil
	w.setMark(cur, max(b.BaseOffset, cur.decided))
	err := errRedo
	for errors.Is(err, errRedo) {
		if err = w.records(ctx, partition, cur, b); err == nil && !w.s.rules.Empty() {
			err = w.checkRules(cur)
		}
	}
	if err != nil {
		return err
	}
	if len(w.s.keys) > 0 {
		w.values.note(w.s, cur.rows, w.mark.rows)
	}
	return w.account(ctx, cur, w.out.rows-before)
}

// records decodes the records of a batch from the mark on.
func (w *worker) records(ctx context.Context, partition int32, cur *cursor, b record.Batch) error {
	err := b.VerifyCRC()
	if err == nil {
		err = w.it.Reset(b)
	}
	next := w.mark.next // the first offset that no row and no dead letter covers
	for err == nil && w.it.Next() {
		rec := w.it.Record()
		if rec.Offset < next {
			continue
		}
		if err := w.record(ctx, partition, cur, rec); err != nil {
			return err
		}
		next = rec.Offset + 1
	}
	if err == nil {
		err = w.it.Err()
	}
	if err != nil {
		return w.corrupt(partition, next, b, err)
	}
	return nil
}

// record adds one record: a row, or a dead letter.
func (w *worker) record(ctx context.Context, partition int32, cur *cursor, rec *record.Record) error {
	w.out.records++
	w.out.bytes += int64(len(rec.Key) + len(rec.Value))
	if w.s.t.cfg.Refuse != nil {
		if err := w.s.t.cfg.Refuse(rec); err != nil {
			w.bury(newDeadLetter(partition, rec, err))
			return nil
		}
	}
	if rec.Value == nil && w.s.bare {
		return nil // no value and no column that says so: a hole
	}
	size := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	if size > cur.rows.sys.Room() {
		if err := w.makeRoom(ctx, cur, rec); err != nil {
			return err
		}
	}
	err := w.mark.brokenRule(rec.Offset)
	if err == nil {
		err = cur.rows.decode(rec)
	}
	if errors.Is(err, decode.ErrFull) {
		if err := w.makeRoom(ctx, cur, rec); err != nil {
			return err
		}
		err = cur.rows.decode(rec)
	}
	if err != nil {
		return w.refused(partition, rec, err)
	}
	if cur.rows.news != nil {
		if err := w.news(cur.rows.news.Unknown(), rec); err != nil {
			return err
		}
	}
	cur.rows.sys.Append(partition, rec)
	w.out.rows++
	if !w.s.rules.Empty() {
		w.mark.offsets = append(w.mark.offsets, rec.Offset)
	}
	return nil
}

// refused handles a record that is no row.
func (w *worker) refused(partition int32, rec *record.Record, err error) error {
	var away *decode.UnavailableError
	var fatal *transform.FatalError
	switch {
	case errors.As(err, &away):
		return fmt.Errorf("%s offset %d: %w", w.s.t.tp(partition), rec.Offset, err) // the session ends, Run pauses and tries again
	case errors.As(err, &fatal):
		return err
	case errors.Is(err, decode.ErrFiltered):
		w.out.records--
		w.out.filtered++
	default:
		if e := w.s.narrow(rec, err); e != nil {
			return e
		}
		w.bury(newDeadLetter(partition, rec, err))
	}
	return nil
}

// decode adds the payload columns of a row.
func (r *rows) decode(rec *record.Record) error {
	if r.whole != nil {
		return r.whole.AppendRecord(rec)
	}
	return r.dec.Append(rec.Value)
}

// makeRoom encodes what the columns hold in the middle of a batch, before a record that is counted already.
func (w *worker) makeRoom(ctx context.Context, cur *cursor, rec *record.Record) error {
	if !w.s.rules.Empty() {
		if err := w.checkRules(cur); err != nil {
			return err
		}
	}
	if _, err := w.spill(ctx, cur.sink, true); err != nil {
		return err
	}
	w.setMark(cur, rec.Offset)
	w.mark.records--
	w.mark.bytes -= int64(len(rec.Key) + len(rec.Value))
	return nil
}

// corrupt handles a batch that is damaged from offset next on. It is fetched again first, in case the damage
// came on the way; then its bytes go to the dead letters (I7).
func (w *worker) corrupt(partition int32, next record.Offset, b record.Batch, cause error) error {
	if w.s.t.suspect(partition, b.BaseOffset) {
		return fmt.Errorf("read %s: batch at offset %d: %w", w.s.t.tp(partition), b.BaseOffset, cause)
	}
	w.out.records++
	// Damage behind the last record is filed at that record: an offset of the next batch would hide that one.
	next = min(next, b.LastOffset())
	w.bury(deadLetter{
		partition: partition, offset: next, timestamp: b.BaseTimestamp, value: append([]byte{}, b.Raw[:b.Size()]...),
		reason: fmt.Sprintf("corrupt batch, offsets %d to %d, kept as it was: %v", next, b.LastOffset(), cause),
	})
	return nil
}

func (w *worker) bury(d deadLetter) {
	w.out.dead = append(w.out.dead, d)
	w.deadSize += int64(len(d.key) + len(d.value) + 200)
	if w.deadSize > w.s.spillAt {
		w.press()
	}
}

// press asks for a cut because memory cannot be freed otherwise.
func (w *worker) press() {
	if !w.pressed {
		w.pressed = true
		w.s.pressed.Add(1)
		w.s.nudge()
	}
}

// account brings the counters up to date after a batch and keeps the columns below their share of the memory.
func (w *worker) account(ctx context.Context, cur *cursor, added int64) error {
	size := cur.rows.size()
	w.buffered += size - cur.rows.bytes
	cur.rows.bytes, cur.rows.peak = size, max(cur.rows.peak, size)
	if size >= w.s.encodeAt {
		if _, err := w.spill(ctx, cur.sink, false); err != nil {
			return err
		}
	}
	for w.buffered > w.s.spillAt {
		largest := cur.sink
		for _, c := range w.sinks {
			if c.rows != nil && c.rows.bytes > largest.rows.bytes {
				largest = c
			}
		}
		done, err := w.spill(ctx, largest, w.buffered > 2*w.s.spillAt) // more files than should be are less than the rows
		if err != nil {
			return err
		}
		if !done {
			w.press()
			break
		}
	}
	const ratio = 4 // columns to Parquet, about
	estimate := w.inFiles + w.buffered/ratio
	w.s.estimate.Add(estimate - w.estimate)
	w.s.rows.Add(added)
	w.estimate = estimate
	if w.s.over() {
		w.s.nudge()
	}
	return nil
}

// spill encodes the columns of a partition. It does not, and says so, when that would open too many files, unless it
// must.
func (w *worker) spill(ctx context.Context, c *sink, must bool) (bool, error) {
	if c.rows == nil || c.rows.sys.Rows() == 0 {
		if c.rows != nil {
			w.buffered -= c.rows.bytes
			c.rows.bytes = 0
		}
		return true, nil
	}
	if c.wide && !must {
		return false, nil
	}
	groups, err := w.s.split(c.rows)
	if err != nil {
		return false, err
	}
	fresh := 0
	for i := range groups {
		if c.files[groups[i].key] == nil {
			fresh++
		}
	}
	if fresh > 0 && w.open+fresh > w.s.maxOpen && !must {
		c.wide = true
		return false, nil
	}
	start := time.Now()
	rb := w.s.batch(c.rows)
	defer rb.Release()
	for i := range groups {
		if err := w.encode(ctx, c, &groups[i], rb); err != nil {
			return false, err
		}
	}
	w.buffered -= c.rows.bytes
	c.rows.reset()
	err = w.store()
	w.out.steps.encode.add(start)
	return true, err
}

// encode adds the rows of a group to the sink's file of it.
func (w *worker) encode(ctx context.Context, c *sink, g *group, rb arrow.RecordBatch) error {
	f := c.files[g.key]
	if f == nil {
		fw, err := w.s.newFile(ctx, g.values)
		if err != nil {
			return fmt.Errorf("create data file: %w", err)
		}
		f = &dataFile{FileWriter: fw, group: group{key: g.key, values: g.values}}
		c.files[g.key] = f
		w.open++
	}
	before, held := f.Bytes(), f.Held()
	if err := g.write(ctx, f.FileWriter, rb); err != nil {
		return err
	}
	w.inFiles += f.Bytes() - before
	w.held += f.Held() - held
	if g.rows == nil {
		f.encoded += c.rows.bytes
	} else {
		f.encoded += c.rows.bytes / int64(c.rows.sys.Rows()) * int64(len(g.rows))
	}
	return nil
}

// store sends encoded rows to the store when there are too many in memory, those of the largest files first. With
// partition columns the files may be many, and an object that is being written may take more memory than what it holds
// (parts of an upload): then a commit is made early instead.
func (w *worker) store() error {
	const few = 4
	if w.held > w.s.holdAt && len(w.s.keys) > 0 && w.open > few {
		w.press()
		if w.held <= 2*w.s.holdAt {
			return nil
		}
	}
	for w.held > w.s.holdAt {
		var largest *dataFile
		for _, c := range w.sinks {
			for _, f := range c.files {
				if largest == nil || f.Held() > largest.Held() {
					largest = f
				}
			}
		}
		if largest == nil || largest.Held() == 0 {
			return nil
		}
		w.held -= largest.Held()
		if err := largest.EndRowGroup(); err != nil {
			return fmt.Errorf("write data file: %w", err)
		}
	}
	return nil
}

// cut hands over all that was collected since the last cut and begins anew.
func (w *worker) cut(ctx context.Context) (*output, error) {
	for _, c := range w.sinks {
		if len(c.files) > 0 && len(w.s.keys) == 0 {
			if _, err := w.spill(ctx, c, true); err != nil {
				return nil, err
			}
		}
	}
	for p, c := range w.cursors {
		if c.decided > c.from {
			w.out.ranges = append(w.out.ranges, committer.Range{Partition: p, From: c.from, To: c.decided})
		}
	}
	out := w.out
	for _, c := range w.sinks {
		for _, f := range c.files {
			if f.encoded >= ownFile || f.Stored() {
				out.files = append(out.files, f.FileWriter)
			} else {
				out.rest = append(out.rest, piece{partition: c.partition, file: f})
			}
		}
		switch {
		case c.rows == nil:
		case c.rows.sys.Rows() > 0:
			out.rest = append(out.rest, piece{partition: c.partition, rows: c.rows}) // behind the files of the partition
		default:
			w.s.freeRows(c.rows)
		}
	}
	clear(w.cursors)
	w.sinks = nil
	clear(w.values)
	w.s.rows.Add(-out.rows)
	w.s.estimate.Add(-w.estimate)
	if w.pressed {
		w.s.pressed.Add(-1)
	}
	w.out, w.buffered, w.inFiles, w.held, w.estimate, w.deadSize, w.open, w.pressed = &output{times: map[int32]int64{}}, 0, 0, 0, 0, 0, 0, false
	return out, nil
}
