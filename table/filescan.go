package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/internal/roaring"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// unit is a span of rows of one file, sorted in tables with keys.
type unit struct {
	add      *deltalog.Add
	from, to int64                  // rows
	hulls    []Range                // one for each partition, sorted; from the first row's offset to the last one's
	seq      int                    // place in version order
	deleted  *roaring.Bitmap        // rows of the file that are not in the table; read with the file
	footer   *metadata.FileMetaData // when it was read before
	share    int64                  // of the scan's memory, while others are open too; 0: it is read alone

	placed     bool  // the log names the place of each of its rows
	foreign    bool  // of the rows without partition and offset, instead of those that have them
	foreigners int64 // how many of them a probe has seen
}

func (u *unit) name() string { return u.add.Path }

// fileScan reads the rows of one unit in order.
type fileScan struct {
	s        *scan
	ctx      context.Context //nolint:containedctx // one scan of one file
	u        *unit
	pq       *file.Reader
	fr       *pqarrow.FileReader
	fields   []int // of each column: field of the file, -1 when it has none
	consts   []arrow.Array
	wants    []int // fields of the file to read, each once
	leaves   []int // of them
	source   *io.SectionReader
	streamed bool                 // its columns are read in pieces
	calendar *ourparquet.Calendar // of its dates, nil for today's
	group    int                  // next row group
	start    int64                // its first row
	at       int64                // next row to read
	index    *ourparquet.Index
	spans    []ourparquet.RowSpan // of the open row group, behind the one in work
	prune    [3]int               // leaves of the file: partition, offset, timestamp; -1 when it has none
	rows     *groupRows
	left     int64 // rows of the open row group still to give
	batch    int64 // rows to ask it for at once
	width    int64 // bytes of a row of it, about
	pending  []*chunk
	last     key
	any      bool
}

func (s *scan) open(ctx context.Context, u *unit) (f *fileScan, err error) {
	defer recoverTo(&err)
	store, objKey, err := s.t.locate(ctx, u.add.Path, "data file")
	if err != nil {
		return nil, err
	}
	size := u.add.Size
	if size <= 0 {
		info, err := store.Head(ctx, objKey)
		if err != nil {
			return nil, notAsLogged(ctx, store, objKey, u.add, err)
		}
		size = info.Size
	}
	at := io.NewSectionReader(objstore.ReaderAt(ctx, store, objKey, size), 0, size)
	props := parquet.NewReaderProperties(recycled)
	streamed := size > s.streamAbove
	if streamed { // row groups may be as large as the file: do not hold their columns whole
		props.BufferedStreamEnabled, props.BufferSize = true, s.buffer
	}
	pq, err := file.NewParquetReader(at, file.WithReadProps(props), file.WithMetadata(u.footer))
	if err != nil {
		return nil, notAsLogged(ctx, store, objKey, u.add, err)
	}
	plainTypes(pq)
	fr, err := pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{BatchSize: int64(s.opts.BatchRows)}, recycled)
	if err != nil {
		return nil, err
	}
	if err := checkRows(pq, u.add); err != nil {
		return nil, err
	}
	if dv := u.add.DeletionVector; dv != nil && u.deleted == nil {
		if u.deleted, err = s.t.deletedRows(ctx, dv, pq.NumRows()); err != nil {
			return nil, err
		}
	}
	f = &fileScan{s: s, ctx: ctx, u: u, pq: pq, fr: fr, source: at, streamed: streamed, calendar: ourparquet.CalendarOf(pq.MetaData())}
	return f, f.bind()
}

// notAsLogged says why a data file cannot be opened, if that is because it is not there, or not as long as the log says.
func notAsLogged(ctx context.Context, store objstore.Store, key string, add *deltalog.Add, err error) error {
	info, herr := store.Head(ctx, key)
	switch {
	case errors.Is(herr, objstore.ErrNotFound):
		return fmt.Errorf("the table's log names it, with %d bytes, but it is not in the store: %w", add.Size, herr)
	case herr == nil && add.Size > 0 && info.Size != add.Size:
		return fmt.Errorf("it has %d bytes, the table's log says %d: %w", info.Size, add.Size, err)
	}
	return err
}

// plainTypes makes the Parquet library forget the Arrow schema that some writers leave in a file: large strings,
// dictionaries and other views of their memory. A Delta table's types are those of Parquet.
func plainTypes(pq *file.Reader) {
	for _, kv := range pq.MetaData().KeyValueMetadata() {
		if kv.Key == "ARROW:schema" {
			kv.Key = ""
		}
	}
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

// ObjectKey finds a file that an action names, URI-encoded, in the table's store; an error when it lies elsewhere.
func (t *Table) ObjectKey(encoded string) (string, error) { return t.objectKey(encoded, "file") }

// objectKey finds a file that the log names in the store: below the table's root, or named by an absolute path or
// URI that is.
func (t *Table) objectKey(encoded, what string) (string, error) {
	p, err := deltalog.DecodePath(encoded)
	if err != nil {
		return "", err
	}
	if !strings.Contains(p, "://") && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "file:") {
		return p, nil
	}
	root := strings.TrimSuffix(t.Store.URL(), "/") + "/"
	local, _ := localPath(p)
	for _, c := range []string{p, local, strings.Replace(p, "s3a://", "s3://", 1)} {
		if rest, ok := strings.CutPrefix(c, root); ok {
			return rest, nil
		}
	}
	return "", &deltalog.UnsupportedError{Features: []string{what + " outside of the table's folder: " + encoded}}
}

