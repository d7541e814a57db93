package deltalog

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// rowGroupRows bounds the actions that are held as columns at a time.
const rowGroupRows = 32 << 10

// leaf buffers one column: levels as the Parquet format defines them, and the values that are present.
type leaf struct {
	rows  int // rows that have levels
	def   []int16
	rep   []int16
	texts []parquet.ByteArray
	longs []int64
	ints  []int32
	bools []bool

	floats  []float32
	doubles []float64
	fixed   []parquet.FixedLenByteArray
}

// level starts a value (or a null) at row. Rows since the last one belong to other actions: the column's
// outermost group is null in them.
func (l *leaf) level(row int, def, rep int16) {
	l.pad(row)
	l.def = append(l.def, def)
	l.rep = append(l.rep, rep)
	l.rows = row + 1
}

func (l *leaf) pad(rows int) {
	for ; l.rows < rows; l.rows++ {
		l.def = append(l.def, 0)
		l.rep = append(l.rep, 0)
	}
}

func (l *leaf) reset() {
	clear(l.texts) // let go of the strings
	clear(l.fixed)
	l.floats, l.doubles, l.fixed = l.floats[:0], l.doubles[:0], l.fixed[:0]
	l.rows, l.def, l.rep, l.texts, l.longs, l.ints, l.bools = 0, l.def[:0], l.rep[:0], l.texts[:0], l.longs[:0], l.ints[:0], l.bools[:0]
}

// columnWriter writes actions as rows of a checkpoint: one action a row, all other columns null.
type columnWriter struct {
	w      *file.Writer
	plan   *structPlan // of adds; may be nil
	leaves []leaf
	first  [numActionColumns]int // first leaf of each action column
	rows   int
	total  int64
	keys   []string
}

func newColumnWriter(out io.Writer, columns []int, plan *structPlan) (*columnWriter, error) {
	root, err := checkpointSchema(columns, plan)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDictionaryDefault(false),
		parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithVersion(parquet.V1_0), parquet.WithCreatedBy("ledgerlake"))
	c := &columnWriter{plan: plan, w: file.NewParquetWriter(out, root, file.WithWriterProps(props))}
	sc := schema.NewSchema(root)
	c.leaves = make([]leaf, sc.NumColumns())
	for i := sc.NumColumns() - 1; i >= 0; i-- {
		name, _, _ := strings.Cut(sc.Column(i).Path(), ".")
		c.first[columns[root.FieldIndexByName(name)]] = i
	}
	return c, nil
}

// row starts a row whose only action is in the given column.
func (c *columnWriter) row(column int) fields {
	c.rows++
	return fields{c: c, row: c.rows - 1, next: c.first[column], depth: 1}
}

// done ends a row, and the row group when it is full.
func (c *columnWriter) done() error {
	if c.rows < rowGroupRows {
		return nil
	}
	return c.flush()
}

func (c *columnWriter) flush() error {
	if c.rows == 0 {
		return nil
	}
	rg, err := c.w.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for i := range c.leaves {
		l := &c.leaves[i]
		l.pad(c.rows)
		cw, err := rg.NextColumn()
		if err != nil {
			return err
		}
		if err := l.write(cw); err != nil {
			return fmt.Errorf("column %s: %w", cw.Descr().Path(), err)
		}
		if err := cw.Close(); err != nil {
			return err
		}
		l.reset()
	}
	c.total += int64(c.rows)
	c.rows = 0
	return rg.Close()
}

func (l *leaf) write(cw file.ColumnChunkWriter) (err error) {
	rep := l.rep
	if cw.Descr().MaxRepetitionLevel() == 0 {
		rep = nil
	}
	switch w := cw.(type) {
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(l.texts, l.def, rep)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(l.longs, l.def, rep)
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(l.ints, l.def, rep)
	case *file.Float32ColumnChunkWriter:
		_, err = w.WriteBatch(l.floats, l.def, rep)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(l.doubles, l.def, rep)
	case *file.FixedLenByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(l.fixed, l.def, rep)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(l.bools, l.def, rep)
	default:
		err = fmt.Errorf("no writer for %v", cw.Type())
	}
	return err
}

