// Package jsonschema takes columns from a JSON Schema, and checks values against it.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	lib "github.com/santhosh-tekuri/jsonschema/v6"
)

// ErrSchema says that a schema is no JSON Schema, or tells no columns.
var ErrSchema = errors.New("decode json: invalid schema")

// Schema is one schema. Safe for concurrent use.
type Schema struct {
	root  *lib.Schema
	order map[string]int // where a key stands first in the text
}

// base is where the schema itself stands; nothing is ever fetched from it.
const base = "registry:///schema"

// Parse parses a schema with those that it refers to by name. Nothing is loaded from elsewhere. Without $schema it is
// of draft 7, as serializers for Kafka take it.
func Parse(text string, refs map[string]string) (*Schema, error) {
	doc, err := read(strings.NewReader(text))
	if err != nil {
		return nil, invalid(err)
	}
	c := lib.NewCompiler()
	c.DefaultDraft(lib.Draft7)
	c.UseLoader(loader(refs))
	if err := c.AddResource(base, doc); err != nil {
		return nil, invalid(err)
	}
	root, err := c.Compile(base)
	if err != nil {
		return nil, invalid(err)
	}
	s := &Schema{root: root, order: map[string]int{}}
	s.note(text)
	for _, name := range sortedKeys(refs) {
		s.note(refs[name])
	}
	return s, nil
}

// invalid puts what the library says on one line.
func invalid(err error) error {
	return fmt.Errorf("%w: %s", ErrSchema, strings.Join(strings.Fields(err.Error()), " "))
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// note remembers the order of keys: the library keeps properties in a map.
func (s *Schema) note(text string) {
	dec := json.NewDecoder(strings.NewReader(text))
	var nest []place
	for {
		t, err := dec.Token()
		if err != nil {
			return // the end: the text has been parsed before
		}
		if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
			nest = nest[:len(nest)-1]
			continue
		}
		if n := len(nest); n > 0 && nest[n-1].object {
			if nest[n-1].key = !nest[n-1].key; nest[n-1].key {
				key := t.(string)
				if _, have := s.order[key]; !have {
					s.order[key] = len(s.order)
				}
				continue
			}
		}
		if d, ok := t.(json.Delim); ok {
			nest = append(nest, place{object: d == '{'})
		}
	}
}

// place is an object or array that the walk is in; key: what came last in the object was a key.
type place struct{ object, key bool }

// loader finds references among the schemas that came along, by their name or the end of their URL.
type loader map[string]string

func (l loader) Load(at string) (any, error) {
	path := at
	if u, err := url.Parse(at); err == nil {
		path = u.Path
	}
	for _, name := range sortedKeys(l) {
		if at == name || strings.HasSuffix(path, "/"+strings.TrimPrefix(name, "/")) {
			return read(strings.NewReader(l[name]))
		}
	}
	return nil, fmt.Errorf("schema %s is not among the references", at)
}

// Validate checks a value. The error is one line.
func (s *Schema) Validate(value []byte) error {
	v, err := read(bytes.NewReader(value))
	if err != nil {
		return fmt.Errorf("the value cannot be checked: %w", err)
	}
	err = s.root.Validate(v)
	if err == nil {
		return nil
	}
	var bad *lib.ValidationError
	if errors.As(err, &bad) {
		for len(bad.Causes) > 0 {
			bad = bad.Causes[0]
		}
		text := strings.Join(strings.Fields(bad.Error()), " ")
		if _, after, ok := strings.Cut(text, "- at "); ok {
			text = "at " + after
		}
		return fmt.Errorf("the value does not fit its JSON Schema: %s", text)
	}
	return fmt.Errorf("the value does not fit its JSON Schema: %w", err)
}

// Columns gives the columns of an object schema.
//
//   - integer: int64, number: double, boolean, string; string of format date: date, of date-time: timestamp.
//   - object with properties: struct; without, but with a schema for additional ones: map. array: list.
//   - a choice of null and one other: that one. enum and const: the type of their values, when it is one.
//   - whatever else (several types, tuples, no type at all): string, which holds the JSON text.
//
// All columns may be null: required says what a value must have, not what a later schema asks for. Schemas that
// contain themselves are refused.
func (s *Schema) Columns() (*arrow.Schema, error) {
	fields, err := s.fields(s.root, nil, "")
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: it describes no object with properties", ErrSchema)
	}
	return arrow.NewSchema(fields, nil), nil
}

