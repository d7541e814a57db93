package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// noEnd is the until offset of a partition that is followed for ever.
const noEnd = record.Offset(math.MaxInt64)

// part is the state of one partition.
type part struct {
	id      int32
	next    record.Offset  // first offset not yet given to the caller: what a token holds
	until   record.Offset  // the first offset that is not wanted
	mark    broker.EndMark // says when the end is reached, whose offset nobody knows yet; nil: until is all
	lakeEnd record.Offset  // the seam of the current snapshot
	lost    []table.Range  // offsets below it that retention took before they were tiered
}

func (p *part) done() bool { return p.next >= p.until }

// Cursor reads one stream over lake and log. Make it with Open.
type Cursor struct {
	cfg        Config
	snap       *deltalog.Snapshot // nil without a table
	schema     *arrow.Schema      // of the batches given
	full       *arrow.Schema      // of the table, or the system columns alone
	where      *where.Filter      // nil: all rows
	keep       *where.Bound       // where, for rows of the log
	positioned bool               // the table ends where the positions of App say
	byRows     bool               // the table has places of records, and no positions to go by
	// rowEnds are the ends of partitions where byRows is set: behind the last row of each.
	rowEnds map[int32]record.Offset
	parts   []*part // ascending by id
	byID    map[int32]*part
	lake    *lakeSide // not nil while the lake is being read
	log     *logSide  // nil without a source
	given   arrow.RecordBatch
	pace    *Pace
	left    int64 // rows that may still be given
	closed  bool
	failed  error // what Next gives from now on
}

// Open resolves where to start and end and takes the snapshot. The context is for Open alone.
func Open(ctx context.Context, cfg Config) (*Cursor, error) { return open(ctx, cfg, nil) }

// open is Open with a snapshot that the caller has already; nil takes the newest one.
func open(ctx context.Context, cfg Config, snap *deltalog.Snapshot) (*Cursor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cursor{cfg: cfg, byID: map[int32]*part{}, left: math.MaxInt64, pace: NewPace(cfg.Rate)}
	if cfg.MaxRows > 0 {
		c.left = cfg.MaxRows
	}
	if c.snap = snap; snap == nil {
		if err := c.takeSnapshot(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.makeSchemas(); err != nil {
		return nil, err
	}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	if err := c.resumable(ctx); err != nil {
		return nil, err
	}
	if cfg.Source != nil {
		l, err := newLogSide(c)
		if err != nil {
			return nil, err
		}
		c.log = l
	}
	if c.snap != nil {
		c.lake = newLakeSide(c)
	}
	return c, nil
}

// Schema is the schema of the batches that Next gives.
func (c *Cursor) Schema() *arrow.Schema { return c.schema }

// Position gives the next offset of each partition.
func (c *Cursor) Position() map[int32]record.Offset {
	m := make(map[int32]record.Offset, len(c.parts))
	for _, p := range c.parts {
		m[p.id] = p.next
	}
	return m
}

// Seam gives, for each partition, the offset at which the cursor leaves the table for the log.
func (c *Cursor) Seam() map[int32]record.Offset {
	m := make(map[int32]record.Offset, len(c.parts))
	for _, p := range c.parts {
		m[p.id] = p.lakeEnd
	}
	return m
}

// Next gives the next rows, io.EOF at the end. The batch, also when retained, is valid until the following
// call of Next or Close: log batches reuse their memory. After an error, other than that of ctx, the cursor
// stays where it is and gives the same error again: what follows could have a hole before it (I4). Position
// and Token name the place to open a new one at.
func (c *Cursor) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if c.closed {
		return nil, errors.New("cursor is closed")
	}
	c.release()
	if c.failed != nil {
		return nil, c.failed
	}
	if err := c.pace.Wait(ctx); err != nil {
		return nil, err
	}
	rb, err := c.next(ctx)
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		c.failed = err
	}
	return rb, err
}

