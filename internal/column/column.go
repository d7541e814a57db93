// Package column holds growing column buffers that become arrow arrays without a copy and that can be cut
// back to any earlier length, so that a row which turns out bad half-way leaves nothing behind (I7).
//
// Buffers keep their capacity over Reset: a warm column appends without allocating. Appending goes through
// the concrete types (Int64, Binary, List ...), never through an interface value.
//
// An array from Array aliases the buffers. It stays valid while rows are only appended; Truncate below its
// length and Reset end its life. A column is for one goroutine at a time.
//
// Offsets of Binary, List and Map are 32 bits wide: callers keep one column below MaxData bytes or elements
// (see Binary.Room). Nothing here fails on the values of a row.
package column

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// MaxData is the most bytes a Binary, or elements a List or Map, holds: arrow offsets are int32.
const MaxData = math.MaxInt32

// ErrUnsupported says that a field has a type without a column buffer.
var ErrUnsupported = errors.New("column: type not supported")

// Column is one growing column. The concrete types add the typed Append.
type Column interface {
	// Field is the field the column was made for.
	Field() arrow.Field
	// Len is the number of finished rows.
	Len() int
	// NullCount is the number of null rows.
	NullCount() int
	// Null says whether finished row i is null.
	Null(i int) bool
	// AppendNull adds a null row.
	AppendNull()
	// AppendZero adds a row that is not null: zero, the empty string, the empty list.
	AppendZero()
	// Truncate cuts back to n rows, n <= Len, and drops what was written of an unfinished row below it.
	Truncate(n int)
	// Reset drops all rows and keeps the memory. Arrays made before are invalid.
	Reset()
	// Bytes estimates the memory that the rows take.
	Bytes() int64
	// Array wraps the rows without a copy.
	Array() arrow.Array

	data() arrow.ArrayData
}

// The columns of fixed width.
type (
	// Int8 is a column of int8.
	Int8 = Fixed[int8]
	// Int16 is a column of int16.
	Int16 = Fixed[int16]
	// Int32 is a column of int32.
	Int32 = Fixed[int32]
	// Int64 is a column of int64.
	Int64 = Fixed[int64]
	// Float32 is a column of float32.
	Float32 = Fixed[float32]
	// Float64 is a column of float64.
	Float64 = Fixed[float64]
	// Date32 is a column of days since 1970-01-01.
	Date32 = Fixed[arrow.Date32]
	// Timestamp is a column of microseconds since 1970-01-01.
	Timestamp = Fixed[arrow.Timestamp]
	// Decimal128 is a column of decimals; precision and scale are in the field's type.
	Decimal128 = Fixed[decimal128.Num]
)

// New makes the column of a field; the concrete type follows from the field's type. It refuses types that
// have no buffer here with ErrUnsupported.
func New(field arrow.Field) (Column, error) {
	switch t := field.Type.(type) {
	case *arrow.Int8Type:
		return newFixed[int8](field), nil
	case *arrow.Int16Type:
		return newFixed[int16](field), nil
	case *arrow.Int32Type:
		return newFixed[int32](field), nil
	case *arrow.Int64Type:
		return newFixed[int64](field), nil
	case *arrow.Float32Type:
		return newFixed[float32](field), nil
	case *arrow.Float64Type:
		return newFixed[float64](field), nil
	case *arrow.Date32Type:
		return newFixed[arrow.Date32](field), nil
	case *arrow.Decimal128Type:
		return newFixed[decimal128.Num](field), nil
	case *arrow.TimestampType:
		if t.Unit != arrow.Microsecond || (t.TimeZone != "" && t.TimeZone != "UTC") {
			return nil, unsupported(field, " (microseconds, UTC or no zone, is)")
		}
		return newFixed[arrow.Timestamp](field), nil
	case *arrow.BooleanType:
		return &Bool{head: head{field: field}}, nil
	case *arrow.StringType, *arrow.BinaryType:
		return &Binary{head: head{field: field}, offsets: []int32{0}}, nil
	case *arrow.StructType:
		return newStruct(field, t)
	case *arrow.MapType:
		return newMap(field, t)
	case *arrow.ListType:
		l, err := newList(field, t.ElemField())
		if err != nil {
			return nil, err
		}
		return &l, nil
	}
	return nil, unsupported(field, "")
}

func unsupported(field arrow.Field, more string) error {
	return fmt.Errorf("%w: column %q has type %s%s", ErrUnsupported, field.Name, field.Type, more)
}

// head is what all columns share: the field and the validity bitmap, which exists only from the first null.
type head struct {
	field arrow.Field
	bits  []byte
	nulls int
}

// Field is the field the column was made for.
func (h *head) Field() arrow.Field { return h.field }

// NullCount is the number of null rows.
func (h *head) NullCount() int { return h.nulls }

// Null says whether finished row i is null.
func (h *head) Null(i int) bool { return len(h.bits) != 0 && h.bits[i/8]&(1<<(i%8)) == 0 }

// valid marks row n, the next one, as not null. Callers skip it while there is no bitmap.
func (h *head) valid(n int) { h.bits = appendBit(h.bits, n, true) }

// null marks row n, the next one, as null.
func (h *head) null(n int) {
	if len(h.bits) == 0 {
		h.start(n)
	}
	h.bits = appendBit(h.bits, n, false)
	h.nulls++
}

// start makes the bitmap of the n rows before the first null.
func (h *head) start(n int) {
	for range n / 8 {
		h.bits = append(h.bits, 0xff)
	}
	if n%8 != 0 {
		h.bits = append(h.bits, 1<<(n%8)-1)
	}
}

// cut drops the rows [n, length). The bitmap stays in use, so that a null which comes and goes does not pay
// for building it again.
func (h *head) cut(n, length int) {
	if len(h.bits) == 0 {
		return
	}
	for i := n; i < length; i++ {
		if h.bits[i/8]&(1<<(i%8)) == 0 {
			h.nulls--
		}
	}
	h.bits = h.bits[:(n+7)/8]
}

func (h *head) reset() { h.bits, h.nulls = h.bits[:0], 0 }

// bitmap is the validity buffer for arrow: nil when no row is null.
func (h *head) bitmap() *memory.Buffer {
	if h.nulls == 0 {
		return nil
	}
	return memory.NewBufferBytes(h.bits)
}

// appendBit sets bit n, the first one after the bits in use.
func appendBit(bits []byte, n int, set bool) []byte {
	if n%8 == 0 {
		bits = append(bits, 0)
	}
	mask := byte(1) << (n % 8)
	if set {
		bits[n/8] |= mask
	} else {
		bits[n/8] &^= mask
	}
	return bits
}

func wrap(d arrow.ArrayData) arrow.Array {
	defer d.Release()
	return array.MakeFromData(d)
}
