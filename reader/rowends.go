package reader

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// lookAtRows finds where a table ends that has the places of records in its rows and nobody's positions, as one that
// Spark fills from a topic. A commit of such a writer has all that it read up to a place in each partition, so the seam
// is behind the last row. Offsets below it without a row are told as gaps: nothing says why they are missing.
// It reads the two columns of all rows, so it is done only where a place in a partition is asked for.
func (c *Cursor) lookAtRows(ctx context.Context) (err error) {
	if c.snap == nil || !c.names().Ordered() || !c.placed() {
		return nil
	}
	for id := range c.snap.Txns() {
		if _, _, ok := splitAppID(id); ok {
			return nil // somebody's: rows may be of parts that are not done
		}
	}
	c.byRows = true
	c.rowEnds, err = endsOfRows(ctx, c.cfg.Table, c.snap)
	return err
}

// placed says whether the cursor has to know where partitions begin and end.
func (c *Cursor) placed() bool {
	from := c.cfg.From.kind != boundDefault && c.cfg.From.kind != boundEarliest
	until := c.cfg.Until.kind != boundDefault && c.cfg.Until.kind != boundNow && c.cfg.Until.kind != boundLatest
	return c.cfg.Source != nil || from || until || len(c.cfg.Partitions) > 0
}

// lakeEnd is the first offset of a partition that is not in the table.
func (c *Cursor) lakeEnd(p int32) (record.Offset, bool) {
	if c.byRows {
		end, ok := c.rowEnds[p]
		return end, ok
	}
	return table.LakeEnd(c.snap, c.cfg.App, p)
}

// endsOfRows gives the offset behind the last row of each partition.
func endsOfRows(ctx context.Context, t *table.Table, snap *deltalog.Snapshot) (map[int32]record.Offset, error) {
	ends := map[int32]record.Offset{}
	for rb, err := range t.Scan(ctx, snap, table.ScanOptions{Columns: []string{t.Names.Partition, t.Names.Offset}}) {
		if err != nil {
			return nil, fmt.Errorf("look for the ends of partitions in the table: %w", err)
		}
		parts, offsets := column[*array.Int32](rb, t.Names.Partition), column[*array.Int64](rb, t.Names.Offset)
		if parts == nil || offsets == nil {
			rb.Release()
			return nil, fmt.Errorf("columns %s and %s are not int and long", t.Names.Partition, t.Names.Offset)
		}
		for i := range int(rb.NumRows()) {
			if parts.IsValid(i) && offsets.IsValid(i) {
				p, next := parts.Value(i), record.Offset(offsets.Value(i))+1
				ends[p] = max(ends[p], next)
			}
		}
		rb.Release()
	}
	return ends, nil
}
