package where

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// getter gives the reader of one column's values.
func getter(a arrow.Array) (func(i int) value, error) {
	switch a := a.(type) {
	case *array.Int8:
		return func(i int) value { return value{i: int64(a.Value(i))} }, nil
	case *array.Int16:
		return func(i int) value { return value{i: int64(a.Value(i))} }, nil
	case *array.Int32:
		return func(i int) value { return value{i: int64(a.Value(i))} }, nil
	case *array.Int64:
		return func(i int) value { return value{i: a.Value(i)} }, nil
	case *array.Date32:
		return func(i int) value { return value{i: int64(a.Value(i))} }, nil
	case *array.Timestamp:
		return func(i int) value { return value{i: int64(a.Value(i))} }, nil
	case *array.Boolean:
		return func(i int) value {
			if a.Value(i) {
				return value{i: 1}
			}
			return value{}
		}, nil
	case *array.Float32:
		return func(i int) value { return value{form: formFloat, f: float64(a.Value(i))} }, nil
	case *array.Float64:
		return func(i int) value { return value{form: formFloat, f: a.Value(i)} }, nil
	case *array.String:
		all, first := a.ValueBytes(), 0
		if a.Len() > 0 {
			first = a.ValueOffset(0)
		}
		return func(i int) value {
			at := a.ValueOffset(i) - first
			return value{form: formBytes, b: all[at : at+a.ValueLen(i)]}
		}, nil
	case *array.Binary:
		return func(i int) value { return value{form: formBytes, b: a.Value(i)} }, nil
	case *array.Decimal128:
		return func(i int) value { return value{form: formDecimal, d: a.Value(i)} }, nil
	}
	return nil, fmt.Errorf("%w: cannot compare a column of type %s", ErrSyntax, a.DataType())
}

// Rows says of each row whether it is kept. The batch has the columns of Columns, with the types of Bind.
func (b *Bound) Rows(rb arrow.RecordBatch) ([]bool, error) {
	keep := make([]bool, rb.NumRows())
	return keep, b.root.rows(rb, keep)
}

// rows sets keep for the rows that pass. Only truth matters: there is no NOT left that could turn the others.
func (b *bound) rows(rb arrow.RecordBatch, keep []bool) error {
	if b.test != nil {
		return b.test.rows(rb, keep)
	}
	for n := range b.subs {
		if n == 0 {
			if err := b.subs[0].rows(rb, keep); err != nil {
				return err
			}
			continue
		}
		sub := make([]bool, len(keep))
		if err := b.subs[n].rows(rb, sub); err != nil {
			return err
		}
		for i := range keep {
			if b.any {
				keep[i] = keep[i] || sub[i]
			} else {
				keep[i] = keep[i] && sub[i]
			}
		}
	}
	return nil
}

func (t *test) rows(rb arrow.RecordBatch, keep []bool) error {
	idx := rb.Schema().FieldIndices(t.column)
	if len(idx) != 1 {
		return fmt.Errorf("%w: the rows have no column %q", ErrSyntax, t.column)
	}
	a := rb.Column(idx[0])
	if t.op == opNull || t.op == opNotNull {
		for i := range keep {
			keep[i] = a.IsNull(i) == (t.op == opNull)
		}
		return nil
	}
	get, err := getter(a)
	if err != nil {
		return err
	}
	for i := range keep {
		keep[i] = a.IsValid(i) && t.holds(get(i))
	}
	return nil
}

// Select gives the rows that are kept, and how many these are. The caller releases the new batch; rb stays its own.
func Select(ctx context.Context, rb arrow.RecordBatch, keep []bool) (arrow.RecordBatch, error) {
	n := 0
	for _, k := range keep {
		if k {
			n++
		}
	}
	switch n {
	case len(keep):
		rb.Retain()
		return rb, nil
	case 0:
		return rb.NewSlice(0, 0), nil
	}
	mask := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer mask.Release()
	mask.AppendValues(keep, nil)
	m := mask.NewBooleanArray()
	defer m.Release()
	out, err := compute.FilterRecordBatch(ctx, rb, m, compute.DefaultFilterOptions())
	if err != nil {
		return nil, fmt.Errorf("filter rows: %w", err)
	}
	return out, nil
}

// LimitOf gives one value of a column as a Limit; false when it is null or cannot be compared.
func LimitOf(a arrow.Array, i int) (Limit, bool) {
	if a.IsNull(i) {
		return Limit{}, false
	}
	get, err := getter(a)
	if err != nil {
		return Limit{}, false
	}
	v := get(i)
	return Limit{Int: v.i, Float: v.f, Bytes: v.b, Decimal: v.d}, true
}
