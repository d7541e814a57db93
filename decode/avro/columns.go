package avro

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// columns gives the arrow columns of a record schema.
//
//   - int, long, float, double, boolean, string, bytes: the column of that type; fixed is binary, an enum a string.
//   - decimal: decimal of the same precision and scale, up to 38 digits. date: date. uuid: string.
//   - timestamp-millis, -micros, -nanos: timestamp; local-timestamp-*: timestamp without zone. Digits below the
//     microsecond are dropped.
//   - time-millis, time-micros: int and long, as they are: Delta has no type for the time of day.
//   - record: struct, array: list, map: map of strings. [null, T]: T that may be null. A field that is only null
//     has no column.
//
// Recursive records and unions of several types have no column type and are refused by name.
func columns(root *node) (*arrow.Schema, error) {
	if (widths{}).of(root) > maxColumns {
		return nil, fmt.Errorf("%w: record %s has more than %d columns; make the table with the columns that are wanted", ErrSchema, root.name, maxColumns)
	}
	fields, err := fieldsOf(root, nil, "")
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: record %s has no fields", ErrSchema, root.name)
	}
	return arrow.NewSchema(fields, nil), nil
}

// Declared implements decode.Declarer.
func (d *decoder) Declared() *arrow.Schema {
	p := d.seen
	if p == nil {
		return nil
	}
	if p.declared == nil {
		p.declared = arrow.NewSchema(possible(p.root), nil)
	}
	return p.declared
}

// possible gives the columns of the fields of a record, without those that no column can hold.
func possible(root *node) (out []arrow.Field) {
	widths, room := widths{}, maxColumns
	for _, f := range root.fields {
		width := widths.of(f.typ)
		if width > room {
			continue
		}
		room -= width
		if t, err := typeOf(f.typ, []*node{root}, f.name); err == nil && t != nil {
			out = append(out, arrow.Field{Name: f.name, Type: t, Nullable: true})
		}
	}
	return out
}

// maxColumns bounds the columns at any depth: types that are used twice by each other are exponentially many (I8).
const maxColumns = 100_000

// widths remembers how many columns a type has at all depths.
type widths map[*node]int

func (w widths) of(n *node) int {
	below := n.branches
	switch n.kind {
	case kindRecord:
		for _, f := range n.fields {
			below = append(below, f.typ)
		}
	case kindArray, kindMap:
		below = []*node{n.elem}
	case kindUnion:
	default:
		return 1
	}
	if sum, known := w[n]; known {
		return sum
	}
	w[n] = 1 // a recursive one is refused elsewhere
	sum := 1
	for _, b := range below {
		sum = min(sum+w.of(b), maxColumns+1)
	}
	w[n] = sum
	return sum
}

func fieldsOf(rec *node, above []*node, path string) ([]arrow.Field, error) {
	if slices.Contains(above, rec) {
		return nil, fmt.Errorf("%w: %s: record %s is recursive, which no column can be; make the table with the columns that are wanted",
			ErrSchema, path, rec.name)
	}
	above = append(above, rec)
	var out []arrow.Field
	for _, f := range rec.fields {
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		t, err := typeOf(f.typ, above, at)
		if err != nil {
			return nil, err
		}
		if t != nil {
			out = append(out, arrow.Field{Name: f.name, Type: t, Nullable: true})
		}
	}
	return out, nil
}

// typeOf is nil for null.
func typeOf(n *node, above []*node, path string) (arrow.DataType, error) {
	switch n.kind {
	case kindUnion:
		t := n.only()
		if t == nil {
			return nil, fmt.Errorf("%w: %s is a union of %s, which no column can be; make the table with a column that fits, or without it",
				ErrSchema, path, n.words())
		}
		return typeOf(t, above, path)
	case kindRecord:
		fields, err := fieldsOf(n, above, path)
		if err != nil {
			return nil, err
		}
		if len(fields) == 0 {
			return nil, fmt.Errorf("%w: %s: record %s has no fields", ErrSchema, path, n.name)
		}
		return arrow.StructOf(fields...), nil
	case kindArray, kindMap:
		t, err := typeOf(n.elem, above, path+"[]")
		if err != nil {
			return nil, err
		}
		if t == nil {
			return nil, fmt.Errorf("%w: %s holds nothing but null", ErrSchema, path)
		}
		if n.kind == kindMap {
			return arrow.MapOf(arrow.BinaryTypes.String, t), nil
		}
		return arrow.ListOf(t), nil
	}
	return n.scalarType(path)
}

func (n *node) scalarType(path string) (arrow.DataType, error) {
	switch n.logical {
	case "decimal":
		if n.prec > 38 {
			return nil, fmt.Errorf("%w: %s is a decimal of %d digits, and a column holds 38", ErrSchema, path, n.prec)
		}
		return &arrow.Decimal128Type{Precision: int32(n.prec), Scale: int32(n.scale)}, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "timestamp-millis", "timestamp-micros", "timestamp-nanos":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case "uuid":
		return arrow.BinaryTypes.String, nil
	}
	switch n.kind {
	case kindNull:
		return nil, nil
	case kindBoolean:
		return arrow.FixedWidthTypes.Boolean, nil
	case kindInt:
		return arrow.PrimitiveTypes.Int32, nil
	case kindLong:
		return arrow.PrimitiveTypes.Int64, nil
	case kindFloat:
		return arrow.PrimitiveTypes.Float32, nil
	case kindDouble:
		return arrow.PrimitiveTypes.Float64, nil
	case kindString, kindEnum:
		return arrow.BinaryTypes.String, nil
	}
	return arrow.BinaryTypes.Binary, nil
}

// only is the type of a union that is not null, when there is just one; for a union of null alone that.
func (n *node) only() *node {
	var out *node
	for _, b := range n.branches {
		switch {
		case b.kind == kindNull && out == nil && len(n.branches) == 1:
			out = b
		case b.kind == kindNull:
		case out != nil:
			return nil
		default:
			out = b
		}
	}
	return out
}

func (n *node) words() string {
	var out []string
	for _, b := range n.branches {
		out = append(out, b.describe())
	}
	return fmt.Sprint(out)
}

// describe is what errors call the type.
func (n *node) describe() string {
	if n.logical != "" {
		return n.name + " (" + n.logical + ")"
	}
	return n.name
}
