package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrNoSamples says that no sample is a JSON object with fields.
var ErrNoSamples = errors.New("decode: no sample is a JSON object with fields")

// maxInferDepth is the deepest nesting of a sample; deeper ones are not looked at.
const maxInferDepth = 128

// InferJSON proposes a schema for messages like the samples. Samples that are not JSON objects are passed
// over, as dead letters are later; ErrNoSamples when nothing is left.
//
// Fields come in the order in which they first appear and are nullable. Numbers are int64, or double when
// one of them has a fraction, an exponent or too many digits. Strings that are all RFC 3339 timestamps are
// timestamps (UTC, microseconds), other strings and fields that are always null are strings. Objects are
// structs, an object that never has fields is a map of strings, arrays are lists. Fields with values of
// types that do not go together become strings, which JSONOptions.Coerce is needed to decode.
func InferJSON(samples [][]byte) (*arrow.Schema, error) {
	all := merged(samples)
	return all.schema(len(samples))
}

// InferKnownJSON is InferJSON without the fields, at any depth, of which no sample tells a type: they are null or empty.
func InferKnownJSON(samples [][]byte) (*arrow.Schema, error) {
	all := merged(samples)
	all.dropUnknown()
	return all.schema(len(samples))
}

// merged is what holds all samples.
func merged(samples [][]byte) shape {
	var all shape
	for _, s := range samples {
		if !utf8.Valid(s) || !json.Valid(s) {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(s))
		dec.UseNumber()
		one, err := readShape(dec, 0)
		if err != nil || one.kind != shapeObject {
			continue
		}
		all.merge(one)
	}
	return all
}

// dropUnknown leaves fields without a type out, and says whether the shape itself has one.
func (s *shape) dropUnknown() bool {
	switch s.kind {
	case shapeNull:
		return false
	case shapeList:
		return s.elem.dropUnknown()
	case shapeObject:
		s.fields = slices.DeleteFunc(s.fields, func(f *shapeField) bool { return !f.shape.dropUnknown() })
		return len(s.fields) > 0
	}
	return true
}

// schema is the shape of a whole message as columns.
func (s *shape) schema(samples int) (*arrow.Schema, error) {
	if len(s.fields) == 0 {
		return nil, fmt.Errorf("%w (%d samples)", ErrNoSamples, samples)
	}
	fields := make([]arrow.Field, len(s.fields))
	for i, f := range s.fields {
		fields[i] = f.arrow()
	}
	return arrow.NewSchema(fields, nil), nil
}

type shapeKind int8

const (
	shapeNull shapeKind = iota // nothing known: no value, or only null
	shapeInt
	shapeFloat
	shapeBool
	shapeTime
	shapeString
	shapeObject
	shapeList
)

// shape is what is known of the values in one place.
type shape struct {
	kind   shapeKind
	fields []*shapeField
	index  map[string]int
	elem   *shape
}

type shapeField struct {
	name  string
	shape shape
}

// readShape reads the next value of the stream.
func readShape(dec *json.Decoder, depth int) (shape, error) {
	if depth > maxInferDepth {
		return shape{}, fmt.Errorf("infer schema: nested deeper than %d levels", maxInferDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return shape{}, err
	}
	switch v := tok.(type) {
	case bool:
		return shape{kind: shapeBool}, nil
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return shape{kind: shapeInt}, nil
		}
		return shape{kind: shapeFloat}, nil
	case string:
		cache := newDateCache()
		if t, ok := cache.timestamp([]byte(v)); ok && t.zone && strings.ContainsAny(v[10:11], "Tt") {
			return shape{kind: shapeTime}, nil
		}
		return shape{kind: shapeString}, nil
	case json.Delim:
		if v == '{' {
			return readObject(dec, depth)
		}
		return readList(dec, depth)
	}
	return shape{}, nil
}

func readObject(dec *json.Decoder, depth int) (shape, error) {
	s := shape{kind: shapeObject}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return s, err
		}
		name, _ := tok.(string) // keys are strings, the sample is valid
		f, err := readShape(dec, depth+1)
		if err != nil {
			return s, err
		}
		s.field(name).merge(f)
	}
	_, err := dec.Token()
	return s, err
}

func readList(dec *json.Decoder, depth int) (shape, error) {
	s := shape{kind: shapeList, elem: &shape{}}
	for dec.More() {
		e, err := readShape(dec, depth+1)
		if err != nil {
			return s, err
		}
		s.elem.merge(e)
	}
	_, err := dec.Token()
	return s, err
}

// field finds the field of a name or adds it at the end.
func (s *shape) field(name string) *shape {
	if i, ok := s.index[name]; ok {
		return &s.fields[i].shape
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	f := &shapeField{name: name}
	s.index[name] = len(s.fields)
	s.fields = append(s.fields, f)
	return &f.shape
}

// merge widens s to what holds its values and those of o.
func (s *shape) merge(o shape) {
	switch {
	case o.kind == shapeNull:
	case s.kind == shapeNull:
		*s = o
	case s.kind == shapeObject && o.kind == shapeObject:
		for _, f := range o.fields {
			s.field(f.name).merge(f.shape)
		}
	case s.kind == shapeList && o.kind == shapeList:
		s.elem.merge(*o.elem)
	case s.kind == o.kind:
	case s.kind <= shapeFloat && o.kind <= shapeFloat:
		s.kind = shapeFloat
	default:
		*s = shape{kind: shapeString}
	}
}

func (f *shapeField) arrow() arrow.Field {
	return arrow.Field{Name: f.name, Type: f.shape.arrow(), Nullable: true}
}

func (s *shape) arrow() arrow.DataType {
	switch s.kind {
	case shapeInt:
		return arrow.PrimitiveTypes.Int64
	case shapeFloat:
		return arrow.PrimitiveTypes.Float64
	case shapeBool:
		return arrow.FixedWidthTypes.Boolean
	case shapeTime:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case shapeList:
		return arrow.ListOf(s.elem.arrow())
	case shapeObject:
		if len(s.fields) == 0 {
			return arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String)
		}
		fields := make([]arrow.Field, len(s.fields))
		for i, f := range s.fields {
			fields[i] = f.arrow()
		}
		return arrow.StructOf(fields...)
	}
	return arrow.BinaryTypes.String
}
