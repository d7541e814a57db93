package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ErrNull says that a column which may not be null has a null.
var ErrNull = errors.New("parquet: null in a column that may not be null")

// picked are the values of some rows: those at idx, or all of [from, to) when idx is nil.
type picked struct {
	array    arrow.Array
	from, to int
	idx      []int32
}

func (p *picked) len() int {
	if p.idx != nil {
		return len(p.idx)
	}
	return p.to - p.from
}

// descend goes from rows of a column to the values below, and adds the levels of these rows to the page.
func (c *column) descend(a arrow.Array, from, to int) (picked, error) {
	if c.maxRep == 0 {
		if leaf, ok := c.plainly(a); ok {
			c.constant(to - from)
			return picked{array: leaf, from: from, to: to}, nil
		}
	}
	c.materialize()
	c.idx = c.idx[:0]
	start := len(c.def)
	for i := from; i < to; i++ {
		c.idx = append(c.idx, int32(i))
		c.def = append(c.def, 0)
	}
	if c.maxRep > 0 {
		for range to - from {
			c.rep = append(c.rep, 0)
		}
	}
	rep := uint8(0)
	for _, s := range c.steps {
		if !s.list {
			if err := c.mask(a, s.nullable, start); err != nil {
				return picked{}, err
			}
			a = a.(*array.Struct).Field(s.child)
			continue
		}
		rep++
		l, ok := a.(array.ListLike)
		if !ok {
			return picked{}, fmt.Errorf("column %q: %s is no list", c.name, a.DataType())
		}
		c.expand(l, s.nullable, rep, start)
		a = l.ListValues()
	}
	if err := c.mask(a, c.nullable, start); err != nil {
		return picked{}, err
	}
	c.slots = len(c.def)
	return c.pick(a), nil
}

// plainly gives the values when no array on the way has a null: the rows are the values then.
func (c *column) plainly(a arrow.Array) (arrow.Array, bool) {
	for _, s := range c.steps {
		if a.NullN() > 0 {
			return nil, false
		}
		a = a.(*array.Struct).Field(s.child)
	}
	return a, a.NullN() == 0
}

// constant adds rows without nulls.
func (c *column) constant(n int) {
	c.slots += n
	if c.partial {
		for range n {
			c.def = append(c.def, c.maxDef)
		}
	}
}

// materialize makes the definition levels of the page explicit: those before the first null are all the same.
func (c *column) materialize() {
	if !c.partial {
		c.partial = true
		for range c.slots {
			c.def = append(c.def, c.maxDef)
		}
	}
}

// mask ends the way of the slots whose value is null, and takes the others one level up.
func (c *column) mask(a arrow.Array, nullable bool, start int) error {
	def := c.def[start:]
	bits, off := a.NullBitmapBytes(), a.Data().Offset()
	if a.NullN() == 0 || bits == nil {
		if nullable {
			for i, at := range c.idx {
				if at >= 0 {
					def[i]++
				}
			}
		}
		return nil
	}
	for i, at := range c.idx {
		switch {
		case at < 0:
		case bits[(off+int(at))/8]&(1<<((off+int(at))%8)) == 0:
			if !nullable {
				return fmt.Errorf("%w: column %q", ErrNull, c.name)
			}
			c.idx[i] = -1
		case nullable:
			def[i]++
		}
	}
	return nil
}

// expand replaces each slot by the elements of its list; null and empty lists stay a slot without a value.
func (c *column) expand(l array.ListLike, nullable bool, level uint8, start int) {
	c.def2, c.rep2, c.idx2 = append(c.def2[:0], c.def[start:]...), append(c.rep2[:0], c.rep[start:]...), append(c.idx2[:0], c.idx...)
	c.def, c.rep, c.idx = c.def[:start], c.rep[:start], c.idx[:0]
	nulls := l.NullN() > 0
	for i, at := range c.idx2 {
		def, rep := c.def2[i], c.rep2[i]
		if at < 0 || nulls && l.IsNull(int(at)) {
			if level == 1 {
				c.of.lists++
			}
			c.def, c.rep, c.idx = append(c.def, def), append(c.rep, rep), append(c.idx, -1)
			continue
		}
		if nullable {
			def++
		}
		from, to := l.ValueOffsets(int(at))
		if from == to {
			c.def, c.rep, c.idx = append(c.def, def), append(c.rep, rep), append(c.idx, -1)
			continue
		}
		for e := from; e < to; e++ {
			c.def, c.rep, c.idx = append(c.def, def+1), append(c.rep, rep), append(c.idx, int32(e))
			rep = level
		}
	}
}

// pick gives the values that the slots have ended at.
func (c *column) pick(a arrow.Array) picked {
	n := 0
	for _, at := range c.idx {
		c.idx[n] = at
		if at >= 0 {
			n++
		}
	}
	c.idx = c.idx[:n]
	if n == 0 {
		return picked{array: a}
	}
	if first, last := int(c.idx[0]), int(c.idx[n-1]); last-first == n-1 {
		return picked{array: a, from: first, to: last + 1}
	}
	return picked{array: a, idx: c.idx}
}
