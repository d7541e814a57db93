package reader

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// lakeSide reads the ranges [next, min(lakeEnd, until)) of all partitions from one snapshot.
type lakeSide struct {
	c        *Cursor
	ordered  bool // the table has partition and offset columns
	pull     func() (arrow.RecordBatch, error, bool)
	stop     func()
	cancel   context.CancelFunc
	partCol  int // in scanned batches; -1 when not scanned
	offCol   int
	project  []int // scanned column of each column of the schema given; nil: as scanned
	finished bool
	hold     *hold
	before   []record.Offset // positions ahead of the batch in work
}

func newLakeSide(c *Cursor) *lakeSide { return &lakeSide{c: c, partCol: -1, offCol: -1} }

// start begins the scan at the first next, with the scan's own context: a scan outlives one call of Next.
func (l *lakeSide) start(ctx context.Context) {
	names := l.c.names()
	l.ordered = names.Partition != "" && names.Offset != ""
	opts := l.c.scanOptions(l.columns(names))
	var rest []table.Range
	if l.ordered && len(l.c.parts) > 0 {
		opts.Ranges, rest = l.c.cfg.Table.Head(l.c.snap, l.c.lakeRanges())
		if len(opts.Ranges) == 0 {
			l.finished = true
			return
		}
	}
	l.hold = newHold(l.c.cfg, l.c.snap.Version())
	scanCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	l.pull, l.stop = iter.Pull2(l.c.scan(scanCtx, opts, rest))
}

// scan reads the ranges of opts, and then rest.
func (c *Cursor) scan(ctx context.Context, opts table.ScanOptions, rest []table.Range) iter.Seq2[arrow.RecordBatch, error] {
	if len(rest) == 0 {
		return c.cfg.Table.Scan(ctx, c.snap, opts)
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		for _, ranges := range [][]table.Range{opts.Ranges, rest} {
			opts.Ranges = ranges
			for rb, err := range c.cfg.Table.Scan(ctx, c.snap, opts) {
				if !yield(rb, err) || err != nil {
					return
				}
			}
		}
	}
}

func (c *Cursor) scanOptions(columns []string) table.ScanOptions {
	return table.ScanOptions{Columns: columns, BatchRows: c.cfg.BatchRows, Parallel: c.cfg.ReadAhead, Where: c.where}
}

// lakeRanges are the offsets to read from the table.
func (c *Cursor) lakeRanges() []table.Range {
	var ranges []table.Range
	for _, p := range c.parts {
		if to := min(p.lakeEnd, p.until); p.next < to {
			ranges = append(ranges, table.Range{Partition: p.id, From: p.next, To: to})
		}
	}
	return ranges
}

// columns are those asked for, and the two that say where a row stands.
func (l *lakeSide) columns(names table.Names) []string {
	want := fieldNames(l.c.schema)
	scan := append([]string(nil), want...)
	index := func(name string) int {
		for i, n := range scan {
			if n == name {
				return i
			}
		}
		scan = append(scan, name)
		return len(scan) - 1
	}
	if l.ordered {
		l.partCol, l.offCol = index(names.Partition), index(names.Offset)
	}
	if len(scan) != len(want) {
		l.project = make([]int, len(want))
		for i := range want {
			l.project[i] = i
		}
	}
	return scan
}

func (l *lakeSide) next(ctx context.Context) (arrow.RecordBatch, error) {
	if l.pull == nil && !l.finished {
		l.start(ctx)
	}
	if l.finished {
		return nil, io.EOF
	}
	rb, err, ok := l.pull()
	if !ok {
		l.finish()
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	if rb.NumRows() > l.c.left {
		whole := rb
		rb = whole.NewSlice(0, l.c.left)
		whole.Release()
	}
	if !l.ordered {
		return rb, nil
	}
	l.before = l.before[:0]
	for _, p := range l.c.parts {
		l.before = append(l.before, p.next)
	}
	if err := l.advance(rb); err != nil {
		for i, p := range l.c.parts[:len(l.before)] {
			p.next = l.before[i] // these rows are not given
		}
		rb.Release()
		return nil, err
	}
	return l.projected(rb), nil
}

// advance moves the partitions over the rows of rb and checks their order (I4).
func (l *lakeSide) advance(rb arrow.RecordBatch) error {
	parts, ok := rb.Column(l.partCol).(*array.Int32)
	if !ok {
		return fmt.Errorf("column %s has type %s, want int32", rb.ColumnName(l.partCol), rb.Column(l.partCol).DataType())
	}
	offsets, ok := rb.Column(l.offCol).(*array.Int64)
	if !ok {
		return fmt.Errorf("column %s has type %s, want int64", rb.ColumnName(l.offCol), rb.Column(l.offCol).DataType())
	}
	var p *part
	for i, off := range offsets.Int64Values() {
		if offsets.IsNull(i) || parts.IsNull(i) {
			continue // a row that somebody else appended: it has no place in the log
		}
		if id := parts.Value(i); p == nil || p.id != id {
			if p = l.c.byID[id]; p == nil {
				// A table without positions (nobody's txn actions): partitions are met as they come.
				p = &part{id: id, until: noEnd, lakeEnd: noEnd}
				l.c.addPart(p)
			}
		}
		o := record.Offset(off)
		if o != p.next {
			if o < p.next {
				return fmt.Errorf("table is out of order: partition %d gives offset %d after %d; run `ledgerlake check`", p.id, o, p.next-1)
			}
			l.c.lakeGap(p, p.next, o)
		}
		p.next = o + 1
	}
	return nil
}

func (l *lakeSide) projected(rb arrow.RecordBatch) arrow.RecordBatch {
	if l.project == nil {
		return rb
	}
	cols := make([]arrow.Array, len(l.project))
	for i, j := range l.project {
		cols[i] = rb.Column(j)
	}
	out := array.NewRecordBatch(l.c.schema, cols, rb.NumRows())
	rb.Release()
	return out
}

// finish takes every partition to the seam: what had no row up to it was decided in the lake.
func (l *lakeSide) finish() {
	l.finished = true
	if !l.ordered {
		return
	}
	for _, p := range l.c.parts {
		to := min(p.lakeEnd, p.until)
		if p.lakeEnd == noEnd || p.next >= to {
			continue
		}
		l.c.lakeGap(p, p.next, to)
		p.next = to
	}
}

func (l *lakeSide) close() {
	if l.stop != nil {
		l.cancel()
		l.stop()
	}
	l.hold.end()
	l.hold = nil
}
