package table

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/internal/where"
)

// leafPages are the pages of a column that the scan chooses rows by.
type leafPages struct {
	*parquet.Pages
	leaf int
	typ  arrowparquet.Type
}

// pageIndex gives the file's page index, which is looked for when a row group is first read in part.
func (f *fileScan) pageIndex() (*parquet.Index, error) {
	if f.index == nil && !f.s.library {
		x, err := parquet.ReadIndex(f.source, f.pq.MetaData())
		if err != nil {
			return nil, err
		}
		f.index = x
	}
	return f.index, nil
}

// wantedRows gives the rows of a row group, within [from, to) of it, that can be rows of the scan: by the page index,
// where there is one and the scan does not want all of the group anyway.
func (f *fileScan) wantedRows(group int, meta *metadata.RowGroupMetaData, from, to int64) ([]parquet.RowSpan, error) {
	all := []parquet.RowSpan{{From: from, To: to}}
	leaves := f.choosing(meta)
	if len(leaves) == 0 || f.s.library || f.calendar != nil {
		return all, nil
	}
	index, err := f.pageIndex()
	if err != nil {
		return nil, err
	}
	pages := map[int]leafPages{}
	cuts := []int64{from, to}
	for _, leaf := range leaves {
		p, err := index.Pages(group, leaf)
		if err != nil {
			return nil, err
		}
		if p == nil || p.Limits == nil || p.Len() < 2 {
			continue
		}
		pages[leaf] = leafPages{p, leaf, f.pq.MetaData().Schema.Column(leaf).PhysicalType()}
		for _, row := range p.First {
			if row > from && row < to {
				cuts = append(cuts, row)
			}
		}
	}
	if len(pages) == 0 {
		return all, nil
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []parquet.RowSpan
	at := map[int]int{} // page of each column
	for i := range len(cuts) - 1 {
		span := parquet.RowSpan{From: cuts[i], To: cuts[i+1]}
		for leaf, p := range pages {
			for p.First[at[leaf]+1] <= span.From {
				at[leaf]++
			}
		}
		switch last := len(out) - 1; {
		case !f.mayHave(meta, pages, at):
		case last >= 0 && out[last].To == span.From:
			out[last].To = span.To
		default:
			out = append(out, span)
		}
	}
	return out, nil
}

// choosing lists the leaves by which the scan chooses rows of a row group; none when it wants all.
func (f *fileScan) choosing(meta *metadata.RowGroupMetaData) (leaves []int) {
	if f.s.probing {
		return nil
	}
	add := func(leaf int) {
		if leaf < 0 || leaf >= meta.NumColumns() || slices.Contains(leaves, leaf) {
			return
		}
		if c, err := meta.ColumnChunk(leaf); err == nil && c.GetColumnIndexLocation() != nil {
			leaves = append(leaves, leaf)
		}
	}
	if b := f.groupBounds(meta); f.s.ordered && f.s.ranges != nil && !b.within(f.s.ranges) {
		add(f.prune[0])
		add(f.prune[1])
	}
	if f.s.ordered && !f.s.opts.MinTimestamp.IsZero() {
		add(f.prune[2])
	}
	if f.s.where != nil {
		for _, name := range f.s.where.Columns() {
			if i := f.s.schema.FieldIndices(name)[0]; f.fields[i] >= 0 && f.fr.Manifest.Fields[f.fields[i]].IsLeaf() {
				add(f.fr.Manifest.Fields[f.fields[i]].ColIndex)
			}
		}
	}
	return leaves
}

// mayHave says whether the rows at the given page of each column can be rows of the scan.
func (f *fileScan) mayHave(meta *metadata.RowGroupMetaData, pages map[int]leafPages, at map[int]int) bool {
	limits := func(leaf int) *parquet.PageLimits {
		if p, ok := pages[leaf]; ok && !p.Limits[at[leaf]].Empty {
			return &p.Limits[at[leaf]]
		}
		return nil
	}
	if f.s.ordered && f.s.ranges != nil {
		b := f.groupBounds(meta)
		if l := limits(f.prune[0]); l != nil && len(l.Min) == 4 {
			b.pmin, b.pmax = int32(plainInt(l.Min)), int32(plainInt(l.Max))
		}
		if l := limits(f.prune[1]); l != nil && len(l.Min) == 8 {
			b.omin, b.omax = plainInt(l.Min), plainInt(l.Max)
		}
		if !b.touches(f.s.ranges) {
			return false
		}
	}
	if l := limits(f.prune[2]); f.s.ordered && l != nil && l.Nulls == 0 && len(l.Max) == 8 &&
		f.s.before(f.pq.MetaData().Schema.Column(f.prune[2]).LogicalType(), plainInt(l.Max)) {
		return false
	}
	return f.s.where == nil || f.s.where.MayMatch(func(column string, typ arrow.DataType) where.Stats {
		i := f.s.schema.FieldIndices(column)[0]
		if f.fields[i] >= 0 && f.fr.Manifest.Fields[f.fields[i]].IsLeaf() {
			leaf := f.fr.Manifest.Fields[f.fields[i]].ColIndex
			if p, ok := pages[leaf]; ok {
				return p.stats(at[leaf], f.pq.MetaData().Schema.Column(leaf).LogicalType(), typ)
			}
		}
		return f.groupWhere(meta, column, typ)
	})
}

// stats are those of a page, as far as they are of the column's own type.
func (p *leafPages) stats(page int, logical schema.LogicalType, typ arrow.DataType) (out where.Stats) {
	l := &p.Limits[page]
	out.Rows = p.First[page+1] - p.First[page]
	switch {
	case l.Empty:
		out.Nulls, out.NullsKnown = out.Rows, true
		return out
	case l.Nulls >= 0:
		out.Nulls, out.NullsKnown = l.Nulls, true
	}
	setLimits(&out, p.typ, logical, typ, l.Min, l.Max)
	return out
}
