package avro

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/avro"
)

// ErrSchema says that a schema is no Avro schema, or not one of messages that make rows.
var ErrSchema = errors.New("decode avro: invalid schema")

// kind is the type of a value on the wire.
type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindFixed
	kindEnum
	kindRecord
	kindArray
	kindMap
	kindUnion
)

var primitives = map[string]kind{"null": kindNull, "boolean": kindBoolean, "int": kindInt, "long": kindLong,
	"float": kindFloat, "double": kindDouble, "bytes": kindBytes, "string": kindString}

// node is a schema with its references resolved, so recursive types are cycles.
type node struct {
	kind     kind
	logical  string // only where it goes with the kind
	name     string // full name, or the type's word
	fields   []field
	elem     *node // of an array or map
	branches []*node
	symbols  [][]byte
	size     int // of a fixed
	prec     int
	scale    int
}

type field struct {
	name string
	typ  *node
}

// logicals are the logical types that mean something here, by the kind below. Others are passed over, as the
// specification asks (section "Logical Types").
var logicals = map[kind][]string{
	kindBytes:  {"decimal"},
	kindFixed:  {"decimal", "uuid"},
	kindString: {"uuid"},
	kindInt:    {"date", "time-millis"},
	kindLong: {"time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
		"local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"},
}

// parseSchema parses a schema; refs are those that it names types of, in the order of dependence.
func parseSchema(text string, refs []string) (*node, error) {
	var cache avro.SchemaCache
	for _, r := range refs {
		if _, err := cache.Parse(r); err != nil {
			return nil, fmt.Errorf("%w: a referenced schema: %w", ErrSchema, err)
		}
	}
	s, err := cache.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	b := builder{named: map[string]*node{}}
	root, err := b.node(s.Root().ExpandReferences(), "")
	if err != nil {
		return nil, err
	}
	if root.kind != kindRecord {
		return nil, fmt.Errorf("%w: the schema is of type %s, and only a record makes a row", ErrSchema, root.name)
	}
	return root, nil
}

// builder turns the library's tree into ours.
type builder struct {
	named map[string]*node
	depth int
}

// maxNesting bounds the depth of a schema, of which each level is a call here.
const maxNesting = 200

func (b *builder) node(n *avro.SchemaNode, space string) (*node, error) {
	if b.depth++; b.depth > maxNesting {
		return nil, fmt.Errorf("%w: nested deeper than %d levels", ErrSchema, maxNesting)
	}
	defer func() { b.depth-- }()
	out := &node{name: n.Type, size: n.Size, prec: n.Precision, scale: n.Scale}
	if k, ok := primitives[n.Type]; ok {
		out.kind = k
		out.setLogical(n.LogicalType)
		return out, nil
	}
	switch n.Type {
	case "record", "error", "enum", "fixed":
		return out, b.namedType(out, n)
	case "array":
		out.kind = kindArray
		return out, b.elem(out, n.Items, space)
	case "map":
		out.kind = kindMap
		return out, b.elem(out, n.Values, space)
	case "union":
		out.kind = kindUnion
		for i := range n.Branches {
			br, err := b.node(&n.Branches[i], space)
			if err != nil {
				return nil, err
			}
			out.branches = append(out.branches, br)
		}
		return out, nil
	}
	for _, full := range []string{n.Type, space + "." + n.Type} {
		if t := b.named[full]; t != nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w: type %q is not defined", ErrSchema, n.Type)
}

func (b *builder) elem(out *node, n *avro.SchemaNode, space string) (err error) {
	out.elem, err = b.node(n, space)
	return err
}

func (b *builder) namedType(out *node, n *avro.SchemaNode) error {
	out.name = n.Name
	if n.Namespace != "" && !slices.Contains([]byte(n.Name), '.') {
		out.name = n.Namespace + "." + n.Name
	}
	b.named[out.name] = out
	switch n.Type {
	case "enum":
		out.kind = kindEnum
		for _, s := range n.Symbols {
			out.symbols = append(out.symbols, []byte(s))
		}
	case "fixed":
		out.kind = kindFixed
		out.setLogical(n.LogicalType)
	default:
		out.kind = kindRecord
		for i := range n.Fields {
			f := &n.Fields[i]
			t, err := b.node(&f.Type, n.Namespace)
			if err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			out.fields = append(out.fields, field{name: f.Name, typ: t})
		}
	}
	return nil
}

func (n *node) setLogical(name string) {
	if slices.Contains(logicals[n.kind], name) {
		n.logical = name
	}
	if n.logical == "uuid" && n.kind == kindFixed && n.size != 16 {
		n.logical = ""
	}
}

// sizes remembers lower bounds of records: types that share others would take a time exponential in their depth (I8).
type sizes map[*node]int

// atLeast is a lower bound of the bytes of a value; 0 only when each value of the type has none.
func (s sizes) atLeast(n *node) int {
	switch n.kind {
	case kindNull:
		return 0
	case kindFloat:
		return 4
	case kindDouble:
		return 8
	case kindFixed:
		return min(n.size, math.MaxInt32)
	case kindRecord:
		sum, known := s[n]
		if known {
			return sum
		}
		s[n] = 1 // a record that must contain itself has no value at all, so any bound is true
		for _, f := range n.fields {
			sum = min(sum+s.atLeast(f.typ), math.MaxInt32)
		}
		s[n] = sum
		return sum
	}
	return 1
}
