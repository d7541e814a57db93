package protobuf

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	pr "google.golang.org/protobuf/reflect/protoreflect"
)

// Full names of the messages that are values of their own here.
const (
	timestampName = "google.protobuf.Timestamp"
	durationName  = "google.protobuf.Duration"
)

// wrappers are the messages that hold one scalar, as field 1.
var wrappers = map[pr.FullName]bool{
	"google.protobuf.DoubleValue": true, "google.protobuf.FloatValue": true, "google.protobuf.Int64Value": true,
	"google.protobuf.UInt64Value": true, "google.protobuf.Int32Value": true, "google.protobuf.UInt32Value": true,
	"google.protobuf.BoolValue": true, "google.protobuf.StringValue": true, "google.protobuf.BytesValue": true,
}

// durationType holds each google.protobuf.Duration exactly: seconds with nine digits.
var durationType = &arrow.Decimal128Type{Precision: 21, Scale: 9}

// columns gives the arrow columns of a message, by the names of its fields.
//
//   - int32, sint32, sfixed32: int32; uint32, fixed32 and 64-bit signed ones: int64; uint64, fixed64: decimal(20,0).
//   - float, double, bool, string; bytes: binary; an enum: the name of its value, or the number when it has none.
//   - a message: struct; repeated: list; map: map. google.protobuf.Timestamp: timestamp (digits below the microsecond
//     are dropped), Duration: decimal(21,9) of seconds, wrappers: the scalar, which may be null.
//
// Recursive messages, google.protobuf.Struct among them, and groups are refused by name.
func columns(m pr.MessageDescriptor) (*arrow.Schema, error) {
	if (widths{}).of(m) > maxColumns {
		return nil, fmt.Errorf("%w: message %s has more than %d columns; make the table with the columns that are wanted", ErrSchema, m.FullName(), maxColumns)
	}
	fields, err := fieldsOf(m, nil, "")
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: message %s has no fields", ErrSchema, m.FullName())
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
		var columns []arrow.Field
		widths, room := widths{}, maxColumns
		for i := range p.message.Fields().Len() {
			f := p.message.Fields().Get(i)
			width := widths.ofField(f)
			if width > room {
				continue
			}
			room -= width
			if t, err := fieldType(f, []pr.FullName{p.message.FullName()}, string(f.Name())); err == nil {
				columns = append(columns, arrow.Field{Name: string(f.Name()), Type: t, Nullable: true})
			}
		}
		p.declared = arrow.NewSchema(columns, nil)
	}
	return p.declared
}

// maxColumns bounds the columns at any depth: messages that have each other twice are exponentially many (I8).
const maxColumns = 100_000

// widths remembers how many columns a message has at all depths; maxColumns+1 stands for any that are more.
type widths map[pr.FullName]int

func (w widths) of(m pr.MessageDescriptor) int {
	if sum, known := w[m.FullName()]; known {
		return sum
	}
	w[m.FullName()] = 1 // a recursive one is refused elsewhere
	sum := 1
	for i := range m.Fields().Len() {
		sum = min(sum+w.ofField(m.Fields().Get(i)), maxColumns+1)
	}
	w[m.FullName()] = sum
	return sum
}

// ofField counts the entries of a map as the message that they are.
func (w widths) ofField(f pr.FieldDescriptor) int {
	if m := f.Message(); m != nil {
		return w.of(m)
	}
	return 1
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func fieldsOf(m pr.MessageDescriptor, above []pr.FullName, path string) ([]arrow.Field, error) {
	if slices.Contains(above, m.FullName()) {
		return nil, fmt.Errorf("%w: %s: message %s is recursive, which no column can be; make the table with the columns that are wanted",
			ErrSchema, path, m.FullName())
	}
	above = append(above, m.FullName())
	var out []arrow.Field
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		t, err := fieldType(f, above, under(path, string(f.Name())))
		if err != nil {
			return nil, err
		}
		out = append(out, arrow.Field{Name: string(f.Name()), Type: t, Nullable: true})
	}
	return out, nil
}

func fieldType(f pr.FieldDescriptor, above []pr.FullName, path string) (arrow.DataType, error) {
	switch {
	case f.IsMap():
		k, err := typeOf(f.MapKey(), above, path)
		if err != nil {
			return nil, err
		}
		if k.ID() == arrow.DECIMAL128 {
			k = arrow.PrimitiveTypes.Int64
		}
		v, err := typeOf(f.MapValue(), above, path+"[]")
		if err != nil {
			return nil, err
		}
		return arrow.MapOf(k, v), nil
	case f.IsList():
		t, err := typeOf(f, above, path+"[]")
		if err != nil {
			return nil, err
		}
		return arrow.ListOf(t), nil
	}
	return typeOf(f, above, path)
}

func typeOf(f pr.FieldDescriptor, above []pr.FullName, path string) (arrow.DataType, error) {
	switch f.Kind() {
	case pr.Int32Kind, pr.Sint32Kind, pr.Sfixed32Kind:
		return arrow.PrimitiveTypes.Int32, nil
	case pr.Uint32Kind, pr.Fixed32Kind, pr.Int64Kind, pr.Sint64Kind, pr.Sfixed64Kind:
		return arrow.PrimitiveTypes.Int64, nil
	case pr.Uint64Kind, pr.Fixed64Kind:
		return &arrow.Decimal128Type{Precision: 20, Scale: 0}, nil
	case pr.FloatKind:
		return arrow.PrimitiveTypes.Float32, nil
	case pr.DoubleKind:
		return arrow.PrimitiveTypes.Float64, nil
	case pr.BoolKind:
		return arrow.FixedWidthTypes.Boolean, nil
	case pr.BytesKind:
		return arrow.BinaryTypes.Binary, nil
	case pr.StringKind, pr.EnumKind:
		return arrow.BinaryTypes.String, nil
	case pr.GroupKind:
		return nil, fmt.Errorf("%w: %s is a group, which no column can be", ErrSchema, path)
	}
	m := f.Message()
	switch name := m.FullName(); {
	case name == timestampName:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case name == durationName:
		return durationType, nil
	case wrappers[name]:
		return typeOf(m.Fields().ByNumber(1), above, path)
	}
	fields, err := fieldsOf(m, above, path)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: %s: message %s has no fields, so no column can be made; make the table without it", ErrSchema, path, m.FullName())
	}
	return arrow.StructOf(fields...), nil
}