// bind matches the columns of the scan with those of the file.
func (f *fileScan) bind() error {
	have := make([]arrow.Field, len(f.fr.Manifest.Fields))
	for i := range f.fr.Manifest.Fields {
		have[i] = *f.fr.Manifest.Fields[i].Field
	}
	f.fields = make([]int, f.s.schema.NumFields())
	f.consts = make([]arrow.Array, f.s.schema.NumFields())
	if f.s.mapping.mode == "id" && !hasIDs(have) {
		return errors.New("the table finds its columns by field id, and the file has no field ids")
	}
	for i, name := range []string{f.s.names.Partition, f.s.names.Offset, f.s.names.Timestamp} {
		f.prune[i] = -1
		if name != "" && f.s.mapping.mode != "id" {
			f.prune[i] = leafAt(f.fr.Manifest.Fields, strings.Split(name, pathSep))
		}
	}
	if f.calendar != nil { // its limits of times are of that calendar
		f.prune[2] = -1
	}
	for i, want := range f.s.schema.Fields() {
		stored := f.s.stored[i]
		f.fields[i] = -1
		if f.s.partitionColumn[want.Name] {
			c, err := partitionArray(want.Type, f.u.add.PartitionValues[stored.Name], f.s.opts.BatchRows)
			if err != nil {
				return fmt.Errorf("partition column %q: %w", want.Name, err)
			}
			f.consts[i] = c
			continue
		}
		j, err := find(have, stored)
		if err != nil {
			return fmt.Errorf("column %q: %w", want.Name, err)
		}
		if j >= 0 {
			f.fields[i] = j
			if slices.Contains(f.wants, j) {
				continue
			}
			f.wants = append(f.wants, j)
			f.leaves = leavesOf(&f.fr.Manifest.Fields[j], f.leaves)
			continue
		}
		f.consts[i] = array.MakeArrayOfNull(memory.DefaultAllocator, want.Type, f.s.opts.BatchRows)
	}
	return nil
}

// leafAt finds the leaf of a column by the names on the way to it; -1 when there is none.
func leafAt(fields []pqarrow.SchemaField, path []string) int {
	i := slices.IndexFunc(fields, func(f pqarrow.SchemaField) bool { return f.Field.Name == path[0] })
	switch {
	case i < 0:
		return -1
	case len(path) > 1 && fields[i].Field.Type.ID() == arrow.STRUCT:
		return leafAt(fields[i].Children, path[1:])
	case len(path) > 1 || !fields[i].IsLeaf():
		return -1
	}
	return fields[i].ColIndex
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
		f.pending = f.live(rb, f.at-rb.NumRows())
		if f.s.ordered {
			if err := f.wanted(); err != nil {
				return nil, err
			}
		}
		if len(f.pending) == 0 {
			continue
		}
		if err := f.ready(); err != nil {
			return nil, err
		}
	}
	c = f.pending[0]
	f.pending = f.pending[1:]
	return c, nil
}

// ready makes the pending chunks what the scan asks for: one, with keys that are in order, of the ranges only. A
// probe needs to know which row of the file each is, and gets the pieces as they are.
func (f *fileScan) ready() error {
	if !f.s.probing && len(f.pending) > 1 {
		c, err := join(f.pending)
		if err != nil {
			return err
		}
		c.width = f.width
		f.drop()
		f.pending = []*chunk{c}
	}
	if !f.s.ordered || f.u.foreign {
		return nil
	}
	for _, c := range f.pending {
		if err := c.keyColumns(f.s.part, f.s.off); err != nil {
			return err
		}
	}
	if f.s.probing {
		return nil
	}
	c := f.pending[0]
	if err := c.checkOrder(f.last, f.any); err != nil {
		return err
	}
	f.last, f.any = c.key(c.len()-1), true
	f.pending = c.keep(f.s.ranges)
	c.rb.Release()
	return nil
}

// read gives the next rows of the unit, not yet filtered, at least one.
func (f *fileScan) read() (arrow.RecordBatch, error) {
	if f.left == 0 {
		if err := f.nextRows(); err != nil {
			return nil, err
		}
	}
	if len(f.leaves) == 0 {
		n := min(f.left, int64(f.s.opts.BatchRows))
		f.left -= n
		f.at += n
		return f.shape(nil, n)
	}
	rb, err := f.rows.next(min(f.left, f.batch))
	if err != nil {
		return nil, fmt.Errorf("read row group %d, %d rows before its end: %w", f.group-1, f.left, err)
	}
	n := min(rb.NumRows(), f.left)
	f.left -= n
	f.at += n
	out, err := f.shape(rb, n)
	rb.Release()
	return out, err
}

