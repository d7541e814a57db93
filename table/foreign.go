package table

import "fmt"

// Foreign rows are rows of an ordered table that have neither a partition nor an offset: somebody else appended
// them, for instance with Spark. They are of the table, but of no log: a scan of ranges leaves them out, and a scan
// of everything gives them last, file by file. A row with one of the two and not the other is damage.

// wanted splits the pending chunks of an ordered scan and keeps those with a place in the log, or, in a scan of a
// unit of foreign rows, the others. It counts the foreign rows that it drops.
func (f *fileScan) wanted() error {
	kept := f.pending[:0:0]
	for _, c := range f.pending {
		pieces, err := f.split(c)
		if err != nil {
			return err
		}
		kept = append(kept, pieces...)
	}
	f.pending = kept
	return nil
}

// split gives the wanted rows of a chunk, as pieces without a copy, and takes the chunk over.
func (f *fileScan) split(c *chunk) ([]*chunk, error) {
	pa, oa, err := c.keyArrays(f.s.part, f.s.off)
	if err != nil {
		return nil, err
	}
	if pa.NullN() == 0 && oa.NullN() == 0 && !f.u.foreign {
		return []*chunk{c}, nil
	}
	var out []*chunk
	for i := 0; i < c.len(); {
		foreign, j := pa.IsNull(i), i
		for ; j < c.len() && pa.IsNull(j) == foreign; j++ {
			if pa.IsNull(j) != oa.IsNull(j) {
				return nil, fmt.Errorf("%w: row %d of file %s has only one of the two", ErrNoPosition, c.row+int64(j), c.file)
			}
		}
		switch {
		case foreign && f.u.placed: // damage to the names of both columns would otherwise leave out all rows without a word
			return nil, fmt.Errorf("%w: row %d of file %s has neither of the two, and the log names its place", ErrNoPosition, c.row+int64(i), c.file)
		case foreign != f.u.foreign && foreign:
			f.u.foreigners += int64(j - i)
		case foreign == f.u.foreign && j-i == c.len():
			return []*chunk{c}, nil
		case foreign == f.u.foreign:
			piece := c.slice(i, j)
			piece.row = c.row + int64(i)
			out = append(out, piece)
		}
		i = j
	}
	c.rb.Release()
	return out, nil
}
