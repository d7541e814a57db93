package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/endian"
)

// createdBy names the program in the form that other readers parse.
const createdBy = "ledgerlake version 1"

var magic = []byte("PAR1")

// ErrClosed says that a Writer was used after Close or an error.
var ErrClosed = errors.New("parquet: writer is closed")

// Options are the choices of a file. The zero value is ready for use.
type Options struct {
	// Codec of the pages. Chunks that it does not make smaller stay uncompressed. Default Uncompressed.
	Codec Codec
	// Opaque is a column of bytes that nobody searches: it gets neither a dictionary nor bounds.
	Opaque string
	// KeepBytes is how much of the smallest and largest byte string the Bounds have. Default 512.
	KeepBytes int
}

func (o Options) withDefaults() Options {
	if o.KeepBytes == 0 {
		o.KeepBytes = 512
	}
	return o
}

func (o Options) validate() error {
	if o.KeepBytes < footerBytes {
		return fmt.Errorf("parquet options: KeepBytes %d is below %d", o.KeepBytes, footerBytes)
	}
	return nil
}

// Writer writes one file.
type Writer struct {
	sink   io.Writer
	schema *arrow.Schema
	opts   Options
	layout *layout
	cols   []*column
	pool   *Pool

	offset    int64 // bytes written
	groupRows int64
	rows      int64
	groups    int    // row groups
	metadata  []byte // of them, as the footer has them but for the places of their page index
	index     fileIndex
	t         thrift
	bad       error // sticky
}

// NewWriter begins a file. Nothing is written before the first row group ends.
func NewWriter(sink io.Writer, schema *arrow.Schema, opts Options) (*Writer, error) {
	return newWriter(sink, schema, opts, &Pool{})
}

func newWriter(sink io.Writer, schema *arrow.Schema, opts Options, pool *Pool) (*Writer, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if endian.IsBigEndian {
		return nil, fmt.Errorf("%w: files are little-endian, this machine is not", ErrUnsupported)
	}
	l, err := newLayout(schema)
	if err != nil {
		return nil, err
	}
	codec, err := newCompressor(opts.Codec)
	if err != nil {
		return nil, err
	}
	w := &Writer{schema: schema, opts: opts, layout: l, pool: pool}
	for _, x := range l.leaves {
		opaque := opts.Opaque != "" && len(x.path) == 1 && x.path[0] == opts.Opaque
		w.cols = append(w.cols, &column{leaf: x, opts: &w.opts, codec: codec, opaque: opaque, out: blocks{pool: &pool.blocks}})
	}
	w.reset(sink)
	return w, nil
}

func (w *Writer) reset(sink io.Writer) {
	for _, c := range w.cols {
		c.reset()
	}
	w.sink, w.offset, w.groupRows, w.rows, w.groups, w.metadata, w.bad = sink, 0, 0, 0, 0, w.metadata[:0], nil
	w.index.reset()
}

// Write appends rows to the row group. Columns are matched by position and must have the types of the schema.
// The batch is not kept.
func (w *Writer) Write(rb arrow.RecordBatch) error {
	if w.bad != nil {
		return w.bad
	}
	if int(rb.NumCols()) != w.schema.NumFields() {
		return w.fail(fmt.Errorf("%d columns, the file has %d", rb.NumCols(), w.schema.NumFields()))
	}
	for i, f := range w.schema.Fields() {
		if got := rb.Column(i).DataType(); !arrow.TypeEqual(got, f.Type) {
			return w.fail(fmt.Errorf("column %q is %s, of the file %s", f.Name, got, f.Type))
		}
	}
	scratch := w.pool.scratch()
	defer w.pool.scratches.Put(scratch)
	for _, c := range w.cols {
		c.scratch = scratch
		if err := c.write(rb.Column(c.column)); err != nil {
			return w.fail(err)
		}
	}
	w.groupRows += rb.NumRows()
	return nil
}

func (w *Writer) fail(err error) error {
	w.bad = err
	return err
}

// Rows is the number of rows so far.
func (w *Writer) Rows() int64 { return w.rows + w.groupRows }

