package pulsarschema

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
)

// Columns of values that have no fields of their own.
const (
	keyColumn   = "key"
	valueColumn = "value"
)

// layout is how values of one version are made of parts: of a value alone, or of key and value.
type layout struct {
	key       *part // nil: none
	value     *part
	separated bool // the key is that of the message
}

// part is a value, or the key beside one. It is for one goroutine.
type part struct {
	schema Schema
	fields decode.Fields // of a type with fields; nil: primitive or JSON
}

// newLayout makes the layout of a KEY_VALUE or of a primitive.
func newLayout(s Schema) (*layout, error) {
	if s.Type != KeyValue {
		v, err := newPart(s)
		return &layout{value: v}, err
	}
	key, value, separated, err := s.parts()
	if err != nil {
		return nil, err
	}
	l := &layout{separated: separated}
	if l.key, err = newPart(key); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if l.value, err = newPart(value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return l, nil
}

// parts takes a KEY_VALUE apart: its definition is those of key and value, each behind its length.
func (s Schema) parts() (key, value Schema, separated bool, err error) {
	k, rest, ok := lengthAnd(s.Data)
	v, rest2, ok2 := lengthAnd(rest)
	if !ok || !ok2 || len(rest2) > 0 {
		return key, value, false, fmt.Errorf("%w: KEY_VALUE: the definition is damaged", ErrSchema)
	}
	key.Data, value.Data = k, v
	if key.Type, err = parseType(s.Properties["key.schema.type"]); err != nil {
		return key, value, false, err
	}
	if value.Type, err = parseType(s.Properties["value.schema.type"]); err != nil {
		return key, value, false, err
	}
	switch s.Properties["kv.encoding.type"] {
	case "SEPARATED":
		separated = true
	case "INLINE", "":
	default:
		return key, value, false, fmt.Errorf("%w: KEY_VALUE: the encoding %q is not known", ErrSchema, s.Properties["kv.encoding.type"])
	}
	return key, value, separated, nil
}

// lengthAnd reads bytes behind their length, 4 bytes; -1 stands for null.
func lengthAnd(b []byte) (head, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n == -1 {
		return nil, b, true
	}
	if n < 0 || int(n) > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// columns gives the columns of a schema: of a struct its fields, else one of the name.
func (s Schema) columns() (*arrow.Schema, error) {
	switch s.Type {
	case Avro:
		return avroColumns(s.Data)
	case JSON:
		plain, err := withoutLogical(s.Data)
		if err != nil {
			return nil, err
		}
		return avroColumns(plain)
	case ProtobufNative:
		f, err := s.protobuf()
		if err != nil {
			return nil, err
		}
		return f.Columns(context.Background(), nil)
	case KeyValue:
		key, value, _, err := s.parts()
		if err != nil {
			return nil, err
		}
		var out []arrow.Field
		for name, p := range map[string]Schema{keyColumn: key, valueColumn: value} {
			t, err := p.column()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, arrow.Field{Name: name, Type: t, Nullable: true})
		}
		if out[0].Name != keyColumn {
			out[0], out[1] = out[1], out[0]
		}
		return arrow.NewSchema(out, nil), nil
	}
	t, err := s.column()
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema([]arrow.Field{{Name: valueColumn, Type: t, Nullable: true}}, nil), nil
}

// column is the type of one column for all of a value.
func (s Schema) column() (arrow.DataType, error) {
	if t, _, ok := s.Type.primitive(); ok {
		return t, nil
	}
	switch s.Type {
	case Avro, JSON, ProtobufNative:
		c, err := s.columns()
		if err != nil {
			return nil, err
		}
		return arrow.StructOf(c.Fields()...), nil
	case Protobuf:
		return nil, fmt.Errorf("%w: a schema of type PROTOBUF does not hold the message's descriptor: use PROTOBUF_NATIVE, or --format protobuf with --value-schema and --message, or --format raw", ErrSchema)
	}
	return nil, fmt.Errorf("%w: it is of type %s; --format raw keeps values as they are", ErrSchema, s.Type)
}

func avroColumns(definition []byte) (*arrow.Schema, error) {
	f, err := avro.Raw(string(definition))
	if err != nil {
		return nil, err
	}
	return f.Columns(context.Background(), nil)
}

func (s Schema) protobuf() (decode.Format, error) {
	n, err := parseNative(s.Data)
	if err != nil {
		return nil, err
	}
	return protobuf.Message(n.set, n.root)
}

func newPart(s Schema) (*part, error) {
	p := &part{schema: s}
	var f decode.Format
	var err error
	switch _, _, primitive := s.Type.primitive(); {
	case primitive || s.Type == JSON:
		return p, nil
	case s.Type == Avro:
		f, err = avro.Raw(string(s.Data))
	case s.Type == ProtobufNative:
		f, err = s.protobuf()
	default:
		_, err = s.column() // says why not
	}
	if err != nil {
		return nil, err
	}
	d, err := f.NewDecoder(arrow.NewSchema(nil, nil))
	if err != nil {
		return nil, err
	}
	p.fields, err = d.(decode.FieldReader).NewFields(nil, nil)
	return p, err
}

// appendJSON appends a part of a value.
func (p *part) appendJSON(dst, v []byte) ([]byte, error) {
	switch {
	case v == nil:
		return append(dst, "null"...), nil
	case p.fields != nil:
		return p.fields.AppendJSON(dst, v)
	case p.schema.Type == JSON:
		if !json.Valid(v) {
			return dst, &decode.Error{Reason: "the value is not JSON"}
		}
		return append(dst, v...), nil
	}
	out, bad := appendPrimitive(dst, p.schema.Type, v)
	if bad != nil {
		return dst, bad
	}
	return out, nil
}

// appendValue appends a whole value as a JSON object of the columns.
func (l *layout) appendValue(dst, key, value []byte) ([]byte, error) {
	if l.key == nil {
		return l.value.appendTo(append(dst, '{'), valueColumn, value)
	}
	if !l.separated {
		var ok, ok2 bool
		var rest []byte
		if key, rest, ok = lengthAnd(value); ok {
			value, rest, ok2 = lengthAnd(rest)
		}
		if !ok || !ok2 || len(rest) > 0 {
			return dst, &decode.Error{Reason: "the value is no key and value, each behind its length"}
		}
	}
	dst, err := l.key.appendTo(append(dst, '{'), keyColumn, key)
	if err != nil {
		return dst, err
	}
	dst[len(dst)-1] = ','
	return l.value.appendTo(dst, valueColumn, value)
}

// appendTo appends the last field of an object.
func (p *part) appendTo(dst []byte, name string, v []byte) ([]byte, error) {
	dst = append(append(append(dst, '"'), name...), '"', ':')
	dst, err := p.appendJSON(dst, v)
	if bad, ok := err.(*decode.Error); ok { //nolint:errorlint // as decoders give it
		bad.Under(name)
		bad.Pos = 0 // of a part, which is no place in the value
	}
	return append(dst, '}'), err
}

// withoutLogical leaves the logical types out of a definition, but for decimals: JSON has numbers and text for them.
func withoutLogical(definition []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(definition))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%w: JSON: %w", ErrSchema, err)
	}
	strip(tree)
	return json.Marshal(tree)
}

func strip(tree any) {
	switch n := tree.(type) {
	case map[string]any:
		if n["logicalType"] != "decimal" {
			delete(n, "logicalType")
		}
		for _, v := range n {
			strip(v)
		}
	case []any:
		for _, v := range n {
			strip(v)
		}
	}
}
