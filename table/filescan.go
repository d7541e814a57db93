package table

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// unit is a span of rows of one file, sorted in tables with keys.
type unit struct {
	add      *deltalog.Add
	from, to int64   // rows
	hulls    []Range // one for each partition, sorted; from the first row's offset to the last one's
	seq      int     // place in version order
}

func (u *unit) name() string { return u.add.Path }

// fileScan reads the rows of one unit in order.
type fileScan struct {
	s       *scan
	ctx     context.Context //nolint:containedctx // one scan of one file
	u       *unit
	pq      *file.Reader
	fr      *pqarrow.FileReader
	fields  []int // of each column: field of the file, -1 when it has none
	consts  []arrow.Array
	leaves  []int
	group   int   // next row group
	start   int64 // its first row
	rows    pqarrow.RecordReader
	left    int64 // rows of the open row group still to give
	width   int64 // bytes of a row of it, about
	pending []*chunk
	last    key
	any     bool
}

func (s *scan) open(ctx context.Context, u *unit) (f *fileScan, err error) {
	defer recoverTo(&err)
	objKey, err := s.objectKey(u.add)
	if err != nil {
		return nil, err
	}
	size := u.add.Size
	if size <= 0 {
		info, err := s.t.Store.Head(ctx, objKey)
		if err != nil {
			return nil, err
		}
		size = info.Size
	}
	at := io.NewSectionReader(objstore.ReaderAt(ctx, s.t.Store, objKey, size), 0, size)
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	if size > s.streamAbove { // row groups may be as large as the file: do not hold their columns whole
		props.BufferedStreamEnabled, props.BufferSize = true, 1<<20
	}
	pq, err := file.NewParquetReader(at, file.WithReadProps(props))
	if err != nil {
		return nil, err
	}
	fr, err := pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{BatchSize: int64(s.opts.BatchRows)}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	if err := checkRows(pq, u.add); err != nil {
		return nil, err
	}
	f = &fileScan{s: s, ctx: ctx, u: u, pq: pq, fr: fr}
	return f, f.bind()
}

// checkRows compares the three places that say how many rows a file has. A footer is not covered by a
// checksum: damage to a row group's count would otherwise leave out rows without a word (I4).
func checkRows(pq *file.Reader, add *deltalog.Add) error {
	sum := int64(0)
	for i := range pq.NumRowGroups() {
		n := pq.MetaData().RowGroup(i).NumRows()
		if n < 0 {
			return fmt.Errorf("%w: row group %d has %d rows", ErrRowCount, i, n)
		}
		sum += n
	}
	if sum != pq.NumRows() {
		return fmt.Errorf("%w: its row groups have %d rows, its footer says %d", ErrRowCount, sum, pq.NumRows())
	}
	if want, ok := add.NumRecords(); ok && want != sum {
		return fmt.Errorf("%w: it has %d rows, the log says %d", ErrRowCount, sum, want)
	}
	return nil
}

// objectKey finds the file in the store: below the table's root, or named by an absolute path or URI that is.
func (s *scan) objectKey(a *deltalog.Add) (string, error) {
	p, err := deltalog.DecodePath(a.Path)
	if err != nil {
		return "", err
	}
	if !strings.Contains(p, "://") && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "file:") {
		return p, nil
	}
	root := strings.TrimSuffix(s.t.Store.URL(), "/") + "/"
	local := p
	if rest, ok := strings.CutPrefix(p, "file:"); ok {
		local = "/" + strings.TrimLeft(strings.TrimPrefix(rest, "//localhost"), "/")
	}
	for _, c := range []string{p, local, strings.Replace(p, "s3a://", "s3://", 1)} {
		if rest, ok := strings.CutPrefix(c, root); ok {
			return rest, nil
		}
	}
	return "", &deltalog.UnsupportedError{Features: []string{"data file outside of the table's folder: " + a.Path}}
}

