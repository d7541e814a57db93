package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// Finding is one fault that Check found.
type Finding struct {
	Where    string // a data file, or a partition with an offset
	Expected string
	Found    string
}

// String gives the line that the check command prints.
func (f Finding) String() string {
	return fmt.Sprintf("%s: expected %s, found %s", f.Where, f.Expected, f.Found)
}

// Check reads the newest snapshot whole and says what is wrong with it: data files that are missing, have
// another size or another number of rows than the log says, deletion vectors that cannot be read, and, in a table with offsets, rows that are there
// twice or out of order (I3). It changes nothing. An error means that the check could not be made.
func (t *Table) Check(ctx context.Context) ([]Finding, error) {
	snap, err := t.Log.FullSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for add := range snap.Files() {
		f, err := t.checkFile(ctx, add)
		if err != nil {
			return out, err
		}
		out = append(out, f...)
	}
	if len(out) > 0 || !t.Names.Ordered() {
		return out, nil // rows of broken files cannot be compared
	}
	if t.Ordered() {
		f, err := t.checkOffsets(ctx, snap, nil)
		return append(out, f...), err
	}
	byTopic, err := t.filesByTopic(snap)
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		var f []Finding
		if f, err = t.checkOffsets(ctx, snap, byTopic[topic]); err != nil {
			break
		}
		for i := range f {
			f[i].Where = "topic " + topic + ": " + f[i].Where
		}
		out = append(out, f...)
	}
	return out, err
}

func (t *Table) checkFile(ctx context.Context, add *deltalog.Add) ([]Finding, error) {
	path := add.DecodedPath()
	store, key, err := t.locate(ctx, add.Path, "file")
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	info, err := store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return []Finding{{path, fmt.Sprintf("a file of %d bytes", add.Size), "no file"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	if info.Size != add.Size {
		return []Finding{{path, fmt.Sprintf("%d bytes", add.Size), fmt.Sprintf("%d bytes", info.Size)}}, nil
	}
	r, err := file.NewParquetReader(io.NewSectionReader(objstore.ReaderAt(ctx, store, key, info.Size), 0, info.Size))
	if err != nil {
		return []Finding{{path, "a Parquet file", err.Error()}}, nil
	}
	defer r.Close()
	if want, ok := add.NumRecords(); ok && want != r.NumRows() {
		return []Finding{{path, fmt.Sprintf("%d rows", want), fmt.Sprintf("%d rows", r.NumRows())}}, nil
	}
	if dv := add.DeletionVector; dv != nil {
		if _, err := t.deletedRows(ctx, dv, r.NumRows()); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("check %s: %w", path, err)
			}
			return []Finding{{path, "a deletion vector that can be read", err.Error()}}, nil
		}
	}
	return nil, nil
}

// checkOffsets reads the two coordinates of every row in some files of one topic; nil: in all.
func (t *Table) checkOffsets(ctx context.Context, snap *deltalog.Snapshot, files []*deltalog.Add) ([]Finding, error) {
	var out []Finding
	next := map[int32]int64{}
	for rb, err := range t.Scan(ctx, snap, ScanOptions{Columns: []string{t.Names.Partition, t.Names.Offset}, Files: files}) {
		var twice *DuplicateError
		if errors.As(err, &twice) {
			return append(out, Finding{"rows", "each offset once", twice.Error()}), nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, checkOrder(rb, next)...)
		rb.Release()
	}
	return out, nil
}

func checkOrder(rb arrow.RecordBatch, next map[int32]int64) []Finding {
	parts, ok1 := rb.Column(0).(*array.Int32)
	offsets, ok2 := rb.Column(1).(*array.Int64)
	if !ok1 || !ok2 {
		return []Finding{{"coordinate columns", "int and long", rb.Schema().String()}}
	}
	var out []Finding
	for i, o := range offsets.Int64Values() {
		if offsets.IsNull(i) {
			continue // a foreign row: the scan has looked that it has no partition either
		}
		p := parts.Value(i)
		if want := next[p]; o < want {
			out = append(out, Finding{fmt.Sprintf("partition %d", p), fmt.Sprintf("an offset of %d or more", want), fmt.Sprintf("offset %d again or out of order", o)})
		}
		next[p] = o + 1
	}
	return out
}
