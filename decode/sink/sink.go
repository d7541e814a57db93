// Package sink is the side of the table in decoders of binary formats: the columns of the payload as a tree, what kinds
// of values each of them takes, and the conversions that lose nothing. Avro and Protobuf compile the schema of a
// writer against this tree once; then values go into the concrete columns without a call through an interface.
//
// A tree belongs to one decoder and is for one goroutine at a time.
package sink

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// ErrSchema says that a column has a type that no decoder fills.
var ErrSchema = errors.New("decode: invalid schema")

// Kind is the type of a column.
type Kind uint8

// The kinds.
const (
	Int8 Kind = iota
	Int16
	Int32
	Int64
	Float32
	Float64
	Bool
	String
	Binary
	Date
	Timestamp
	Decimal
	Struct
	List
	Map
)

// Sink is one column, or a field below one. Of the typed pointers the one of the kind is set.
type Sink struct {
	Kind     Kind
	Name     string
	Nullable bool
	Zoned    bool  // of a Timestamp: instants, not the time on a wall
	Prec     int32 // of a Decimal
	Scale    int32
	Leaves   int // cells that one null fills
	Col      column.Column

	I8   *column.Int8
	I16  *column.Int16
	I32  *column.Int32
	I64  *column.Int64
	F32  *column.Float32
	F64  *column.Float64
	Bl   *column.Bool
	Bin  *column.Binary
	Date *column.Date32
	TS   *column.Timestamp
	Dec  *column.Decimal128

	St     *column.Struct
	Fields []*Sink // of a Struct
	Li     *column.List
	Mp     *column.Map
	Key    *Sink // of a Map
	Elem   *Sink // of a List, or the value of a Map
	dups   *entrySet
}

// New makes the tree of a column.
func New(c column.Column) (*Sink, error) {
	f := c.Field()
	s := &Sink{Name: f.Name, Nullable: f.Nullable, Col: c, Leaves: 1}
	switch c := c.(type) {
	case *column.Int8:
		s.Kind, s.I8 = Int8, c
	case *column.Int16:
		s.Kind, s.I16 = Int16, c
	case *column.Int32:
		s.Kind, s.I32 = Int32, c
	case *column.Int64:
		s.Kind, s.I64 = Int64, c
	case *column.Float32:
		s.Kind, s.F32 = Float32, c
	case *column.Float64:
		s.Kind, s.F64 = Float64, c
	case *column.Bool:
		s.Kind, s.Bl = Bool, c
	case *column.Date32:
		s.Kind, s.Date = Date, c
	case *column.Timestamp:
		s.Kind, s.TS = Timestamp, c
		s.Zoned = f.Type.(*arrow.TimestampType).TimeZone != ""
	case *column.Decimal128:
		t := f.Type.(*arrow.Decimal128Type)
		s.Kind, s.Dec, s.Prec, s.Scale = Decimal, c, t.Precision, t.Scale
		if s.Scale < 0 || s.Scale > s.Prec || s.Prec < 1 || s.Prec > 38 {
			return nil, fmt.Errorf("%w: column %q has type %s", ErrSchema, f.Name, f.Type)
		}
	case *column.Binary:
		s.Kind, s.Bin = String, c
		if f.Type.ID() == arrow.BINARY {
			s.Kind = Binary
		}
	default:
		return s, s.nest(c)
	}
	return s, nil
}

// nest adds what is below the column.
func (s *Sink) nest(c column.Column) (err error) {
	switch c := c.(type) {
	case *column.Struct:
		s.Kind, s.St = Struct, c
		t := s.Col.Field().Type.(*arrow.StructType)
		for i := range t.NumFields() {
			kid, err := New(c.Child(i))
			if err != nil {
				return err
			}
			s.Fields = append(s.Fields, kid)
			s.Leaves += kid.Leaves
		}
		return distinct(s.Fields)
	case *column.List:
		s.Kind, s.Li = List, c
		s.Elem, err = New(c.Elem())
		return err
	case *column.Map:
		s.Kind, s.Mp, s.dups = Map, c, newEntrySet()
		if s.Key, err = New(c.Keys()); err != nil {
			return err
		}
		switch s.Key.Kind {
		case String, Int8, Int16, Int32, Int64, Bool:
		default:
			return fmt.Errorf("%w: column %q: keys of a map are strings, integers or booleans", ErrSchema, s.Name)
		}
		s.Elem, err = New(c.Values())
		return err
	}
	return fmt.Errorf("%w: column %q has type %s", ErrSchema, s.Name, s.Col.Field().Type)
}

func distinct(fields []*Sink) error {
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.Name] {
			return fmt.Errorf("%w: two columns have the name %q", ErrSchema, f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// TypeName is what errors call the type of the column.
func (s *Sink) TypeName() string {
	switch s.Kind {
	case Timestamp:
		if s.Zoned {
			return "timestamp"
		}
		return "timestamp without time zone"
	case Date:
		return "date"
	case String:
		return "string"
	case Struct:
		return "struct"
	case List:
		return "list"
	case Map:
		return "map"
	}
	return s.Col.Field().Type.String()
}
