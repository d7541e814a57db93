package reader

import (
	"context"
	"fmt"
	"maps"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// lookAtRows finds where a table ends that has the places of records in its rows and no positions to go by, as one that
// Spark fills from a topic. A commit of such a writer has all that it read up to a place in each partition, so the seam
// is behind the last row. Offsets below it without a row are told as gaps: nothing says why they are missing.
// It reads the two columns of all rows the first time, then those of files that are new.
func (c *Cursor) lookAtRows(ctx context.Context) error {
	if !c.byRows && c.cfg.rowEnds != nil {
		c.byRows, c.rowEnds = true, maps.Clone(c.cfg.rowEnds)
		return nil
	}
	ends, err := endsOfRows(ctx, c.cfg.Table, c.snap, nil)
	if err == nil {
		c.byRows, c.rowEnds = true, ends
	}
	return err
}

// lookAtNewRows is lookAtRows after the snapshot has become a newer one than old.
func (c *Cursor) lookAtNewRows(ctx context.Context, old *deltalog.Snapshot) error {
	if c.ownPositions() { // of a table that was empty before
		c.byRows, c.rowEnds, c.positioned = false, nil, true
		return nil
	}
	seen := map[string]bool{}
	for f := range old.Files() {
		seen[f.Path] = true
	}
	var files []*deltalog.Add
	for f := range c.snap.Files() {
		if !seen[f.Path] {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil
	}
	ends, err := endsOfRows(ctx, c.cfg.Table, c.snap, files)
	for p, end := range ends {
		c.rowEnds[p] = max(c.rowEnds[p], end)
	}
	return err
}

// placed says whether the cursor has to know where partitions begin and end.
func (c *Cursor) placed() bool {
	from := c.cfg.From.kind != boundDefault && c.cfg.From.kind != boundEarliest
	until := c.cfg.Until.kind != boundDefault && c.cfg.Until.kind != boundNow && c.cfg.Until.kind != boundLatest
	return c.cfg.Source != nil || c.cfg.byPartition || from || until || len(c.cfg.Partitions) > 0
}

// lakeEnd is the first offset of a partition that is not in the table.
func (c *Cursor) lakeEnd(p int32) (record.Offset, bool) {
	if c.byRows {
		end, ok := c.rowEnds[p]
		return end, ok
	}
	if !c.positioned {
		return 0, false
	}
	return table.LakeEnd(c.snap, c.cfg.App, p)
}

// endsOfRows gives the offset behind the last row of each partition, in some files or, for nil, in all.
func endsOfRows(ctx context.Context, t *table.Table, snap *deltalog.Snapshot, files []*deltalog.Add) (map[int32]record.Offset, error) {
	ends := map[int32]record.Offset{}
	columns := []string{t.Names.Partition, t.Names.Offset}
	for rb, err := range t.Scan(ctx, snap, table.ScanOptions{Columns: columns, Files: files}) {
		if err != nil {
			return nil, fmt.Errorf("look for the ends of partitions in the table: %w", err)
		}
		err = endsOfBatch(ends, t.Names, rb)
		rb.Release()
		if err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// endsOfBatch adds the rows of a batch. A row that lies at no offset of a log would be left out without a word.
func endsOfBatch(ends map[int32]record.Offset, n table.Names, rb arrow.RecordBatch) error {
	parts, offsets := column[*array.Int32](rb, n.Partition), column[*array.Int64](rb, n.Offset)
	if parts == nil || offsets == nil {
		return fmt.Errorf("columns %s and %s are not int and long", n.Partition, n.Offset)
	}
	for i := range int(rb.NumRows()) {
		if parts.IsNull(i) || offsets.IsNull(i) {
			continue
		}
		p, o := parts.Value(i), record.Offset(offsets.Value(i))
		if p < 0 || o < 0 || o >= noEnd-1 {
			return fmt.Errorf("a row of the table has %s %d and %s %d, which is no place in a log: are these the right columns?", n.Partition, p, n.Offset, o)
		}
		ends[p] = max(ends[p], o+1)
	}
	return nil
}
