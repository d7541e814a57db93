package decode

import (
	"fmt"
	"hash/maphash"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
)

// kind picks the parser of a value.
type kind uint8

const (
	kindInt8 kind = iota
	kindInt16
	kindInt32
	kindInt64
	kindFloat32
	kindFloat64
	kindBool
	kindString
	kindBinary
	kindDate
	kindTimestamp
	kindDecimal
	kindStruct
	kindList
	kindMap
)

// node is one field of the schema with its column. Of the typed pointers the one of the kind is set, so
// that the hot path makes no call through an interface.
type node struct {
	kind     kind
	nullable bool
	zoned    bool   // timestamp with time zone
	scale    int32  // decimal
	prec     int32  // decimal
	gen      uint64 // the object of the parent that had this key last
	leaves   int    // cells that a null fills
	marked   bool   // fields below it are captured
	late     bool   // it is set, or fields below it are, after the message: see Defer
	name     string
	col      column.Column

	i8  *column.Int8
	i16 *column.Int16
	i32 *column.Int32
	i64 *column.Int64
	f32 *column.Float32
	f64 *column.Float64
	bl  *column.Bool
	bin *column.Binary
	dt  *column.Date32
	ts  *column.Timestamp
	dec *column.Decimal128

	st   *column.Struct
	obj  *object
	list *column.List
	elem *node // of a list, or the value of a map
	maps *column.Map
	keys *column.Binary
	dups *entrySet
}

func newNode(c column.Column) (*node, error) {
	f := c.Field()
	n := &node{name: f.Name, nullable: f.Nullable, col: c, leaves: 1}
	switch c := c.(type) {
	case *column.Int8:
		n.kind, n.i8 = kindInt8, c
	case *column.Int16:
		n.kind, n.i16 = kindInt16, c
	case *column.Int32:
		n.kind, n.i32 = kindInt32, c
	case *column.Int64:
		n.kind, n.i64 = kindInt64, c
	case *column.Float32:
		n.kind, n.f32 = kindFloat32, c
	case *column.Float64:
		n.kind, n.f64 = kindFloat64, c
	case *column.Bool:
		n.kind, n.bl = kindBool, c
	case *column.Date32:
		n.kind, n.dt = kindDate, c
	case *column.Timestamp:
		n.kind, n.ts = kindTimestamp, c
		n.zoned = f.Type.(*arrow.TimestampType).TimeZone != ""
	case *column.Decimal128:
		t := f.Type.(*arrow.Decimal128Type)
		n.kind, n.dec, n.prec, n.scale = kindDecimal, c, t.Precision, t.Scale
		if n.scale < 0 || n.scale > n.prec || n.prec < 1 || n.prec > 38 {
			return nil, fmt.Errorf("%w: column %q has type %s", ErrOptions, f.Name, f.Type)
		}
	case *column.Binary:
		n.kind, n.bin = kindString, c
		if f.Type.ID() == arrow.BINARY {
			n.kind = kindBinary
		}
	default:
		return n, n.nest(c)
	}
	return n, nil
}

// nest sets the node up for a column that has others below it.
func (n *node) nest(c column.Column) error {
	var err error
	switch c := c.(type) {
	case *column.Struct:
		n.kind, n.st = kindStruct, c
		t := n.col.Field().Type.(*arrow.StructType)
		kids := make([]column.Column, t.NumFields())
		for i := range kids {
			kids[i] = c.Child(i)
		}
		var o object
		if o, err = newObject(kids); err != nil {
			return err
		}
		n.obj = &o
		for _, f := range o.fields {
			n.leaves += f.leaves
		}
	case *column.List:
		n.kind, n.list = kindList, c
		if n.elem, err = newNode(c.Elem()); err != nil {
			return err
		}
	case *column.Map:
		keys, ok := c.Keys().(*column.Binary)
		if !ok || keys.Field().Type.ID() != arrow.STRING {
			return fmt.Errorf("%w: column %q: keys of a map are strings", ErrOptions, n.name)
		}
		n.kind, n.maps, n.keys = kindMap, c, keys
		n.dups = &entrySet{seed: maphash.MakeSeed()}
		if n.elem, err = newNode(c.Values()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: column %q has type %s", ErrOptions, n.name, n.col.Field().Type)
	}
	return nil
}

// intRange is the range of an integer kind.
func intRange(k kind) (lo, hi int64) {
	switch k {
	case kindInt8:
		return math.MinInt8, math.MaxInt8
	case kindInt16:
		return math.MinInt16, math.MaxInt16
	case kindInt32:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// typeName is what errors call the type of the column.
func (n *node) typeName() string {
	switch n.kind {
	case kindTimestamp:
		return "timestamp"
	case kindDate:
		return "date"
	case kindString:
		return "string"
	case kindStruct:
		return "struct"
	case kindList:
		return "list"
	case kindMap:
		return "map"
	}
	return n.col.Field().Type.String()
}