// nextRows goes to the next rows that can be rows of the scan, in the open row group or in a later one.
func (f *fileScan) nextRows() error {
	if len(f.spans) == 0 {
		f.closeGroup()
		return f.nextGroup()
	}
	span := f.spans[0]
	f.spans = f.spans[1:]
	f.left, f.at = span.To-span.From, f.start-f.pq.MetaData().RowGroup(f.group-1).NumRows()+span.From
	if f.rows == nil {
		return nil
	}
	if err := f.rows.skipTo(span.From); err != nil {
		return fmt.Errorf("read row group %d at its row %d: %w", f.group-1, span.From, err)
	}
	return nil
}

// nextGroup opens the next row group that can hold rows of the scan.
func (f *fileScan) nextGroup() error {
	for ; f.group < f.pq.NumRowGroups(); f.group++ {
		meta := f.pq.MetaData().RowGroup(f.group)
		start, n := f.start, meta.NumRows()
		f.start += n
		from, to := max(start, f.u.from), min(start+n, f.u.to)
		if from >= to || f.skips(meta) || !f.filterGroup(meta) {
			continue
		}
		spans, err := f.wantedRows(f.group, meta, from-start, to-start)
		if err != nil {
			return fmt.Errorf("row group %d: %w", f.group, err) // wrapped: io.EOF alone is the end
		}
		if len(spans) == 0 {
			continue
		}
		if len(f.leaves) > 0 {
			f.measure(meta)
			if f.rows, err = f.openGroup(f.group, spans); err != nil {
				return fmt.Errorf("open row group %d at row %d: %w", f.group, from, err)
			}
		}
		f.left, f.at, f.spans = spans[0].To-spans[0].From, start+spans[0].From, spans[1:]
		f.group++
		return nil
	}
	return io.EOF
}

// batchBytes bounds a batch where rows are large.
const (
	batchBytes = 16 << 20
	leastBatch = 64 << 10 // however many files are open
)

// measure sets the size of batches, so that large values do not make large batches.
func (f *fileScan) measure(meta *metadata.RowGroupMetaData) {
	total := int64(0)
	for _, i := range f.leaves {
		if c, err := meta.ColumnChunk(i); err == nil {
			total += max(0, c.TotalUncompressedSize())
		}
	}
	f.width = total/max(1, meta.NumRows()) + 1
	most := int64(batchBytes)
	if f.u.share > 0 {
		most = min(most, max(f.u.share/2, leastBatch))
	}
	f.batch = min(int64(f.s.opts.BatchRows), max(1, most/f.width))
	f.fr.Props.BatchSize = f.batch
	// Room for a batch at once, instead of buffers that grow; but only where what a footer claims is bounded (I8).
	f.fr.Props.PreAllocBinaryData = f.width <= batchBytes && total <= 1<<40
}

func (f *fileScan) closeGroup() {
	if f.rows != nil {
		f.rows.release()
		f.rows = nil
	}
}

func (f *fileScan) close() {
	f.closeGroup()
	f.drop()
}

func (f *fileScan) drop() {
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
		a, err := adapt(src, f.s.stored[i].Type, memory.DefaultAllocator)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", want.Name, err)
		}
		cols[i] = innermost(a, f.s.depth[i])
		if a = cols[i]; f.s.mapping.mode != "" {
			cols[i] = rename(a, want.Type)
			a.Release()
		}
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
func (f *fileScan) skips(rg *metadata.RowGroupMetaData) bool {
	s := f.s
	if s.probing || !s.ordered || s.ranges == nil && s.opts.MinTimestamp.IsZero() {
		return false
	}
	b := f.groupBounds(rg)
	if st, ok := leafStats(rg, f.prune[2]).(*metadata.Int64Statistics); ok && s.olderThanAsked(st, rg.NumRows()) {
		return true
	}
	return s.ranges != nil && !b.touches(s.ranges)
}

// groupBounds are those of a row group's offsets, as far as its statistics tell.
func (f *fileScan) groupBounds(rg *metadata.RowGroupMetaData) bounds {
	b := bounds{pmin: -1 << 31, pmax: 1<<31 - 1, omin: -1 << 63, omax: 1<<63 - 1}
	if st, ok := leafStats(rg, f.prune[0]).(*metadata.Int32Statistics); ok {
		b.pmin, b.pmax = st.Min(), st.Max()
	}
	if st, ok := leafStats(rg, f.prune[1]).(*metadata.Int64Statistics); ok {
		b.omin, b.omax = st.Min(), st.Max()
	}
	return b
}

// leafStats gives the statistics of a column that have a smallest and a largest value, else nil.
func leafStats(rg *metadata.RowGroupMetaData, leaf int) metadata.TypedStatistics {
	if leaf < 0 || leaf >= rg.NumColumns() {
		return nil
	}
	c, err := rg.ColumnChunk(leaf)
	if err != nil {
		return nil
	}
	if set, err := c.StatsSet(); err != nil || !set {
		return nil
	}
	if st, err := c.Statistics(); err == nil && st.HasMinMax() {
		return st
	}
	return nil
}
