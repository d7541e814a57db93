package table

import (
	"context"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

type result struct {
	c   *chunk
	err error
}

// readAhead reads the groups, several at a time, each into a channel of its own; the channels come in order.
// A group waits when two of its batches are not taken, and for memory, so memory is bounded.
func (s *scan) readAhead(ctx context.Context, g *errgroup.Group, groups [][]*unit) <-chan chan result {
	feed := make(chan chan result, max(1, s.opts.Parallel-1))
	memory := semaphore.NewWeighted(s.opts.Memory)
	g.Go(func() error {
		defer close(feed)
		for _, group := range groups {
			for _, piece := range s.split(ctx, group) {
				// In order: what is in front of this piece has its memory and gives it back when it is taken.
				cost := min(cost(piece), s.opts.Memory)
				if err := memory.Acquire(ctx, cost); err != nil {
					return err
				}
				out := make(chan result, 2)
				select {
				case feed <- out: // holds Parallel-1 groups, one more is with the consumer
				case <-ctx.Done():
					return ctx.Err()
				}
				g.Go(func() error {
					defer memory.Release(cost)
					defer close(out)
					return s.read(ctx, piece, out)
				})
			}
		}
		return nil
	})
	return feed
}

// read gives the rows of a group. Its error is that of ctx; others go to the consumer.
func (s *scan) read(ctx context.Context, group []*unit, out chan<- result) error {
	send := func(r result) error {
		select {
		case out <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := s.merge(ctx, group, func(c *chunk) error {
		c, err := s.filterRows(ctx, c)
		if c == nil || err != nil {
			return err
		}
		return send(result{c: c})
	})
	if err != nil {
		return send(result{err: err})
	}
	return nil
}

// cost is what the columns of a group take while they are read, at most: whole files as they are in the store.
func cost(group []*unit) int64 {
	sum := int64(0)
	for _, u := range group {
		size := max(u.add.Size, 0)
		if u.footer != nil && u.footer.NumRows > 0 { // a part of the file
			size = int64(float64(size) * float64(u.to-u.from) / float64(u.footer.NumRows))
		}
		sum += size
	}
	return max(sum, 1)
}

// splitAbove is the size from which the row groups of a file are read side by side. It costs an extra look at the
// footer, so small files, which have one row group, are left alone.
const splitAbove = 32 << 20

// split makes a group of each row group of a large file that is read alone, so that one file keeps all cores busy.
// Row groups that cannot have wanted rows fall out. A file that cannot be opened stays whole: reading it says why.
func (s *scan) split(ctx context.Context, group []*unit) [][]*unit {
	u := group[0]
	if len(group) > 1 || s.opts.Parallel < 2 || s.opts.Sorted || u.add.Size < s.splitAbove {
		return [][]*unit{group}
	}
	f, err := s.open(ctx, u)
	if err != nil {
		return [][]*unit{group}
	}
	defer f.close()
	pieces, err := f.pieces()
	if err != nil {
		return [][]*unit{group}
	}
	return pieces
}

// pieces gives a unit for each row group that can have rows of the scan.
func (f *fileScan) pieces() (out [][]*unit, err error) {
	defer recoverTo(&err)
	start := int64(0)
	footer := f.pq.MetaData()
	for i := range f.pq.NumRowGroups() {
		rg := footer.RowGroup(i)
		from, to := max(start, f.u.from), min(start+rg.NumRows(), f.u.to)
		start += rg.NumRows()
		if from >= to || f.skips(rg) || !f.filterGroup(rg) {
			continue
		}
		piece := *f.u
		piece.from, piece.to, piece.footer = from, to, footer
		out = append(out, []*unit{&piece})
	}
	return out, nil
}
