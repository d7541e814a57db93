package column

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Struct is a column of structs. A row is written by appending to each child and then calling Append.
type Struct struct {
	head
	kids []Column
	n    int
}

func newStruct(field arrow.Field, t *arrow.StructType) (*Struct, error) {
	c := &Struct{head: head{field: field}, kids: make([]Column, t.NumFields())}
	for i, f := range t.Fields() {
		kid, err := New(f)
		if err != nil {
			return nil, err
		}
		c.kids[i] = kid
	}
	return c, nil
}

// Child is the column of field i.
func (c *Struct) Child(i int) Column { return c.kids[i] }

// Append finishes a row whose children have been appended.
func (c *Struct) Append() {
	if len(c.bits) != 0 {
		c.valid(c.n)
	}
	c.n++
}

// AppendNull adds a null row, and a row below it to each child: null where the child may be.
func (c *Struct) AppendNull() {
	c.null(c.n)
	c.n++
	c.fill()
}

// AppendZero adds a row of which every child is null where it may be and zero where not.
func (c *Struct) AppendZero() {
	c.Append()
	c.fill()
}

func (c *Struct) fill() {
	for _, k := range c.kids {
		if k.Field().Nullable {
			k.AppendNull()
		} else {
			k.AppendZero()
		}
	}
}

// Len is the number of finished rows.
func (c *Struct) Len() int { return c.n }

// Truncate cuts back to n rows and drops what the children have beyond.
func (c *Struct) Truncate(n int) {
	c.cut(n, c.n)
	c.n = n
	for _, k := range c.kids {
		// A child lags when the row broke off before it, and also holds elements of an unfinished row.
		k.Truncate(min(n, k.Len()))
	}
}

// Reset drops all rows and keeps the memory.
func (c *Struct) Reset() {
	c.reset()
	c.n = 0
	for _, k := range c.kids {
		k.Reset()
	}
}

// Bytes estimates the memory that the rows take.
func (c *Struct) Bytes() int64 {
	n := int64(len(c.bits))
	for _, k := range c.kids {
		n += k.Bytes()
	}
	return n
}

// Array wraps the rows without a copy.
func (c *Struct) Array() arrow.Array { return wrap(c.data()) }

func (c *Struct) data() arrow.ArrayData {
	kids := make([]arrow.ArrayData, len(c.kids))
	for i, k := range c.kids {
		kids[i] = k.data()
		defer kids[i].Release()
	}
	return array.NewData(c.field.Type, c.n, []*memory.Buffer{c.bitmap()}, kids, c.nulls, 0)
}

// List is a column of lists. A row is written by appending its elements to Elem and then calling Append.
type List struct {
	head
	offsets []int32 // one more than rows, the first is 0
	elem    Column
}

func newList(field, elem arrow.Field) (List, error) {
	kid, err := New(elem)
	if err != nil {
		return List{}, err
	}
	return List{head: head{field: field}, offsets: []int32{0}, elem: kid}, nil
}

// Elem is the column of the elements.
func (c *List) Elem() Column { return c.elem }

// Append finishes a row: its elements are those appended to Elem since the row before. Callers keep Elem
// at or below MaxData rows.
func (c *List) Append() {
	if len(c.bits) != 0 {
		c.valid(len(c.offsets) - 1)
	}
	c.offsets = append(c.offsets, int32(c.elem.Len()))
}

// Elements is the number of elements in the first n rows.
func (c *List) Elements(n int) int { return int(c.offsets[n]) }

// AppendNull adds a null row.
func (c *List) AppendNull() {
	c.null(len(c.offsets) - 1)
	c.offsets = append(c.offsets, int32(c.elem.Len()))
}

// AppendZero adds an empty list.
func (c *List) AppendZero() { c.Append() }

// Len is the number of finished rows.
func (c *List) Len() int { return len(c.offsets) - 1 }

// Truncate cuts back to n rows and drops the elements beyond, those of an unfinished row too.
func (c *List) Truncate(n int) {
	c.cut(n, len(c.offsets)-1)
	c.offsets = c.offsets[:n+1]
	c.elem.Truncate(int(c.offsets[n]))
}

// Reset drops all rows and keeps the memory.
func (c *List) Reset() {
	c.reset()
	c.offsets = c.offsets[:1]
	c.elem.Reset()
}

// Bytes estimates the memory that the rows take.
func (c *List) Bytes() int64 { return int64(len(c.bits)+4*len(c.offsets)) + c.elem.Bytes() }

// Array wraps the rows without a copy.
func (c *List) Array() arrow.Array { return wrap(c.data()) }

func (c *List) data() arrow.ArrayData {
	kid := c.elem.data()
	defer kid.Release()
	bufs := []*memory.Buffer{c.bitmap(), memory.NewBufferBytes(offsetBytes(c.offsets))}
	return array.NewData(c.field.Type, c.Len(), bufs, []arrow.ArrayData{kid}, c.nulls, 0)
}

// Map is a column of maps: a list of entries, each a key and a value. An entry is written by appending to
// Keys and Values and calling AppendEntry; Append finishes the row. Keys of one row are the caller's to keep
// distinct, and never null.
type Map struct {
	List
	entries *Struct
}

func newMap(field arrow.Field, t *arrow.MapType) (*Map, error) {
	entry := t.ElemField()
	l, err := newList(field, entry)
	if err != nil {
		return nil, err
	}
	entries, ok := l.elem.(*Struct)
	if !ok || len(entries.kids) != 2 {
		return nil, unsupported(field, "")
	}
	return &Map{List: l, entries: entries}, nil
}

// Keys is the column of the keys.
func (c *Map) Keys() Column { return c.entries.kids[0] }

// Values is the column of the values.
func (c *Map) Values() Column { return c.entries.kids[1] }

// AppendEntry finishes an entry.
func (c *Map) AppendEntry() { c.entries.Append() }

// Entries is the number of entries in all rows, those of an unfinished row too.
func (c *Map) Entries() int { return c.entries.n }
