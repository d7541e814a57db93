package parquet

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrUnsupported says that a column has a type that is not written.
var ErrUnsupported = errors.New("parquet: type not supported")

// kind is a physical type; the numbers are the format's.
type kind int

const (
	kindBool   kind = 0
	kindInt32  kind = 1
	kindInt64  kind = 2
	kindFloat  kind = 4
	kindDouble kind = 5
	kindBytes  kind = 6
	kindFixed  kind = 7
)

// step goes from an array to one below it: into the elements of a list or map, or to a child of a struct.
type step struct {
	list     bool
	child    int
	nullable bool // the array that the step leaves
}

// leaf is a column of the file.
type leaf struct {
	column   int    // of the batch
	steps    []step // from that column to the values
	path     []string
	name     string // as path, without what Parquet puts between for lists and maps
	typ      arrow.DataType
	kind     kind
	width    int // bytes of a kindFixed
	nullable bool
	maxDef   uint8
	maxRep   uint8
}

// text says whether the bytes are UTF-8.
func (x *leaf) text() bool { return x.typ.ID() == arrow.STRING }

// The repetition types of the format.
const (
	required = 0
	optional = 1
	repeated = 2
)

// Converted and logical types of the format, those in use.
const (
	convertedNone      = -1
	convertedUTF8      = 0
	convertedMap       = 1
	convertedList      = 3
	convertedDecimal   = 5
	convertedDate      = 6
	convertedTimestamp = 10
	convertedInt8      = 15
	convertedInt16     = 16
	convertedInt32     = 17
	convertedInt64     = 18

	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTimestamp = 8
	logicalInt       = 10
)

// layout is the schema as the footer has it, and the leaves in its order.
type layout struct {
	leaves []leaf
	t      thrift // the elements one after the other
	n      int    // elements
}

