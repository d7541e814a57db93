package table

import (
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// chunk is a batch of a scan with the keys of its rows; keys are nil in tables without them.
type chunk struct {
	rb    arrow.RecordBatch
	parts []int32
	offs  []int64
	file  string // of all rows; of some when merged
	width int64  // bytes of a row, about; 0 when merged
	row   int64  // of the file, of the first one; not kept by slices
}

func (c *chunk) len() int      { return int(c.rb.NumRows()) }
func (c *chunk) key(i int) key { return key{c.parts[i], c.offs[i]} }

// slice gives the rows [i, j) without a copy.
func (c *chunk) slice(i, j int) *chunk {
	if i == 0 && j == c.len() {
		c.rb.Retain()
		return c
	}
	s := &chunk{rb: c.rb.NewSlice(int64(i), int64(j)), file: c.file, width: c.width}
	if c.parts != nil {
		s.parts, s.offs = c.parts[i:j], c.offs[i:j]
	}
	return s
}

// keyColumns finds the keys of a batch, all of whose rows have some.
func (c *chunk) keyColumns(part, off int) error {
	pa, oa, err := c.keyArrays(part, off)
	if err != nil {
		return err
	}
	if pa.NullN() > 0 || oa.NullN() > 0 {
		return fmt.Errorf("%w in file %s", ErrNoPosition, c.file)
	}
	c.parts, c.offs = pa.Int32Values(), oa.Int64Values()
	return nil
}

func (c *chunk) keyArrays(part, off int) (*array.Int32, *array.Int64, error) {
	pa, ok1 := c.rb.Column(part).(*array.Int32)
	oa, ok2 := c.rb.Column(off).(*array.Int64)
	if !ok1 || !ok2 {
		return nil, nil, fmt.Errorf("columns %s and %s are not int and long", c.rb.ColumnName(part), c.rb.ColumnName(off))
	}
	return pa, oa, nil
}

// search gives the first row at or after i whose key is not below k. Rows are sorted.
func (c *chunk) search(i int, k key) int {
	return i + sort.Search(c.len()-i, func(j int) bool { return compareKey(c.key(i+j), k) >= 0 })
}

// keep gives the rows that are in the ranges (sorted), as pieces without a copy.
func (c *chunk) keep(ranges []Range) []*chunk {
	if ranges == nil {
		c.rb.Retain()
		return []*chunk{c}
	}
	var out []*chunk
	n := c.len()
	for i := 0; i < n; {
		k := c.key(i)
		at := sort.Search(len(ranges), func(j int) bool {
			r := ranges[j]
			return compareKey(key{r.Partition, int64(r.To)}, k) > 0
		})
		if at == len(ranges) {
			break
		}
		r := ranges[at]
		i = c.search(i, key{r.Partition, int64(r.From)})
		end := c.search(i, key{r.Partition, int64(r.To)})
		if end > i {
			out = append(out, c.slice(i, end))
		}
		i = end // beyond k: the range ends after k
	}
	return out
}

// checkOrder makes sure that the rows come after last and in order.
func (c *chunk) checkOrder(last key, any bool) error {
	for i := range c.parts {
		k := c.key(i)
		if any && compareKey(k, last) <= 0 {
			return fmt.Errorf("file %s: %w: partition %d offset %d after partition %d offset %d", c.file, ErrUnsorted, k.partition, k.offset, last.partition, last.offset)
		}
		last, any = k, true
	}
	return nil
}
