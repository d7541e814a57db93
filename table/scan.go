package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/where"
)

// ScanOptions choose rows and columns. The zero value gives all.
type ScanOptions struct {
	// Ranges of log records; nil gives all. Needs a table with partition and offset columns.
	Ranges []Range
	// Columns in the order to give them; nil gives all.
	Columns []string
	// Files to read instead of those of the snapshot, which then gives the schema only.
	Files []*deltalog.Add
	// Sorted gives all rows in order of (partition, offset), not only those of each partition. Every file is
	// then open while rows of its span are due, so the files should be few. Needs a table with these columns.
	Sorted bool
	// MinTimestamp leaves out files and row groups all of whose rows are known to be older. Older rows next to
	// newer ones are given: the caller looks at the timestamps.
	MinTimestamp time.Time
	// Where keeps only the rows for which it is true; nil keeps all. Files and row groups whose statistics rule
	// it out are not read.
	Where *where.Filter
	// Parallel bounds the files, or row groups of large files, read at the same time, ahead of the consumer.
	// Default: the number of CPUs, at most 8.
	Parallel int
	// Memory bounds what the files and row groups that are being read ahead take together, by their sizes in the
	// store; one that is larger is read alone. Decoded batches that wait come on top: two for each. Files that are merged
	// share it: it bounds the pieces of columns that are read at once and the batches, down to some tens of KiB a column. Default 256 MiB.
	Memory int64
	// BatchRows is about how many rows a batch has. Default 16384.
	BatchRows int
}

func (o ScanOptions) withDefaults() ScanOptions {
	if o.Parallel == 0 {
		o.Parallel = min(8, runtime.GOMAXPROCS(0))
	}
	if o.BatchRows == 0 {
		o.BatchRows = 16384
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	return o
}

func (o ScanOptions) validate() error {
	if o.Parallel < 0 || o.Memory < 0 || o.BatchRows < 0 || o.BatchRows > 1<<20 {
		return fmt.Errorf("scan options: want Parallel > 0, Memory > 0 and 0 < BatchRows <= %d", 1<<20)
	}
	return nil
}

// scan is one call of Scan.
type scan struct {
	t               *Table
	opts            ScanOptions
	ranges          []Range       // normalized; nil: all
	schema          *arrow.Schema // columns read: those asked for, then the keys if they are not among them
	out             *arrow.Schema // columns given
	stored          []arrow.Field // the columns of schema as data files have them, inner ones as their struct without the rest
	depth           []int         // of each column of schema: how many structs are around it
	mapping         mapping
	names           Names // of the system columns in data files and statistics
	partitionColumn map[string]bool
	ordered         bool
	part, off       int          // columns of the keys
	where           *where.Bound // nil: all rows
	probing         bool
	streamAbove     int64 // size of files whose columns are read in pieces
	buffer          int64 // size of a piece
	library         bool  // tests: read all files by the Parquet library
	splitAbove      int64 // size of files whose row groups are read side by side
}

// Scan gives the rows of a snapshot. In a table with partition and offset columns the rows of each partition come
// in the order of their offsets, whatever files they are in, and a row that is in two files ends the scan with a
// *DuplicateError (I4). Rows without both, which others appended, come after all of them when no ranges are asked
// for. Other tables come file by file, older files first. The caller owns the batches and
// releases them. After an error the sequence ends.
func (t *Table) Scan(ctx context.Context, snap *deltalog.Snapshot, opts ScanOptions) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		s, err := t.newScan(snap, opts)
		if err == nil {
			err = s.run(ctx, snap, func(rb arrow.RecordBatch) bool { return yield(rb, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, fmt.Errorf("scan %s: %w", t.Store.URL(), err))
		}
	}
}

// errStopped says that the consumer wants no more.
var errStopped = errors.New("scan stopped")

func (t *Table) newScan(snap *deltalog.Snapshot, opts ScanOptions) (*scan, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	m, err := mappingOf(snap)
	if err != nil {
		return nil, err
	}
	full, err := t.Schema(snap)
	if err != nil {
		return nil, err
	}
	s := &scan{t: t, opts: opts, mapping: m, names: m.names(t.Names), ranges: normalize(opts.Ranges), ordered: t.Ordered(), partitionColumn: map[string]bool{}, streamAbove: 256 << 20, buffer: 1 << 20, splitAbove: splitAbove}
	if t.Names.Ordered() && !s.ordered {
		if s.ranges != nil {
			return nil, ErrSeveralTopics
		}
		s.ordered = opts.Files != nil && oneTopic(opts.Files, s.names.Topic)
		if opts.Sorted && !s.ordered {
			return nil, ErrSeveralTopics
		}
	}
	if opts.Sorted && !s.ordered {
		return nil, cmp.Or(t.Spoilt(), errors.New("the table has no partition and offset columns to sort by"))
	}
	if opts.Sorted {
		s.streamAbove, s.buffer = 1<<20, 128<<10
	}
	if s.ranges != nil && !s.ordered {
		return nil, cmp.Or(t.Spoilt(), errors.New("the table has no partition and offset columns to choose ranges by"))
	}
	for _, c := range snap.Metadata().PartitionColumns {
		s.partitionColumn[c] = true
	}
	if opts.Where != nil {
		if s.where, err = opts.Where.Bind(full); err != nil {
			return nil, err
		}
	}
	if err := s.project(full); err != nil {
		return nil, err
	}
	return s, s.store(full)
}

func (s *scan) project(full *arrow.Schema) error {
	fields := slices.Clone(full.Fields())
	if s.opts.Columns != nil {
		fields = fields[:0]
		for _, name := range s.opts.Columns {
			f, ok := full.FieldsByName(name)
			if !ok {
				return fmt.Errorf("the table has no column %q", name)
			}
			if slices.ContainsFunc(fields, func(g arrow.Field) bool { return g.Name == name }) {
				return fmt.Errorf("column %q is asked for twice", name)
			}
			fields = append(fields, f[0])
		}
	}
	s.out = arrow.NewSchema(slices.Clone(fields), nil)
	add := func(name string) int {
		i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name })
		if f, ok := full.FieldsByName(name); i < 0 && ok {
			fields = append(fields, f[0])
			return len(fields) - 1
		}
		return i
	}
	if s.where != nil {
		for _, name := range s.where.Columns() {
			add(name)
		}
	}
	if s.ordered {
		s.part, s.off = add(s.t.Names.Partition), add(s.t.Names.Offset)
		if s.part < 0 || s.off < 0 {
			return fmt.Errorf("this version of the table has no columns %s and %s", s.t.Names.Partition, s.t.Names.Offset)
		}
	}
	s.schema = arrow.NewSchema(fields, nil)
	return nil
}

