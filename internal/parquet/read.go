package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

func unsupported(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, a...))
}

// ReadOptions say how a row group is read. The zero value is ready for use.
type ReadOptions struct {
	// Allocator of what is given. One that also has AllocateDirty is asked for memory of any content. Default
	// Arrow's own.
	Allocator memory.Allocator
	// Ahead is how many bytes of a column chunk are asked for at once. Default: all of them.
	Ahead int64
	// Index, when there is one, tells where the pages of leaves outside of lists are, so that Skip finds them without a
	// look at those in between. Rows are then those that will be read, between calls of Skip: nothing else is asked for.
	Index *Index
	Rows  []RowSpan
}

// GroupReader reads columns of one row group in batches. It is for one goroutine.
type GroupReader struct {
	schema *arrow.Schema
	fields []*node
	leaves []*leafReader
	rows   int64 // still to read
	most   int   // rows to decode at once
	begin  func() (*GroupReader, error)
	bad    error // sticky
}

// OpenGroup begins to read fields (places in the manifest) of a row group. The footer and the schema are those of the
// Arrow library, and so are the types of what comes out: they are what its own reader gives. ErrUnsupported, here or
// by any later call, says that the file has something that only that reader knows; then nothing was lost, since a
// batch comes whole or not at all.
func OpenGroup(src Source, footer *metadata.FileMetaData, manifest *pqarrow.SchemaManifest, group int, fields []int, opts ReadOptions) (*GroupReader, error) {
	o, err := newOpener(src, footer, group, opts)
	if err != nil {
		return nil, err
	}
	g := &GroupReader{rows: o.rg.NumRows(), most: 1 << 20}
	g.begin = func() (*GroupReader, error) { return OpenGroup(src, footer, manifest, group, fields, opts) }
	out := make([]arrow.Field, 0, len(fields))
	for _, i := range fields {
		n, err := o.node(&manifest.Fields[i])
		if err != nil {
			return nil, err
		}
		g.fields, out = append(g.fields, n), append(out, retyped(manifest.Fields[i].Field, n.typ))
	}
	g.schema, g.leaves = arrow.NewSchema(out, nil), o.leaves
	return g, nil
}

// opener makes the leaves of a row group.
type opener struct {
	src    Source
	footer *metadata.FileMetaData
	rg     *metadata.RowGroupMetaData
	group  int
	mem    allocator
	opts   ReadOptions
	leaves []*leafReader
}

func newOpener(src Source, footer *metadata.FileMetaData, group int, opts ReadOptions) (*opener, error) {
	if footer.WriterVersion().LessThan(metadata.Parquet816FixedVersion) {
		return nil, unsupported("chunks of %s, which are longer than they say", footer.GetCreatedBy())
	}
	mem, ok := opts.Allocator.(allocator)
	if !ok {
		mem = clean{opts.Allocator}
		if opts.Allocator == nil {
			mem = clean{memory.DefaultAllocator}
		}
	}
	return &opener{src: src, footer: footer, rg: footer.RowGroup(group), group: group, mem: mem, opts: opts}, nil
}

func (o *opener) node(sf *pqarrow.SchemaField) (*node, error) {
	n := &node{typ: o.typeOf(sf), info: sf.LevelInfo}
	if sf.IsLeaf() {
		var err error
		n.leaf, err = o.leaf(sf)
		return n, err
	}
	want := 1
	switch t := n.typ.(type) {
	case *arrow.StructType:
		want = t.NumFields()
	case *arrow.ListType, *arrow.MapType:
	default:
		return nil, unsupported("a group of type %s", n.typ)
	}
	if len(sf.Children) != want || want == 0 {
		return nil, unsupported("a group of %d fields for %s", len(sf.Children), n.typ)
	}
	for i := range sf.Children {
		kid, err := o.node(&sf.Children[i])
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
	}
	n.leaf = n.kids[0].leaf
	return n, nil
}

// typeOf is the type that the library gives a field, but for times in Parquet's old form of 12 bytes: those are microseconds
// here, which hold every year that anybody writes; nanoseconds end in 2262.
func (o *opener) typeOf(sf *pqarrow.SchemaField) arrow.DataType {
	if sf.IsLeaf() {
		if t, ok := sf.Field.Type.(*arrow.TimestampType); ok && o.footer.Schema.Column(sf.ColIndex).PhysicalType() == arrowparquet.Types.Int96 {
			return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: t.TimeZone}
		}
		return sf.Field.Type
	}
	kids, same := make([]arrow.Field, len(sf.Children)), true
	for i := range sf.Children {
		kid := &sf.Children[i]
		t := o.typeOf(kid)
		kids[i], same = retyped(kid.Field, t), same && t == kid.Field.Type
	}
	if same {
		return sf.Field.Type
	}
	switch t := sf.Field.Type.(type) {
	case *arrow.StructType:
		if len(kids) == t.NumFields() {
			return arrow.StructOf(kids...)
		}
	case *arrow.ListType:
		return arrow.ListOfField(kids[0])
	case *arrow.MapType:
		if pair, ok := kids[0].Type.(*arrow.StructType); ok && pair.NumFields() == 2 {
			m := arrow.MapOfFields(pair.Field(0), pair.Field(1))
			m.KeysSorted = t.KeysSorted
			return m
		}
	}
	return sf.Field.Type
}