// follow goes through references and allOf of one, to the schema that says something.
func follow(n *lib.Schema) *lib.Schema {
	for range 100 {
		switch {
		case n.Ref != nil:
			n = n.Ref
		case n.Types == nil && n.Properties == nil && len(n.AllOf) == 1:
			n = n.AllOf[0]
		default:
			return n
		}
	}
	return n
}

// properties are those of the schema and of all parts of allOf.
func properties(n *lib.Schema, into map[string]*lib.Schema, depth int) {
	n = follow(n)
	if depth > 50 {
		return
	}
	for _, part := range n.AllOf {
		properties(part, into, depth+1)
	}
	for name, p := range n.Properties {
		into[name] = p
	}
}

func (s *Schema) fields(n *lib.Schema, above []*lib.Schema, path string) ([]arrow.Field, error) {
	n = follow(n)
	if slices.Contains(above, n) {
		return nil, fmt.Errorf("%w: %s contains itself, which no column can; make the table with the columns that are wanted", ErrSchema, path)
	}
	above = append(above, n)
	props := map[string]*lib.Schema{}
	properties(n, props, 0)
	var names []string
	for name := range props {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return s.order[a] - s.order[b] })
	var out []arrow.Field
	for _, name := range names {
		t, err := s.typeOf(props[name], above, strings.TrimPrefix(path+"."+name, "."))
		if err != nil {
			return nil, err
		}
		out = append(out, arrow.Field{Name: name, Type: t, Nullable: true})
	}
	return out, nil
}

func (s *Schema) typeOf(n *lib.Schema, above []*lib.Schema, path string) (arrow.DataType, error) {
	n = notNull(follow(n))
	switch kind := typeName(n); kind {
	case "integer":
		return arrow.PrimitiveTypes.Int64, nil
	case "number":
		return arrow.PrimitiveTypes.Float64, nil
	case "boolean":
		return arrow.FixedWidthTypes.Boolean, nil
	case "string":
		if n.Format != nil && n.Format.Name == "date" {
			return arrow.FixedWidthTypes.Date32, nil
		}
		if n.Format != nil && n.Format.Name == "date-time" {
			return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
		}
	case "array":
		if elem := element(n); elem != nil {
			t, err := s.typeOf(elem, above, path+"[]")
			if err != nil {
				return nil, err
			}
			return arrow.ListOf(t), nil
		}
	case "object":
		fields, err := s.fields(n, above, path)
		if err != nil {
			return nil, err
		}
		if len(fields) > 0 {
			return arrow.StructOf(fields...), nil
		}
		if more, ok := n.AdditionalProperties.(*lib.Schema); ok {
			t, err := s.typeOf(more, append(above, n), path+"[]")
			if err != nil {
				return nil, err
			}
			return arrow.MapOf(arrow.BinaryTypes.String, t), nil
		}
	}
	return arrow.BinaryTypes.String, nil
}

// notNull is the other one of a choice between null and one schema.
func notNull(n *lib.Schema) *lib.Schema {
	for _, choice := range [][]*lib.Schema{n.OneOf, n.AnyOf} {
		var rest []*lib.Schema
		for _, c := range choice {
			if c = follow(c); typeName(c) != "null" {
				rest = append(rest, c)
			}
		}
		if len(rest) == 1 && n.Types == nil {
			return rest[0]
		}
	}
	return n
}

// typeName is the one type of the values, or empty.
func typeName(n *lib.Schema) string {
	if n.Types != nil {
		var rest []string
		for _, t := range n.Types.ToStrings() {
			if t != "null" {
				rest = append(rest, t)
			}
		}
		if len(rest) == 0 {
			return "null"
		}
		if len(rest) == 1 {
			return rest[0]
		}
		if len(rest) == 2 && slices.Contains(rest, "integer") && slices.Contains(rest, "number") {
			return "number"
		}
		return ""
	}
	if len(n.Properties) > 0 {
		return "object"
	}
	if n.Enum != nil {
		for _, v := range n.Enum.Values {
			if _, ok := v.(string); !ok && v != nil {
				return ""
			}
		}
		return "string"
	}
	return ""
}

func element(n *lib.Schema) *lib.Schema {
	if n.Items2020 != nil && len(n.PrefixItems) == 0 {
		return n.Items2020
	}
	elem, _ := n.Items.(*lib.Schema)
	return elem
}
