package parquet

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// LeafReader reads one leaf of a row group as the format has it, as levels and values, for callers that make something
// else than Arrow arrays of them. It is for one goroutine.
type LeafReader struct {
	leaf leafReader
	rows int64 // still to read
	each int64 // slots of a row, on average and rounded up
	bad  error // sticky
}

// Slots are some rows of a leaf: a row outside of lists is one slot, a list has one for each element, or one when it has
// none.
type Slots struct {
	N        int     // slots
	Def, Rep []uint8 // levels of each; Def is nil where every slot has a value, Rep outside of lists
	// Values are those of the slots that have one: little-endian, as wide as their physical type, booleans a byte each. Byte
	// strings lie one behind the other, and Ends says where each one ends, behind a zero.
	Values []byte
	Ends   []int32
}

// OpenLeaf begins to read a leaf, by its place in the schema. ErrUnsupported, here or by any later call, says that the
// chunk has something that only the Parquet library knows; no row is lost then.
func OpenLeaf(src Source, footer *metadata.FileMetaData, group, column int, opts ReadOptions) (*LeafReader, error) {
	o, err := newOpener(src, footer, group, opts)
	if err != nil {
		return nil, err
	}
	r := &LeafReader{rows: o.rg.NumRows()}
	l := &r.leaf
	if err := o.chunk(l, column); err != nil {
		return nil, err
	}
	l.most = mostLeafSlots
	r.each = max(1, l.slots/max(1, r.rows)+min(1, l.slots%max(1, r.rows)))
	desc := footer.Schema.Column(column)
	if l.setWidth(desc); l.kind == kindFixed && l.width <= 0 {
		return nil, damaged("column %q: values of %d bytes", l.name, desc.TypeLength())
	}
	return r, nil
}

// Kind is the physical type of the values.
func (r *LeafReader) Kind() arrowparquet.Type { return arrowparquet.Type(r.leaf.kind) }

// Rows is how many rows are left.
func (r *LeafReader) Rows() int64 { return r.rows }

// Widest is how many bytes a row may take: those of the longest value in the leaf's dictionary, where a few bytes of the file
// stand for any number of them, times the values that a row has on average; or what the footer says of an average row, where
// that is more.
func (r *LeafReader) Widest() (int, error) {
	l := &r.leaf
	if r.bad == nil && !l.begun && l.slots > 0 {
		_, r.bad = l.nextPage(0) // the dictionary comes first
	}
	return int(min(max(l.density, float64(l.dict.most)*float64(r.each)), mostBytes)), r.bad
}

// Next decodes the next rows, n of them or as many as are left. What it gives is good until the next call.
func (r *LeafReader) Next(n int) (s Slots, rows int, err error) {
	if r.bad != nil {
		return s, 0, r.bad
	}
	l := &r.leaf
	n = int(min(int64(n), r.rows))
	if err := l.read(n); err != nil {
		if errors.Is(err, errTooMuch) { // the library takes as much as there is
			err = unsupported("column %q: %d rows of more than %d bytes", l.name, n, mostBytes)
		}
		r.bad = err
		return s, 0, err
	}
	r.rows -= int64(n)
	s = Slots{N: l.count, Values: l.vals.b}
	if l.explicit {
		s.Def = l.def
	}
	if l.maxRep > 0 {
		s.Rep = l.rep
	}
	if l.kind == kindBytes {
		s.Values, s.Ends = l.data.b, arrow.Int32Traits.CastFromBytes(l.offs.b)
	}
	return s, n, nil
}

// Release frees what the reader holds, and what it gave.
func (r *LeafReader) Release() { r.leaf.close() }
