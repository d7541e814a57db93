package table

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/record"
)

// maxRuns bounds the sorted stretches of one file. A file that was rewritten in offset order has one, a file that
// was put together from smaller ones has as many as there were; a shuffled file has about one for each row.
const maxRuns = 4096

// probe reads the keys of files that do not say that they are sorted, and gives their sorted stretches as units
// of their own.
func (s *scan) probe(ctx context.Context, files []*unit) ([]*unit, error) {
	if len(files) == 0 {
		return nil, nil
	}
	found := make([][]*unit, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.opts.Parallel)
	for i, u := range files {
		g.Go(func() (err error) {
			found[i], err = s.runs(gctx, u)
			if err != nil {
				return fmt.Errorf("file %s: %w", u.name(), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []*unit
	for _, units := range found {
		out = append(out, units...)
	}
	return out, nil
}

func (s *scan) runs(ctx context.Context, u *unit) ([]*unit, error) {
	p := &scan{t: s.t, opts: s.opts, ordered: true, probing: true, streamAbove: s.streamAbove, buffer: s.buffer, partitionColumn: s.partitionColumn, part: 0, off: 1,
		mapping: s.mapping, names: s.names, stored: []arrow.Field{s.stored[s.part], s.stored[s.off]}, depth: []int{s.depth[s.part], s.depth[s.off]},
		schema: arrow.NewSchema([]arrow.Field{s.schema.Field(s.part), s.schema.Field(s.off)}, nil)}
	f, err := p.open(ctx, u)
	if err != nil {
		return nil, err
	}
	defer f.close()
	var out []*unit
	var run *unit
	var last key
	for {
		c, err := f.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		for i := range c.parts {
			k, row := c.key(i), c.row+int64(i)
			if run == nil || compareKey(k, last) <= 0 {
				if len(out) == maxRuns {
					return nil, fmt.Errorf("%w: more than %d sorted stretches; rewrite it sorted by partition and offset", ErrUnsorted, maxRuns)
				}
				if run != nil {
					run.to = row
				}
				run = &unit{add: u.add, deleted: u.deleted, from: row, to: 1<<63 - 1, seq: u.seq}
				out = append(out, run)
			}
			if n := len(run.hulls); n > 0 && run.hulls[n-1].Partition == k.partition {
				run.hulls[n-1].To = record.Offset(k.offset) + 1
			} else {
				run.hulls = append(run.hulls, Range{k.partition, record.Offset(k.offset), record.Offset(k.offset) + 1})
			}
			last = k
		}
		c.rb.Release()
	}
	if s.ranges == nil {
		return out, nil
	}
	kept := out[:0]
	for _, r := range out {
		if b := (bounds{exact: true, ranges: r.hulls}); b.touches(s.ranges) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}