// Size is about the number of bytes so far: those written and those Held.
func (w *Writer) Size() int64 { return w.offset + w.Held() }

// Held is the number of bytes that wait for the end of the row group, or in pages that are not yet full.
func (w *Writer) Held() int64 {
	n := int64(0)
	for _, c := range w.cols {
		n += int64(c.out.size + c.kept.size() + c.index.size())
	}
	return n
}

// EndRowGroup writes the rows since the last one as a row group; without any it does nothing.
func (w *Writer) EndRowGroup() error {
	if w.bad != nil {
		return w.bad
	}
	if w.groupRows == 0 {
		return nil
	}
	if w.offset == 0 {
		if err := w.put(magic); err != nil {
			return err
		}
	}
	start, raw, indexed := w.offset, int64(0), false
	t := &w.t
	t.reset(w.metadata)
	t.elem()
	t.list(1, thriftStruct, len(w.cols))
	scratch := w.pool.scratch()
	defer w.pool.scratches.Put(scratch)
	for _, c := range w.cols {
		c.scratch = scratch
		if err := w.chunk(t, c); err != nil {
			return err
		}
		raw += c.raw
		indexed = indexed || len(c.index.pages) > 1
		c.file.merge(&c.bounds)
		c.startChunk()
	}
	t.i64(2, raw)
	t.i64(3, w.groupRows)
	t.i64(5, start)
	t.i64(6, w.offset-start)
	if w.groups <= math.MaxInt16 {
		t.i16(7, int64(w.groups))
	}
	t.end()
	w.metadata = t.b
	if !indexed {
		w.index.drop(len(w.cols))
	}
	w.groups++
	w.rows, w.groupRows = w.rows+w.groupRows, 0
	return nil
}

// Adopt writes the rows of another Writer as a row group of this one's file, and leaves the other one empty. It
// must have the same columns and options and must not have written anything yet. So many writers can encode as
// rows come, and it is decided later which of them share a file.
func (w *Writer) Adopt(o *Writer) error {
	switch {
	case w.bad != nil:
		return w.bad
	case o.bad != nil:
		return o.bad
	case o == w || o.offset > 0 || w.opts != o.opts || !w.schema.Equal(o.schema):
		return fmt.Errorf("parquet: only a writer of the same columns that has not written anything can be adopted")
	}
	if err := w.EndRowGroup(); err != nil {
		return err
	}
	swap := func() { w.cols, o.cols, w.groupRows, o.groupRows = o.cols, w.cols, o.groupRows, w.groupRows }
	swap()
	err := w.EndRowGroup()
	swap()
	for i, c := range w.cols {
		c.file.merge(&o.cols[i].file)
		o.cols[i].file.reset()
	}
	return err
}

// chunk writes the chunk of a column, and what the footer says of it.
func (w *Writer) chunk(t *thrift, c *column) error {
	if err := c.end(); err != nil {
		return w.fail(err)
	}
	start, dict := w.offset, int64(0)
	if c.pages[encDictionary] > 0 {
		head, data, err := c.pack(c.dict.page, dictionaryPage, c.dict.n, encPlain)
		if err != nil {
			return w.fail(err)
		}
		dict = int64(len(head) + len(data))
		if err := errors.Join(w.put(head), w.put(data)); err != nil {
			return err
		}
	}
	for _, b := range c.out.list {
		if err := w.put(b); err != nil {
			return err
		}
	}
	t.elem()
	t.i64(2, start)
	t.begin(3)
	t.i32(1, int(c.kind))
	c.encodings(t)
	t.list(3, thriftBinary, len(c.path))
	for _, p := range c.path {
		t.elemString(p)
	}
	t.i32(4, int(c.method))
	t.i64(5, c.levels)
	t.i64(6, c.raw)
	t.i64(7, w.offset-start)
	t.i64(9, start+dict)
	if dict > 0 {
		t.i64(11, start)
	}
	c.bounds.append(t, &c.leaf)
	c.pageCounts(t, dict > 0)
	t.end()
	w.index.add(c, len(t.b), start+dict)
	t.end()
	return nil
}

