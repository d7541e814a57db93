package deltalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// DataType is a Delta type: Primitive, Decimal, *ArrayType, *MapType or *StructType.
type DataType interface {
	// String gives the short form that error messages use.
	String() string
	appendJSON(dst []byte) []byte
}

// Primitive is a type without parameters, by its name in the schema. Names that are not listed here are kept.
type Primitive string

// The primitive types.
const (
	String       Primitive = "string"
	Long         Primitive = "long"
	Integer      Primitive = "integer"
	Short        Primitive = "short"
	Byte         Primitive = "byte"
	Float        Primitive = "float"
	Double       Primitive = "double"
	Boolean      Primitive = "boolean"
	Binary       Primitive = "binary"
	Date         Primitive = "date"
	Timestamp    Primitive = "timestamp"
	TimestampNTZ Primitive = "timestamp_ntz"
	Void         Primitive = "void"
	Variant      Primitive = "variant"
)

// Decimal is decimal(Precision,Scale).
type Decimal struct{ Precision, Scale int32 }

// ArrayType is a list.
type ArrayType struct {
	Element      DataType
	ContainsNull bool
}

// MapType is a map.
type MapType struct {
	Key, Value        DataType
	ValueContainsNull bool
}

// StructType is a row or a nested struct.
type StructType struct{ Fields []StructField }

// StructField is one column.
type StructField struct {
	Name     string
	Type     DataType
	Nullable bool
	Metadata json.RawMessage // a JSON object, verbatim; empty is {}
}

func (p Primitive) String() string  { return string(p) }
func (d Decimal) String() string    { return fmt.Sprintf("decimal(%d,%d)", d.Precision, d.Scale) }
func (a *ArrayType) String() string { return "array<" + a.Element.String() + ">" }
func (m *MapType) String() string   { return "map<" + m.Key.String() + "," + m.Value.String() + ">" }
func (s *StructType) String() string {
	parts := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		parts[i] = f.Name + ":" + f.Type.String()
	}
	return "struct<" + strings.Join(parts, ",") + ">"
}

// Field gives the column of that exact name.
func (s *StructType) Field(name string) (StructField, bool) {
	for _, f := range s.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return StructField{}, false
}

// MetadataValue gives one entry of the field's metadata.
func (f *StructField) MetadataValue(key string) (json.RawMessage, bool) {
	if len(f.Metadata) == 0 {
		return nil, false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(f.Metadata, &m) != nil {
		return nil, false
	}
	v, ok := m[key]
	return v, ok
}

// JSON gives the schema as metaData.schemaString holds it.
func (s *StructType) JSON() string { return string(s.appendJSON(nil)) }

func (p Primitive) appendJSON(dst []byte) []byte { return appendString(dst, string(p)) }
func (d Decimal) appendJSON(dst []byte) []byte   { return appendString(dst, d.String()) }

func (a *ArrayType) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":"array","elementType":`...)
	dst = a.Element.appendJSON(dst)
	dst = append(dst, `,"containsNull":`...)
	return append(strconv.AppendBool(dst, a.ContainsNull), '}')
}

func (m *MapType) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":"map","keyType":`...)
	dst = m.Key.appendJSON(dst)
	dst = append(dst, `,"valueType":`...)
	dst = m.Value.appendJSON(dst)
	dst = append(dst, `,"valueContainsNull":`...)
	return append(strconv.AppendBool(dst, m.ValueContainsNull), '}')
}

