package tiering

import (
	"context"
	"fmt"
	"slices"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/table"
)

// takeOut removes letters, in a commit of their table. It tries again when others are faster.
func (t *Tierer) takeOut(ctx context.Context, tab *table.Table, gone []place) error {
	if len(gone) == 0 {
		return nil
	}
	for try := 1; ; try++ {
		snap, err := tab.Refresh(ctx)
		if err != nil {
			return fmt.Errorf("take letters out: %w", err)
		}
		c := deltalog.Commit{ReadVersion: snap.Version(), Incarnation: snap.Metadata().ID, Operation: "DELETE",
			Parameters: map[string]string{"replay": "dead letters"}, Txns: t.deadTxns(snap, nil, gone)}
		err = t.exhume(ctx, tab, snap, gone, &c)
		if err == nil && len(c.Removes) == 0 {
			return nil // somebody else has done it
		}
		if err == nil {
			_, err = t.cfg.Change.of(ctx, tab, c)
		}
		if err == nil || ctx.Err() != nil || try == 10 || !conflicts(err) {
			if err != nil {
				err = fmt.Errorf("take letters out: %w", err)
			}
			return err
		}
	}
}

// rowsAt gives those of the places that are rows of a table, sorted.
func rowsAt(ctx context.Context, tab *table.Table, snap *deltalog.Snapshot, at []place) ([]place, error) {
	ranges := make([]table.Range, len(at))
	for i, p := range at {
		ranges[i] = table.Range{Partition: p.partition, From: p.offset, To: p.offset + 1}
	}
	n := tab.Names
	var out []place
	for rb, err := range tab.Scan(ctx, snap, table.ScanOptions{Ranges: ranges, Columns: []string{n.Partition, n.Offset}}) {
		if err != nil {
			return nil, err
		}
		found, err := places(rb, n)
		rb.Release()
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, comparePlaces)
	return out, nil
}
