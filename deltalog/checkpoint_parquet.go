package deltalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	ourparquet "github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// wantedFields are the action columns and the leaves of them that are read, by the names of parquetLeaf; everything else in a
// checkpoint is ignored, as the protocol asks.
func wantedFields(column string) string {
	const dv = "deletionVector.storageType deletionVector.pathOrInlineDv deletionVector.offset deletionVector.sizeInBytes deletionVector.cardinality deletionVector.maxRowIndex "
	switch column {
	case "txn":
		return " appId version lastUpdated "
	case "add":
		return " path partitionValues#key partitionValues#value size modificationTime dataChange tags#key tags#value baseRowId defaultRowCommitVersion clusteringProvider stats " + dv
	case "remove":
		return " path deletionTimestamp dataChange extendedFileMetadata partitionValues#key partitionValues#value size baseRowId defaultRowCommitVersion " + dv
	case "metaData":
		return " id name description format.provider format.options#key format.options#value schemaString partitionColumns#element configuration#key configuration#value createdTime "
	case "protocol":
		return " minReaderVersion minWriterVersion readerFeatures#element writerFeatures#element "
	case "domainMetadata":
		return " domain configuration removed "
	case "checkpointMetadata":
		return " version "
	case "sidecar":
		return " path sizeInBytes modificationTime "
	}
	return ""
}

// parquetColumn is one action column with the leaves that are read.
type parquetColumn struct {
	name   string
	leaves []*parquetLeaf
	byName map[string]*parquetLeaf
	parsed []*parquetLeaf // add.stats_parsed
}

func (c *parquetColumn) leaf(name string) *parquetLeaf { return c.byName[name] }

func (c *parquetColumn) mapOf(name string) parquetMap {
	return parquetMap{c.byName[name+"#key"], c.byName[name+"#value"]}
}

// parseParquet reads one parquet file of a checkpoint and gives its actions in pieces. Panics of the decoder on
// hostile bytes become errors (I8): everything here runs in the calling goroutine.
func parseParquet(src *checkpointSource, light bool, use func(*actions) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parquet decoder: %v", r)
			if fault, ok := r.(error); ok && errors.Is(fault, errUnfolds) {
				err = fault
			}
		}
	}()
	mem := &unfolding{Allocator: memory.DefaultAllocator}
	mem.begin(src.size, 0)
	props := parquet.NewReaderProperties(mem)
	// What is near is read column by column in small pieces; elsewhere each read costs a round trip, so that chunks come whole.
	props.BufferedStreamEnabled, props.BufferSize = src.into != nil, nearPiece
	f, err := file.NewParquetReader(src, file.WithReadProps(props))
	if err != nil {
		return err
	}
	defer f.Close()
	columns := chooseColumns(f, light)
	if len(columns) == 0 {
		if light {
			return use(&actions{unread: f.NumRows()}) // a part with nothing but files
		}
		return errors.New("no action columns")
	}
	a := &actions{expected: int(min(f.NumRows(), src.size/32))} // a footer may claim any number
	in := newInterner()
	readers, leaves := make([]func() error, len(columns)), 0
	for i, c := range columns {
		leaves += len(c.leaves)
		readers[i] = a.rowReader(c, in)
	}
	kept := int64(0)
	flush := func() error {
		if kept += a.textBytes(); kept > max(mostText, mostTextRatio*src.size) {
			return fmt.Errorf("%w: its files have %d MiB of text and more", errUnfolds, kept>>20)
		}
		err := use(a)
		a.reset()
		return err
	}
	defer func() {
		for _, c := range columns {
			for _, l := range c.leaves {
				l.close()
			}
		}
	}()
	for g := range f.NumRowGroups() {
		mem.begin(src.size, leaves)
		if err := readRowGroup(src, f, mem, g, columns, readers, flush); err != nil {
			return err
		}
	}
	if light {
		return use(&actions{unread: f.NumRows()})
	}
	return nil
}

// readRowGroup takes the actions out of a row group. Leaves that hold nothing in it are not looked at: most rows
// are files, and most fields of files are absent. A protocol is read whole: its empty lists, which statistics count as nulls,
// are not missing. The text of actions lies in the batches of the leaves: flush takes what there
// is before the next ones are read.
func readRowGroup(src *checkpointSource, f *file.Reader, mem memory.Allocator, group int, columns []*parquetColumn, readers []func() error, flush func() error) error {
	rg := f.RowGroup(group)
	active := make([][]*parquetLeaf, len(columns))
	for i, c := range columns {
		all := c.name == "protocol" && slices.ContainsFunc(c.leaves, func(l *parquetLeaf) bool { return l.repeatDef == 0 && !holdsNothing(rg, l.index) })
		for _, l := range c.leaves {
			if !all && holdsNothing(rg, l.index) {
				l.absent()
				continue
			}
			if err := l.open(src, f, mem, group); err != nil {
				return fmt.Errorf("column %s.%s: %w", c.name, l.name, err)
			}
			active[i] = append(active[i], l)
		}
	}
	batch, err := batchOf(slices.Concat(active...))
	if err != nil {
		return err
	}
	for _, l := range slices.Concat(active...) {
		l.batch = batch
	}
	for row := range rg.NumRows() {
		if row > 0 && row%int64(batch) == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		for i, leaves := range active {
			if len(leaves) == 0 {
				continue
			}
			for _, l := range leaves {
				if err := l.next(); err != nil {
					return fmt.Errorf("column %s.%s: %w", columns[i].name, l.name, err)
				}
			}
			if leaves[0].level < int16(leaves[0].groupDef) {
				continue
			}
			if err := readers[i](); err != nil {
				return fmt.Errorf("column %s: %w", columns[i].name, err)
			}
		}
	}
	return flush()
}