func (s *StructType) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":"struct","fields":[`...)
	for i, f := range s.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = appendString(dst, f.Name)
		dst = append(dst, `,"type":`...)
		dst = f.Type.appendJSON(dst)
		dst = append(dst, `,"nullable":`...)
		dst = strconv.AppendBool(dst, f.Nullable)
		dst = append(dst, `,"metadata":`...)
		if len(f.Metadata) == 0 {
			dst = append(dst, "{}"...)
		} else {
			dst = append(dst, f.Metadata...)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// appendString writes a JSON string without HTML escapes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7F {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(s) // a string always encodes
			return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// maxSchemaDepth bounds nesting, so that a hostile schema cannot exhaust the stack.
const maxSchemaDepth = 128

// ParseSchema reads a schemaString.
func ParseSchema(s string) (*StructType, error) {
	t, err := parseType(json.RawMessage(s), 0)
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	st, ok := t.(*StructType)
	if !ok {
		return nil, fmt.Errorf("parse schema: top level is %s, want a struct", t)
	}
	return st, nil
}

func parseType(raw json.RawMessage, depth int) (DataType, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("types are nested deeper than %d", maxSchemaDepth)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, err
		}
		return parseSimple(name)
	}
	var obj struct {
		Type              string            `json:"type"`
		Fields            []json.RawMessage `json:"fields"`
		ElementType       json.RawMessage   `json:"elementType"`
		ContainsNull      *bool             `json:"containsNull"`
		KeyType           json.RawMessage   `json:"keyType"`
		ValueType         json.RawMessage   `json:"valueType"`
		ValueContainsNull *bool             `json:"valueContainsNull"`
	}
	if err := json.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	switch obj.Type {
	case "struct":
		st := &StructType{Fields: make([]StructField, 0, len(obj.Fields))}
		for _, f := range obj.Fields {
			field, err := parseField(f, depth+1)
			if err != nil {
				return nil, err
			}
			st.Fields = append(st.Fields, field)
		}
		return st, nil
	case "array":
		el, err := parseType(obj.ElementType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("array element: %w", err)
		}
		return &ArrayType{Element: el, ContainsNull: obj.ContainsNull == nil || *obj.ContainsNull}, nil
	case "map":
		k, err := parseType(obj.KeyType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("map key: %w", err)
		}
		v, err := parseType(obj.ValueType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("map value: %w", err)
		}
		return &MapType{Key: k, Value: v, ValueContainsNull: obj.ValueContainsNull == nil || *obj.ValueContainsNull}, nil
	}
	return nil, fmt.Errorf("unknown type %q", obj.Type)
}

func parseField(raw json.RawMessage, depth int) (StructField, error) {
	var f struct {
		Name     *string         `json:"name"`
		Type     json.RawMessage `json:"type"`
		Nullable *bool           `json:"nullable"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return StructField{}, err
	}
	if f.Name == nil || f.Type == nil {
		return StructField{}, fmt.Errorf("field without name or type")
	}
	t, err := parseType(f.Type, depth)
	if err != nil {
		return StructField{}, fmt.Errorf("field %q: %w", *f.Name, err)
	}
	meta := f.Metadata
	if string(meta) == "null" || string(meta) == "{}" {
		meta = nil
	}
	if len(meta) > 0 && meta[0] != '{' {
		return StructField{}, fmt.Errorf("field %q: metadata is not an object", *f.Name)
	}
	return StructField{Name: *f.Name, Type: t, Nullable: f.Nullable == nil || *f.Nullable, Metadata: meta}, nil
}

func parseSimple(name string) (DataType, error) {
	if name == "decimal" {
		return Decimal{10, 0}, nil
	}
	if args, ok := strings.CutPrefix(name, "decimal("); ok {
		args, ok = strings.CutSuffix(args, ")")
		p, s, ok2 := strings.Cut(args, ",")
		prec, err1 := strconv.Atoi(strings.TrimSpace(p))
		scale, err2 := strconv.Atoi(strings.TrimSpace(s))
		if !ok || !ok2 || err1 != nil || err2 != nil || prec < 1 || prec > 38 || scale < 0 || scale > prec {
			return nil, fmt.Errorf("invalid type %q", name)
		}
		return Decimal{int32(prec), int32(scale)}, nil
	}
	if name == "" {
		return nil, fmt.Errorf("empty type name")
	}
	return Primitive(name), nil
}