func retyped(f *arrow.Field, t arrow.DataType) arrow.Field {
	out := *f
	out.Type = t
	return out
}

func (o *opener) leaf(sf *pqarrow.SchemaField) (*leafReader, error) {
	l := &leafReader{}
	if err := o.chunk(l, sf.ColIndex); err != nil {
		return nil, err
	}
	if err := l.physical(o.footer.Schema.Column(sf.ColIndex), o.typeOf(sf)); err != nil {
		return nil, err
	}
	o.leaves = append(o.leaves, l)
	return l, nil
}

// chunk sets where a leaf's pages are and what memory it has.
func (o *opener) chunk(l *leafReader, column int) error {
	desc := o.footer.Schema.Column(column)
	chunk, err := o.rg.ColumnChunk(column)
	if err != nil {
		return err
	}
	l.slots, l.dict.mem, l.name = chunk.NumValues(), o.mem, desc.Path()
	def, rep := desc.MaxDefinitionLevel(), desc.MaxRepetitionLevel()
	if def > 100 || rep > 100 {
		return unsupported("column %q of %d levels", l.name, def)
	}
	l.maxDef, l.maxRep, l.most = uint8(def), uint8(rep), mostSlots
	start := chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		start = min(start, chunk.DictionaryPageOffset())
	}
	size := chunk.TotalCompressedSize()
	if start < 0 || size < 0 || start > 1<<62 || size > 1<<62 || l.slots < 0 {
		return damaged("column %q has a chunk of %d values, %d bytes at %d", l.name, l.slots, size, start)
	}
	codec := Codec(chunk.Compression())
	switch codec {
	case Uncompressed, Snappy, Gzip, Zstd, LZ4, LZ4Raw:
	default:
		return unsupported("%s", codec)
	}
	l.pages = pages{src: o.src, at: start, end: start + size, ahead: size, codec: codec, mem: o.mem}
	if o.opts.Ahead > 0 {
		l.pages.ahead = o.opts.Ahead
	}
	if o.opts.Index != nil && l.maxRep == 0 {
		if l.inFile, err = o.opts.Index.places(o.group, column); err != nil {
			return err
		}
		if l.inFile != nil && l.slots != o.rg.NumRows() {
			l.inFile = nil
		}
		if l.inFile != nil && o.opts.Rows != nil {
			l.pages.wanted = l.inFile.bytesOf(start, o.opts.Rows)
		}
	}
	for _, g := range []*growing{&l.vals, &l.offs, &l.data, &l.cast} {
		g.mem = o.mem
	}
	l.density = float64(max(0, chunk.TotalUncompressedSize())) / float64(max(1, o.rg.NumRows()))
	return nil
}

// setWidth sets how values stand in the file.
func (l *leafReader) setWidth(desc *schema.Column) {
	l.kind = kind(desc.PhysicalType())
	switch desc.PhysicalType() {
	case arrowparquet.Types.Boolean:
		l.width = 1
	case arrowparquet.Types.Int32, arrowparquet.Types.Float:
		l.width = 4
	case arrowparquet.Types.Int64, arrowparquet.Types.Double:
		l.width = 8
	case arrowparquet.Types.Int96:
		l.width, l.kind = 12, kindFixed
	case arrowparquet.Types.FixedLenByteArray:
		l.width = desc.TypeLength()
	}
}