func (c *Cursor) next(ctx context.Context) (arrow.RecordBatch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.left == 0 {
			return nil, io.EOF
		}
		if c.lake != nil {
			rb, err := c.lake.next(ctx)
			if errors.Is(err, io.EOF) {
				c.lake.close()
				c.lake = nil
				continue
			}
			if errors.Is(err, objstore.ErrNotFound) {
				if err = c.fileGone(ctx, err); err == nil {
					continue
				}
			}
			if err != nil {
				c.failed = err // a scan has no next behind an error, also one of ctx
				return nil, err
			}
			if rb.NumRows() == 0 {
				rb.Release()
				continue
			}
			return c.give(rb), nil
		}
		if c.log == nil || c.allDone() {
			return nil, io.EOF
		}
		rb, err := c.log.next(ctx)
		if err != nil {
			return nil, err
		}
		if rb != nil {
			return c.give(rb), nil
		}
	}
}

// give counts rows that go to the caller. Both sides make no more than are left, so that a token never
// names a place behind a row that was not given (I4).
func (c *Cursor) give(rb arrow.RecordBatch) arrow.RecordBatch {
	c.given = rb
	c.left -= rb.NumRows()
	if c.pace != nil {
		c.pace.Used(rb.NumRows(), batchSize(rb))
	}
	return rb
}

// Close frees what the cursor holds, and gives its lease back: it waits up to three seconds for a store that hangs, behind which
// that goes on. It may be called twice.
func (c *Cursor) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.release()
	if c.lake != nil {
		c.lake.close()
		c.lake = nil
	}
	if c.log != nil {
		return c.log.close()
	}
	return nil
}

func (c *Cursor) release() {
	if c.given != nil {
		c.given.Release()
		c.given = nil
	}
}

func (c *Cursor) allDone() bool {
	for _, p := range c.parts {
		if !p.done() {
			return false
		}
	}
	return true
}

// gap tells the caller about offsets [from, to) without a row.
func (c *Cursor) gap(p *part, from, to record.Offset, reason string) {
	if c.cfg.OnGap != nil && from < to {
		c.cfg.OnGap(Gap{Partition: p.id, From: from, To: to, Reason: reason})
	}
}

func (c *Cursor) takeSnapshot(ctx context.Context) error {
	if c.cfg.Table == nil {
		return nil
	}
	snap, err := c.cfg.Table.Log.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the table's log: %w", err)
	}
	if err := c.retyped(snap); err != nil {
		return err
	}
	old := c.snap
	c.snap = snap
	if c.byRows {
		err = c.lookAtNewRows(ctx, old)
	}
	return err
}

// replan goes back to the lake for partitions whose next offset the log no longer holds (I4, I6): since our
// snapshot, tiering moved those offsets into the table and retention dropped them from the log.
func (c *Cursor) replan(ctx context.Context, p *part, logStart record.Offset) error {
	if err := c.takeSnapshot(ctx); err != nil {
		return err
	}
	if c.snap != nil {
		if end, ok := c.lakeEnd(p.id); ok && end > p.next {
			for _, q := range c.parts {
				if err := c.seam(q); err != nil {
					return err
				}
			}
			c.lake = newLakeSide(c)
			c.log.reset() // answers to positions that the lake will move
			return nil
		}
	}
	if !c.cfg.SkipMissing {
		return &MissingError{Topic: c.cfg.Topic, Partition: p.id, From: p.next, To: logStart}
	}
	to := min(logStart, p.until)
	c.gap(p, p.next, to, GapLost)
	p.next = to
	return nil
}

// fileGone goes on after a data file that the snapshot names was removed: optimize has put its rows into
// another file, and vacuum was faster than us. A newer snapshot says where they are; the cursor reads on from
// where it stands, without a skip and without a repeat (I4). Without a newer version the file is missing.
func (c *Cursor) fileGone(ctx context.Context, cause error) error {
	old := c.snap
	if !c.lake.ordered {
		return fmt.Errorf("%w; the table has no offsets to go on from: read it again", cause)
	}
	if err := c.takeSnapshot(ctx); err != nil {
		if _, widened := errors.AsType[*WidenedError](err); widened {
			return err
		}
		return errors.Join(cause, err)
	}
	if c.snap.Metadata().ID != old.Metadata().ID {
		c.snap = old
		return fmt.Errorf("the table was made again while it was read: %w", cause)
	}
	if c.snap.Version() <= old.Version() {
		return cause
	}
	for _, p := range c.parts {
		if p.lakeEnd == noEnd {
			continue
		}
		if err := c.seam(p); err != nil {
			return err
		}
	}
	c.lake.close()
	c.lake = newLakeSide(c)
	return nil
}

