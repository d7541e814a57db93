package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// logBatchRows is how many rows a batch has when the caller does not say.
const logBatchRows = 8192

// fetchBytes is what one fetch asks of a partition.
const fetchBytes = 4 << 20

// logSide reads the partitions from the log. It decodes what it fetched lazily, BatchRows at a time, into
// buffers that it uses again.
type logSide struct {
	c       *Cursor
	fetched []broker.Fetched // answers not yet decoded; the first may be decoded in part
	part    *part            // of fetched[0]
	rest    []byte           // undecoded batches of fetched[0]
	filter  record.AbortFilter
	it      record.Iterator
	in      bool          // it stands inside a batch
	held    bool          // it stands at a record that is not taken yet
	failed  error         // comes after the rows that were given
	last    record.Offset // last offset of the batch that it is in

	system  *table.SystemColumns
	room    func() int // what system has left for one record
	decoder decode.Decoder
	whole   decode.RecordDecoder // the same; nil when it looks at values alone
	close   func() error         // of what the decoder has open
	looked  bool                 // at a newer snapshot, for the batch that is being made
	rules   *table.Rules         // of the rows of the table; nil without one
	id      int32                // partition of the batch that is being made
	gaps    []Gap                // of it, told in order when it is whole
	have    *arrow.Schema        // of system ++ payload ++ holders' arrays
	holders []arrow.Field        // structs of the table that have system columns as fields
	arrange []int                // column of the schema given -> index in these
}

