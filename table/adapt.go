package table

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// conform gives rb under the schema, which must have the same columns: names of list elements, field metadata
// and what may be null are taken from the schema, so that the file is what the table says.
func conform(rb arrow.RecordBatch, schema *arrow.Schema) (arrow.RecordBatch, error) {
	if int(rb.NumCols()) != schema.NumFields() {
		return nil, fmt.Errorf("batch has %d columns, want %d: %v", rb.NumCols(), schema.NumFields(), schema)
	}
	cols := make([]arrow.Array, rb.NumCols())
	for i, f := range schema.Fields() {
		if rb.ColumnName(i) != f.Name {
			return nil, fmt.Errorf("column %d of the batch is %q, want %q", i, rb.ColumnName(i), f.Name)
		}
		a := rb.Column(i)
		if !f.Nullable && a.NullN() > 0 {
			return nil, fmt.Errorf("column %q has nulls and is required", f.Name)
		}
		if !alike(a.DataType(), f.Type) {
			return nil, fmt.Errorf("column %q has type %s, want %s", f.Name, a.DataType(), f.Type)
		}
		d, err := retype(a.Data(), f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		cols[i] = array.MakeFromData(d)
		d.Release()
		defer cols[i].Release()
	}
	return array.NewRecordBatch(schema, cols, rb.NumRows()), nil
}

// alike says whether data of type a can be seen as data of type b without touching it.
func alike(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.StructType:
		o := b.(*arrow.StructType)
		if a.NumFields() != o.NumFields() {
			return false
		}
		for i, f := range a.Fields() {
			if f.Name != o.Field(i).Name || !alike(f.Type, o.Field(i).Type) {
				return false
			}
		}
		return true
	case *arrow.ListType:
		return alike(a.Elem(), b.(*arrow.ListType).Elem())
	case *arrow.MapType:
		o := b.(*arrow.MapType)
		return alike(a.KeyType(), o.KeyType()) && alike(a.ItemType(), o.ItemType())
	}
	return arrow.TypeEqual(a, b)
}

// retype gives the same buffers under another type of the same layout. Nulls below a required field are refused.
func retype(d arrow.ArrayData, t arrow.DataType) (arrow.ArrayData, error) {
	var want []arrow.Field
	switch t := t.(type) {
	case *arrow.StructType:
		want = t.Fields()
	case *arrow.ListType:
		want = []arrow.Field{t.ElemField()}
	case *arrow.MapType:
		want = []arrow.Field{t.ElemField()}
	}
	kids := make([]arrow.ArrayData, len(want))
	for i, f := range want {
		kid := d.Children()[i]
		if !f.Nullable && kid.NullN() > 0 && (t.ID() == arrow.LIST || d.NullN() == 0) {
			return nil, fmt.Errorf("field %q has nulls and is required", f.Name)
		}
		k, err := retype(kid, f.Type)
		if err != nil {
			return nil, err
		}
		kids[i] = k
		defer k.Release()
	}
	return array.NewData(t, d.Len(), d.Buffers(), kids, d.NullN(), d.Offset()), nil
}

// adapt gives a column of a file as the table's type: children by name, missing ones null, numbers widened.
func adapt(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	if arrow.TypeEqual(a.DataType(), t) && !typeHasIDs(t) {
		a.Retain()
		return a, nil
	}
	switch t := t.(type) {
	case *arrow.StructType:
		if s, ok := a.(*array.Struct); ok {
			return adaptStruct(s, t, mem)
		}
	case *arrow.ListType:
		if l, ok := a.(*array.List); ok {
			return adaptList(l.Data(), l.ListValues(), t, t.Elem(), mem)
		}
	case *arrow.MapType:
		switch l := a.(type) {
		case *array.Map:
			return adaptList(l.Data(), l.ListValues(), t, t.Elem(), mem)
		case *array.List:
			return adaptList(l.Data(), l.ListValues(), t, t.Elem(), mem)
		}
	default:
		if out, ok := widen(a, t, mem); ok {
			return out, nil
		}
	}
	return nil, fmt.Errorf("data of type %s cannot be read as %s", a.DataType(), t)
}

func adaptStruct(s *array.Struct, t *arrow.StructType, mem memory.Allocator) (arrow.Array, error) {
	have := s.DataType().(*arrow.StructType)
	kids := make([]arrow.ArrayData, t.NumFields())
	for i, f := range t.Fields() {
		var kid arrow.Array
		j, err := find(have.Fields(), f)
		if err != nil {
			return nil, err
		}
		if j >= 0 {
			if kid, err = adapt(s.Field(j), f.Type, mem); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
		} else {
			kid = array.MakeArrayOfNull(mem, f.Type, s.Len())
		}
		kids[i] = kid.Data()
		defer kid.Release()
	}
	bits := s.Data().Buffers()[:1]
	if s.Data().Offset() != 0 && s.NullN() > 0 { // the children above begin at 0, so the bits have to
		bits = []*memory.Buffer{copyBits(s)}
	}
	d := array.NewData(t, s.Len(), bits, kids, s.NullN(), 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

func copyBits(a arrow.Array) *memory.Buffer {
	out := make([]byte, (a.Len()+7)/8)
	for i := range a.Len() {
		if a.IsValid(i) {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return memory.NewBufferBytes(out)
}

// adaptList changes the elements. Map entries are matched by position: writers do not agree on their names.
func adaptList(d arrow.ArrayData, elems arrow.Array, t, elem arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	var kid arrow.Array
	var err error
	if m, ok := t.(*arrow.MapType); ok {
		entries, ok := elems.(*array.Struct)
		if !ok || entries.NumField() != 2 {
			return nil, fmt.Errorf("a map whose entries are %s", elems.DataType())
		}
		kid, err = adaptEntries(entries, m, mem)
	} else {
		kid, err = adapt(elems, elem, mem)
	}
	if err != nil {
		return nil, err
	}
	defer kid.Release()
	out := array.NewData(t, d.Len(), d.Buffers(), []arrow.ArrayData{kid.Data()}, d.NullN(), d.Offset())
	defer out.Release()
	return array.MakeFromData(out), nil
}

func adaptEntries(e *array.Struct, m *arrow.MapType, mem memory.Allocator) (arrow.Array, error) {
	k, err := adapt(e.Field(0), m.KeyType(), mem)
	if err != nil {
		return nil, fmt.Errorf("map key: %w", err)
	}
	defer k.Release()
	v, err := adapt(e.Field(1), m.ItemType(), mem)
	if err != nil {
		return nil, fmt.Errorf("map value: %w", err)
	}
	defer v.Release()
	d := array.NewData(m.Elem(), e.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{k.Data(), v.Data()}, 0, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

// fieldIndex finds a column by name, and by the name in other case where there is none: Delta names are
// case-preserving and not case-sensitive.
func fieldIndex(fields []arrow.Field, name string) int {
	folded := -1
	for i, f := range fields {
		if f.Name == name {
			return i
		}
		if folded < 0 && strings.EqualFold(f.Name, name) {
			folded = i
		}
	}
	return folded
}
