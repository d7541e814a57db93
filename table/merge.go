package table

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// merge gives the rows of a group in key order. Units are opened when their first key is due.
func (s *scan) merge(ctx context.Context, group []*unit, give func(*chunk) error) error {
	if len(group) == 1 {
		return s.single(ctx, group[0], give)
	}
	m := &merger{s: s, ctx: ctx, give: give, most: min(batchBytes, max(s.opts.Memory/8, 1))}
	share := max(1, s.opts.Memory/int64(depth(group)))
	for _, u := range group {
		u.share = share
		m.heap = append(m.heap, &cursor{u: u, at: u.first()})
	}
	heap.Init(&m.heap)
	defer m.close()
	for len(m.heap) > 0 {
		if err := m.step(); err != nil {
			return err
		}
	}
	return m.flush()
}

// depth is how many units of a group are open at the same time at most.
func depth(group []*unit) int {
	inOrder := slices.SortedFunc(slices.Values(group), func(a, b *unit) int { return compareKey(a.first(), b.first()) })
	most := 1
	var ends keys // of the units that are open
	for _, u := range inOrder {
		first := u.first()
		for len(ends) > 0 && compareKey(ends[0], first) < 0 {
			heap.Pop(&ends)
		}
		heap.Push(&ends, u.last())
		most = max(most, len(ends))
	}
	return most
}

type keys []key

func (h keys) Len() int           { return len(h) }
func (h keys) Less(i, j int) bool { return compareKey(h[i], h[j]) < 0 }
func (h keys) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keys) Push(x any)        { *h = append(*h, x.(key)) }
func (h *keys) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (s *scan) single(ctx context.Context, u *unit, give func(*chunk) error) error {
	f, err := s.open(ctx, u)
	if err != nil {
		return fmt.Errorf("file %s: %w", u.name(), err)
	}
	defer f.close()
	for {
		c, err := f.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("file %s: %w", u.name(), err)
		}
		if err := give(c); err != nil {
			return err
		}
	}
}

// cursor stands on a row of a unit, or in front of it when the file is not open yet.
type cursor struct {
	u    *unit
	f    *fileScan
	c    *chunk
	row  int
	at   key
	done bool
}

// load opens the file or gets the next chunk, so that the cursor stands on a row.
func (c *cursor) load(m *merger) error {
	if c.f == nil {
		f, err := m.s.open(m.ctx, c.u)
		if err != nil {
			return fmt.Errorf("file %s: %w", c.u.name(), err)
		}
		c.f = f
	}
	next, err := c.f.next()
	if err == io.EOF {
		c.done, c.c = true, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("file %s: %w", c.u.name(), err)
	}
	c.c, c.row, c.at = next, 0, next.key(0)
	return nil
}

type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return compareKey(h[i].at, h[j].at) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

type merger struct {
	s      *scan
	ctx    context.Context //nolint:containedctx // one merge
	give   func(*chunk) error
	heap   cursors
	pieces []*chunk
	rows   int
	bytes  int64
	most   int64 // bytes of a batch
}

// step takes the rows of the first cursor up to the first row of the next one.
func (m *merger) step() error {
	top := m.heap[0]
	if top.c == nil { // its real first key may be further on
		if err := top.load(m); err != nil {
			return err
		}
		m.settle(top)
		return nil
	}
	end := top.c.len()
	if second, ok := m.second(); ok {
		if second.c != nil && second.at == top.at {
			return &DuplicateError{top.at.partition, top.at.offset, [2]string{top.u.name(), second.u.name()}}
		}
		end = top.c.search(top.row, second.at)
		if end == top.row { // same key, but the other one is not open: it may begin further on
			if err := second.load(m); err != nil {
				return err
			}
			heap.Init(&m.heap)
			m.drop()
			return nil
		}
	}
	if err := m.take(top.c.slice(top.row, end)); err != nil {
		return err
	}
	if end < top.c.len() {
		top.row, top.at = end, top.c.key(end)
	} else {
		top.c.rb.Release()
		if err := top.load(m); err != nil {
			return err
		}
	}
	m.settle(top)
	return nil
}

// settle puts the first cursor where it belongs now.
func (m *merger) settle(top *cursor) {
	if top.done {
		heap.Pop(&m.heap)
		top.f.close()
		return
	}
	heap.Fix(&m.heap, 0)
}

// drop removes cursors that turned out to have no rows.
func (m *merger) drop() {
	for i := 0; i < len(m.heap); {
		if c := m.heap[i]; c.done {
			heap.Remove(&m.heap, i)
			c.f.close()
			continue
		}
		i++
	}
}

// second is the cursor with the smallest key after the first one's.
func (m *merger) second() (*cursor, bool) {
	switch len(m.heap) {
	case 1:
		return nil, false
	case 2:
		return m.heap[1], true
	}
	if m.heap.Less(2, 1) {
		return m.heap[2], true
	}
	return m.heap[1], true
}

// take collects pieces, and gives them as one batch when they are enough.
func (m *merger) take(c *chunk) error {
	m.pieces = append(m.pieces, c)
	m.rows += c.len()
	m.bytes += c.width * int64(c.len())
	if m.rows < m.s.opts.BatchRows && m.bytes < m.most {
		return nil
	}
	return m.flush()
}

func (m *merger) flush() error {
	if len(m.pieces) == 0 {
		return nil
	}
	c, err := join(m.pieces)
	for _, p := range m.pieces {
		p.rb.Release()
	}
	m.pieces, m.rows, m.bytes = m.pieces[:0], 0, 0
	if err != nil {
		return err
	}
	if err := c.keyColumns(m.s.part, m.s.off); err != nil {
		return err
	}
	return m.give(c)
}

func (m *merger) close() {
	for _, c := range m.heap {
		if c.f != nil {
			c.f.close()
		}
	}
	for _, p := range m.pieces {
		p.rb.Release()
	}
}

// join makes one batch of several.
func join(pieces []*chunk) (*chunk, error) {
	first := pieces[0]
	if len(pieces) == 1 {
		first.rb.Retain()
		return &chunk{rb: first.rb, file: first.file}, nil
	}
	cols := make([]arrow.Array, first.rb.NumCols())
	rows := int64(0)
	for i := range cols {
		parts := make([]arrow.Array, len(pieces))
		for j, p := range pieces {
			parts[j] = p.rb.Column(i)
		}
		a, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		cols[i] = a
		defer a.Release()
	}
	for _, p := range pieces {
		rows += p.rb.NumRows()
	}
	return &chunk{rb: array.NewRecordBatch(first.rb.Schema(), cols, rows), file: first.file}, nil
}

// seam checks at the end of everything that each partition only goes forward (I4).
type seam struct {
	last map[int32]*position
}

type position struct {
	offset int64
	file   string
}

func newSeam() *seam { return &seam{last: map[int32]*position{}} }

func (s *seam) pass(c *chunk) error {
	var p *position
	var id int32
	for i, part := range c.parts {
		if p == nil || part != id {
			if p, id = s.last[part], part; p == nil {
				p = &position{offset: -1 << 63}
				s.last[part] = p
			}
		}
		if off := c.offs[i]; off <= p.offset && p.file != "" {
			return &DuplicateError{part, off, [2]string{p.file, c.file}}
		}
		p.offset, p.file = c.offs[i], c.file
	}
	return nil
}