// bind matches the columns of the scan with those of the file.
func (f *fileScan) bind() error {
	have := make([]arrow.Field, len(f.fr.Manifest.Fields))
	for i := range f.fr.Manifest.Fields {
		have[i] = *f.fr.Manifest.Fields[i].Field
	}
	f.fields = make([]int, f.s.schema.NumFields())
	f.consts = make([]arrow.Array, f.s.schema.NumFields())
	for i, want := range f.s.schema.Fields() {
		f.fields[i] = -1
		if f.s.partitionColumn[want.Name] {
			c, err := partitionArray(want.Type, f.u.add.PartitionValues[want.Name], f.s.opts.BatchRows)
			if err != nil {
				return fmt.Errorf("partition column %q: %w", want.Name, err)
			}
			f.consts[i] = c
			continue
		}
		if j := fieldIndex(have, want.Name); j >= 0 {
			f.fields[i] = j
			f.leaves = leavesOf(&f.fr.Manifest.Fields[j], f.leaves)
			continue
		}
		f.consts[i] = array.MakeArrayOfNull(memory.DefaultAllocator, want.Type, f.s.opts.BatchRows)
	}
	return nil
}

func leavesOf(sf *pqarrow.SchemaField, out []int) []int {
	if sf.IsLeaf() {
		return append(out, sf.ColIndex)
	}
	for i := range sf.Children {
		out = leavesOf(&sf.Children[i], out)
	}
	return out
}

// next gives the next rows; io.EOF after the last.
func (f *fileScan) next() (c *chunk, err error) {
	defer recoverTo(&err)
	for len(f.pending) == 0 {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		rb, err := f.read()
		if err != nil {
			return nil, err
		}
		c := &chunk{rb: rb, file: f.u.name(), width: f.width}
		if !f.s.ordered {
			return c, nil
		}
		if err := c.keyColumns(f.s.part, f.s.off); err != nil {
			return nil, err
		}
		if !f.s.probing {
			if err := c.checkOrder(f.last, f.any); err != nil {
				return nil, err
			}
			f.last, f.any = c.key(c.len()-1), true
			f.pending = c.keep(f.s.ranges)
			rb.Release()
			continue
		}
		return c, nil
	}
	c = f.pending[0]
	f.pending = f.pending[1:]
	return c, nil
}

// read gives the next rows of the unit, not yet filtered, at least one.
func (f *fileScan) read() (arrow.RecordBatch, error) {
	for {
		if f.left == 0 {
			f.closeGroup()
			if err := f.nextGroup(); err != nil {
				return nil, err
			}
		}
		if len(f.leaves) == 0 {
			n := min(f.left, int64(f.s.opts.BatchRows))
			f.left -= n
			return f.shape(nil, n)
		}
		if !f.rows.Next() {
			if err := f.rows.Err(); err != nil {
				return nil, fmt.Errorf("read row group %d: %w", f.group-1, err)
			}
			return nil, fmt.Errorf("row group %d ends %d rows early: %w", f.group-1, f.left, io.ErrUnexpectedEOF)
		}
		rb := f.rows.RecordBatch()
		n := min(rb.NumRows(), f.left)
		if n == 0 {
			continue
		}
		f.left -= n
		return f.shape(rb, n)
	}
}

// nextGroup opens the next row group that can hold rows of the scan.
func (f *fileScan) nextGroup() error {
	for ; f.group < f.pq.NumRowGroups(); f.group++ {
		meta := f.pq.MetaData().RowGroup(f.group)
		start, n := f.start, meta.NumRows()
		f.start += n
		from, to := max(start, f.u.from), min(start+n, f.u.to)
		if from >= to || f.s.skips(meta) {
			continue
		}
		f.left = to - from
		if len(f.leaves) > 0 {
			f.measure(meta)
			rr, err := f.fr.GetRecordReader(f.ctx, f.leaves, []int{f.group})
			if err != nil {
				return fmt.Errorf("open row group %d: %w", f.group, err) // wrapped: io.EOF alone is the end
			}
			f.rows = rr
			if from > start {
				if err := rr.SeekToRow(from - start); err != nil {
					return fmt.Errorf("go to row %d: %w", from, err)
				}
			}
		}
		f.group++
		return nil
	}
	return io.EOF
}

