package expr

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Evaluation evaluates bound expressions on the rows of some arrays.
type Evaluation struct {
	cols []arrow.Array // by the numbers of the schema; nil where no expression looks
	row  int
	held []value // by the numbers of held nodes
	made int     // bytes of the texts that were made for the row
	err  error
}

// On starts an evaluation on columns.
func On(cols []arrow.Array) *Evaluation { return &Evaluation{cols: cols} }

// True says whether a condition is true for a row: neither false nor null. The error is one of that row.
func (e *Evaluation) True(b *Bound, row int) (bool, error) {
	v, err := e.value(b, row)
	return err == nil && !v.null && v.i == 1, err
}

func (e *Evaluation) value(b *Bound, row int) (value, error) {
	e.row, e.made, e.err = row, 0, nil
	if len(e.held) < b.held {
		e.held = make([]value, b.held)
	}
	v := b.root.eval(e)
	return v, e.err
}

// fail notes why the row has no value.
func (e *Evaluation) fail(format string, args ...any) value {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
	return none
}

// makes notes that a text of n bytes is to be made, and fails when that is too much: a rule may name a text often.
func (e *Evaluation) makes(n int) bool {
	if e.made += n; e.made > maxMade {
		e.fail("it makes texts of more than %d MiB", maxMade>>20)
		return false
	}
	return true
}

// fold evaluates what depends on no column.
func fold(n node) (value, error) {
	e := &Evaluation{}
	v := n.eval(e)
	return v, e.err
}

type constant value

func (c constant) eval(*Evaluation) value { return value(c) }

// column reads a column, or a field of structs in it.
type column struct {
	index  int
	fields []int
}

func (c *column) eval(e *Evaluation) value {
	a, row := e.cols[c.index], e.row
	for _, f := range c.fields {
		s := a.(*array.Struct)
		if s.IsNull(row) {
			return none
		}
		a = s.Field(f) // with the slice's offset applied
	}
	if a.IsNull(row) {
		return none
	}
	return valueAt(a, row)
}

// valueAt gives a value that is not null. Texts share the array's memory.
func valueAt(a arrow.Array, row int) value {
	switch a := a.(type) {
	case *array.Boolean:
		return truth(a.Value(row))
	case *array.Int8:
		return value{i: int64(a.Value(row))}
	case *array.Int16:
		return value{i: int64(a.Value(row))}
	case *array.Int32:
		return value{i: int64(a.Value(row))}
	case *array.Int64:
		return value{i: a.Value(row)}
	case *array.Float32:
		return value{f: float64(a.Value(row))}
	case *array.Float64:
		return value{f: a.Value(row)}
	case *array.Decimal128:
		return value{d: a.Value(row).BigInt()}
	case *array.String:
		return value{s: a.Value(row)}
	case *array.Binary:
		b := a.Value(row)
		return value{s: unsafe.String(unsafe.SliceData(b), len(b))}
	case *array.Date32:
		return value{i: int64(a.Value(row))}
	case *array.Timestamp:
		return value{i: int64(a.Value(row))}
	}
	return value{} // of a nested type: all that is asked is whether it is null
}