func (c *columnWriter) close() error {
	err := c.flush()
	if cerr := c.w.Close(); err == nil {
		err = cerr
	}
	return err
}

// fields appends the fields of one group in schema order. depth is the definition level of the group itself.
type fields struct {
	c     *columnWriter
	row   int
	next  int
	depth int16
}

func (f *fields) leaf() *leaf {
	l := &f.c.leaves[f.next]
	f.next++
	return l
}

// null writes n leaf columns as absent.
func (f *fields) null(n int) {
	for range n {
		f.leaf().level(f.row, f.depth, 0)
	}
}

func (f *fields) text(s string) {
	l := f.leaf()
	l.level(f.row, f.depth+1, 0)
	l.texts = append(l.texts, bytesOf(s))
}

// bytesOf gives a string's bytes without a copy; the Parquet writer only reads them.
func bytesOf(s string) parquet.ByteArray {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// some writes an empty string as null: an absent optional field.
func (f *fields) some(s string) {
	if s == "" {
		f.null(1)
		return
	}
	f.text(s)
}

func (f *fields) long(v int64) {
	l := f.leaf()
	l.level(f.row, f.depth+1, 0)
	l.longs = append(l.longs, v)
}

func (f *fields) integer(v int32) {
	l := f.leaf()
	l.level(f.row, f.depth+1, 0)
	l.ints = append(l.ints, v)
}

func (f *fields) boolean(v bool) {
	l := f.leaf()
	l.level(f.row, f.depth+1, 0)
	l.bools = append(l.bools, v)
}

func (f *fields) longPtr(v *int64) {
	if v == nil {
		f.null(1)
		return
	}
	f.long(*v)
}

func (f *fields) boolPtr(v *bool) {
	if v == nil {
		f.null(1)
		return
	}
	f.boolean(*v)
}

// values writes a map in key order, so that the same table always gives the same bytes. A nil map is null.
func (f *fields) values(m map[string]*string) {
	if m == nil {
		f.null(2)
		return
	}
	keyLeaf, valueLeaf := f.leaf(), f.leaf()
	if len(m) == 0 {
		keyLeaf.level(f.row, f.depth+1, 0)
		valueLeaf.level(f.row, f.depth+1, 0)
		return
	}
	keys := f.c.keys[:0]
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	f.c.keys = keys
	rep := int16(0)
	for _, k := range keys {
		keyLeaf.level(f.row, f.depth+2, rep)
		keyLeaf.texts = append(keyLeaf.texts, bytesOf(k))
		if v := m[k]; v != nil {
			valueLeaf.level(f.row, f.depth+3, rep)
			valueLeaf.texts = append(valueLeaf.texts, bytesOf(*v))
		} else {
			valueLeaf.level(f.row, f.depth+2, rep)
		}
		rep = 1
	}
}

func (f *fields) settings(m map[string]string) {
	p := make(map[string]*string, len(m))
	for k, v := range m {
		p[k] = &v
	}
	f.values(p)
}

func (f *fields) list(texts []string) {
	l := f.leaf()
	if len(texts) == 0 {
		l.level(f.row, f.depth+1, 0)
		return
	}
	for i, s := range texts {
		l.level(f.row, f.depth+3, int16(min(i, 1)))
		l.texts = append(l.texts, bytesOf(s))
	}
}

// group enters a nested group; leave returns to the fields after it.
func (f *fields) group() { f.depth++ }
func (f *fields) leave() { f.depth-- }

const dvLeaves = 6

func (f *fields) dv(d *DeletionVector) {
	if d == nil {
		f.null(dvLeaves)
		return
	}
	f.group()
	f.text(d.StorageType)
	f.text(d.PathOrInlineDV)
	if d.Offset == nil {
		f.null(1)
	} else {
		f.integer(*d.Offset)
	}
	f.integer(d.SizeInBytes)
	f.long(d.Cardinality)
	f.longPtr(d.MaxRowIndex)
	f.leave()
}
