package table

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/expr"
)

// generatedColumn is a column that is computed where a row has no value for it.
type generatedColumn struct {
	index int
	*expr.Bound
}

// generate finds out how a column is computed. What cannot be understood, or found, its rule has said already.
func (r *Rules) generate(g deltalog.GeneratedColumn) error {
	at := r.columns.FieldIndices(g.Name)
	if len(at) != 1 {
		return nil
	}
	e, err := expr.Parse("coalesce(`" + strings.ReplaceAll(g.Name, "`", "``") + "`, (" + g.Expression + "))")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	b, err := e.Bind(r.columns)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if t := r.columns.Field(at[0]).Type; !b.Gives(t) {
		return fmt.Errorf("generated column %s of another type than its expression (%s)", g.Name, g.Expression)
	}
	r.made = append(r.made, generatedColumn{at[0], b})
	return nil
}

// Computes says whether the table has generated columns.
func (r *Rules) Computes() bool { return len(r.made) > 0 }

// Fill puts the values of generated columns into cols, for those of the rows [from, to) that have none; other rows may lose
// theirs. A value that cannot be computed stays null, and breaks the column's rule. Arrays that change are new, and on the heap.
func (r *Rules) Fill(cols []arrow.Array, from, to int) {
	for _, g := range r.made {
		old := cols[g.index]
		if old.NullN() == 0 {
			continue
		}
		b := array.NewBuilder(memory.DefaultAllocator, old.DataType())
		e := expr.On(cols)
		b.AppendNulls(from)
		for row := from; row < to; row++ {
			if e.Append(g.Bound, row, b) != nil {
				b.AppendNull()
			}
		}
		b.AppendNulls(old.Len() - to)
		cols[g.index] = b.NewArray()
		b.Release()
	}
}