// store finds the columns of the scan in data files. Full are those of the table.
func (s *scan) store(full *arrow.Schema) error {
	own := full.Fields()[:len(s.mapping.schema.Fields)] // without the inner ones
	s.stored, s.depth = make([]arrow.Field, s.schema.NumFields()), make([]int, s.schema.NumFields())
	for i, f := range s.schema.Fields() {
		way := wayTo(own, f.Name)
		stored, err := s.mapping.field(own[way[0]])
		if err != nil {
			return err
		}
		s.stored[i], s.depth[i] = narrow(stored, way[1:]), len(way)-1
	}
	return nil
}

// run reads the files and gives the batches. It returns only when all goroutines have ended.
func (s *scan) run(parent context.Context, snap *deltalog.Snapshot, yield func(arrow.RecordBatch) bool) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	units, foreign, err := s.units(ctx, snap)
	if err != nil {
		return err
	}
	groups := make([][]*unit, 0, len(units))
	switch {
	case s.opts.Sorted && len(units) > 0:
		groups = append(groups, units)
	case s.ordered:
		groups = arrange(units)
	default:
		for _, u := range units {
			groups = append(groups, []*unit{u})
		}
	}
	for _, u := range foreign {
		groups = append(groups, []*unit{u})
	}
	g, gctx := errgroup.WithContext(ctx)
	feed := s.readAhead(gctx, g, groups)
	order := newSeam()
	err = s.consume(feed, order, yield)
	cancel()
	gerr := g.Wait()
	if err == nil && parent.Err() != nil {
		return parent.Err() // the channels may have been closed early
	}
	if err == nil && gerr != nil && !errors.Is(gerr, context.Canceled) {
		return gerr
	}
	return err
}