// holdsNothing says whether the statistics of a row group prove that a column has no value in it.
func holdsNothing(rg *file.RowGroupReader, column int) bool {
	cc, err := rg.MetaData().ColumnChunk(column)
	if err != nil {
		return false
	}
	st, err := cc.Statistics()
	return err == nil && st != nil && st.HasNullCount() && st.NullCount() == cc.NumValues()
}

// chooseColumns gives the columns to decode; light leaves out files. Struct statistics are decoded only when there are no JSON ones.
func chooseColumns(f *file.Reader, light bool) []*parquetColumn {
	sc, calendar := f.MetaData().Schema, ourparquet.CalendarOf(f.MetaData())
	var out []*parquetColumn
	byName := map[string]*parquetColumn{}
	stats := -1
	for i := range sc.NumColumns() {
		p := sc.Column(i).ColumnPath()
		fields := wantedFields(p[0])
		if len(p) < 2 || fields == "" || light && (p[0] == "add" || p[0] == "remove") {
			continue
		}
		parsed := p[0] == "add" && p[1] == "stats_parsed"
		l, ok := newLeaf(i, sc.Column(i), calendar)
		if !ok || !parsed && !strings.Contains(fields, " "+l.name+" ") {
			continue
		}
		c := byName[p[0]]
		if c == nil {
			c = &parquetColumn{name: p[0], byName: map[string]*parquetLeaf{}}
			byName[p[0]] = c
			out = append(out, c)
		}
		switch {
		case parsed && l.repeatDef == 0:
			c.parsed = append(c.parsed, l)
		case !parsed && c.byName[l.name] == nil:
			c.leaves = append(c.leaves, l)
			c.byName[l.name] = l
			if p[0] == "add" && l.name == "stats" {
				stats = i
			}
		}
	}
	if c := byName["add"]; c != nil {
		if stats < 0 || allNull(f, stats) {
			c.leaves = append(c.leaves, c.parsed...)
		} else {
			c.parsed = nil
		}
	}
	kept := out[:0]
	for _, c := range out {
		if len(c.leaves) > 0 {
			kept = append(kept, c)
		}
	}
	return kept
}

// allNull says whether the column's statistics prove that it holds nothing.
func allNull(f *file.Reader, column int) bool {
	for g := range f.NumRowGroups() {
		rg := f.MetaData().RowGroup(g)
		cc, err := rg.ColumnChunk(column)
		if err != nil {
			return false
		}
		st, err := cc.Statistics()
		if err != nil || st == nil || !st.HasNullCount() || st.NullCount() != rg.NumRows() {
			return false
		}
	}
	return true
}

// sourceWindow is what is read of a large checkpoint at a time: its columns lie one behind the other, and each read
// of a remote store costs a round trip.
const sourceWindow = 8 << 20

// nearPiece is what is read of a column at a time where a read costs no round trip.
const nearPiece = 128 << 10

// checkpointSource reads a stored object where the parquet reader asks, a window at a time.
type checkpointSource struct {
	into   func(off int64, p []byte) error // of a store that is near; no window then
	read   func(off, length int64) ([]byte, error)
	size   int64
	pos    int64
	window []byte
	at     int64 // of the window
	failed error // of the store
}

var _ parquet.ReaderAtSeeker = (*checkpointSource)(nil)

// openSource opens one file of a checkpoint, whose size a listing has shown: a manifest may say anything. A file that is small
// is read at once.
func openSource(ctx context.Context, store objstore.Store, f logFile) (*checkpointSource, error) {
	info := objstore.Info{Size: f.size}
	if f.size < 0 || f.size > sourceWindow {
		var err error
		if info, err = store.Head(ctx, f.key); err != nil {
			return nil, err
		}
	}
	if info.Size <= sourceWindow {
		b, err := store.Get(ctx, f.key)
		if err != nil {
			return nil, err
		}
		return &checkpointSource{size: int64(len(b)), window: b}, nil
	}
	if near, ok := store.(objstore.IntoReader); ok {
		return &checkpointSource{size: info.Size, into: func(off int64, p []byte) error { return near.ReadInto(ctx, f.key, off, p) }}, nil
	}
	return &checkpointSource{size: info.Size, read: func(off, n int64) ([]byte, error) { return store.GetRange(ctx, f.key, off, n) }}, nil
}

func (c *checkpointSource) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), c.size-off)
	if n <= 0 || off < 0 {
		return 0, io.EOF
	}
	if c.into != nil {
		if err := c.into(off, p[:n]); err != nil {
			c.failed = err
			return 0, err
		}
		if n < int64(len(p)) {
			return int(n), io.EOF
		}
		return int(n), nil
	}
	if off < c.at || off+n > c.at+int64(len(c.window)) {
		length := min(max(n, sourceWindow), c.size-off)
		if off+n == c.size { // the footer: what lies before it comes with the columns
			length = n
		}
		b, err := c.read(off, length)
		if err != nil {
			c.failed = err
			return 0, err
		}
		if int64(len(b)) < n {
			return 0, io.ErrUnexpectedEOF
		}
		c.window, c.at = b, off
	}
	copy(p, c.window[off-c.at:off-c.at+n])
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Size is that of the file.
func (c *checkpointSource) Size() int64 { return c.size }

func (c *checkpointSource) Read(p []byte) (int, error) {
	n, err := c.ReadAt(p, c.pos)
	c.pos += int64(n)
	return n, err
}

func (c *checkpointSource) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	c.pos = offset
	return offset, nil
}