func newLayout(schema *arrow.Schema) (*layout, error) {
	l := &layout{}
	l.group("spark_schema", -1, schema.NumFields(), convertedNone, 0, -1)
	for i, f := range schema.Fields() {
		if err := l.add(f, f.Name, place{column: i, name: f.Name}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// place is where in the tree a field stands.
type place struct {
	column   int
	steps    []step
	path     []string
	name     string
	def, rep int
}

func (p place) down(s step, path ...string) place {
	p.steps = append(p.steps[:len(p.steps):len(p.steps)], s)
	p.path = append(p.path[:len(p.path):len(p.path)], path...)
	if s.list {
		p.def++
		p.rep++
	}
	return p
}

// add adds a field under its Parquet name.
func (l *layout) add(f arrow.Field, name string, p place) error {
	p.path = append(p.path[:len(p.path):len(p.path)], name)
	rep := required
	if f.Nullable {
		rep = optional
		p.def++
	}
	if p.def > math.MaxUint8 {
		return fmt.Errorf("%w: column %q is nested too deeply", ErrUnsupported, f.Name)
	}
	id := fieldID(f.Metadata)
	switch t := f.Type.(type) {
	case *arrow.StructType:
		if t.NumFields() == 0 {
			return fmt.Errorf("%w: column %q is a struct without fields", ErrUnsupported, p.name)
		}
		l.group(name, rep, t.NumFields(), convertedNone, 0, id)
		for i, kid := range t.Fields() {
			q := p.down(step{child: i, nullable: f.Nullable})
			q.name += "." + kid.Name
			if err := l.add(kid, kid.Name, q); err != nil {
				return err
			}
		}
		return nil
	case *arrow.MapType:
		l.group(name, rep, 1, convertedMap, logicalMap, id)
		l.group("key_value", repeated, 2, convertedNone, 0, -1)
		entries := p.down(step{list: true, nullable: f.Nullable}, "key_value")
		if err := l.add(t.KeyField(), "key", entries.down(step{child: 0})); err != nil {
			return err
		}
		return l.add(t.ItemField(), "value", entries.down(step{child: 1}))
	case *arrow.ListType:
		l.group(name, rep, 1, convertedList, logicalList, id)
		l.group("list", repeated, 1, convertedNone, 0, -1)
		return l.add(t.ElemField(), "element", p.down(step{list: true, nullable: f.Nullable}, "list"))
	}
	return l.leaf(f, name, rep, id, p)
}

// group writes an element with others below it; rep -1 is the root.
func (l *layout) group(name string, rep, kids, converted, logical, id int) {
	t := &l.t
	t.elem()
	if rep >= 0 {
		t.i32(3, rep)
	}
	t.string(4, name)
	t.i32(5, kids)
	if converted >= 0 {
		t.i32(6, converted)
	}
	if id >= 0 {
		t.i32(9, id)
	}
	if logical > 0 {
		t.begin(10)
		t.begin(logical)
		t.end()
		t.end()
	}
	t.end()
	l.n++
}

// leaf writes an element that holds values.
func (l *layout) leaf(f arrow.Field, name string, rep, id int, p place) error {
	x := leaf{column: p.column, steps: p.steps, path: p.path, name: p.name, typ: f.Type, nullable: f.Nullable, maxDef: uint8(p.def), maxRep: uint8(p.rep)}
	converted, logical := convertedNone, func(*thrift) {}
	empty := func(id int) func(*thrift) { return func(t *thrift) { t.begin(id); t.end() } }
	integer := func(bits byte) func(*thrift) {
		return func(t *thrift) { t.begin(logicalInt); t.byte(1, bits); t.bool(2, true); t.end() }
	}
	switch t := f.Type.(type) {
	case *arrow.BooleanType:
		x.kind = kindBool
	case *arrow.Int8Type:
		x.kind, converted, logical = kindInt32, convertedInt8, integer(8)
	case *arrow.Int16Type:
		x.kind, converted, logical = kindInt32, convertedInt16, integer(16)
	case *arrow.Int32Type:
		x.kind, converted, logical = kindInt32, convertedInt32, integer(32)
	case *arrow.Int64Type:
		x.kind, converted, logical = kindInt64, convertedInt64, integer(64)
	case *arrow.Float32Type:
		x.kind = kindFloat
	case *arrow.Float64Type:
		x.kind = kindDouble
	case *arrow.StringType:
		x.kind, converted, logical = kindBytes, convertedUTF8, empty(logicalString)
	case *arrow.BinaryType:
		x.kind = kindBytes
	case *arrow.Date32Type:
		x.kind, converted, logical = kindInt32, convertedDate, empty(logicalDate)
	case *arrow.TimestampType:
		if t.Unit != arrow.Microsecond {
			return fmt.Errorf("%w: column %q has type %s (microseconds are)", ErrUnsupported, p.name, t)
		}
		x.kind = kindInt64
		if t.TimeZone != "" { // the converted type means UTC
			converted = convertedTimestamp
		}
		logical = func(w *thrift) {
			w.begin(logicalTimestamp)
			w.bool(1, t.TimeZone != "")
			w.begin(2) // unit
			empty(2)(w)
			w.end()
			w.end()
		}
	case *arrow.Decimal128Type:
		if t.Precision < 1 || t.Precision > 38 || t.Scale < 0 || t.Scale > t.Precision {
			return fmt.Errorf("%w: column %q has type %s", ErrUnsupported, p.name, t)
		}
		x.kind, x.width, converted = kindFixed, decimalWidth(t.Precision), convertedDecimal
		logical = func(w *thrift) {
			w.begin(logicalDecimal)
			w.i32(1, int(t.Scale))
			w.i32(2, int(t.Precision))
			w.end()
		}
	default:
		return fmt.Errorf("%w: column %q has type %s", ErrUnsupported, p.name, f.Type)
	}
	l.leaves = append(l.leaves, x)
	l.value(x, name, rep, id, converted, logical)
	return nil
}

func (l *layout) value(x leaf, name string, rep, id, converted int, logical func(*thrift)) {
	t := &l.t
	t.elem()
	t.i32(1, int(x.kind))
	if x.width > 0 {
		t.i32(2, x.width)
	}
	t.i32(3, rep)
	t.string(4, name)
	if converted >= 0 {
		t.i32(6, converted)
	}
	if d, ok := x.typ.(*arrow.Decimal128Type); ok {
		t.i32(7, int(d.Scale))
		t.i32(8, int(d.Precision))
	}
	if id >= 0 {
		t.i32(9, id)
	}
	before := len(t.b)
	t.begin(10)
	start := len(t.b)
	logical(t)
	empty := len(t.b) == start
	t.end()
	if empty {
		t.b = t.b[:before]
	}
	t.end()
	l.n++
}

// decimalWidth is the number of bytes that hold every decimal of a precision.
func decimalWidth(precision int32) int {
	return int(math.Ceil((float64(precision)*math.Log2(10) + 1) / 8))
}

// fieldID is the id that a column carries in its metadata, under the key that arrow uses; -1 when it has none.
func fieldID(m arrow.Metadata) int {
	if v, ok := m.GetValue("PARQUET:field_id"); ok {
		if id, err := strconv.ParseInt(v, 10, 32); err == nil && id >= 0 {
			return int(id)
		}
	}
	return -1
}