// batchBytes bounds a batch where rows are large.
const batchBytes = 16 << 20

// measure sets the size of batches, so that large values do not make large batches.
func (f *fileScan) measure(meta *metadata.RowGroupMetaData) {
	total := int64(0)
	for _, i := range f.leaves {
		if c, err := meta.ColumnChunk(i); err == nil {
			total += max(0, c.TotalUncompressedSize())
		}
	}
	f.width = total/max(1, meta.NumRows()) + 1
	f.fr.Props.BatchSize = min(int64(f.s.opts.BatchRows), max(1, batchBytes/f.width))
}

func (f *fileScan) closeGroup() {
	if f.rows != nil {
		f.rows.Release()
		f.rows = nil
	}
}

func (f *fileScan) close() {
	f.closeGroup()
	for _, c := range f.pending {
		c.rb.Release()
	}
	f.pending = nil
}

// shape gives n rows of a batch of the file as the scan's columns.
func (f *fileScan) shape(rb arrow.RecordBatch, n int64) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(f.fields))
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, want := range f.s.schema.Fields() {
		if f.fields[i] < 0 {
			cols[i] = constRows(f.consts[i], n)
			continue
		}
		name := f.fr.Manifest.Fields[f.fields[i]].Field.Name
		idx := rb.Schema().FieldIndices(name)
		if len(idx) == 0 {
			return nil, fmt.Errorf("column %q: the file gives no data for it", want.Name)
		}
		src := rb.Column(idx[0])
		if n < rb.NumRows() {
			src = array.NewSlice(src, 0, n)
			defer src.Release()
		}
		a, err := adapt(src, want.Type, memory.DefaultAllocator)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", want.Name, err)
		}
		cols[i] = a
	}
	return array.NewRecordBatch(f.s.schema, cols, n), nil
}

// constRows gives n rows of a column that holds one value. It is at least as long as a batch should be, but
// the Parquet library rounds batches up.
func constRows(c arrow.Array, n int64) arrow.Array {
	if n <= int64(c.Len()) {
		return array.NewSlice(c, 0, n)
	}
	parts := []arrow.Array{}
	for left := n; left > 0; left -= int64(c.Len()) {
		parts = append(parts, array.NewSlice(c, 0, min(left, int64(c.Len()))))
	}
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		panic(err) // equal types; recovered by the caller
	}
	return out
}

// skips says whether the statistics of a row group exclude all rows of the scan.
func (s *scan) skips(rg *metadata.RowGroupMetaData) bool {
	if s.probing || !s.ordered || s.ranges == nil && s.opts.MinTimestamp.IsZero() {
		return false
	}
	b := bounds{pmin: -1 << 31, pmax: 1<<31 - 1, omin: -1 << 63, omax: 1<<63 - 1}
	for i := range rg.NumColumns() {
		c, err := rg.ColumnChunk(i)
		if err != nil {
			return false
		}
		path := c.PathInSchema()
		if len(path) != 1 || path[0] != s.t.Names.Partition && path[0] != s.t.Names.Offset && path[0] != s.t.Names.Timestamp {
			continue
		}
		set, err := c.StatsSet()
		if err != nil || !set {
			continue
		}
		st, err := c.Statistics()
		if err != nil || !st.HasMinMax() {
			continue
		}
		switch st := st.(type) {
		case *metadata.Int32Statistics:
			if path[0] == s.t.Names.Partition {
				b.pmin, b.pmax = st.Min(), st.Max()
			}
		case *metadata.Int64Statistics:
			if path[0] == s.t.Names.Offset {
				b.omin, b.omax = st.Min(), st.Max()
			} else if path[0] == s.t.Names.Timestamp && s.olderThanAsked(st, rg.NumRows()) {
				return true
			}
		}
	}
	return s.ranges != nil && !b.touches(s.ranges)
}