func newLogSide(c *Cursor) (*logSide, error) {
	l := &logSide{c: c, it: record.Iterator{Verified: true}, system: table.NewSystemColumns(c.names(), c.cfg.Topic), close: func() error { return nil }}
	l.room = l.system.Room
	var payload *arrow.Schema
	if c.snap != nil { // of the same version as the rest: the Table's own may be older
		payload = l.payload()
	}
	newDecoder := func(*arrow.Schema) (decode.Decoder, error) { return decode.NewRaw(), nil }
	if payload != nil && payload.NumFields() > 0 {
		if c.cfg.Format == "raw" {
			return nil, fmt.Errorf("table has payload columns %v; format raw cannot fill them from the log", fieldNames(payload))
		}
		var err error
		if newDecoder, l.close, err = c.cfg.decoders(c.snap.Metadata().Configuration); err != nil {
			return nil, err
		}
	} else {
		payload = arrow.NewSchema(nil, nil)
	}
	if err := l.transform(newDecoder, payload); err != nil {
		if l.close != nil {
			err = errors.Join(err, l.close())
		}
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	have := append(append(table.SystemFields(c.names()), payload.Fields()...), l.holders...)
	l.have = arrow.NewSchema(have, nil)
	if c.snap != nil {
		l.rules = table.NewRules(c.snap, l.have)
	}
	for _, f := range c.schema.Fields() {
		found := -1
		for i, h := range have {
			if h.Name == f.Name {
				found = i
			}
		}
		if found < 0 {
			return nil, fmt.Errorf("column %q cannot be made from log records", f.Name)
		}
		if found >= len(have)-len(l.holders) {
			if required := c.cfg.Table.RequiredBeside(f); required != "" {
				return nil, fmt.Errorf("column %q cannot be made from log records: its field %s is NOT NULL, and they do not have it; read other columns, or the table alone", f.Name, required)
			}
		}
		l.arrange = append(l.arrange, found)
	}
	return l, nil
}

// payload gives the columns that are decoded from values: neither system columns nor the structs around some of these.
func (l *logSide) payload() *arrow.Schema {
	names := l.c.names()
	var fields []arrow.Field
	for _, f := range l.c.full.Fields() {
		switch {
		case names.Has(f.Name):
		case l.c.cfg.Table.HoldsInner(f):
			l.holders = append(l.holders, f)
		default:
			fields = append(fields, f)
		}
	}
	return arrow.NewSchema(fields, nil)
}

// transform makes the decoder, with what fills the table's columns from the log around it, so that a record becomes the
// same row on both sides of the seam.
func (l *logSide) transform(newDecoder func(*arrow.Schema) (decode.Decoder, error), payload *arrow.Schema) (err error) {
	var spec transform.Spec
	if l.c.snap != nil {
		if spec, err = transform.Of(l.c.snap.Metadata().Configuration, l.c.cfg.App); err != nil {
			return err
		}
	}
	l.decoder, err = transform.Wrap(newDecoder, payload, spec, l.c.cfg.Topic)
	l.whole, _ = l.decoder.(decode.RecordDecoder)
	return err
}

// next gives a batch of one partition, or nil when it has to be called again (nothing new, or back to the lake).
func (l *logSide) next(ctx context.Context) (arrow.RecordBatch, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if len(l.fetched) == 0 {
		if err := l.c.lookForEnds(ctx); err != nil || l.c.allDone() {
			return nil, err
		}
		if err := l.fetch(ctx); err != nil {
			return nil, err
		}
		if len(l.fetched) == 0 {
			return nil, nil
		}
	}
	if l.part == nil {
		f := &l.fetched[0]
		l.part = l.c.byID[f.TP.Partition]
		if f.Err != nil {
			return nil, l.fault(ctx, f)
		}
		l.rest = f.Batches
		l.filter.Reset(f.Aborted)
	}
	return l.decode(ctx)
}

func (l *logSide) fetch(ctx context.Context) error {
	var ranges []broker.FetchRange
	for _, p := range l.c.parts {
		if !p.done() {
			ranges = append(ranges, broker.FetchRange{
				TP:   record.TopicPartition{Topic: l.c.cfg.Topic, Partition: p.id},
				From: p.next, MaxBytes: fetchBytes,
			})
		}
	}
	got, err := l.c.cfg.Source.Fetch(ctx, ranges, broker.FetchOptions{
		MinBytes: 1, MaxWait: l.c.cfg.MaxWait, MaxBytes: 8 * fetchBytes, Isolation: broker.ReadCommitted,
	})
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for _, f := range got {
		if f.Err != nil || len(f.Batches) > 0 {
			l.fetched = append(l.fetched, f)
		}
	}
	return nil
}

// fault handles the error of one partition. Only an offset below the log start has a cure: the lake.
func (l *logSide) fault(ctx context.Context, f *broker.Fetched) error {
	p := l.part
	l.drop()
	var out *broker.OutOfRangeError
	if errors.As(f.Err, &out) && p.next < out.Bounds.Start {
		return l.c.replan(ctx, p, out.Bounds.Start)
	}
	return fmt.Errorf("read %s from the log: %w", f.TP, f.Err)
}

// drop leaves the rest of the first answer.
func (l *logSide) drop() {
	l.fetched = l.fetched[1:]
	l.part, l.rest, l.in, l.held = nil, nil, false, false
}

// reset forgets all that was fetched.
func (l *logSide) reset() {
	l.fetched = nil
	l.part, l.rest, l.in, l.held = nil, nil, false, false
}

// decode fills the columns with up to BatchRows records of one partition.
func (l *logSide) decode(ctx context.Context) (arrow.RecordBatch, error) {
	l.system.Reset()
	l.decoder.Reset()
	l.id, l.looked = l.part.id, false
	defer l.tellGaps()
	rows := 0
	limit := int(min(int64(cmp.Or(l.c.cfg.BatchRows, logBatchRows)), l.c.left))
	for rows < limit && !l.part.done() {
		more, err := l.record()
		if err != nil && rows > 0 {
			l.failed = err // after the rows that were good
			return l.batch(rows)
		}
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if l.held && l.full(rows) {
			return l.batch(rows)
		}
		if !l.held {
			continue
		}
		took, err := l.take(ctx, l.it.Record())
		if err != nil && rows > 0 {
			return l.batch(rows) // the record is still held, and tried again first thing
		}
		if err != nil {
			return nil, err
		}
		l.held = false
		if took {
			rows++
		}
	}
	if l.part.done() || (!l.in && len(l.rest) == 0) {
		l.drop()
	}
	if rows == 0 {
		return nil, nil
	}
	return l.batch(rows)
}

// record goes to the next record and holds it, or over the end of a batch; false at the end of what was fetched.
func (l *logSide) record() (bool, error) {
	switch {
	case l.held:
		return true, nil
	case !l.in:
		return l.openBatch()
	case l.it.Next():
		l.held = true
		return true, nil
	}
	if err := l.it.Err(); err != nil {
		return false, fmt.Errorf("read %s from the log: %w", l.fetched[0].TP, err)
	}
	l.skipTo(l.last + 1)
	l.in = false
	return true, nil
}

// batchBytes bounds the columns of one batch, whatever the records decompress to (I8).
const batchBytes = 32 << 20

// full says whether the rows so far leave no room for the record that is held.
func (l *logSide) full(rows int) bool {
	if rows == 0 {
		return false
	}
	r := l.it.Record()
	size := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return size > l.room() || rows%64 == 0 && l.system.Bytes() >= batchBytes
}

// openBatch goes to the next batch that has wanted records; false at the end of what was fetched.
func (l *logSide) openBatch() (bool, error) {
	if len(l.rest) == 0 {
		return false, nil
	}
	b, err := record.ReadBatch(l.rest)
	if errors.Is(err, record.ErrTruncated) {
		l.rest = nil
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s at offset %d from the log: %w", l.fetched[0].TP, l.part.next, err)
	}
	l.rest = l.rest[b.Size():]
	if !l.filter.Keep(b) {
		l.skipTo(b.LastOffset() + 1)
		return true, nil
	}
	if b.LastOffset() < l.part.next {
		return true, nil
	}
	if err := b.VerifyCRC(); err != nil {
		return false, fmt.Errorf("read %s from the log: %w", l.fetched[0].TP, err)
	}
	if err := l.it.Reset(b); err != nil {
		return false, fmt.Errorf("read %s from the log: %w", l.fetched[0].TP, err)
	}
	l.in, l.last = true, b.LastOffset()
	if l.whole != nil {
		l.whole.Begin(l.part.id, b.BatchHeader)
	}
	return true, nil
}

// skipTo moves over offsets that the log holds no record for.
func (l *logSide) skipTo(o record.Offset) {
	o = min(o, l.part.until)
	if o > l.part.next {
		l.gap(l.part.next, o, GapLog)
		l.part.next = o
	}
}

// take adds one record as a row; false when it is not wanted or does not fit the schema. An error that is
// not of the value, as decode.ErrFull, a *decode.UnavailableError or a *WidenedError, leaves the position before the record.
func (l *logSide) take(ctx context.Context, r *record.Record) (bool, error) {
	p := l.part
	if r.Offset < p.next || r.Offset >= p.until {
		return false, nil
	}
	err := l.append(r)
	var bad *decode.Error
	filtered := errors.Is(err, decode.ErrFiltered)
	if err != nil && !filtered && !errors.As(err, &bad) {
		return false, err
	}
	if bad != nil && !filtered {
		if err := l.look(ctx); err != nil {
			return false, err
		}
	}
	l.skipTo(r.Offset)
	p.next = r.Offset + 1
	if filtered {
		l.gap(r.Offset, r.Offset+1, GapFiltered)
		return false, nil
	}
	if err != nil {
		// The tier side will file this record as a dead letter; both sides show the same stream.
		l.gap(r.Offset, r.Offset+1, GapUndecodable)
		return false, nil
	}
	l.system.Append(p.id, r)
	return true, nil
}

func (l *logSide) append(r *record.Record) error {
	if l.whole != nil {
		return l.whole.AppendRecord(r)
	}
	return l.decoder.Append(r.Value)
}

// gap notes offsets without a row.
func (l *logSide) gap(from, to record.Offset, reason string) {
	if l.c.cfg.OnGap != nil {
		l.gaps = append(l.gaps, Gap{Partition: l.id, From: from, To: to, Reason: reason})
	}
}

func (l *logSide) tellGaps() {
	slices.SortStableFunc(l.gaps, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	for _, g := range l.gaps {
		l.c.cfg.OnGap(g)
	}
	l.gaps = l.gaps[:0]
}

// batch gives the rows that are wanted of those decoded; nil when there are none. Those that break a rule of the table
// are dead letters there, and gaps here.
func (l *logSide) batch(rows int) (arrow.RecordBatch, error) {
	all := append(l.system.Arrays(), l.decoder.Arrays()...)
	for _, f := range l.holders {
		a := l.c.cfg.Table.Around(f, rows, func(name string) arrow.Array { return all[l.have.FieldIndices(name)[0]] })
		defer a.Release()
		all = append(all, a)
	}
	var broken map[int]string
	if l.rules != nil {
		l.rules.Fill(all, 0, rows)
		broken = l.rules.Broken(all, 0, rows)
		l.rules.AsStored(all)
	}
	cols := make([]arrow.Array, len(l.arrange))
	for i, j := range l.arrange {
		cols[i] = all[j]
	}
	rb := array.NewRecordBatch(l.c.schema, cols, int64(rows))
	if l.c.keep == nil && len(broken) == 0 {
		return rb, nil
	}
	defer rb.Release()
	keep, err := l.wanted(all, rows)
	if err != nil {
		return nil, err
	}
	for row := range broken {
		keep[row] = false
		o := record.Offset(l.system.Offset(row))
		l.gap(o, o+1, GapUndecodable)
	}
	out, err := where.Select(context.Background(), rb, keep)
	if err != nil {
		return nil, err
	}
	if out.NumRows() == 0 {
		out.Release()
		return nil, nil
	}
	return out, nil
}

// wanted says which rows the caller wants.
func (l *logSide) wanted(all []arrow.Array, rows int) ([]bool, error) {
	if l.c.keep == nil {
		return slices.Repeat([]bool{true}, rows), nil
	}
	whole := array.NewRecordBatch(l.have, all, int64(rows))
	defer whole.Release()
	return l.c.keep.Rows(whole)
}
