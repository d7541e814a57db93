package reader

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Plan says what a cursor is going to read.
type Plan struct {
	Version    int64 // of the table; -1 without one
	Partitions []PartitionPlan
	Files      []FilePlan // of the table, in the order of reading
	OfFiles    int        // files that the table has
	Bytes      int64      // of Files
	Rows       int64      // of the files that say it
}

// PartitionPlan is the way through one partition: rows of the table in [From, Seam), then records of the log.
type PartitionPlan struct {
	Partition         int32
	From, Seam, Until record.Offset // Until is -1 when there is no end
	Lost              []table.Range // offsets from From on that neither table nor log hold
}

// FilePlan is one data file.
type FilePlan struct {
	Path   string
	Bytes  int64
	Rows   int64         // -1 when unknown
	Ranges []table.Range // offsets of its rows; nil when unknown
	// Chosen is what of it is read: the statistics of the other row groups, and the page index, rule them out. It is nil
	// when the plan has more than MaxPlanFooters files: it then reads no footers.
	Chosen *table.Chosen
}

// MaxPlanFooters is how many files a plan looks into.
const MaxPlanFooters = 1000

// Plan looks at the files to read and at their footers, and reads no rows. It holds for a cursor before its first Next.
func (c *Cursor) Plan(ctx context.Context) (Plan, error) {
	p := Plan{Version: -1}
	for _, q := range c.parts {
		if q.mark != nil {
			end, err := c.liveEnd(ctx, q)
			if err != nil {
				return p, err
			}
			q.until, q.mark = min(q.until, end), nil
		}
		pp := PartitionPlan{Partition: q.id, From: q.next, Seam: q.lakeEnd, Until: q.until}
		if q.until == noEnd {
			pp.Until = -1
		}
		for _, l := range q.lost {
			if l.To > q.next && l.From < q.until {
				pp.Lost = append(pp.Lost, l)
			}
		}
		p.Partitions = append(p.Partitions, pp)
	}
	if c.snap == nil {
		return p, nil
	}
	p.Version, p.OfFiles = int64(c.snap.Version()), c.snap.NumFiles()
	opts := c.scanOptions(fieldNames(c.schema))
	if c.names().Ordered() && len(c.parts) > 0 {
		if opts.Ranges = c.lakeRanges(); len(opts.Ranges) == 0 {
			return p, nil
		}
	}
	files, err := c.cfg.Table.FilesOf(c.snap, opts)
	if err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	for _, f := range files {
		p.Files = append(p.Files, FilePlan{Path: f.Add.Path, Bytes: f.Add.Size, Rows: f.Rows, Ranges: f.Ranges})
		p.Bytes += f.Add.Size
		p.Rows += max(f.Rows, 0)
	}
	if len(files) > MaxPlanFooters {
		return p, nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range files {
		g.Go(func() error {
			chosen, err := c.cfg.Table.Choose(gctx, c.snap, files[i].Add, opts)
			p.Files[i].Chosen = &chosen
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}