func (s *scan) consume(feed <-chan chan result, order *seam, yield func(arrow.RecordBatch) bool) error {
	for group := range feed {
		for r := range group {
			if r.err != nil {
				return r.err
			}
			if r.c.parts != nil {
				if err := order.pass(r.c); err != nil {
					return err
				}
			}
			if !yield(s.given(r.c.rb)) {
				return errStopped
			}
		}
	}
	return nil
}

// given drops the columns that were read only for the keys.
func (s *scan) given(rb arrow.RecordBatch) arrow.RecordBatch {
	if s.schema.NumFields() == s.out.NumFields() {
		return rb
	}
	defer rb.Release()
	return array.NewRecordBatch(s.out, rb.Columns()[:s.out.NumFields()], rb.NumRows())
}

// units chooses the files and finds the sorted stretches of those that are not known to be sorted, and those with
// foreign rows, if these are asked for.
func (s *scan) units(ctx context.Context, snap *deltalog.Snapshot) (whole, foreign []*unit, err error) {
	var unknown []*unit
	seq := 0
	files, err := s.chosen(snap)
	if err != nil {
		return nil, nil, err
	}
	for a, b := range files {
		seq++
		if !s.reads(a, &b) {
			continue
		}
		u := &unit{add: a, to: 1<<63 - 1, seq: seq}
		if s.ordered && !b.exact {
			unknown = append(unknown, u)
			continue
		}
		u.hulls, u.placed = hullsOf(b.ranges), b.exact
		whole = append(whole, u)
	}
	found, err := s.probe(ctx, unknown)
	for _, u := range unknown {
		if s.ranges == nil && u.foreigners > 0 {
			foreign = append(foreign, &unit{add: u.add, to: u.to, seq: u.seq, deleted: u.deleted, foreign: true})
		}
	}
	return append(whole, found...), foreign, err
}

// chosen gives files with what the log says of their rows: those of the options, else those of the snapshot, without
// ones that the file index rules out.
func (s *scan) chosen(snap *deltalog.Snapshot) (iter.Seq2[*deltalog.Add, bounds], error) {
	stats := s.ranges != nil || !s.opts.MinTimestamp.IsZero()
	files := slices.Values(s.opts.Files)
	if s.opts.Files == nil {
		var err error
		if files, err = filesOf(snap); err != nil {
			return nil, err
		}
		if s.ranges != nil {
			return func(yield func(*deltalog.Add, bounds) bool) {
				for a, f := range candidates(s.names, snap, s.ranges) {
					b := bounds{exact: f.exact, ranges: f.ranges, rows: -1}
					if !f.exact || !s.opts.MinTimestamp.IsZero() {
						b = boundsOf(s.names, a, stats)
					}
					if !yield(a, b) {
						return
					}
				}
			}, nil
		}
	}
	return func(yield func(*deltalog.Add, bounds) bool) {
		for a := range files {
			if !yield(a, boundsOf(s.names, a, stats)) {
				return
			}
		}
	}, nil
}

// hullsOf gives one range for each partition.
func hullsOf(ranges []Range) []Range {
	var out []Range
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].Partition == r.Partition {
			out[n-1].To = r.To
			continue
		}
		out = append(out, r)
	}
	return out
}

// olderThanAsked says whether all rows of a row group have a timestamp before the one asked for.
func (s *scan) olderThanAsked(st *metadata.Int64Statistics, rows int64) bool {
	if s.opts.MinTimestamp.IsZero() || !st.HasNullCount() || st.NullCount() > 0 || rows == 0 {
		return false
	}
	return s.before(st.Descr().LogicalType(), st.Max())
}

// before says whether a value of a column of a type is a time before the one asked for.
func (s *scan) before(typ schema.LogicalType, v int64) bool {
	t, ok := typ.(schema.TimestampLogicalType)
	return ok && t.TimeUnit() == schema.TimeUnitMicros && !s.opts.MinTimestamp.IsZero() && v < s.opts.MinTimestamp.UnixMicro()
}
