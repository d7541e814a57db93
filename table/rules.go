package table

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/expr"
)

// Rules are what a table asks of its rows beyond the types of columns: a partition column holds what partitionValues
// can, where an empty text is null, some columns may not be null, and check constraints and invariants are true. Who fills the table and who reads the log behind
// it both ask them, so that a record is the same row, or none, on both sides of the seam (I4).
type Rules struct {
	keys     []ruleKey
	required []int // columns that may not be null
	checks   []rowCheck
	unkept   []string // rules that cannot be looked at
	made     []generatedColumn
	columns  *arrow.Schema
}

// rowCheck is a condition that has to be true for each row.
type rowCheck struct {
	name string
	*expr.Bound
}

type ruleKey struct {
	index    int
	typ      deltalog.DataType
	required bool
}

// NewRules gives the rules of a snapshot's table for rows of these columns.
func NewRules(snap *deltalog.Snapshot, columns *arrow.Schema) *Rules {
	r := &Rules{columns: columns}
	keys := map[string]bool{}
	topic := topicColumn(snap.Metadata())
	for _, name := range snap.Metadata().PartitionColumns {
		f, ok := snap.Schema().Field(name)
		at := columns.FieldIndices(name)
		if !ok || len(at) != 1 || name == topic { // the name of a topic is never empty
			continue
		}
		switch f.Type {
		case deltalog.String, deltalog.Binary, deltalog.Date, deltalog.Timestamp, deltalog.TimestampNTZ:
			keys[name] = true
			r.keys = append(r.keys, ruleKey{at[0], f.Type, !columns.Field(at[0]).Nullable})
		}
	}
	for i, f := range columns.Fields() {
		if !f.Nullable && !keys[f.Name] {
			r.required = append(r.required, i)
		}
	}
	for _, rule := range snap.RowRules() {
		c, err := newCheck(rule, columns)
		if err != nil {
			r.unkept = append(r.unkept, err.Error())
			continue
		}
		r.checks = append(r.checks, c)
	}
	for _, g := range snap.GeneratedColumns() {
		if err := r.generate(g); err != nil {
			r.unkept = append(r.unkept, err.Error())
		}
	}
	return r
}

func newCheck(rule deltalog.RowRule, columns *arrow.Schema) (rowCheck, error) {
	if rule.Expression == "" {
		return rowCheck{}, errors.New(rule.Name)
	}
	e, err := expr.Parse(rule.Expression)
	if err != nil {
		return rowCheck{}, fmt.Errorf("%s (%s, which %w)", rule.Name, rule.Expression, err)
	}
	b, err := e.Condition(columns)
	if err != nil {
		return rowCheck{}, fmt.Errorf("%s (%s, which %w)", rule.Name, rule.Expression, err)
	}
	return rowCheck{rule.Name, b}, nil
}

// Unkept names, as an *deltalog.UnsupportedError, the rules of the table that cannot be looked at here: identity columns,
// and expressions that internal/expr does not know. Such a table must not be filled.
func (r *Rules) Unkept() error {
	if len(r.unkept) == 0 {
		return nil
	}
	return &deltalog.UnsupportedError{Write: true, Features: r.unkept}
}

// Empty says that any row will do.
func (r *Rules) Empty() bool { return len(r.keys) == 0 && len(r.required) == 0 && len(r.checks) == 0 }

