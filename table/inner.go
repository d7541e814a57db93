package table

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Inner columns. Tables that others fill may have the places of records in a struct, such as kafka.offset. Names of
// system columns can say so, with dots on the way; a column that has such a name itself comes first. The table's schema
// then has the field as one more column behind its own, under the dotted name, and all else is as with any column. Data
// files and statistics have it inside of the struct still: there the way to it is a path. Such tables are read, not filled.

// pathSep joins the physical names on the way to an inner column. No column can have it in its name by chance and be
// taken for one: a name without it is never looked for inside of a struct.
const pathSep = "\x00"

// wayTo finds a column by its name, or a field of a struct by the names on the way to it: their places. Nil: there is none.
func wayTo(fields []arrow.Field, name string) []int {
	if i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name }); i >= 0 {
		return []int{i}
	}
	for i, f := range fields {
		rest, below := strings.CutPrefix(name, f.Name+".")
		s, ok := f.Type.(*arrow.StructType)
		if !below || !ok {
			continue
		}
		if way := wayTo(s.Fields(), rest); way != nil {
			return append([]int{i}, way...)
		}
	}
	return nil
}

// fieldOn gives the field at the end of a way.
func fieldOn(fields []arrow.Field, way []int) arrow.Field {
	f := fields[way[0]]
	for _, i := range way[1:] {
		f = f.Type.(*arrow.StructType).Field(i)
	}
	return f
}

// innerFields gives the system columns that are fields of structs among the columns of a table.
func (n Names) innerFields(columns []arrow.Field) (out []arrow.Field) {
	for _, name := range n.list() {
		if !strings.Contains(name, ".") {
			continue
		}
		if way := wayTo(columns, name); len(way) > 1 {
			out = append(out, arrow.Field{Name: name, Type: fieldOn(columns, way).Type, Nullable: true})
		}
	}
	return out
}

// narrow keeps of a struct only what lies on the way to one of its fields.
func narrow(f arrow.Field, way []int) arrow.Field {
	if len(way) == 0 {
		return f
	}
	f.Type = arrow.StructOf(narrow(f.Type.(*arrow.StructType).Field(way[0]), way[1:]))
	return f
}

// innermost gives the field at the bottom of a narrowed struct, null where a struct around it is. It takes a over.
func innermost(a arrow.Array, depth int) arrow.Array {
	for range depth {
		s := a.(*array.Struct)
		kid := hide(s.Field(0), s)
		s.Release()
		a = kid
	}
	return a
}

// hide gives a field with nulls where its struct is null.
func hide(kid arrow.Array, s *array.Struct) arrow.Array {
	if s.NullN() == 0 {
		kid.Retain()
		return kid
	}
	d, nulls := kid.Data(), 0
	bits := make([]byte, bitutil.BytesForBits(int64(d.Offset()+d.Len())))
	for i := range d.Len() {
		if s.IsValid(i) && kid.IsValid(i) {
			bitutil.SetBit(bits, d.Offset()+i)
		} else {
			nulls++
		}
	}
	buffers := slices.Clone(d.Buffers())
	buffers[0] = memory.NewBufferBytes(bits)
	out := array.NewData(d.DataType(), d.Len(), buffers, d.Children(), nulls, d.Offset())
	defer out.Release()
	return array.MakeFromData(out)
}

// HoldsInner says whether a column of the table is a struct with fields that Names name as system columns.
func (t *Table) HoldsInner(column arrow.Field) bool {
	return slices.ContainsFunc(t.inner, func(name string) bool { return len(wayTo([]arrow.Field{column}, name)) > 1 })
}

// Around makes n rows of a struct column that holds inner columns, out of these as of gives them; its other fields are
// null, so RequiredBeside has to be empty. The caller releases it.
func (t *Table) Around(column arrow.Field, n int, of func(name string) arrow.Array) arrow.Array {
	return t.around(column.Name, column.Type, n, of)
}

func (t *Table) around(name string, typ arrow.DataType, n int, of func(name string) arrow.Array) arrow.Array {
	if slices.Contains(t.inner, name) {
		a := of(name)
		a.Retain()
		return a
	}
	s, ok := typ.(*arrow.StructType)
	if !ok || !slices.ContainsFunc(t.inner, func(inner string) bool { return strings.HasPrefix(inner, name+".") }) {
		return array.MakeArrayOfNull(memory.DefaultAllocator, typ, n)
	}
	kids := make([]arrow.ArrayData, s.NumFields())
	for i, f := range s.Fields() {
		kid := t.around(name+"."+f.Name, f.Type, n, of)
		defer kid.Release()
		kids[i] = kid.Data()
	}
	d := array.NewData(typ, n, []*memory.Buffer{nil}, kids, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// RequiredBeside gives the name, with dots, of a field that must not be null of a struct column that holds inner columns, and
// that is none of these nor around one: Around cannot make such a column. Empty when there is none.
func (t *Table) RequiredBeside(column arrow.Field) string {
	return t.requiredBeside(column.Name, column)
}

func (t *Table) requiredBeside(name string, f arrow.Field) string {
	if slices.Contains(t.inner, name) {
		return ""
	}
	s, ok := f.Type.(*arrow.StructType)
	if !ok || !slices.ContainsFunc(t.inner, func(inner string) bool { return strings.HasPrefix(inner, name+".") }) {
		if f.Nullable {
			return ""
		}
		return name
	}
	for _, kid := range s.Fields() {
		if required := t.requiredBeside(name+"."+kid.Name, kid); required != "" {
			return required
		}
	}
	return ""
}

// path gives the physical names on a way through the table's columns, joined; empty when the schema is broken.
func (m mapping) path(way []int) string {
	var names []string
	columns := m.schema
	for i, at := range way {
		sf := &columns.Fields[at]
		name := sf.Name
		if m.mode != "" {
			var err error
			if name, err = m.name(sf); err != nil {
				return ""
			}
		}
		names = append(names, name)
		if i < len(way)-1 {
			columns = sf.Type.(*deltalog.StructType)
		}
	}
	return strings.Join(names, pathSep)
}
