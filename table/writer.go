package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// WriterOptions are the settings of one data file. The zero value is ready for use.
type WriterOptions struct {
	// Snapshot whose schema the file is written for. Default: that of Open or the last Refresh.
	Snapshot *deltalog.Snapshot
	// PartitionValues of a table with partition columns, as the add action has them: serialized, and under column
	// mapping by physical name. Batches then lack these columns.
	PartitionValues map[string]*string
	// RowGroupBytes and RowGroupRows end a row group, whichever comes first: raw bytes, default 32 MiB, and
	// rows, default 1 Mi.
	RowGroupBytes int64
	RowGroupRows  int64
	// Codec of the pages. Default snappy.
	Codec Codec
	// RowRules are those of the table that the caller sees kept, or that rows of the table keep already. Others make
	// NewFileWriter fail.
	RowRules []deltalog.RowRule
}

func (o WriterOptions) withDefaults(t *Table) WriterOptions {
	if o.Snapshot == nil {
		o.Snapshot = t.current()
	}
	if o.RowGroupBytes == 0 {
		o.RowGroupBytes = 32 << 20
	}
	if o.Codec == "" {
		o.Codec = CodecSnappy
	}
	if o.RowGroupRows == 0 {
		o.RowGroupRows = 1 << 20
	}
	return o
}

func (o WriterOptions) validate() error {
	if o.RowGroupBytes < 0 || o.RowGroupRows < 0 {
		return fmt.Errorf("file writer options: negative row group size")
	}
	if err := o.Codec.Validate(); err != nil {
		return fmt.Errorf("file writer options: %w", err)
	}
	columns := o.Snapshot.PartitionNames()
	for _, c := range columns {
		if _, ok := o.PartitionValues[c]; !ok {
			return fmt.Errorf("file writer options: no value for partition column %q", c)
		}
	}
	if len(o.PartitionValues) != len(columns) {
		return fmt.Errorf("file writer options: values for %d partition columns, the table has %d", len(o.PartitionValues), len(columns))
	}
	return nil
}

// FileWriter writes one data file. Rows come sorted by (partition, offset), in batches of any size.
type FileWriter struct {
	t      *Table
	opts   WriterOptions
	schema *arrow.Schema // of the batches
	stored *arrow.Schema // the same columns as the file names them
	opaque string        // the file's column of raw values
	name   string
	ctx    context.Context //nolint:containedctx // the object is created late, under the writer's context

	out   output
	pq    *parquet.Writer
	order *orderCheck
	stats string // as the action has them
	rows  int64
	err   error // sticky
	done  bool

	statsColumns     statsColumns
	group, groupRows int64 // raw bytes and rows in the row group
	written          int64 // by an encoder that is released
}

// NewFileWriter begins a data file. Nothing is stored before the first row group ends; ctx must last until Close.
func (t *Table) NewFileWriter(ctx context.Context, opts WriterOptions) (*FileWriter, error) {
	opts = opts.withDefaults(t)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := opts.Snapshot.CheckWritable(opts.RowRules...); err != nil {
		return nil, err
	}
	if len(t.inner) > 0 {
		return nil, fmt.Errorf("%v are fields of structs: a table with the places of records there is read, not filled", t.inner)
	}
	full, err := t.Schema(opts.Snapshot)
	if err != nil {
		return nil, err
	}
	meta := opts.Snapshot.Metadata()
	fields := slices.DeleteFunc(slices.Clone(full.Fields()), func(f arrow.Field) bool {
		return f.Type.ID() == arrow.NULL || slices.Contains(meta.PartitionColumns, f.Name)
	})
	m, err := mappingOf(opts.Snapshot)
	if err != nil {
		return nil, err
	}
	batches := arrow.NewSchema(fields, nil)
	stored, err := m.stored(batches)
	if err != nil {
		return nil, err
	}
	w := &FileWriter{t: t, opts: opts, ctx: ctx, schema: batches, stored: stored, opaque: m.names(t.Names).Value}
	w.name = folder(opts.Snapshot, opts.PartitionValues) + "part-" + uuid.NewString() + "." + string(opts.Codec) + ".parquet"
	if w.order, err = newOrderCheck(w.schema, t.Names); err != nil {
		return nil, err
	}
	w.statsColumns = statsColumnsOf(meta.Configuration)
	return w, nil
}

// Schema is what batches must have: the table's columns without partition columns and without void ones.
func (w *FileWriter) Schema() *arrow.Schema { return w.schema }