// encodings lists what the chunk uses: that of the data first, since some readers take the first one for it.
func (c *column) encodings(t *thrift) {
	var list []int
	for e, n := range c.pages {
		if n > 0 {
			list = append(list, e)
		}
	}
	if c.pages[encDictionary] > 0 && c.pages[encPlain] == 0 {
		list = append(list, encPlain) // the dictionary page
	}
	list = append(list, encRLE) // the levels
	t.list(2, thriftI32, len(list))
	for _, e := range list {
		t.elemI32(e)
	}
}

// pageCounts says how many pages there are of each kind: a reader that finds only dictionary pages may look a
// value up there.
func (c *column) pageCounts(t *thrift, dict bool) {
	n := 0
	for _, pages := range c.pages {
		if pages > 0 {
			n++
		}
	}
	if dict {
		n++
	}
	t.list(13, thriftStruct, n)
	stat := func(typ, encoding, count int) {
		t.elem()
		t.i32(1, typ)
		t.i32(2, encoding)
		t.i32(3, count)
		t.end()
	}
	if dict {
		stat(dictionaryPage, encPlain, 1)
	}
	for e, pages := range c.pages {
		if pages > 0 {
			stat(dataPage, e, pages)
		}
	}
}

func (w *Writer) put(b []byte) error {
	n, err := w.sink.Write(b)
	w.offset += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// Close ends the row group and writes the footer. It does not close the sink.
func (w *Writer) Close() error {
	if err := w.EndRowGroup(); err != nil {
		return err
	}
	if w.offset == 0 {
		if err := w.put(magic); err != nil {
			return err
		}
	}
	at := w.offset
	if err := errors.Join(w.put(w.index.columns), w.put(w.index.offsets)); err != nil {
		return err
	}
	t := &w.t
	t.reset(nil)
	t.i32(1, 2)
	t.list(2, thriftStruct, w.layout.n)
	t.b = append(t.b, w.layout.t.b...)
	t.i64(3, w.rows)
	t.list(4, thriftStruct, w.groups)
	w.index.appendMetadata(t, w.metadata, at)
	t.last = 4
	if len(w.index.chunks) > 0 {
		t.list(5, thriftStruct, 1)
		t.elem()
		t.string(1, IndexKey)
		t.string(2, w.index.place(at))
		t.end()
	}
	t.string(6, createdBy)
	t.list(7, thriftStruct, len(w.cols))
	for range w.cols {
		t.elem()
		t.begin(1) // the order that belongs to the type
		t.end()
		t.end()
	}
	t.stop()
	if len(t.b) > math.MaxInt32 {
		return w.fail(fmt.Errorf("%w: a footer of %d bytes", ErrTooLarge, len(t.b)))
	}
	t.b = append(binary.LittleEndian.AppendUint32(t.b, uint32(len(t.b))), magic...)
	if err := w.put(t.b); err != nil {
		return err
	}
	w.bad = ErrClosed
	return nil
}

// Bounds gives what is known of the values of a column outside of lists and maps, by its path from a column of
// the schema down. It is complete after Close; what it gives belongs to the Writer.
func (w *Writer) Bounds(path ...string) (*Bounds, bool) {
	for _, c := range w.cols {
		if c.maxRep == 0 && slices.Equal(c.path, path) {
			return &c.file, true
		}
	}
	return nil, false
}

// Nulls counts the rows in which a column is null, or a struct around it: one of values, of lists or of maps
// that is not itself in a list or map. It is complete after Close.
func (w *Writer) Nulls(path ...string) (int64, bool) {
	for _, c := range w.cols {
		switch {
		case len(c.path) < len(path) || !slices.Equal(c.path[:len(path)], path):
		case c.maxRep == 0 && len(c.path) == len(path):
			return c.file.Nulls, true
		case c.maxRep > 0 && len(c.path) > len(path) && c.steps[len(path)-1].list:
			return c.file.lists, true
		}
	}
	return 0, false
}