// Needs gives the columns that Broken looks at; it is content with nil in the place of others.
func (r *Rules) Needs() []int {
	out := slices.Clone(r.required)
	for _, k := range r.keys {
		out = append(out, k.index)
	}
	for _, c := range r.checks {
		out = append(out, c.Columns()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Constrains says whether a check constraint or an invariant looks at a column of the top level, or below it. The column's
// type decides whether such a rule can be looked at, and what it says.
func (r *Rules) Constrains(column string) bool {
	return slices.ContainsFunc(r.checks, func(c rowCheck) bool {
		return slices.ContainsFunc(c.Columns(), func(i int) bool { return r.columns.Field(i).Name == column })
	})
}

// Broken says, for each of the rows [from, to) that the table cannot have, why; nil when it can have all.
func (r *Rules) Broken(cols []arrow.Array, from, to int) map[int]string {
	var bad map[int]string
	broken := func(row int, why string) {
		if bad == nil {
			bad = map[int]string{}
		}
		bad[row] = why
	}
	for _, k := range r.keys {
		name := r.columns.Field(k.index).Name
		for row := from; row < to; row++ {
			if !k.required && !suspicious(cols[k.index], row) || row > from && sameText(cols[k.index], row) && bad[row-1] == "" {
				continue
			}
			v, err := PartitionValue(k.typ, cols[k.index], row)
			switch {
			case err != nil:
				broken(row, fmt.Sprintf("partition column %s: %v", name, err))
			case v == nil && k.required:
				broken(row, fmt.Sprintf("partition column %s may not be null, nor an empty text, which is null there", name))
			}
		}
	}
	for _, i := range r.required {
		if cols[i].NullN() == 0 {
			continue
		}
		for row := from; row < to; row++ {
			if cols[i].IsNull(row) {
				broken(row, fmt.Sprintf("column %s may not be null", r.columns.Field(i).Name))
			}
		}
	}
	r.checked(cols, from, to, broken)
	return bad
}

// checked evaluates the conditions. Null is not true; a value that has no answer, such as a sum that overflows, breaks
// the rule too.
func (r *Rules) checked(cols []arrow.Array, from, to int, broken func(row int, why string)) {
	e := expr.On(cols)
	for _, c := range r.checks {
		for row := from; row < to; row++ {
			ok, err := e.True(c.Bound, row)
			switch {
			case err != nil:
				broken(row, fmt.Sprintf("%s (%s): %v", c.name, c, err))
			case !ok:
				broken(row, fmt.Sprintf("%s (%s) is not true", c.name, c))
			}
		}
	}
}

// AsStored puts what the table gives back for rows that it can have in the place of what they were made of: null for
// empty texts of partition columns. Arrays that change are new, and on the heap.
func (r *Rules) AsStored(cols []arrow.Array) {
	for _, k := range r.keys {
		if k.typ == deltalog.String || k.typ == deltalog.Binary {
			cols[k.index] = emptyAsNull(cols[k.index])
		}
	}
}

// texts are arrays of strings or bytes.
type texts interface {
	arrow.Array
	ValueLen(i int) int
}

func emptyAsNull(a arrow.Array) arrow.Array {
	t, ok := a.(texts)
	if !ok {
		return a
	}
	valid := make([]byte, (a.Len()+7)/8)
	nulls, empty := 0, false
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			nulls++
		case t.ValueLen(i) == 0:
			nulls++
			empty = true
		default:
			valid[i/8] |= 1 << (i % 8)
		}
	}
	if !empty || a.Data().Offset() != 0 {
		return a
	}
	bufs := a.Data().Buffers()
	data := array.NewData(a.DataType(), a.Len(), []*memory.Buffer{memory.NewBufferBytes(valid), bufs[1], bufs[2]}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// sameText says, fast, that a value is the text that the row before has: most rows have.
func sameText(a arrow.Array, row int) bool {
	t, ok := a.(*array.String)
	return ok && !t.IsNull(row) && !t.IsNull(row-1) && t.Value(row) == t.Value(row-1)
}

// suspicious says, fast, whether a value may not be one of a partition column.
func suspicious(a arrow.Array, i int) bool {
	if a.IsNull(i) {
		return false
	}
	const firstDay, lastDay = -719162, 2932896 // of the years 1 and 9999
	switch a := a.(type) {
	case *array.String, *array.Binary:
		return true
	case *array.Date32:
		return a.Value(i) < firstDay || a.Value(i) > lastDay
	case *array.Timestamp:
		const perDay = 24 * 60 * 60 * 1e6
		return a.Value(i) < firstDay*perDay || a.Value(i) >= (lastDay+1)*perDay
	}
	return false
}

// PartitionValue gives a value of a column as partitionValues holds it, without anything of the array; nil is null, and so is an
// empty text.
func PartitionValue(t deltalog.DataType, a arrow.Array, row int) (*string, error) {
	v, err := deltalog.FormatPartitionValue(t, goValue(a, row))
	if err != nil || v == nil {
		return v, err
	}
	// Texts of arrays point into their memory, which is used again for other rows while the files of this value are written.
	own := strings.Clone(*v)
	return &own, nil
}

// goValue gives a value as FormatPartitionValue wants it; nil is null.
func goValue(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int8:
		return a.Value(i)
	case *array.Int16:
		return a.Value(i)
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return a.Value(i)
	case *array.Date32:
		return time.Unix(int64(a.Value(i))*24*60*60, 0)
	case *array.Timestamp:
		return time.UnixMicro(int64(a.Value(i)))
	case *array.Decimal128:
		return new(big.Int).Set(a.Value(i).BigInt())
	}
	return a // a type that is none of a partition column's: FormatPartitionValue says so
}
