package maintenance

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// ErrRowsDiffer means that rewritten files do not hold the rows of the old ones. Nothing was committed.
var ErrRowsDiffer = errors.New("the new files do not have the rows of the old ones")

// What a rewrite has in memory does not grow with the files: it runs beside who fills the table.
const (
	mergeMemory = 16 << 20 // of the files that are open
	groupBytes  = 32 << 20 // raw, of the row group that is encoded
)

// write reads the files of a bin, sorted where the table has offsets, and writes new ones. After an error it
// gives those that are finished.
func (o *optimizer) write(ctx context.Context, snap *deltalog.Snapshot, b *bin) ([]deltalog.Add, error) {
	out := &output{ctx: ctx, o: o, partition: -1, left: b.bytes, opts: table.WriterOptions{Snapshot: snap, PartitionValues: b.values,
		RowGroupBytes: min(groupBytes, o.opts.TargetSize), RowRules: snap.RowRules()}}
	if len(b.values) == 0 {
		out.opts.PartitionValues = nil
	}
	columns, err := out.columns()
	if err != nil {
		return nil, err
	}
	// Many files may be open at once: small batches, and one file ahead where they come in turn.
	scan := table.ScanOptions{Files: b.adds(), Sorted: o.t.Names.Ordered(), Columns: columns, Parallel: 1, BatchRows: 4096, Memory: mergeMemory}
	for rb, err := range o.t.Scan(ctx, snap, scan) {
		if err == nil {
			err = out.write(rb)
			rb.Release()
		}
		if err != nil {
			return out.adds, errors.Join(err, out.abort())
		}
	}
	return out.adds, out.close()
}

func (b *bin) adds() []*deltalog.Add {
	out := make([]*deltalog.Add, len(b.files))
	for i, f := range b.files {
		out[i] = f.Add
	}
	return out
}

// output is a row of files of the target size. Where the table has offsets a file ends with its partition once it
// is half full and as much is still to come, so that large files hold one partition and no file is small again.
type output struct {
	ctx       context.Context //nolint:containedctx // of one rewrite
	o         *optimizer
	opts      table.WriterOptions
	w         *table.FileWriter
	adds      []deltalog.Add
	left      int64 // bytes of the old files that are still to come, about
	partition int   // column of the batches, -1 without offsets
	last      int32 // partition of the last row
}

// columns are what the new files hold.
func (out *output) columns() ([]string, error) {
	w, err := out.o.t.NewFileWriter(out.ctx, out.opts) // writes nothing before the first rows
	if err != nil {
		return nil, err
	}
	out.w = w
	var names []string
	for i, f := range w.Schema().Fields() {
		names = append(names, f.Name)
		if f.Name == out.o.t.Names.Partition && out.o.t.Names.Ordered() {
			out.partition = i
		}
	}
	return names, nil
}

func (out *output) write(rb arrow.RecordBatch) error {
	if out.partition < 0 {
		return out.take(rb)
	}
	parts, ok := rb.Column(out.partition).(*array.Int32)
	if !ok {
		return fmt.Errorf("column %s is no int", rb.ColumnName(out.partition))
	}
	values := parts.Int32Values()
	for i := 0; i < len(values); {
		j := i + 1
		for j < len(values) && values[j] == values[i] {
			j++
		}
		half := out.o.opts.TargetSize / 2
		if values[i] != out.last && out.w != nil && out.w.Bytes() >= half && out.left-out.w.Bytes() >= half {
			if err := out.close(); err != nil {
				return err
			}
		}
		piece := rb.NewSlice(int64(i), int64(j))
		err := out.take(piece)
		piece.Release()
		if err != nil {
			return err
		}
		out.last, i = values[i], j
	}
	return nil
}

func (out *output) take(rb arrow.RecordBatch) (err error) {
	if out.w == nil {
		if out.w, err = out.o.t.NewFileWriter(out.ctx, out.opts); err != nil {
			return err
		}
	}
	if err := out.w.Write(rb); err != nil {
		return err
	}
	if out.w.Bytes() >= out.o.opts.TargetSize {
		return out.close()
	}
	return nil
}

// close ends the open file; one without rows is dropped.
func (out *output) close() error {
	w := out.w
	if w == nil {
		return nil
	}
	out.w = nil
	if w.NumRows() == 0 {
		return w.Abort()
	}
	add, err := w.Close(out.ctx)
	if err == nil {
		out.adds = append(out.adds, add)
		out.left -= add.Size
	}
	return err
}

func (out *output) abort() error {
	if out.w == nil {
		return nil
	}
	return out.w.Abort()
}

// verify reads old and new files again and compares the number of rows and, where the table has them, a checksum
// of all coordinates (I3).
func (o *optimizer) verify(ctx context.Context, snap *deltalog.Snapshot, b *bin, adds []deltalog.Add) (int64, error) {
	made := make([]*deltalog.Add, len(adds))
	for i := range adds {
		made[i] = &adds[i]
	}
	old, err := o.count(ctx, snap, b.adds())
	if err != nil {
		return 0, err
	}
	got, err := o.count(ctx, snap, made)
	if err != nil {
		return 0, err
	}
	if got != old {
		return 0, fmt.Errorf("%w: %d rows with checksum %016x, the old ones have %d with %016x; the table is unchanged, run `ledgerlake check`",
			ErrRowsDiffer, got.rows, got.sum, old.rows, old.sum)
	}
	return got.rows, nil
}

// census is what two sets of the same rows agree in, in whatever order they come.
type census struct {
	rows int64
	sum  uint64
}

func (o *optimizer) count(ctx context.Context, snap *deltalog.Snapshot, files []*deltalog.Add) (census, error) {
	var c census
	if len(files) == 0 {
		return c, nil
	}
	scan := table.ScanOptions{Files: files, Columns: []string{}, Parallel: 2}
	ordered := o.t.Names.Ordered()
	if ordered {
		scan.Columns = []string{o.t.Names.Partition, o.t.Names.Offset}
	}
	for rb, err := range o.t.Scan(ctx, snap, scan) {
		if err != nil {
			return c, err
		}
		c.rows += rb.NumRows()
		if ordered {
			parts, ok1 := rb.Column(0).(*array.Int32)
			offsets, ok2 := rb.Column(1).(*array.Int64)
			if !ok1 || !ok2 {
				rb.Release()
				return c, fmt.Errorf("columns %s are not int and long", scan.Columns)
			}
			if parts.NullN() > 0 || offsets.NullN() > 0 {
				rb.Release()
				return c, table.ErrNoPosition
			}
			for i, off := range offsets.Int64Values() {
				c.sum += mix(uint64(parts.Value(i))<<48 ^ uint64(off))
			}
		}
		rb.Release()
	}
	return c, nil
}

// mix spreads the bits of a number (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