// Write adds rows. Columns are matched by position; their types must be those of Schema. The batch is not kept.
// After an error the writer is good for Abort only.
func (w *FileWriter) Write(rb arrow.RecordBatch) error {
	switch {
	case w.done:
		return ErrClosed
	case w.err != nil:
		return w.err
	case rb.NumRows() == 0:
		return nil
	}
	if err := w.write(rb); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.name, err)
		return w.err
	}
	return nil
}

func (w *FileWriter) write(rb arrow.RecordBatch) error {
	rb, err := conform(rb, w.schema)
	if err != nil {
		return err
	}
	defer rb.Release()
	if err := w.order.check(rb); err != nil {
		return err
	}
	if w.pq == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	rb = renameColumns(rb, w.stored)
	defer rb.Release()
	if err := w.groups(rb); err != nil {
		return err
	}
	w.rows += rb.NumRows()
	return nil
}

// groups gives rows to the row groups that they belong to.
func (w *FileWriter) groups(rb arrow.RecordBatch) error {
	raw, rows := rawSize(rb.Columns()), rb.NumRows()
	if w.group > 0 && w.group+raw > w.opts.RowGroupBytes {
		if err := w.endGroup(); err != nil {
			return err
		}
	}
	for at := int64(0); at < rows; {
		n := min(rows-at, w.opts.RowGroupRows-w.groupRows)
		part := rb.NewSlice(at, at+n)
		err := w.pq.Write(part)
		part.Release()
		if err != nil {
			return err
		}
		at += n
		w.groupRows += n
		if w.groupRows == w.opts.RowGroupRows {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	w.group += raw
	return nil
}

func (w *FileWriter) endGroup() error {
	w.group, w.groupRows = 0, 0
	return w.pq.EndRowGroup()
}

// EndRowGroup ends the row group before its time: what is Held goes to the store.
func (w *FileWriter) EndRowGroup() error {
	if w.done || w.err != nil || w.pq == nil {
		return w.err
	}
	if err := w.endGroup(); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.name, err)
	}
	return w.err
}

// Held is about the number of bytes that are encoded and not yet stored.
func (w *FileWriter) Held() int64 {
	if w.pq == nil {
		return 0
	}
	return w.pq.Held()
}

// start begins to encode.
func (w *FileWriter) start() (err error) {
	w.out = output{file: w}
	w.pq, err = w.t.pool.NewWriter(&w.out, w.stored, parquet.Options{
		Codec: w.opts.Codec.pages(), Opaque: w.opaque, KeepBytes: decidingBytes(w.statsColumns.prefix),
	})
	return err
}

// Adopt takes over the rows of another writer as a row group of their own, without a copy, and ends that writer.
// They come after all rows of this one. The other must be for the same files and must not be Stored.
func (w *FileWriter) Adopt(o *FileWriter) error {
	switch {
	case w.done || o.done:
		return ErrClosed
	case w.err != nil || o.err != nil:
		return errors.Join(w.err, o.err)
	case o == w || o.t != w.t || o.Stored() || o.opts.Snapshot != w.opts.Snapshot || !samePartition(o.opts, w.opts):
		return fmt.Errorf("write %s: rows of %s cannot be taken over", w.name, o.name)
	case o.rows == 0:
		return o.Abort()
	}
	if err := w.adopt(o); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.name, err)
		return w.err
	}
	return o.Abort()
}

func (w *FileWriter) adopt(o *FileWriter) error {
	if err := w.order.adopt(o.order); err != nil {
		return err
	}
	if w.pq == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	if err := w.pq.Adopt(o.pq); err != nil {
		return err
	}
	w.rows, w.group, w.groupRows = w.rows+o.rows, 0, 0
	return nil
}

// Stored says whether anything has gone to the store.
func (w *FileWriter) Stored() bool { return w.out.sink != nil }

// release gives the encoder's buffers to the next file.
func (w *FileWriter) release() {
	if w.pq != nil {
		w.written = w.pq.Size()
		w.t.pool.Put(w.pq)
		w.pq = nil
	}
}

// NumRows is the number of rows so far.
func (w *FileWriter) NumRows() int64 { return w.rows }

// Bytes is about the size of the file so far.
func (w *FileWriter) Bytes() int64 {
	if w.pq == nil {
		return w.written
	}
	return w.pq.Size()
}

// Close publishes the file and gives the action that makes it part of the table once it is committed. After an
// error nothing is left behind, as far as the store could be told.
func (w *FileWriter) Close(ctx context.Context) (deltalog.Add, error) {
	if w.done {
		return deltalog.Add{}, ErrClosed
	}
	if w.err == nil && w.rows == 0 {
		w.err = ErrNoRows
	}
	if w.err == nil {
		w.err = ctx.Err()
	}
	if w.err == nil {
		w.err = w.finish()
	}
	if w.err != nil {
		return deltalog.Add{}, errors.Join(fmt.Errorf("close %s: %w", w.name, w.err), w.Abort())
	}
	w.done = true
	w.release()
	if err := w.out.sink.Close(); err != nil {
		return deltalog.Add{}, fmt.Errorf("publish %s: %w", w.name, err)
	}
	return w.add(), nil
}