// physical sets how values stand in the file and what becomes of them.
func (l *leafReader) physical(desc *schema.Column, typ arrow.DataType) error {
	l.setWidth(desc)
	ok := false
	switch t := typ.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		ok = l.kind == kindBytes
	case *arrow.BooleanType:
		ok = l.kind == kindBool
	case *arrow.Int8Type, *arrow.Uint8Type:
		l.convert, l.outWidth, ok = narrow, 1, l.kind == kindInt32
	case *arrow.Int16Type, *arrow.Uint16Type:
		l.convert, l.outWidth, ok = narrow, 2, l.kind == kindInt32
	case *arrow.FixedSizeBinaryType:
		ok = l.kind == kindFixed && l.width == t.ByteWidth && l.width > 0
	case *arrow.Decimal128Type:
		l.convert, l.outWidth, ok = widenDecimal, 16, l.kind == kindInt32 || l.kind == kindInt64
		if l.kind == kindFixed {
			l.convert, ok = turnDecimal, l.width > 0 && l.width <= 16
		}
	case *arrow.TimestampType:
		ok = l.kind == kindInt64
		if desc.PhysicalType() == arrowparquet.Types.Int96 {
			l.convert, l.outWidth, ok = microseconds, 8, t.Unit == arrow.Microsecond
		}
	case *arrow.Int32Type, *arrow.Uint32Type, *arrow.Date32Type, *arrow.Time32Type:
		ok = l.kind == kindInt32
	case *arrow.Int64Type, *arrow.Uint64Type, *arrow.Time64Type:
		ok = l.kind == kindInt64
	case *arrow.Float32Type:
		ok = l.kind == kindFloat
	case *arrow.Float64Type:
		ok = l.kind == kindDouble
	}
	if !ok {
		return unsupported("column %q, %s in physical type %s", l.name, typ, desc.PhysicalType())
	}
	return nil
}

// Schema is that of the batches.
func (g *GroupReader) Schema() *arrow.Schema { return g.schema }

// Next gives the next rows, at most n and at least one; the caller knows when none are left. The caller releases
// the columns, which are those of the schema.
func (g *GroupReader) Next(n int) (cols []arrow.ArrayData, rows int, err error) {
	if g.bad != nil {
		return nil, 0, g.bad
	}
	defer func() {
		if g.bad = err; err != nil {
			releaseAll(cols)
			cols = nil
		}
	}()
	if n = int(min(int64(n), g.rows)); n <= 0 {
		return nil, 0, damaged("a row group that has no more rows")
	}
	for {
		n = min(n, g.most)
		if cols, rows, err = g.decode(n); !errors.Is(err, errTooMuch) {
			return cols, rows, err
		}
		releaseAll(cols)
		cols, g.most = nil, n
		if err := g.smaller(err, 0); err != nil {
			return nil, 0, err
		}
	}
}

// smaller begins anew where errTooMuch stopped the reader, to decode half as many rows at once, and skips rows.
func (g *GroupReader) smaller(err error, skip int64) error {
	left := g.rows
	for errors.Is(err, errTooMuch) {
		if g.most == 1 {
			return damaged("a row of more than %d bytes in one column: %v", mostBytes, err)
		}
		h, fault := g.begin()
		if fault != nil {
			return fault
		}
		g.Release()
		g.fields, g.leaves, g.most = h.fields, h.leaves, g.most/2
		err = g.pass(h.rows - left + skip)
	}
	g.rows = left - skip
	return err
}

// decode gives the next rows, at most n.
func (g *GroupReader) decode(n int) (cols []arrow.ArrayData, rows int, err error) {
	for _, l := range g.leaves {
		if l.left == 0 && l.waiting.at == len(l.waiting.def) && l.slots > 0 {
			if _, err := l.nextPage(0); err != nil {
				return nil, 0, err
			}
		}
		n = min(n, max(1, mostBytes/max(1, l.dict.most)))
	}
	for _, l := range g.leaves {
		if err := l.read(n); err != nil {
			if errors.Is(err, errTooMuch) {
				err = fmt.Errorf("column %q: %w", l.name, err)
			}
			return nil, 0, err
		}
	}
	for _, f := range g.fields {
		d, err := f.array()
		if err != nil {
			return cols, 0, err
		}
		cols = append(cols, d)
		if d.Len() != n {
			return cols, 0, damaged("column %q gives %d rows of %d", f.leaf.name, d.Len(), n)
		}
	}
	g.rows -= int64(n)
	return cols, n, nil
}

// Skip passes over rows.
func (g *GroupReader) Skip(n int64) error {
	if g.bad != nil {
		return g.bad
	}
	if n < 0 || n > g.rows {
		return damaged("row %d of a row group that has %d left", n, g.rows)
	}
	g.bad = g.smaller(g.pass(n), n)
	return g.bad
}

// pass passes over n rows in all leaves.
func (g *GroupReader) pass(n int64) error {
	for n > 0 {
		k := int(min(n, int64(g.most)))
		n -= int64(k)
		for _, l := range g.leaves {
			if err := l.skip(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// Release frees what the reader holds. What it gave stays good.
func (g *GroupReader) Release() {
	for _, l := range g.leaves {
		l.close()
	}
}