// seam takes over what the snapshot says about a partition.
func (c *Cursor) seam(p *part) (err error) {
	if e, ok := c.lakeEnd(p.id); ok {
		p.lakeEnd = e
	}
	p.lost, err = table.Lost(c.snap, c.cfg.App, p.id)
	return err
}

// lakeGap tells the caller about offsets without a row in the table, and which of them were lost (I4).
func (c *Cursor) lakeGap(p *part, from, to record.Offset) {
	for _, l := range p.lost {
		if l.To <= from || l.From >= to {
			continue
		}
		c.noRow(p, from, l.From)
		end := min(l.To, to)
		c.gap(p, max(from, l.From), end, GapLost)
		from = end
	}
	c.noRow(p, from, to)
}

// noRow tells about offsets that the table has decided without a row, unless a filter may have left them out.
func (c *Cursor) noRow(p *part, from, to record.Offset) {
	if c.where == nil {
		c.gap(p, from, to, GapLake)
	}
}

func (c *Cursor) addPart(p *part) {
	c.byID[p.id] = p
	i, _ := slices.BinarySearchFunc(c.parts, p.id, func(q *part, id int32) int { return int(q.id) - int(id) })
	c.parts = slices.Insert(c.parts, i, p)
}

// makeSchemas sets the table's full schema and the projection that the caller asked for.
func (c *Cursor) makeSchemas() error {
	if c.snap != nil {
		s, err := c.cfg.Table.Schema(c.snap)
		if err != nil {
			return err
		}
		c.full = s
	} else {
		c.full = arrow.NewSchema(table.SystemFields(c.names()), nil)
	}
	if c.cfg.Where != "" {
		f, err := where.Parse(c.cfg.Where)
		if err == nil {
			c.keep, err = f.Bind(c.full)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
		c.where = f
	}
	if c.cfg.Columns == nil {
		c.schema = c.full
		return nil
	}
	var err error
	c.schema, err = Project(c.full, c.cfg.Columns)
	return err
}

// Project gives the schema with the named columns alone, in their order.
func Project(full *arrow.Schema, columns []string) (*arrow.Schema, error) {
	fields := make([]arrow.Field, 0, len(columns))
	for _, name := range columns {
		i := full.FieldIndices(name)
		if len(i) != 1 {
			return nil, fmt.Errorf("column %q is not in the table; it has %v", name, fieldNames(full))
		}
		fields = append(fields, full.Field(i[0]))
	}
	return arrow.NewSchema(fields, nil), nil
}

func (c *Cursor) names() table.Names { return c.cfg.names() }

func (c Config) names() table.Names {
	if c.Table != nil {
		return c.Table.Names
	}
	if c.Names != (table.Names{}) {
		return c.Names
	}
	return table.DefaultNames()
}

// ValueColumn names the column with the records' values as they were; empty when the table has none.
func (c Config) ValueColumn() string { return c.names().Value }

func fieldNames(s *arrow.Schema) []string {
	names := make([]string, s.NumFields())
	for i := range names {
		names[i] = s.Field(i).Name
	}
	return names
}

// sourceBounds asks the log for the bounds of a partition.
func (c *Cursor) sourceBounds(ctx context.Context, p int32) (broker.Bounds, error) {
	return c.cfg.Source.Bounds(ctx, record.TopicPartition{Topic: c.cfg.Topic, Partition: p})
}

// Partitions are the numbers of the partitions that are read, ascending.
func (c *Cursor) Partitions() []int32 {
	ids := make([]int32, len(c.parts))
	for i, p := range c.parts {
		ids[i] = p.id
	}
	return ids
}

// End gives the first offset that is not wanted, for each partition that has an end. Where the log tells offsets only to who
// reads (broker.Marker), that of now is known when it is reached.
func (c *Cursor) End() map[int32]record.Offset {
	m := map[int32]record.Offset{}
	for _, p := range c.parts {
		if p.until != noEnd {
			m[p.id] = p.until
		}
	}
	return m
}

// InLake says whether the last batch came from the table.
func (c *Cursor) InLake() bool { return c.lake != nil }