func (w *FileWriter) finish() error {
	if err := w.pq.Close(); err != nil {
		return err
	}
	w.stats = statsJSON(w.pq, statsTree(w.schema, w.stored, w.statsColumns), w.statsColumns.prefix)
	return w.out.buf.Flush()
}

func (w *FileWriter) add() deltalog.Add {
	values := w.opts.PartitionValues
	if values == nil {
		values = map[string]*string{}
	}
	a := deltalog.Add{Path: deltalog.EncodePath(w.name), PartitionValues: values, Size: w.out.n, ModificationTime: w.t.cfg.Clock().UnixMilli(),
		DataChange: true, Stats: w.stats}
	if w.order.on {
		tag := w.order.ranges.tag()
		a.Tags = map[string]*string{RangesTag: &tag}
	}
	return a
}

// Abort drops the file. It does nothing after Close or another Abort.
func (w *FileWriter) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	w.release()
	if w.out.sink == nil {
		return nil
	}
	return w.out.sink.Abort()
}

// output is where the encoder writes to. The object is made with the first bytes.
type output struct {
	file *FileWriter
	sink objstore.Writer
	buf  *bufio.Writer
	n    int64
}

func (o *output) Write(p []byte) (int, error) {
	if o.sink == nil {
		sink, err := o.file.t.Store.Create(o.file.ctx, o.file.name)
		if err != nil {
			return 0, err
		}
		o.sink, o.buf = sink, bufio.NewWriterSize(sink, 64<<10)
	}
	n, err := o.buf.Write(p)
	o.n += int64(n)
	return n, err
}

// orderCheck refuses rows that are out of order and collects the ranges of those that are not.
type orderCheck struct {
	on        bool
	part, off int // columns
	ranges    rangeList
	lastPart  int32
	lastOff   int64
	any       bool
}

func newOrderCheck(schema *arrow.Schema, n Names) (*orderCheck, error) {
	if !n.Ordered() {
		return &orderCheck{}, nil
	}
	p, o := schema.FieldIndices(n.Partition), schema.FieldIndices(n.Offset)
	if len(p) != 1 || len(o) != 1 {
		return nil, fmt.Errorf("cannot write: %s and %s are not both columns of the data files", n.Partition, n.Offset)
	}
	return &orderCheck{on: true, part: p[0], off: o[0]}, nil
}

func (c *orderCheck) check(rb arrow.RecordBatch) error {
	if !c.on {
		return nil
	}
	pa, ok1 := rb.Column(c.part).(*array.Int32)
	oa, ok2 := rb.Column(c.off).(*array.Int64)
	if !ok1 || !ok2 {
		return fmt.Errorf("columns %s and %s are not int and long", rb.ColumnName(c.part), rb.ColumnName(c.off))
	}
	if pa.NullN() > 0 || oa.NullN() > 0 {
		return ErrNoPosition
	}
	parts, offs := pa.Int32Values(), oa.Int64Values()
	for i, p := range parts {
		o := offs[i]
		if c.any && (p < c.lastPart || p == c.lastPart && o <= c.lastOff) {
			return fmt.Errorf("%w: partition %d offset %d after partition %d offset %d", ErrUnsorted, p, o, c.lastPart, c.lastOff)
		}
		if o < 0 || p < 0 || o == 1<<63-1 {
			return fmt.Errorf("%w: partition %d offset %d", ErrNoPosition, p, o)
		}
		c.ranges.add(p, o)
		c.lastPart, c.lastOff, c.any = p, o, true
	}
	return nil
}

// adopt takes over rows that were checked elsewhere and come after those of c.
func (c *orderCheck) adopt(o *orderCheck) error {
	if !c.on {
		return nil
	}
	if first := o.ranges[0]; c.any && (first.Partition < c.lastPart || first.Partition == c.lastPart && int64(first.From) <= c.lastOff) {
		return fmt.Errorf("%w: partition %d offset %d after partition %d offset %d", ErrUnsorted, first.Partition, first.From, c.lastPart, c.lastOff)
	}
	for _, r := range o.ranges {
		c.ranges.join(r)
	}
	c.lastPart, c.lastOff, c.any = o.lastPart, o.lastOff, true
	return nil
}
